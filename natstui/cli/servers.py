"""`natstui servers`, `balance` and `meta`: the servers of the system, and who leads what."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from natstui.clean import clean_line
from natstui.cli.manage.options import argument_options
from natstui.cli.manage.writing import (
    change_flags,
    confirmation,
    refuse_read_only,
    run_with_writer,
)
from natstui.cli.options import connection_options, reading_seconds
from natstui.cli.sections import Group, command
from natstui.cli.text_table import hanging, stdout_width, table, text_column
from natstui.config import Connection
from natstui.engine.stopping import stopped_by_signal
from natstui.errors import RequestFailed
from natstui.jetstream.connection.client import connect
from natstui.jetstream.connection.journal import Journal
from natstui.jetstream.connection.writer import Writer
from natstui.jetstream.managing.balancing import carry_out, read_groups
from natstui.jetstream.system.asking import Servers as Asking
from natstui.jetstream.system.meta import (
    StepDown,
    meta_without,
    read_meta,
    remove_server,
    step_down_meta,
)
from natstui.jetstream.system.servers import read_servers
from natstui.jetstream.system.source import System
from natstui.model.columns.servers import SERVER_COLUMNS, ServerRow
from natstui.model.records.system import RemoveServer
from natstui.model.servers.balance import Move, Plan, named, planned, uneven_text
from natstui.model.servers.server import Servers, Storage, rates_between
from natstui.model.servers.words import (
    account_text,
    meta_text,
    peer_text,
    removal_question,
    summary,
)
from natstui.model.traffic import Traffic
from natstui.units import counted

if TYPE_CHECKING:
    from natstui.config.settings import Settings

Rates = Mapping[str, Traffic]

_COLUMNS = {column.key: column for column in SERVER_COLUMNS}
_FIRST = {
    "name": 0, "version": 3, "cluster": 4, "uptime": 2, "cpu": 1, "memory": 1, "conns": 0,
    "subs": 6, "slow": 2, "routes": 8,
}  # fmt: skip
"""Column → its place among those that are left out where space is short; 0: it never is."""
_TOTALS = {"in": 7, "in_total": 9, "out": 7, "out_total": 9}
_RATES = {"in_s": 3, "in_b": 7, "out_s": 3, "out_b": 7}
_JETSTREAM = {
    "file": 2, "reserved": 6, "free": 2, "store": 8, "memory_free": 9, "ha": 5,
    "streams_led": 1, "consumers_led": 1, "inflight": 6, "errors": 7, "meta": 2,
}  # fmt: skip
_ROUNDS = 3
"""A leader may have gone elsewhere than planned: then what is left is planned once more."""
_KINDS = ("stream", "consumer")


@command()
@click.option(
    "--for", "for_text", metavar="TIME",
    help="Read twice with this pause, and print the rates.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@connection_options
def servers(
    settings: Settings, connection: Connection, for_text: str | None, as_json: bool
) -> None:
    """List servers, leaders and the meta group.

    Lists the accounts, too. All details need the system account or the monitoring ports of
    [system]. Without them, prints names, versions, and the connections and traffic of your own
    account, and how to see more.
    """
    from natstui.cli.connected import waited_for

    for_s = None if for_text is None else reading_seconds(for_text, "--for")
    seen, rates = asyncio.run(waited_for(_look(connection, for_s)))
    if not seen.rows:
        raise RequestFailed("; ".join(f"{it.what}: {it.reason}" for it in seen.missing))
    if as_json:
        click.echo(servers_json(seen, rates))
        return
    for line in server_lines(seen, rates, stdout_width()):
        click.echo(line)


async def _look(
    connection: Connection, for_s: float | None
) -> tuple[Servers, Mapping[str, Traffic] | None]:
    client = await connect(connection)
    system = System(connection, client)
    try:
        asking = Asking(client)
        first = await read_servers(asking, system)
        if for_s is None:
            return first, None
        await asyncio.sleep(for_s)
        then = await read_servers(asking, system)
        return then, rates_between(first, then)
    finally:
        await system.close()
        await client.close()


def server_lines(seen: Servers, rates: Rates | None, width_cells: int | None) -> list[str]:
    """Return what was seen as lines: a sentence, the servers, the meta groups, the accounts."""
    shown = _FIRST | (_TOTALS if rates is None else _RATES) | _JETSTREAM
    columns = [
        text_column(_COLUMNS[key], order, shrinks=key in ("name", "cluster"))
        for key, order in shown.items()
    ]
    servers = [
        ServerRow(server, (rates or {}).get(server.server_id), seen.meta_of(server))
        for server in seen.rows
    ]
    rows = [[_COLUMNS[key].text(server) for key in shown] for server in servers]
    lines = [clean_line(summary(seen)), *table(columns, rows, width_cells)]
    for meta in seen.metas:
        text = meta_text(meta, answers=seen.leader_answers(meta))
        lines += ["", clean_line(f"META GROUP of {meta.cluster}: {text}")]
        lines += [clean_line(f"  {peer.name}: {peer_text(peer)}") for peer in meta.peers]
    if seen.accounts:
        lines += ["", "ACCOUNTS"]
        lines += [
            clean_line(f"  {account.name}: {account_text(account)}") for account in seen.accounts
        ]
    if seen.missing:
        lines += ["", "UNAVAILABLE"]
        for it in seen.missing:
            lines.append(hanging(clean_line(f"  {it.what}: {it.reason}"), width_cells, 4))
    return lines


def servers_json(seen: Servers, rates: Rates | None) -> str:
    """Return one JSON object, of printable ASCII only; times are UTC microseconds."""
    rows = []
    for row in seen.rows:
        fields = asdict(row) | {"uptime_s": row.uptime_s}
        if row.jetstream is not None:
            for store in ("memory", "file"):
                held: Storage = getattr(row.jetstream, store)
                fields["jetstream"][store]["free_bytes"] = held.free_bytes
        if rates is not None:
            known = rates.get(row.server_id)
            names = Traffic.__dataclass_fields__
            fields |= asdict(known) if known is not None else dict.fromkeys(names)
        rows.append(fields)
    whole = asdict(seen) | {"rows": rows}
    whole["servers"] = whole.pop("rows")
    return json.dumps({"schema": 1, **whole}).replace("\x7f", "\\u007f")


@command()
@click.option("--dry-run", is_flag=True, help="Print the plan; exit with 1 if there are moves.")
@click.option(
    "--only",
    type=click.Choice(["streams", "consumers"]),
    help="Move only leaders of streams, or only of consumers.",
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

    Prints the plan first: which leaders move where, and why. A move is a step-down to a replica
    that is up to date; no data moves, and publishers wait for a moment. Ctrl-C stops between two
    moves; the moves done are printed and in the journal.
    """
    pause_s, kinds = reading_seconds(pause, "--pause"), [only[:-1]] if only else list(_KINDS)
    as_json = words["as_json"]
    if not dry_run:
        refuse_read_only(connection, words["read_only"])
    place, plans = run_with_writer(connection, True, lambda writer: _read_plans(writer, kinds))
    moves = _moves(plans)
    if not as_json:
        _print_plan(plans)
    if dry_run or not moves:
        if as_json:
            click.echo(_balance_json(plans, [], None))
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
        click.echo(_balance_json(plans, done, after))
    else:
        _print_end(after, len(done), stopped=stopped)
    if stopped or _moves(after):
        click.get_current_context().exit(1)


