"""`natstui context`: contexts of the NATS CLI: list, create, select, edit, delete."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import click

from natstui.clean import clean_line
from natstui.cli.json_line import print_json
from natstui.cli.local_completion import complete_contexts
from natstui.cli.sections import EditCommand, Group
from natstui.cli.text_table import TextColumn, stdout_width, table
from natstui.errors import ActionRefusal, NatstuiError, UsageError
from natstui.files import MAX_LINE_BYTES, read_stdin_line

_FIELD_FLAGS = (
    ("description", ("--description",), "What it is."),
    ("url", ("--server", "-s"), "Addresses, separated by commas."),
    ("user", ("--user",), "User name."),
    (
        "password",
        ("--password",),
        "Password, or a reference as env://NAME; with - it is prompted for.",
    ),
    ("token", ("--token",), "Token instead of a user; with - it is prompted for."),
    ("creds", ("--creds",), "Creds file."),
    ("nkey", ("--nkey",), "File with the seed of an nkey."),
    ("user_jwt", ("--user-jwt",), "A user JWT, or a reference; with - it is prompted for."),
    ("user_seed", ("--user-seed",), "The nkey seed of the user JWT; with - it is prompted for."),
    ("nsc", ("--nsc",), "A user of the tool nsc, as nsc://operator/account/user."),
    ("ca", ("--tlsca", "--ca"), "File with certificate authorities."),
    ("cert", ("--tlscert", "--cert"), "File with the client certificate."),
    ("key", ("--tlskey", "--key"), "File with the key of the client certificate."),
    ("inbox_prefix", ("--inbox-prefix",), "Subject prefix of inboxes, where replies arrive."),
    ("jetstream_domain", ("--js-domain", "--domain"), "JetStream domain."),
    ("jetstream_api_prefix", ("--js-api-prefix",), "Subject prefix of the JetStream API."),
    ("jetstream_event_prefix", ("--js-event-prefix",), "Subject prefix of advisories."),
    ("color_scheme", ("--colour", "--colors"), "Colour of tables and of the screen."),
)
"""Field of the file, its flags, its meaning."""
_name_argument = click.argument("name", shell_complete=complete_contexts)
_json_flag = click.option("--json", "-j", "as_json", is_flag=True, help="Print JSON.")


@click.group(cls=Group)
def context() -> None:
    """Manage contexts of the NATS CLI."""


def _field_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add a flag for each field of a context to a command.

    The command gets the value of a flag as `field_NAME`; None if the flag is not typed.
    """
    tls_option = click.option("--tlsfirst/--no-tlsfirst", "field_tls_first", default=None,
                          help="Do the TLS handshake before the NATS protocol.")  # fmt: skip
    command = tls_option(command)
    for field, names, text in reversed(_FIELD_FLAGS):
        command = click.option(*names, f"field_{field}", metavar="TEXT", help=text)(command)
    return command


@context.command("ls")
@click.option("--json", "-j", "as_json", is_flag=True, help="One JSON object per context.")
def list_contexts(as_json: bool) -> None:
    """List the contexts; * marks the selected one."""
    from natstui.config.contexts import list_contexts, selected_context

    selected_name = selected_context()
    rows = [_context_row(name, is_selected=name == selected_name) for name in list_contexts()]
    if as_json:
        for row in rows:
            click.echo(json.dumps(row))
        return
    columns = [
        TextColumn("", numeric=False),
        TextColumn("NAME", numeric=False),
        TextColumn("SERVERS", numeric=False, may_be_cut=True),
        TextColumn("AS", numeric=False),
        TextColumn("DESCRIPTION", numeric=False, may_be_cut=True, priority=1),
    ]
    cells = [
        ["*" if row["selected"] else "", *(str(row[key] or "") for key in _SHOWN_FIELDS)]
        for row in rows
    ]
    for line in table(columns, cells, stdout_width()):
        click.echo(line)


_SHOWN_FIELDS = ("name", "servers", "identity", "description")


