"""Adding and editing, the same for streams and consumers."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Any

import click

from natstui.clean import clean_line
from natstui.cli.config_options import read_config_file, with_texts
from natstui.cli.managing import (
    confirmation,
    print_changed,
    print_differences,
    run_with_writer,
)
from natstui.config import Connection
from natstui.errors import NotFound, UsageError
from natstui.jetstream.admin import Changed, check_problems, read_config
from natstui.jetstream.admin_apply import apply
from natstui.jetstream.surroundings import read_surroundings
from natstui.jetstream.writer import Config, Writer
from natstui.model.config_change import AssetKind, Difference, differences
from natstui.model.consumer_rules import consumer_problems
from natstui.model.consumer_warnings import consumer_warnings
from natstui.model.manage import Change
from natstui.model.nats_command import consumer_command, stream_command
from natstui.model.stream_rules import stream_problems
from natstui.model.stream_warnings import stream_warnings


@dataclass(frozen=True, slots=True)
class Asked:
    """What the flags of `add` and `edit` say."""

    kind: AssetKind
    stream: str
    consumer: str | None
    file: str | None
    texts: dict[str, str]
    dry_run: bool
    as_json: bool
    read_only: bool
    yes: bool
    confirm: str | None

    @property
    def name(self) -> str:
        """Return the name of what is made or changed."""
        return self.consumer or self.stream


def add_asset(connection: Connection, asked: Asked, start: Config) -> None:
    """Make a stream or consumer; a dry run prints it and ends with 1 unless it is so already."""
    config = {**start, **(read_config_file(asked.file) if asked.file else {})}
    config = _named(with_texts(asked.kind, config, asked.texts), asked)
    _check(asked, config)
    if asked.dry_run:
        found = run_with_writer(connection, True, lambda w: _difference(w, asked, config))
        _print_plan(asked, config, None, found)
        _print_warnings(connection, asked, config)
        sys.exit(1 if found is None or found else 0)
    confirmed = _confirmed(connection, asked, f"this makes {asked.kind} {asked.name}")
    print_changed(_send(connection, asked, "create", config, None, confirmed), asked.as_json)


def edit_asset(connection: Connection, asked: Asked) -> None:
    """Change a stream or consumer; a dry run prints the difference and ends with 1 if any."""

    async def plan(writer: Writer) -> tuple[Config, Config]:
        seen = await read_config(writer, asked.kind, asked.stream, asked.consumer or "")
        wanted = {**seen, **(read_config_file(asked.file) if asked.file else {})}
        return seen, _named(with_texts(asked.kind, wanted, asked.texts), asked)

    seen, wanted = run_with_writer(connection, True, plan)
    _check(asked, wanted, creating=False)
    found = differences(asked.kind, seen, wanted)
    if asked.dry_run:
        _print_plan(asked, wanted, seen, found)
        _print_warnings(connection, asked, wanted)
        sys.exit(1 if found else 0)
    sealing = wanted.get("sealed") is True and not seen.get("sealed")
    question = "sealing cannot be undone" if sealing else f"this changes {asked.name}"
    confirmed = _confirmed(connection, asked, question, needed=sealing)
    print_changed(_send(connection, asked, "edit", wanted, seen, confirmed), asked.as_json)


def _confirmed(
    connection: Connection, asked: Asked, question: str, *, needed: bool = False
) -> str | None:
    if not needed and not connection.production:
        return asked.confirm
    return confirmation(connection, asked.name, question, yes=asked.yes, confirm=asked.confirm)


def _named(config: Config, asked: Asked) -> Config:
    if asked.kind == "stream":
        return {**config, "name": asked.stream}
    config = {**config, "name": asked.consumer or ""}
    return {key: value for key, value in config.items() if key != "name" or value}


def _check(asked: Asked, config: Config, *, creating: bool = True) -> None:
    if asked.kind == "stream":
        check_problems(stream_problems(config, creating=creating))
    else:
        check_problems(consumer_problems(config))


async def _difference(
    writer: Writer, asked: Asked, config: Config
) -> tuple[Difference, ...] | None:
    """Return how it differs from what exists, None when nothing does."""
    try:
        present = await read_config(writer, asked.kind, asked.stream, asked.consumer or "")
    except NotFound:
        return None
    return differences(asked.kind, present, config)


def _print_plan(
    asked: Asked, config: Config, base: Config | None, found: tuple[Difference, ...] | None
) -> None:
    """Print a plan; the same as a nats command goes to stderr."""
    if found is None:
        click.echo(json.dumps(config, indent=None if asked.as_json else 2))
    else:
        print_differences(found, asked.as_json)
    if asked.kind == "stream":
        command = stream_command(config, base)
    else:
        command = consumer_command(asked.stream, config, base)
    click.echo(clean_line(command), err=True)


def _print_warnings(connection: Connection, asked: Asked, config: Config) -> None:
    """Print to stderr what the form would warn of."""

    async def ask(writer: Writer) -> tuple[str, ...]:
        exists = asked.kind == "consumer" or await _difference(writer, asked, config) is not None
        around = await read_surroundings(writer.client, asked.stream if exists else None)
        if asked.kind == "stream":
            wanted = [one for filters in around.consumer_filters.values() for one in filters]
            return stream_warnings(config, around, wanted)
        owner = await read_config(writer, "stream", asked.stream)
        others = {k: v for k, v in around.consumer_filters.items() if k != asked.consumer}
        return consumer_warnings(config, owner, others)

    for warning in run_with_writer(connection, True, ask):
        click.echo(f"natstui: {clean_line(warning)}", err=True)


def _send(
    connection: Connection,
    asked: Asked,
    verb: str,
    config: Config,
    seen: Config | None,
    confirmed: str | None,
) -> Changed:
    seen_json = None if seen is None else json.dumps(seen)
    action: Any = f"{verb}_{asked.kind}"
    change = Change(
        0, action, asked.stream, asked.consumer, json.dumps(config), seen_json, confirmed
    )
    return run_with_writer(connection, asked.read_only, lambda writer: apply(writer, change))


def given_name(name: str) -> str:
    """Return a name that can be part of a request; raises UsageError for one that cannot."""
    if not name or any(letter in name for letter in ".*> \t\r\n/\\"):
        raise UsageError(f"{name!r} is no name: no spaces, dots, * > / or \\")
    return name
