"""`natstui consumer pause|resume|reset|rm`."""

from __future__ import annotations

import json
from typing import Any

import click

from natstui.cli.asset_commands import given_name
from natstui.cli.managing import confirmation, managing, print_changed, run_with_writer
from natstui.cli.options import connection_options
from natstui.config import Connection
from natstui.jetstream.admin_apply import apply
from natstui.model.manage import IRREVERSIBLE, Action, Change


def _do(
    connection: Connection,
    action: Action,
    names: tuple[str, str],
    question: str,
    body: dict[str, Any],
    words: dict[str, Any],
) -> None:
    stream, name = map(given_name, names)
    confirmed = words["confirm"]
    if action in IRREVERSIBLE or connection.production:
        confirmed = confirmation(
            connection, name, question, yes=words["yes"], confirm=words["confirm"]
        )
    change = Change(0, action, stream, name, json.dumps(body), None, confirmed)
    changed = run_with_writer(connection, words["read_only"], lambda w: apply(w, change))
    print_changed(changed, words["as_json"])


@click.command()
@click.argument("stream")
@click.argument("name")
@click.argument("until")
@managing
@connection_options
def pause(connection: Connection, stream: str, name: str, until: str, **words: Any) -> None:
    """Deliver nothing to NAME on STREAM before UNTIL: a time, or a duration as 1h30m."""
    body = {"pause_until": until}
    _do(connection, "pause_consumer", (stream, name), f"this pauses {name}", body, words)


@click.command()
@click.argument("stream")
@click.argument("name")
@managing
@connection_options
def resume(connection: Connection, stream: str, name: str, **words: Any) -> None:
    """Let NAME on STREAM deliver again."""
    _do(connection, "resume_consumer", (stream, name), f"this resumes {name}", {}, words)


@click.command()
@click.argument("stream")
@click.argument("name")
@click.option("--seq", type=click.IntRange(min=1), help="From here; without it, its ack floor.")
@managing
@connection_options
def reset(connection: Connection, stream: str, name: str, seq: int | None, **words: Any) -> None:
    """Let NAME on STREAM deliver again from a sequence."""
    body = {"seq": seq} if seq else {}
    _do(connection, "reset_consumer", (stream, name), f"this resets {name}", body, words)


@click.command()
@click.argument("stream")
@click.argument("name")
@managing
@connection_options
def rm(connection: Connection, stream: str, name: str, **words: Any) -> None:
    """Delete the consumer NAME on STREAM."""
    question = f"this deletes the consumer {name} on {stream}"
    _do(connection, "delete_consumer", (stream, name), question, {}, words)
