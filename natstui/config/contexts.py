"""Contexts of the NATS CLI, read and written in its folder, with access for their owner only."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from natstui.clean import clean_line
from natstui.config.references import make_absolute, nsc_profile
from natstui.errors import UsageError
from natstui.files import (
    lock_for_change,
    open_atomic_file,
    read_regular_file,
    translate_write_errors,
)
from natstui.parsing import parse_json
from natstui.paths import create_private_folder, expand_user_path

# The field of a context file → the setting of `config.toml` that means the same.
_SETTING_BY_FIELD = {
    "url": "server",
    "user": "user",
    "password": "password",
    "token": "token",
    "creds": "creds",
    "nkey": "nkey",
    "user_jwt": "user_jwt",
    "user_seed": "user_seed",
    "cert": "cert",
    "key": "key",
    "ca": "ca",
    "tls_first": "tls_first",
    "inbox_prefix": "inbox_prefix",
    "jetstream_domain": "domain",
    "jetstream_api_prefix": "api_prefix",
    "jetstream_event_prefix": "event_prefix",
}
_UNSUPPORTED_FEATURES = {
    "socks_proxy": "a SOCKS proxy",
    "windows_cert_store": "the Windows certificate store",
    "windows_cert_match_by": "the Windows certificate store",
    "windows_cert_match": "the Windows certificate store",
    "windows_ca_certs_match": "the Windows certificate store",
}
MAX_CONTEXT_BYTES = 1024 * 1024
"""Limit of a context file."""
_MAX_NAME_BYTES = 200
"""Limit of a context's name: file systems allow 255 bytes, also for its temporary file."""
_CONTEXT_COLOURS = {"red", "green", "yellow", "blue", "magenta", "cyan"}
SECRET_FIELDS = ("password", "token", "user_jwt", "user_seed")
PATH_FIELDS = ("creds", "nkey", "ca", "cert", "key")
_IDENTITY_FIELDS = (
    ("user", "password"), ("token",), ("creds",), ("nkey",), ("user_jwt", "user_seed"), ("nsc",),
)  # fmt: skip


class Context(Struct, frozen=True):
    """A context of the NATS CLI, with the names of natstui's settings; references are not
    resolved.
    """

    name: str
    path: Path
    fields: dict[str, Any]
    """The fields that the context sets."""


def nats_folder() -> Path:
    """Return the NATS CLI's folder: `$XDG_CONFIG_HOME/nats`, else `~/.config/nats`."""
    config_root = os.environ.get("XDG_CONFIG_HOME")
    return (Path(config_root) if config_root else Path.home() / ".config") / "nats"


def selected_context() -> str | None:
    """Return the name of the context that is selected in the NATS CLI; None if none is. Raises
    UsageError if its file cannot be read.
    """
    try:
        text = read_regular_file(nats_folder() / "context.txt", MAX_CONTEXT_BYTES).decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{nats_folder() / 'context.txt'} cannot be read: {error}") from error
    return text.strip() or None


def list_contexts() -> list[str]:
    """Return the names of all contexts, sorted."""
    folder = nats_folder() / "context"
    files = folder.glob("*.json") if folder.is_dir() else ()
    return sorted(file.stem for file in files if file.is_file() and file.stat().st_size)


def load_context(name: str) -> Context:
    """Return a context by its name, or by the path of its `.json` file.

    Raises UsageError if it does not exist, is not valid, or requires a feature that natstui lacks.
    """
    path, values = _read_context_file(name)
    return Context(parse_context_name(name), path, _convert_to_settings(values, path))


def context_servers(name: str) -> str:
    """Return the server addresses of a context, empty if it sets none; raises UsageError if it
    cannot be read.
    """
    _, values = _read_context_file(name)
    return str(values.get("url") or "")


