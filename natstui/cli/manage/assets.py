"""Creates and edits streams and consumers, with the same functions for both."""

from __future__ import annotations

import json
import sys
from typing import Any

import click
from msgspec import Struct

from natstui.clean import clean_line
from natstui.cli.manage.options import set_field_values
from natstui.cli.manage.writing import (
    WriterSession,
    confirm_and_apply,
    print_change_result,
    print_differences,
    print_warnings,
    refuse_read_only,
)
from natstui.cli.terminal_line import print_stderr
from natstui.config import Connection
from natstui.errors import NotFound, UsageError
from natstui.jetstream.connection.writer import Asset, Config, Writer
from natstui.jetstream.managing.apply import preview
from natstui.jetstream.managing.configure import check_problems, read_asset, read_config
from natstui.model.assets.consumer_rules import consumer_problems
from natstui.model.assets.differences import AssetKind, Difference, differences, merge_config
from natstui.model.assets.rules import Problem
from natstui.model.assets.stream_rules import stream_problems
from natstui.model.natscli.commands import consumer_command, stream_command
from natstui.model.records.managing import Change


class AssetFlags(Struct, frozen=True):
    """The flags of `add` and `edit` of streams and consumers."""

    kind: AssetKind
    stream: str
    consumer: str | None
    file_config: Config
    """The configuration in the files; empty without a file."""
    file: str | None
    """A file with part of the configuration."""
    config_file: str | None
    """A file with the entire configuration, as `--config` of the NATS CLI."""
    values: dict[str, object]
    """Values of the other flags, by path of a field; None removes it."""
    dry_run: bool
    as_json: bool
    read_only: bool
    yes: bool
    confirm: str | None

    @property
    def name(self) -> str:
        """Return the name of the asset that is created or edited."""
        return self.consumer or self.stream

    @property
    def confirmation_flags(self) -> dict[str, Any]:
        """Return `yes` and `confirm`, the flags that confirm a change."""
        return {"yes": self.yes, "confirm": self.confirm}


def add_asset(connection: Connection, asset_flags: AssetFlags, start_config: Config) -> None:
    """Create a stream or consumer from `start_config`, the files and the flags, and print the
    result.

    A dry run prints the configuration, or the differences to an existing asset; it exits with 0 if
    that has the same configuration, else with 1. Raises UsageError for an invalid configuration,
    ActionRefusal if the change is not confirmed or the connection is read-only, RequestFailed if
    the server refuses the change or does not reply.
    """
    file_config = _file_config(asset_flags, start_config)
    is_durable = "durable_name" in start_config
    if (
        asset_flags.kind == "consumer"
        and asset_flags.config_file
        and not is_durable
        and file_config.get("durable_name")
    ):
        raise UsageError(
            f"{asset_flags.config_file} has a durable_name, which makes a durable consumer in "
            "the NATS CLI: "
            "remove the durable_name, or omit --ephemeral"
        )
    config = merge_config(start_config, file_config)
    config = _set_typed_name(
        set_field_values(asset_flags.kind, config, asset_flags.values),
        asset_flags,
        is_durable=is_durable,
    )
    check_problems(_find_problems(asset_flags, config))
    change = _create_change(asset_flags, "create", config, None)
    with WriterSession(connection, asset_flags.read_only) as session:
        if asset_flags.dry_run:
            diffs = session.run(lambda writer: _read_differences(writer, asset_flags, config))
            _print_plan(asset_flags, config, None, diffs)
            _print_warnings(session, asset_flags, config)
            _print_losses(session, change)
            sys.exit(1 if diffs is None or diffs else 0)
        refuse_read_only(connection, asset_flags.read_only)
        _print_warnings(session, asset_flags, config)
        print_change_result(
            confirm_and_apply(session, change, asset_flags.confirmation_flags), asset_flags.as_json
        )


def edit_asset(connection: Connection, asset_flags: AssetFlags) -> None:
    """Edit a stream or consumer with the files and the flags, and print the result.

    A dry run prints the differences, and to stderr what is lost; it exits with 1 if there are
    differences, else with 0. Raises UsageError for an invalid configuration, ActionRefusal if the
    change is not confirmed or the connection is read-only, NotFound without the asset,
    RequestFailed if the server refuses the change or does not reply.
    """
    with WriterSession(connection, asset_flags.read_only) as session:
        asset = session.run(
            lambda writer: read_asset(
                writer, asset_flags.kind, asset_flags.stream, asset_flags.consumer or ""
            )
        )
        current_config = asset.config
        _print_other_name(asset_flags)
        target_config = _file_config(asset_flags, current_config)
        target_config = (
            target_config
            if asset_flags.config_file
            else merge_config(current_config, target_config)
        )
        target_config = set_field_values(asset_flags.kind, target_config, asset_flags.values)
        target_config = _set_typed_name(
            target_config, asset_flags, is_durable="durable_name" in current_config
        )
        diffs = differences(asset_flags.kind, current_config, target_config)
        refused_problems = tuple(
            Problem(diff.path, diff.refused) for diff in diffs if diff.refused
        )
        problems = _find_problems(asset_flags, target_config, current_config)
        check_problems((*refused_problems, *problems) if problems else ())
        change = _create_change(asset_flags, "edit", target_config, asset)
        if asset_flags.dry_run:
            _print_plan(asset_flags, target_config, current_config, diffs)
            _print_warnings(session, asset_flags, target_config)
            _print_losses(session, change)
            sys.exit(1 if diffs else 0)
        refuse_read_only(connection, asset_flags.read_only)
        _print_warnings(session, asset_flags, target_config)
        check_problems(refused_problems)
        print_change_result(
            confirm_and_apply(session, change, asset_flags.confirmation_flags), asset_flags.as_json
        )


