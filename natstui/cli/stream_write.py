"""`natstui stream add|edit|purge|rm`."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from natstui.cli.asset_commands import Asked, add_asset, edit_asset, given_name
from natstui.cli.config_options import config_options
from natstui.cli.managing import confirmation, managing, print_changed, run_with_writer
from natstui.cli.options import connection_options
from natstui.config import Connection
from natstui.errors import UsageError
from natstui.jetstream.admin import read_config
from natstui.jetstream.admin_apply import apply
from natstui.jetstream.admin_streams import purge_preview
from natstui.jetstream.template_files import templates
from natstui.model.config_field import Config, without_server_metadata
from natstui.model.manage import Change
from natstui.model.stream_spec import NEW_STREAM
from natstui.model.templates import started
from natstui.units import counted


@click.command()
@click.argument("name")
@click.option("--file", metavar="FILE", help="JSON, YAML or TOML to begin with; - is stdin.")
@click.option("--template", metavar="NAME", help="A template to begin with; `?` lists them.")
@click.option("--clone", metavar="STREAM", help="Another stream to begin with.")
@click.option("--dry-run", is_flag=True, help="Print it; exit 1 unless it is so already.")
@managing
@config_options("stream")
@connection_options
def add(
    connection: Connection, name: str, template: str | None, clone: str | None, **words: Any
) -> None:
    """Make the stream NAME."""
    words.pop("settings")
    start = {} if words["file"] else dict(NEW_STREAM)
    if template is not None:
        start = _template(template)
    if clone is not None:
        start = run_with_writer(connection, True, lambda w: read_config(w, "stream", clone))
    asked = Asked(kind="stream", stream=given_name(name), consumer=None, **words)
    add_asset(connection, asked, without_server_metadata(start))


def _template(name: str) -> Config:
    known = templates()
    if name == "?":
        for one in known:
            click.echo(f"{one.name}: {one.help}")
        sys.exit(0)
    found = next((one for one in known if one.name == name), None)
    if found is None:
        names = ", ".join(one.name for one in known)
        raise UsageError(f"there is no template {name!r}: there are {names}")
    return started(found)


@click.command()
@click.argument("name")
@click.option("--file", metavar="FILE", help="JSON, YAML or TOML with what shall change.")
@click.option("--dry-run", is_flag=True, help="Print the difference; exit 1 when there is one.")
@managing
@config_options("stream")
@connection_options
def edit(connection: Connection, name: str, **words: Any) -> None:
    """Change the stream NAME; an empty value takes an option away."""
    words.pop("settings")
    edit_asset(connection, Asked(kind="stream", stream=given_name(name), consumer=None, **words))


@click.command()
@click.argument("name")
@click.option("--filter", "subject", metavar="SUBJECT", help="Only messages of this subject.")
@click.option("--seq", type=click.IntRange(min=1), help="Only messages before this sequence.")
@click.option("--keep", type=click.IntRange(min=1), help="All but the newest so many.")
@managing
@connection_options
def purge(
    connection: Connection,
    name: str,
    subject: str | None,
    seq: int | None,
    keep: int | None,
    **words: Any,
) -> None:
    """Remove messages of the stream NAME."""
    asked = {"filter": subject, "seq": seq, "keep": keep}
    asked = {key: value for key, value in asked.items() if value is not None}
    given_name(name)
    count = run_with_writer(connection, True, lambda w: purge_preview(w.client, name, asked))
    effect = f"this removes {counted(count, 'message')} of {name}"
    _final(connection, "purge_stream", name, effect, asked, words)


@click.command()
@click.argument("name")
@managing
@connection_options
def rm(connection: Connection, name: str, **words: Any) -> None:
    """Delete the stream NAME, its messages and its consumers."""
    question = f"this deletes the stream {given_name(name)} with its messages"
    _final(connection, "delete_stream", name, question, {}, words)


def _final(
    connection: Connection,
    action: Any,
    name: str,
    question: str,
    body: dict[str, Any],
    words: dict[str, Any],
) -> None:
    confirmed = confirmation(
        connection, name, question, yes=words["yes"], confirm=words["confirm"]
    )
    change = Change(0, action, name, None, json.dumps(body), None, confirmed)
    changed = run_with_writer(connection, words["read_only"], lambda w: apply(w, change))
    print_changed(changed, words["as_json"])
