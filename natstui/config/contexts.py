"""Contexts of the NATS CLI, read and written in its folder, with access for their owner only."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from natstui.clean import clean_line
from natstui.config.references import from_every_folder, nsc_profile
from natstui.errors import UsageError
from natstui.files import changing, complete_file, read_plain, writing
from natstui.parsing import parse_json
from natstui.paths import private_folder, user_path

# The field of a context file → the setting of `config.toml` that means the same.
_FIELDS = {
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
_UNSUPPORTED = {
    "socks_proxy": "a SOCKS proxy",
    "windows_cert_store": "the Windows certificate store",
    "windows_cert_match_by": "the Windows certificate store",
    "windows_cert_match": "the Windows certificate store",
    "windows_ca_certs_match": "the Windows certificate store",
}
MOST_BYTES = 1024 * 1024
"""Limit of a context file."""
_LONGEST_NAME_BYTES = 200
"""Limit of a context's name: file systems allow 255 bytes, also for its temporary file."""
_COLOURS = {"red", "green", "yellow", "blue", "magenta", "cyan"}
SECRET_FIELDS = ("password", "token", "user_jwt", "user_seed")
PATH_FIELDS = ("creds", "nkey", "ca", "cert", "key")
_IDENTITIES = (
    ("user", "password"), ("token",), ("creds",), ("nkey",), ("user_jwt", "user_seed"), ("nsc",),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Context:
    """A context of the NATS CLI, with the names of natstui's settings; references are not
    resolved.
    """

    name: str
    path: Path
    fields: dict[str, Any]
    """The fields that the context sets."""


def nats_folder() -> Path:
    """Return the NATS CLI's folder: `$XDG_CONFIG_HOME/nats`, else `~/.config/nats`."""
    root = os.environ.get("XDG_CONFIG_HOME")
    return (Path(root) if root else Path.home() / ".config") / "nats"


def selected_context() -> str | None:
    """Return the name of the context that is selected in the NATS CLI."""
    try:
        text = read_plain(nats_folder() / "context.txt", MOST_BYTES).decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{nats_folder() / 'context.txt'} cannot be read: {error}") from error
    return text.strip() or None


def known_contexts() -> list[str]:
    """Return the names of all contexts, sorted."""
    folder = nats_folder() / "context"
    files = folder.glob("*.json") if folder.is_dir() else ()
    return sorted(file.stem for file in files if file.is_file() and file.stat().st_size)


def load_context(name: str) -> Context:
    """Return a context by its name, or by the path of its `.json` file.

    Raises UsageError when it does not exist, is not JSON, or requires an unsupported feature.
    """
    path, values = _values(name)
    return Context(context_name(name), path, _fields(values, path))


def context_servers(name: str) -> str:
    """Return the addresses in a context file; raises UsageError without a file."""
    _, values = _values(name)
    return str(values.get("url") or "")


def _values(name: str) -> tuple[Path, dict[str, Any]]:
    path = user_path(name) if name.endswith(".json") else context_path(name)
    try:
        values = parse_json(read_plain(path, MOST_BYTES))
    except FileNotFoundError as error:
        raise UsageError(_unknown(context_name(name), path)) from error
    except OSError as error:
        raise UsageError(f"the context {path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"the context {path} is not JSON: {clean_line(str(error))}") from error
    if not isinstance(values, dict):
        raise UsageError(f"the context {path} is not a JSON object")
    return path, values


def context_name(text: str) -> str:
    """Return the name of a context from its name or the path of its file."""
    return Path(text).stem if text.endswith(".json") else text


def context_path(name: str) -> Path:
    """Return the path of a context; raises UsageError for a name that leads out of the folder."""
    if not name or ".." in name or "/" in name or "\\" in name or name.endswith(".json"):
        raise UsageError(f"{clean_line(name)!r} is not a name of a context, nor a .json file")
    if len(os.fsencode(name)) > _LONGEST_NAME_BYTES:
        raise UsageError(
            f"a name of a context has at most {_LONGEST_NAME_BYTES} bytes, not "
            f"{len(os.fsencode(name)):,}"
        )
    return nats_folder() / "context" / f"{name}.json"


def _unknown(name: str, path: Path) -> str:
    similar = difflib.get_close_matches(name, known_contexts(), n=1)
    hint = f"; did you mean {similar[0]!r}?" if similar else ""
    return f"there is no NATS CLI context {clean_line(name)!r} ({path}){hint}"


def _fields(values: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return the values of a context with the names of natstui's settings."""
    for field, feature in _UNSUPPORTED.items():
        if values.get(field):
            raise UsageError(
                f"the context {path} needs {feature} ({field}), which natstui does not support"
            )
    fields = {ours: values[theirs] for theirs, ours in _FIELDS.items() if values.get(theirs)}
    for name, value in fields.items():
        if not isinstance(value, bool if name == "tls_first" else str):
            raise UsageError(f"the context {path}: {name} has a value of the wrong kind")
    if values.get("nsc"):
        creds, servers = nsc_profile(str(values["nsc"]))
        fields.setdefault("creds", creds)
        if servers:
            fields.setdefault("server", servers)
    if values.get("color_scheme") in _COLOURS:
        fields["colour"] = values["color_scheme"]
    return fields


def read_fields(name: str) -> dict[str, Any]:
    """Return all fields of a context file; raises UsageError."""
    load_context(name)
    fields: dict[str, Any] = parse_json(read_plain(context_path(name), MOST_BYTES))
    return fields


def write_context(name: str, changes: Mapping[str, Any], *, new: bool) -> Path:
    """Create a context, or change fields of one; an empty text removes a field.

    A path is stored so that it leads to the same file from every folder. Unknown fields are kept.
    A new identity replaces the previous one. Raises UsageError for an existing or invalid name,
    for invalid values, and where that would remove a secret which `changes` do not name.
    """
    path = context_path(name)
    changes = {field: _as_stored(field, value) for field, value in changes.items()}
    if not new:
        # Of one that does not exist, no folder is created.
        _values(name)
    with _changing_contexts():
        _write_context(name, path, changes, new=new)
    return path


def _as_stored(field: str, value: Any) -> Any:
    """Return the value of a field without a path that depends on the current folder."""
    is_file = field in SECRET_FIELDS and str(value).startswith("file://")
    return from_every_folder(value) if field in PATH_FIELDS or is_file else value


def _write_context(name: str, path: Path, changes: Mapping[str, Any], *, new: bool) -> None:
    if new and path.exists():
        raise UsageError(f"there is a context {clean_line(name)!r} already: use edit")
    fields = {} if new else read_fields(name)
    given_groups = [group for group in _IDENTITIES if any(changes.get(field) for field in group)]
    if len(given_groups) > 1:
        group_names = ", ".join(group[0] for group in given_groups)
        raise UsageError(f"a context has only one identity, not several: {group_names}")
    if given_groups:
        replaced = [
            field
            for group in _IDENTITIES
            if group not in given_groups
            for field in group
            if fields.get(field) and field not in changes
        ]
        # The context may be the only place where it is.
        if secrets := [field for field in replaced if field in SECRET_FIELDS]:
            options = " ".join(f"--{field.replace('_', '-')} ''" for field in secrets)
            raise UsageError(
                f"a context has one identity, and {clean_line(name)!r} has "
                f"{' and '.join(secrets)}: to remove that, add {options}"
            )
        fields |= dict.fromkeys(replaced, "")
    fields |= changes
    with _refusals_of(path):
        text = json.dumps({"description": "", "url": "", **fields}, indent=2)
        _write(path, text, replaces=not new)


def select_context(name: str) -> str | None:
    """Select a context for the NATS CLI and natstui; return the previous one."""
    load_context(name)
    folder = nats_folder()
    with _changing_contexts(), _refusals_of(folder):
        before = selected_context()
        # First what may be refused: nothing has changed then.
        _write(folder / "context.txt", name)
        if before is not None and before != name:
            _write(folder / "previous-context.txt", before)
    return before


def remove_context(name: str) -> None:
    """Remove a context; raises UsageError for the selected one, as the NATS CLI does."""
    path = context_path(name)
    if not path.is_file():
        load_context(name)
    with _changing_contexts(), _refusals_of(path):
        if selected_context() == name:
            raise UsageError(f"{clean_line(name)!r} is selected: select another one first")
        path.unlink()


@contextmanager
def _changing_contexts() -> Iterator[None]:
    """Let no other process of natstui change the contexts, and which is selected, in the block."""
    folder = nats_folder()
    with ExitStack() as locks:
        with _refusals_of(folder):
            private_folder(folder)
            locks.enter_context(changing(folder))
        yield


@contextmanager
def _refusals_of(path: Path) -> Iterator[None]:
    """Turn errors of the file system into UsageError or WriteFailed."""
    try:
        with writing(path):
            yield
    except UnicodeError as error:
        raise UsageError(f"{path} cannot be written: it is not UTF-8") from error


def _write(path: Path, text: str, *, replaces: bool = True) -> None:
    """Write a file completely or not at all, with access for its owner only.

    A link to a file is written through; a link to a missing file or to itself is refused.
    """
    private_folder(path.parent)
    target = Path(os.path.realpath(path)) if replaces and path.is_file() else path
    with complete_file(target, replaces=replaces, mode=0o600) as file:
        file.write(text.encode())