def _print_losses(session: WriterSession, change: Change) -> None:
    for line in session.run(lambda writer: preview(writer, change)).lines:
        print_stderr(line)


def _create_change(
    asset_flags: AssetFlags, verb: str, config: Config, current_asset: Asset | None
) -> Change:
    """Return the change that creates or edits the asset of the flags."""
    action: Any = f"{verb}_{asset_flags.kind}"
    return Change(
        0,
        action,
        asset_flags.stream,
        asset_flags.consumer,
        json.dumps(config),
        None if current_asset is None else json.dumps(current_asset.config),
        created_at_us=None if current_asset is None else current_asset.created_at_us,
    )


def _print_other_name(asset_flags: AssetFlags) -> None:
    """Print to stderr if a file names another asset than the command line, which is used."""
    keys = ("name",) if asset_flags.kind == "stream" else ("name", "durable_name")
    names = {
        str(asset_flags.file_config[key]) for key in keys if asset_flags.file_config.get(key)
    } - {asset_flags.name}
    if names:
        click.echo(
            f"natstui: {clean_line(asset_flags.file or asset_flags.config_file or '')} is the "
            "configuration of "
            f"{asset_flags.kind} {clean_line(min(names))}: it is applied to {asset_flags.name}",
            err=True,
        )


def _file_config(asset_flags: AssetFlags, base_config: Config) -> Config:
    """Return the configuration of the files; raises UsageError if they change the kind of
    consumer.
    """
    if (
        asset_flags.config_file
        and "durable_name" in base_config
        and not asset_flags.file_config.get("durable_name")
    ):
        raise UsageError(
            f"{asset_flags.config_file} has no durable_name: the NATS CLI would create an "
            "ephemeral consumer; add a durable_name to the file, or use --ephemeral"
        )
    return asset_flags.file_config


def _set_typed_name(config: Config, asset_flags: AssetFlags, *, is_durable: bool) -> Config:
    """Return the configuration with the name of the command line, instead of a name in the
    file.
    """
    if asset_flags.kind == "stream":
        return {**config, "name": asset_flags.stream}
    names = {
        "name": asset_flags.consumer,
        "durable_name": asset_flags.consumer if is_durable else None,
    }
    return {key: value for key, value in {**config, **names}.items() if key not in names or value}


def _find_problems(
    asset_flags: AssetFlags, config: Config, current_config: Config | None = None
) -> tuple[Problem, ...]:
    if asset_flags.kind == "stream":
        return stream_problems(config, config_before=current_config)
    return consumer_problems(config, config_before=current_config)


async def _read_differences(
    writer: Writer, asset_flags: AssetFlags, config: Config
) -> tuple[Difference, ...] | None:
    """Return the differences to the existing asset; None if the asset does not exist."""
    if asset_flags.kind == "consumer" and not asset_flags.consumer:
        return None
    try:
        existing_config = await read_config(
            writer, asset_flags.kind, asset_flags.stream, asset_flags.consumer or ""
        )
    except NotFound:
        return None
    return differences(asset_flags.kind, existing_config, config)


def _print_plan(
    asset_flags: AssetFlags,
    config: Config,
    current_config: Config | None,
    diffs: tuple[Difference, ...] | None,
) -> None:
    """Print what a dry run would change: the differences, or the configuration if `diffs` is None.

    The equivalent nats command is printed to stderr.
    """
    if diffs is None:
        click.echo(json.dumps(config, indent=None if asset_flags.as_json else 2))
    else:
        print_differences(diffs, asset_flags.as_json)
    if asset_flags.kind == "stream":
        command = stream_command(config, current_config)
    else:
        command = consumer_command(asset_flags.stream, config, current_config)
    click.echo(clean_line(command), err=True)


def _print_warnings(session: WriterSession, asset_flags: AssetFlags, config: Config) -> None:
    """Print the warnings about the configuration to stderr."""
    print_warnings(session, asset_flags.kind, asset_flags.stream, asset_flags.consumer, config)