async def _read_plans(writer: Writer, kinds: Sequence[str]) -> tuple[str, list[Plan]]:
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
            click.echo(f"skipped because they have no leader: {plan.leaderless_count}")
        for move in plan.moves:
            click.echo(clean_line(f"  {move.text}"))
        if plan.moves:
            click.echo(clean_line(f"afterwards: {uneven_text(plan.after_count)}"))
    if not _moves(plans):
        click.echo("nothing to move: the leaders are already even, as far as replicas allow")


def _print_end(after: Sequence[Plan], tried_count: int, *, stopped: bool) -> None:
    left = len(_moves(after))
    head = "stopped: " if stopped else ""
    click.echo(f"{head}{counted(tried_count, 'move')} done, {left} left to do")
    for plan in after:
        if plan.before_count:
            click.echo(clean_line(f"leaders now: {uneven_text(plan.before_count)}"))


def _balance_json(plans: Sequence[Plan], done: Sequence[str], after: Sequence[Plan] | None) -> str:
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


@click.group(cls=Group)
def meta() -> None:
    """Manage the meta group of the cluster. Show its leader and members, and change them."""


@meta.command("step-down")
@argument_options("step_down_meta")
@change_flags
@connection_options
def step_down(connection: Connection, asked: dict[str, Any], **words: Any) -> None:
    """Elect another leader of the meta group.

    Needs the system account. During the election, streams and consumers cannot be created or
    changed; messages still flow.
    """
    refuse_read_only(connection, words["read_only"])
    text = asyncio.run(_step_down(connection, asked.get("preferred"), words))
    click.echo(clean_line(text))


async def _step_down(connection: Connection, preferred: str | None, words: dict[str, Any]) -> str:
    system = System(connection)
    try:
        # Who may not ask the system account is told so before anything is asked of him.
        await system.client()
        found = await read_meta(system)
        where = f" to {preferred}" if preferred else ""
        question = f"this will step down {found.leader or 'nobody'} from {found.cluster}{where}"
        confirmed = words["confirm"]
        if connection.production:
            confirmed = await asyncio.to_thread(
                confirmation, connection, found.cluster, clean_line(question),
                yes=words["yes"], confirm=confirmed,
            )  # fmt: skip
        writer = Writer(await system.client(), Journal())
        return await step_down_meta(writer, system, StepDown(found, preferred, confirmed))
    finally:
        await system.close()


@meta.command("peer-remove")
@click.argument("node", metavar="SERVER")
@change_flags
@connection_options
def peer_remove(connection: Connection, node: str, **words: Any) -> None:
    """Remove a lost server from the meta group.

    SERVER is a server that will not come back. Needs the system account. Replicas on SERVER are
    recreated on other servers, if there are enough. A server that still replies is not removed.
    SERVER may rejoin later only with an empty store.
    """
    refuse_read_only(connection, words["read_only"])
    click.echo(clean_line(asyncio.run(_peer_remove(connection, node, words))))


async def _peer_remove(connection: Connection, server: str, words: dict[str, Any]) -> str:
    system = System(connection)
    try:
        meta = await meta_without(await system.client(), system, server)
        question = clean_line(removal_question(meta, server))
        confirmed = await asyncio.to_thread(
            confirmation, connection, server, question, yes=words["yes"], confirm=words["confirm"]
        )
        writer = Writer(await system.client(), Journal())
        return await remove_server(writer, system, RemoveServer(0, server, confirmed))
    finally:
        await system.close()
