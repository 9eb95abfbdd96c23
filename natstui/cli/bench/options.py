"""The flags every benchmark run has, and how they change a plan."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from natstui.cli.options import connection_options

if TYPE_CHECKING:
    from natstui.config.settings import Settings


_CHANGING = ("msgs", "duration", "rate", "size", "workers", "pubs", "subs", "stream", "storage")
_CHANGING_TOO = ("acks", "batch", "window")

_FLAGS = (
    click.option("--msgs", metavar="N", help="Messages in all, as 1M."),
    click.option("--duration", metavar="TIME", help="Run for a time instead, as 5s."),
    click.option("--rate", metavar="N", help="Messages per second; 0: as fast as possible."),
    click.option("--size", metavar="BYTES", help="Payload size, as 128 or 64KB."),
    click.option("--workers", metavar="N", help="Worker processes per role."),
    click.option("--pubs", metavar="N", help="Workers of the roles that send."),
    click.option("--subs", metavar="N", help="Workers of the roles that receive."),
    click.option("--stream", metavar="NAME", help="Stream to work on."),
    click.option("--storage", type=click.Choice(["file", "memory"]), help="Of a stream made."),
    click.option("--acks", type=click.Choice(["explicit", "all", "none", "double"])),
    click.option("--batch", metavar="N", help="Messages per pull, batch or block."),
    click.option("--window", metavar="N", help="Messages in flight without acknowledgement."),
    click.option(
        "--client",
        "clients",
        type=click.Choice(["wire", "nats-py"]),
        multiple=True,
        help="Client; give it twice to run both in turns and compare them.",
    ),
    click.option("--repeat", "repeat_count", type=click.IntRange(1, 100), default=1),
    click.option("--assert", "checks", metavar="CHECK", multiple=True, help="As 'lost == 0'."),
    click.option("--json", "as_json", is_flag=True, help="One result object on stdout."),
    click.option(
        "--record",
        is_flag=False,
        flag_value="",
        metavar="[NAME]",
        help="Record the benchmark and its streams as a session.",
    ),
    click.option("--save/--no-save", default=True, help="Keep the result in the run library."),
)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How to run a plan, and what to do with its result."""

    changes: dict[str, str]
    """Overrides of the plan, as given."""
    clients: tuple[str, ...]
    """More than one: they run in turns and are compared."""
    repeat_count: int
    checks: tuple[str, ...]
    json: bool
    library: Path | None
    """Folder to save the result in; None: it is not saved."""
    record: str | None
    """Name of the session, may be empty; None: nothing is recorded."""
    settings: Settings


def run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command `options: RunOptions` and `connection: Connection`, all looked up."""

    @connection_options
    @functools.wraps(command)
    def with_options(
        *,
        settings: Settings,
        clients: tuple[str, ...],
        repeat_count: int,
        checks: tuple[str, ...],
        as_json: bool,
        save: bool,
        record: str | None,
        **others: Any,
    ) -> Any:
        given = {name: others.pop(name) for name in (*_CHANGING, *_CHANGING_TOO)}
        changes = {name: value for name, value in given.items() if value is not None}
        from natstui.bench.result.library import library_folder

        folder = library_folder(settings.benchmark.folder) if save else None
        options = RunOptions(
            changes, clients, repeat_count, checks, as_json, folder, record, settings
        )
        return command(options=options, **others)

    decorated = with_options
    for flag in reversed(_FLAGS):
        decorated = flag(decorated)
    return decorated
