"""`natstui context`: the contexts of the NATS CLI, listed, made, selected, changed and removed."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import click

from natstui.clean import clean_line
from natstui.cli.json_line import print_json
from natstui.cli.offering import contexts
from natstui.cli.sections import Edit, Group
from natstui.cli.text_table import Column, stdout_width, table
from natstui.errors import NatstuiError, Refused, UsageError
from natstui.files import MOST_LINE_BYTES, read_stdin_line

_FLAGS = (
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
"""Field of the file, its flags, what it is."""
_NAME = click.argument("name", shell_complete=contexts)
_JSON = click.option("--json", "-j", "as_json", is_flag=True, help="Answer in JSON.")


@click.group(cls=Group)
def context() -> None:
    """Manage contexts of the NATS CLI."""


def _field_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command a flag for each field; it gets them as `field_NAME`, None without one."""
    switch = click.option("--tlsfirst/--no-tlsfirst", "field_tls_first", default=None,
                          help="Do the TLS handshake before the NATS protocol.")  # fmt: skip
    command = switch(command)
    for field, names, text in reversed(_FLAGS):
        command = click.option(*names, f"field_{field}", metavar="TEXT", help=text)(command)
    return command


@context.command("ls")
@click.option("--json", "-j", "as_json", is_flag=True, help="One JSON object per context.")
def list_contexts(as_json: bool) -> None:
    """List the contexts; * marks the selected one."""
    from natstui.config.contexts import known_contexts, selected_context

    chosen = selected_context()
    rows = [_row(name, selected=name == chosen) for name in known_contexts()]
    if as_json:
        for row in rows:
            click.echo(json.dumps(row))
        return
    columns = [Column("", numeric=False), Column("NAME", numeric=False),
               Column("SERVERS", numeric=False, shrinks=True), Column("AS", numeric=False),
               Column("DESCRIPTION", numeric=False, shrinks=True, drop_order=1)]  # fmt: skip
    cells = [
        ["*" if it["selected"] else "", *(str(it[key] or "") for key in _SHOWN)] for it in rows
    ]
    for line in table(columns, cells, stdout_width()):
        click.echo(line)


_SHOWN = ("name", "servers", "identity", "description")


def _row(name: str, *, selected: bool) -> dict[str, object]:
    """Return what may be shown of a context: no secret, and not what an address hides."""
    from natstui.config.contexts import read_fields

    try:
        fields = read_fields(name)
    except NatstuiError as error:
        return {"name": name, "selected": selected, "servers": None, "identity": None,
                "description": str(error)}  # fmt: skip
    servers = [one.rpartition("://") for one in str(fields.get("url") or "").split(",")]
    places = [f"{scheme}{mark}{rest.rpartition('@')[2]}" for scheme, mark, rest in servers]
    identity = next((it for it in ("creds", "nkey", "user_jwt", "nsc") if fields.get(it)), None)
    if fields.get("user"):
        identity = f"user {fields['user']}"
    elif fields.get("token"):
        identity = "token"
    return {"name": name, "selected": selected, "servers": ",".join(places), "identity": identity,
            "description": fields.get("description") or ""}  # fmt: skip


@context.command()
@click.argument("name")
@_field_options
@click.option("--select", is_flag=True, help="Select it too.")
@_JSON
def add(name: str, select: bool, as_json: bool, **words: Any) -> None:
    """Create the context NAME. A secret is a reference (env://NAME), or - asks for it."""
    from natstui.config.contexts import select_context, write_context

    fields = _given(words)
    if not fields.get("url") and not fields.get("nsc"):
        raise UsageError("a context needs --server")
    path = write_context(name, fields, new=True)
    if select:
        select_context(name)
    _tell(as_json, f"made {path}", name=name, file=str(path), selected=select)


@context.command(cls=Edit)
@_NAME
@_field_options
@_JSON
def edit(name: str, as_json: bool, **words: Any) -> None:
    """Change fields of the context NAME. An empty text removes a field."""
    from natstui.config.contexts import write_context

    fields = _given(words)
    if not fields:
        raise UsageError("nothing to change: add an option, such as --description TEXT")
    path = write_context(name, fields, new=False)
    _tell(as_json, f"changed {path}", name=name, file=str(path))


@context.command()
@_NAME
@_JSON
def select(name: str, as_json: bool) -> None:
    """Select the context NAME. For the NATS CLI and for natstui."""
    from natstui.config.contexts import select_context

    before = select_context(name)
    text = f"{name} is selected; previously selected: {before or 'none'}"
    _tell(as_json, text, name=name, before=before or None)


@context.command()
@_NAME
@click.option("--force", "-f", "--yes", "force", is_flag=True, help="Do not ask.")
@_JSON
def rm(name: str, force: bool, as_json: bool) -> None:
    """Delete the context NAME. The selected one cannot be deleted."""
    from natstui.config.contexts import remove_context

    if not force:
        if not sys.stdin.isatty():
            raise Refused(f"not confirmed: this will remove the context {clean_line(name)}; -f")
        asked = f"Type {clean_line(name)} to remove it"
        if click.prompt(asked, err=True, default="", show_default=False) != name:
            raise Refused("not confirmed: nothing was changed")
    remove_context(name)
    _tell(as_json, f"removed {name}", name=name)


def _tell(as_json: bool, text: str, **facts: object) -> None:
    if as_json:
        print_json(facts)
    else:
        click.echo(clean_line(text))


def _given(words: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that were said; a secret of - is asked for, and never shown."""
    from natstui.config.contexts import SECRET_FIELDS

    fields = {
        name.removeprefix("field_"): value for name, value in words.items() if value is not None
    }
    for name in SECRET_FIELDS:
        if fields.get(name) == "-":
            fields[name] = _secret(name)
    return fields


def _secret(name: str) -> str:
    if sys.stdin.isatty():
        typed: str = click.prompt(name.replace("_", " "), hide_input=True, err=True)
        return typed
    try:
        line = read_stdin_line(MOST_LINE_BYTES).decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{name}: the text on stdin is not UTF-8") from error
    except OSError as error:
        raise UsageError(f"{name}: stdin cannot be read: {error.strerror}") from error
    if not line:
        raise UsageError(f"{name}: nothing on stdin")
    return line