def _read_context_file(name: str) -> tuple[Path, dict[str, Any]]:
    path = expand_user_path(name) if name.endswith(".json") else context_path(name)
    try:
        values = parse_json(read_regular_file(path, MAX_CONTEXT_BYTES))
    except FileNotFoundError as error:
        raise UsageError(_unknown_context_text(parse_context_name(name), path)) from error
    except OSError as error:
        raise UsageError(f"the context {path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"the context {path} is not JSON: {clean_line(str(error))}") from error
    if not isinstance(values, dict):
        raise UsageError(f"the context {path} is not a JSON object")
    return path, values


def parse_context_name(name_or_path: str) -> str:
    """Return the name of a context from its name or the path of its `.json` file."""
    return Path(name_or_path).stem if name_or_path.endswith(".json") else name_or_path


def context_path(name: str) -> Path:
    """Return the path of a context's file; raises UsageError for a name that is too long or leads
    out of the folder.
    """
    if not name or ".." in name or "/" in name or "\\" in name or name.endswith(".json"):
        raise UsageError(f"{clean_line(name)!r} is not a name of a context, nor a .json file")
    if len(os.fsencode(name)) > _MAX_NAME_BYTES:
        raise UsageError(
            f"a name of a context has at most {_MAX_NAME_BYTES} bytes, not "
            f"{len(os.fsencode(name)):,}"
        )
    return nats_folder() / "context" / f"{name}.json"


def _unknown_context_text(name: str, path: Path) -> str:
    similar_names = difflib.get_close_matches(name, list_contexts(), n=1)
    hint = f"; did you mean {similar_names[0]!r}?" if similar_names else ""
    return f"there is no NATS CLI context {clean_line(name)!r} ({path}){hint}"


def _convert_to_settings(values: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return the fields of a context file, under the names of natstui's settings.

    `path` names the file in errors. Raises UsageError for an unsupported field or a wrong type.
    """
    for field, feature in _UNSUPPORTED_FEATURES.items():
        if values.get(field):
            raise UsageError(
                f"the context {path} needs {feature} ({field}), which natstui does not support"
            )
    fields = {
        setting: values[context_field]
        for context_field, setting in _SETTING_BY_FIELD.items()
        if values.get(context_field)
    }
    for name, value in fields.items():
        if not isinstance(value, bool if name == "tls_first" else str):
            raise UsageError(f"the context {path}: {name} has a value of the wrong kind")
    if values.get("nsc"):
        creds, servers = nsc_profile(str(values["nsc"]))
        fields.setdefault("creds", creds)
        if servers:
            fields.setdefault("server", servers)
    if values.get("color_scheme") in _CONTEXT_COLOURS:
        fields["colour"] = values["color_scheme"]
    return fields


def read_fields(name: str) -> dict[str, Any]:
    """Return all fields of a context file; raises UsageError if it cannot be read."""
    load_context(name)
    fields: dict[str, Any] = parse_json(read_regular_file(context_path(name), MAX_CONTEXT_BYTES))
    return fields


def write_context(name: str, changes: Mapping[str, Any], *, is_new: bool) -> Path:
    """Create a context with `is_new`, else change fields of an existing one; return its path.
    `changes` are values by field; an empty text removes the field.

    A path is stored as an absolute path, and unknown fields are kept. A new identity replaces the
    previous one. Raises UsageError for an existing or invalid name, for invalid values, and if a
    secret would be removed that `changes` does not name.
    """
    path = context_path(name)
    changes = {field: _resolve_relative_path(field, value) for field, value in changes.items()}
    if not is_new:
        # Raises for an unknown context before its folder is created.
        _read_context_file(name)
    with _lock_contexts():
        _write_context(name, path, changes, is_new=is_new)
    return path


def _resolve_relative_path(field: str, value: Any) -> Any:
    """Return the value of a field; a relative path, also after `file://`, is made absolute."""
    is_file_reference = field in SECRET_FIELDS and str(value).startswith("file://")
    return make_absolute(value) if field in PATH_FIELDS or is_file_reference else value


def _write_context(name: str, path: Path, changes: Mapping[str, Any], *, is_new: bool) -> None:
    if is_new and path.exists():
        raise UsageError(f"there is a context {clean_line(name)!r} already: use edit")
    fields = {} if is_new else read_fields(name)
    new_identities = [
        group for group in _IDENTITY_FIELDS if any(changes.get(field) for field in group)
    ]
    if len(new_identities) > 1:
        group_names = ", ".join(group[0] for group in new_identities)
        raise UsageError(f"a context has only one identity, not several: {group_names}")
    if new_identities:
        replaced_fields = [
            field
            for group in _IDENTITY_FIELDS
            if group not in new_identities
            for field in group
            if fields.get(field) and field not in changes
        ]
        # The context may have the only copy of the secret.
        if secret_fields := [field for field in replaced_fields if field in SECRET_FIELDS]:
            options = " ".join(f"--{field.replace('_', '-')} ''" for field in secret_fields)
            raise UsageError(
                f"a context has one identity, and {clean_line(name)!r} has "
                f"{' and '.join(secret_fields)}: to remove that, add {options}"
            )
        fields |= dict.fromkeys(replaced_fields, "")
    fields |= changes
    with _translate_errors(path):
        text = json.dumps({"description": "", "url": "", **fields}, indent=2)
        _write_private_file(path, text, can_replace=not is_new)


def select_context(name: str) -> str | None:
    """Select a context for the NATS CLI and natstui.

    Returns the name of the context that was selected before; None if none was. Raises UsageError
    for an invalid context, and WriteFailed.
    """
    load_context(name)
    folder = nats_folder()
    with _lock_contexts(), _translate_errors(folder):
        previous_name = selected_context()
        # First the write that may be refused: nothing has changed then.
        _write_private_file(folder / "context.txt", name)
        if previous_name is not None and previous_name != name:
            _write_private_file(folder / "previous-context.txt", previous_name)
    return previous_name


def remove_context(name: str) -> None:
    """Remove a context; raises UsageError for the selected one, as the NATS CLI does."""
    path = context_path(name)
    if not path.is_file():
        load_context(name)
    with _lock_contexts(), _translate_errors(path):
        if selected_context() == name:
            raise UsageError(f"{clean_line(name)!r} is selected: select another one first")
        path.unlink()


@contextmanager
def _lock_contexts() -> Iterator[None]:
    """Lock the contexts and their selection during the block against other processes of
    natstui.
    """
    folder = nats_folder()
    with ExitStack() as locks:
        with _translate_errors(folder):
            create_private_folder(folder)
            locks.enter_context(lock_for_change(folder))
        yield


@contextmanager
def _translate_errors(path: Path) -> Iterator[None]:
    """Turn an error of the file system in the block into UsageError or WriteFailed."""
    try:
        with translate_write_errors(path):
            yield
    except UnicodeError as error:
        raise UsageError(f"{path} cannot be written: it is not UTF-8") from error


def _write_private_file(path: Path, text: str, *, can_replace: bool = True) -> None:
    """Write a complete file, with access for its owner only; a failed write changes nothing.

    A link to a file is followed; a link to a missing file or to itself raises OSError. Without
    `can_replace` an existing file also raises OSError.
    """
    create_private_folder(path.parent)
    target = Path(os.path.realpath(path)) if can_replace and path.is_file() else path
    with open_atomic_file(target, replaces=can_replace, mode=0o600) as file:
        file.write(text.encode())
