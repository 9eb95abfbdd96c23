"""Adding and editing, the same for streams and consumers."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Any

import click

from natstui.clean import clean_line
from natstui.cli.manage.options import with_values
from natstui.cli.manage.writing import (
    WriterSession,
    print_changed,
    print_differences,
    print_warnings,
    refuse_read_only,
    session_change,
)
from natstui.config import Connection
from natstui.errors import NotFound, UsageError
from natstui.jetstream.connection.writer import Asset, Config, Writer
from natstui.jetstream.managing.apply import preview
from natstui.jetstream.managing.configure import check_problems, read_asset, read_config
from natstui.model.assets.consumer_rules import consumer_problems
from natstui.model.assets.differences import AssetKind, Difference, differences, merged
from natstui.model.assets.rules import Problem
from natstui.model.assets.stream_rules import stream_problems
from natstui.model.natscli.commands import consumer_command, stream_command
from natstui.model.records.managing import Change


@dataclass(frozen=True, slots=True)
class AssetFlags:
    """What the flags of `add` and `edit` say."""

    kind: AssetKind
    stream: str
    consumer: str | None
    filed: Config
    """What the files say; nothing without any."""
    file: str | None
    """A file with some of the configuration."""
    whole: str | None
    """A file with all of it, as `--config` of the NATS CLI."""
    values: dict[str, object]
    """What the other flags say, by path of a field; None takes it away."""
    dry_run: bool
    as_json: bool
    read_only: bool
    yes: bool
    confirm: str | None

    @property
    def name(self) -> str:
        """Return the name of what is made or changed."""
        return self.consumer or self.stream

    @property
    def flags(self) -> dict[str, Any]:
        """Return how it is to be confirmed."""
        return {"yes": self.yes, "confirm": self.confirm}


def add_asset(connection: Connection, asked: AssetFlags, start: Config) -> None:
    """Make a stream or consumer; a dry run prints it and ends with 1 unless it exists so."""
    filed = _of_files(asked, start)
    durable = "durable_name" in start
    if asked.kind == "consumer" and asked.whole and not durable and filed.get("durable_name"):
        raise UsageError(
            f"{asked.whole} has a durable_name, which makes a durable consumer in the NATS CLI: "
            "remove the durable_name, or omit --ephemeral"
        )
    config = merged(start, filed)
    config = _named(with_values(asked.kind, config, asked.values), asked, durable=durable)
    check_problems(_problems(asked, config))
    with WriterSession(connection, asked.read_only) as session:
        if asked.dry_run:
            found = session.run(lambda w: _difference(w, asked, config))
            _print_plan(asked, config, None, found)
            _print_warnings(session, asked, config)
            sys.exit(1 if found is None or found else 0)
        refuse_read_only(connection, asked.read_only)
        _print_warnings(session, asked, config)
        change = _change(asked, "create", config, None)
        print_changed(session_change(session, change, asked.flags), asked.as_json)


def edit_asset(connection: Connection, asked: AssetFlags) -> None:
    """Change a stream or consumer; a dry run prints the difference and ends with 1 if any."""
    with WriterSession(connection, asked.read_only) as session:
        asset = session.run(
            lambda w: read_asset(w, asked.kind, asked.stream, asked.consumer or "")
        )
        seen = asset.config
        _tell_other_name(asked)
        wanted = _of_files(asked, seen)
        wanted = wanted if asked.whole else merged(seen, wanted)
        wanted = with_values(asked.kind, wanted, asked.values)
        wanted = _named(wanted, asked, durable="durable_name" in seen)
        found = differences(asked.kind, seen, wanted)
        refused = tuple(Problem(d.path, d.refused) for d in found if d.refused)
        problems = _problems(asked, wanted, seen)
        check_problems((*refused, *problems) if problems else ())
        change = _change(asked, "edit", wanted, asset)
        if asked.dry_run:
            _print_plan(asked, wanted, seen, found)
            _print_warnings(session, asked, wanted)
            for line in session.run(lambda w: preview(w, change)).lines:
                click.echo(f"natstui: {clean_line(line)}", err=True)
            sys.exit(1 if found else 0)
        refuse_read_only(connection, asked.read_only)
        _print_warnings(session, asked, wanted)
        check_problems(refused)
        print_changed(session_change(session, change, asked.flags), asked.as_json)


def _change(asked: AssetFlags, verb: str, config: Config, seen: Asset | None) -> Change:
    """Return the change that creates or edits what the flags name."""
    action: Any = f"{verb}_{asked.kind}"
    return Change(
        0,
        action,
        asked.stream,
        asked.consumer,
        json.dumps(config),
        None if seen is None else json.dumps(seen.config),
        created_at_us=None if seen is None else seen.created_at_us,
    )


def _tell_other_name(asked: AssetFlags) -> None:
    """Say on stderr where a file is that of another stream or consumer: it is applied as asked."""
    keys = ("name",) if asked.kind == "stream" else ("name", "durable_name")
    names = {str(asked.filed[key]) for key in keys if asked.filed.get(key)} - {asked.name}
    if names:
        click.echo(
            f"natstui: {clean_line(asked.file or asked.whole or '')} is the configuration of "
            f"{asked.kind} {clean_line(min(names))}: it is applied to {asked.name}",
            err=True,
        )


def _of_files(asked: AssetFlags, base: Config) -> Config:
    """Return what the files say; raises UsageError where that makes another kind of consumer."""
    if asked.whole and "durable_name" in base and not asked.filed.get("durable_name"):
        raise UsageError(
            f"{asked.whole} has no durable_name: the NATS CLI would create an ephemeral "
            "consumer; add a durable_name to the file, or use --ephemeral"
        )
    return asked.filed


def _named(config: Config, asked: AssetFlags, *, durable: bool) -> Config:
    """Return the configuration under the name of the command line, whatever a file calls it."""
    if asked.kind == "stream":
        return {**config, "name": asked.stream}
    names = {"name": asked.consumer, "durable_name": asked.consumer if durable else None}
    return {key: value for key, value in {**config, **names}.items() if key not in names or value}


def _problems(
    asked: AssetFlags, config: Config, seen: Config | None = None
) -> tuple[Problem, ...]:
    if asked.kind == "stream":
        return stream_problems(config, seen=seen)
    return consumer_problems(config, seen=seen)


async def _difference(
    writer: Writer, asked: AssetFlags, config: Config
) -> tuple[Difference, ...] | None:
    """Return how it differs from what exists, None when nothing does."""
    if asked.kind == "consumer" and not asked.consumer:
        return None
    try:
        present = await read_config(writer, asked.kind, asked.stream, asked.consumer or "")
    except NotFound:
        return None
    return differences(asked.kind, present, config)


def _print_plan(
    asked: AssetFlags, config: Config, base: Config | None, found: tuple[Difference, ...] | None
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


def _print_warnings(session: WriterSession, asked: AssetFlags, config: Config) -> None:
    """Print the warnings of the form to stderr."""
    print_warnings(session, asked.kind, asked.stream, asked.consumer, config)