def _context_row(name: str, *, is_selected: bool) -> dict[str, object]:
    """Return the fields of a context to print; secrets are left out, also those in addresses."""
    from natstui.config.contexts import read_fields

    try:
        fields = read_fields(name)
    except NatstuiError as error:
        return {"name": name, "selected": is_selected, "servers": None, "identity": None,
                "description": str(error)}  # fmt: skip
    servers = [address.rpartition("://") for address in str(fields.get("url") or "").split(",")]
    addresses = [
        f"{scheme}{separator}{host.rpartition('@')[2]}" for scheme, separator, host in servers
    ]
    identity = next(
        (field for field in ("creds", "nkey", "user_jwt", "nsc") if fields.get(field)), None
    )
    if fields.get("user"):
        identity = f"user {fields['user']}"
    elif fields.get("token"):
        identity = "token"
    return {
        "name": name,
        "selected": is_selected,
        "servers": ",".join(addresses),
        "identity": identity,
        "description": fields.get("description") or "",
    }


@context.command()
@click.argument("name")
@_field_options
@click.option("--select", is_flag=True, help="Select it too.")
@_json_flag
def add(name: str, select: bool, as_json: bool, **flags: Any) -> None:
    """Create the context NAME. A secret is a reference (env://NAME), or - prompts for it."""
    from natstui.config.contexts import select_context, write_context

    fields = _typed_fields(flags)
    if not fields.get("url") and not fields.get("nsc"):
        raise UsageError("a context needs --server")
    path = write_context(name, fields, is_new=True)
    if select:
        select_context(name)
    _print_result(as_json, f"created {path}", name=name, file=str(path), selected=select)


@context.command(cls=EditCommand)
@_name_argument
@_field_options
@_json_flag
def edit(name: str, as_json: bool, **flags: Any) -> None:
    """Change fields of the context NAME. An empty text removes a field."""
    from natstui.config.contexts import write_context

    fields = _typed_fields(flags)
    if not fields:
        raise UsageError("nothing to change: add an option, such as --description TEXT")
    path = write_context(name, fields, is_new=False)
    _print_result(as_json, f"changed {path}", name=name, file=str(path))


@context.command()
@_name_argument
@_json_flag
def select(name: str, as_json: bool) -> None:
    """Select the context NAME. For the NATS CLI and for natstui."""
    from natstui.config.contexts import select_context

    previous_name = select_context(name)
    text = f"{name} is selected; previously selected: {previous_name or 'none'}"
    _print_result(as_json, text, name=name, before=previous_name or None)


@context.command()
@_name_argument
@click.option("--force", "-f", "--yes", "force", is_flag=True, help="Do not prompt.")
@_json_flag
def rm(name: str, force: bool, as_json: bool) -> None:
    """Delete the context NAME. The selected one cannot be deleted."""
    from natstui.config.contexts import remove_context

    if not force:
        if not sys.stdin.isatty():
            raise ActionRefusal(
                f"not confirmed: this will remove the context {clean_line(name)}; -f"
            )
        prompt = f"Type {clean_line(name)} to remove it"
        if click.prompt(prompt, err=True, default="", show_default=False) != name:
            raise ActionRefusal("not confirmed: nothing was changed")
    remove_context(name)
    _print_result(as_json, f"removed {name}", name=name)


def _print_result(as_json: bool, text: str, **fields: object) -> None:
    if as_json:
        print_json(fields)
    else:
        click.echo(clean_line(text))


def _typed_fields(flags: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of the typed flags; prompts for a secret typed as `-`, without showing
    it.
    """
    from natstui.config.contexts import SECRET_FIELDS

    fields = {
        name.removeprefix("field_"): value for name, value in flags.items() if value is not None
    }
    for name in SECRET_FIELDS:
        if fields.get(name) == "-":
            fields[name] = _read_secret(name)
    return fields


def _read_secret(name: str) -> str:
    if sys.stdin.isatty():
        typed_secret: str = click.prompt(name.replace("_", " "), hide_input=True, err=True)
        return typed_secret
    try:
        line = read_stdin_line(MAX_LINE_BYTES).decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{name}: the text on stdin is not UTF-8") from error
    except OSError as error:
        raise UsageError(f"{name}: stdin cannot be read: {error.strerror}") from error
    if not line:
        raise UsageError(f"{name}: nothing on stdin")
    return line
