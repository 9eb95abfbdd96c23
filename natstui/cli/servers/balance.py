"""`natstui balance`: leaders spread evenly over the servers, after a plan."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click

from natstui.clean import clean_line
from natstui.cli.manage.writing import (
    change_flags,
    confirmation,
    refuse_read_only,
    run_with_writer,
)
from natstui.cli.options import connection_options, reading_seconds
from natstui.cli.sections import command
from natstui.config import Connection
from natstui.engine.stopping import stopped_by_signal
from natstui.jetstream.connection.writer import Writer
from natstui.jetstream.managing.balancing import carry_out, read_groups
from natstui.model.servers.balance import Move, Plan, named, planned, uneven_text
from natstui.units import counted

_ROUNDS = 3
"""A leader may have gone elsewhere than planned: then what is left is planned once more."""
_KINDS = ("stream", "consumer")


@command()
@click.option("--dry-run", is_flag=True, help="Print the plan; exit 1 when there is one.")
@click.option(
    "--only", type=click.Choice(["streams", "consumers"]), help="Move leaders of these alone."
)
@click.option(
    "--pause", metavar="TIME", default="500ms", show_default=True, help="Between two moves."
)
@change_flags
@connection_options
def balance(
    connection: Connection, dry_run: bool, only: str | None, pause: str, **words: Any
) -> None:
    """Spread leaders evenly over the servers.

    The plan comes first: which leaders move where, and why. A move is a step-down to a replica
    that is up to date; no data moves, and publishers wait for a moment. Ctrl-C stops between
    two moves, and what was done is printed and in the journal.
    """
    pause_s, kinds = reading_seconds(pause, "--pause"), [only[:-1]] if only else list(_KINDS)
    as_json = words["as_json"]
    if not dry_run:
        refuse_read_only(connection, words["read_only"])
    place, plans = run_with_writer(connection, True, lambda writer: _look(writer, kinds))
    moves = _moves(plans)
    if not as_json:
        _print_plan(plans)
    if dry_run or not moves:
        if as_json:
            click.echo(_json(plans, [], None))
        if moves:
            click.get_current_context().exit(1)
        return
    question = f"this will move {counted(len(moves), 'leader')} of {place}"
    yes, confirm = words["yes"], words["confirm"]
    confirmation(connection, place, clean_line(question), yes=yes, confirm=confirm)
    done: list[str] = []

    async def work(writer: Writer) -> tuple[list[Plan], bool]:
        return await _balance(writer, kinds, pause_s, done, quiet=as_json)

    after, stopped = run_with_writer(connection, words["read_only"], work, prints=True)
    if as_json:
        click.echo(_json(plans, done, after))
    else:
        _print_end(after, len(done), stopped=stopped)
    if stopped or _moves(after):
        click.get_current_context().exit(1)


async def _look(writer: Writer, kinds: Sequence[str]) -> tuple[str, list[Plan]]:
    """Return the name of what is balanced, and a plan of each kind."""
    return writer.client.link.cluster or "balance", await _plans(writer, kinds)


async def _plans(writer: Writer, kinds: Sequence[str]) -> list[Plan]:
    groups = await read_groups(writer.client)
    return [planned(named(groups, kind)) for kind in kinds]


def _moves(plans: Sequence[Plan]) -> tuple[Move, ...]:
    return tuple(move for plan in plans for move in plan.moves)


async def _balance(
    writer: Writer, kinds: Sequence[str], pause_s: float, done: list[str], *, quiet: bool
) -> tuple[list[Plan], bool]:
    """Carry out plans until there is nothing to move; return what is left, and whether stopped."""
    stop = stopped_by_signal()

    def told(sentence: str) -> None:
        done.append(sentence)
        if not quiet:
            click.echo(clean_line(sentence))

    for _ in range(_ROUNDS):
        moves = _moves(await _plans(writer, kinds))
        if not moves:
            break
        await carry_out(writer, moves, pause_s, stop, told)
        if stop.is_set():
            break
    return await _plans(writer, kinds), stop.is_set()


def _print_plan(plans: Sequence[Plan]) -> None:
    for plan in plans:
        if plan.before_count:
            click.echo(clean_line(f"leaders: {uneven_text(plan.before_count)}"))
        if plan.leaderless_count:
            click.echo(f"without a leader, left alone: {plan.leaderless_count}")
        for move in plan.moves:
            click.echo(clean_line(f"  {move.text}"))
        if plan.moves:
            click.echo(clean_line(f"afterwards: {uneven_text(plan.after_count)}"))
    if not _moves(plans):
        click.echo("nothing to move: no server leads two more than another that could")


def _print_end(after: Sequence[Plan], tried_count: int, *, stopped: bool) -> None:
    left = len(_moves(after))
    head = "stopped: " if stopped else ""
    click.echo(f"{head}{counted(tried_count, 'move')} done, {left} left to do")
    for plan in after:
        if plan.before_count:
            click.echo(clean_line(f"leaders now: {uneven_text(plan.before_count)}"))


def _json(plans: Sequence[Plan], done: Sequence[str], after: Sequence[Plan] | None) -> str:
    whole: dict[str, object] = {
        "schema": 1,
        "moves": [
            {
                "stream": move.group.stream,
                "consumer": move.group.consumer,
                "from": move.group.leader,
                "to": move.to,
            }
            for move in _moves(plans)
        ],
        "before": [plan.before_count for plan in plans],
        "planned": [plan.after_count for plan in plans],
        "done": list(done),
    }
    if after is not None:
        whole["after"] = [plan.before_count for plan in after]
    return json.dumps(whole).replace("\x7f", "\\u007f")
