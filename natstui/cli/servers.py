"""`natstui servers`, `balance` and `meta`: the servers of the system, and their leaders."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from msgspec import to_builtins

from natstui.clean import clean_line
from natstui.cli.manage.options import argument_options
from natstui.cli.manage.writing import (
    change_system,
    confirm_name,
    refuse_read_only,
    run_with_writer,
)
from natstui.cli.options import change_flags, connection_options, parse_reading_seconds
from natstui.cli.sections import Group, command
from natstui.cli.text_table import entity_table, stdout_width, text_table_columns, wrap_hanging
from natstui.config import Connection
from natstui.engine.stopping import make_stop_event
from natstui.errors import Interrupted, RequestFailed
from natstui.jetstream.connection.client import connect
from natstui.jetstream.connection.writer import Writer
from natstui.jetstream.managing.balancing import read_groups, run_moves
from natstui.jetstream.system.meta import (
    StepDownRequest,
    read_meta,
    remove_server,
    step_down_meta,
)
from natstui.jetstream.system.requests import ServerRequests
from natstui.jetstream.system.servers import read_servers
from natstui.jetstream.system.source import SystemConnection
from natstui.model.columns.servers import SERVER_COLUMNS, ServerRow
from natstui.model.columns.traffic import RATE_COLUMN_KEYS, TOTAL_COLUMN_KEYS
from natstui.model.records.system import RemoveServer
from natstui.model.servers.balance import (
    BalancePlan,
    Move,
    groups_of_kind,
    leader_counts_text,
    plan_moves,
)
from natstui.model.servers.server import Servers, Storage, rates_between
from natstui.model.servers.text import (
    account_text,
    meta_text,
    peer_text,
    summary,
)
from natstui.model.traffic import Traffic
from natstui.units import counted

if TYPE_CHECKING:
    from natstui.config.settings import Settings

TrafficByServerId = Mapping[str, Traffic]

_MAX_PLANNING_ROUNDS = 3
"""Number of planning rounds: a leader may move elsewhere than planned."""
_LEADER_KINDS = ("stream", "consumer")


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
    account, and how to see more. Exit code: 4 if [system] or monitoring ports are set, and none of
    them could be read.
    """
    from natstui.cli.connected import await_with_progress

    for_s = None if for_text is None else parse_reading_seconds(for_text, "--for")
    servers_read, rates = asyncio.run(await_with_progress(_read_servers(connection, for_s)))
    if not servers_read.rows:
        raise RequestFailed(
            "; ".join(f"{missing.what}: {missing.reason}" for missing in servers_read.missing)
        )
    if as_json:
        click.echo(servers_json(servers_read, rates))
    else:
        for line in server_lines(servers_read, rates, stdout_width()):
            click.echo(line)
    if unread_text := unread_source_text(connection, servers_read):
        raise RequestFailed(unread_text)


def unread_source_text(connection: Connection, servers_read: Servers | None) -> str | None:
    """Return a sentence if [system] or monitoring ports are set and none could be read; else None.

    `servers_read` is None if nothing was read of the servers yet.
    """
    if not connection.has_servers_source:
        return None
    if servers_read is None:
        source = "the monitoring ports" if connection.system is None else "the system account"
        return f"not read: {source}: nothing replied yet; use a longer --for"
    if servers_read.rows and servers_read.source != "account":
        return None
    unread_sources_text = " and ".join(missing.what for missing in servers_read.missing)
    return f"not read: {unread_sources_text}; what is printed is from your account"


async def _read_servers(
    connection: Connection, for_s: float | None
) -> tuple[Servers, Mapping[str, Traffic] | None]:
    client = await connect(connection)
    system = SystemConnection(connection, client)
    try:
        server_requests = ServerRequests(client)
        first_reading = await read_servers(server_requests, system)
        if for_s is None:
            return first_reading, None
        await asyncio.sleep(for_s)
        second_reading = await read_servers(server_requests, system)
        return second_reading, rates_between(first_reading, second_reading)
    finally:
        await system.close()
        await client.close()


def server_lines(
    servers_read: Servers, rates: TrafficByServerId | None, width_cells: int | None
) -> list[str]:
    """Return the servers as lines: a sentence, a table, the meta groups, the accounts, and what
    could not be read.

    `rates` (by server id) are shown per second instead of totals. `width_cells` is the width of
    the terminal; None for a pipe, which has no limit.
    """
    servers = [
        ServerRow(server, (rates or {}).get(server.server_id), servers_read.meta_of(server))
        for server in servers_read.rows
    ]
    columns = text_table_columns(
        SERVER_COLUMNS, RATE_COLUMN_KEYS if rates is None else TOTAL_COLUMN_KEYS
    )
    lines = [clean_line(summary(servers_read)), *entity_table(columns, servers, width_cells)]
    for meta_group in servers_read.metas:
        text = meta_text(meta_group, has_reply=servers_read.has_leader_reply(meta_group))
        lines += ["", clean_line(f"META GROUP of {meta_group.cluster}: {text}")]
        lines += [clean_line(f"  {peer.name}: {peer_text(peer)}") for peer in meta_group.peers]
    if servers_read.accounts:
        lines += ["", "ACCOUNTS"]
        lines += [
            clean_line(f"  {account.name}: {account_text(account)}")
            for account in servers_read.accounts
        ]
    if servers_read.missing:
        lines += ["", "UNAVAILABLE"]
        for missing in servers_read.missing:
            lines.append(
                wrap_hanging(clean_line(f"  {missing.what}: {missing.reason}"), width_cells, 4)
            )
    return lines


def servers_json(servers_read: Servers, rates: TrafficByServerId | None) -> str:
    """Return the servers as one JSON object of printable ASCII.

    `rates` (by server id) add fields per second, null where they are unknown. Units are in the
    names; times are UTC µs.
    """
    rows = []
    for row in servers_read.rows:
        fields = to_builtins(row) | {"uptime_s": row.uptime_s}
        if row.jetstream is not None:
            for store in ("memory", "file"):
                storage: Storage = getattr(row.jetstream, store)
                fields["jetstream"][store]["free_bytes"] = storage.free_bytes
        if rates is not None:
            traffic = rates.get(row.server_id)
            names = Traffic.__struct_fields__
            fields |= to_builtins(traffic) if traffic is not None else dict.fromkeys(names)
        rows.append(fields)
    values = to_builtins(servers_read) | {"rows": rows}
    values["servers"] = values.pop("rows")
    return json.dumps({"schema": 1, **values}).replace("\x7f", "\\u007f")


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
    connection: Connection, dry_run: bool, only: str | None, pause: str, **flags: Any
) -> None:
    """Spread leaders evenly over the servers.

    Prints the plan first: which leaders move where, and why. A move is a step-down to a replica
    that is up to date; no data moves, and publishers wait for a moment. Ctrl-C stops between two
    moves; the moves done are printed and in the journal.
    """
    pause_s = parse_reading_seconds(pause, "--pause")
    leader_kinds = [only[:-1]] if only else list(_LEADER_KINDS)
    as_json = flags["as_json"]
    if not dry_run:
        refuse_read_only(connection, flags["read_only"])
    system_name, plans = run_with_writer(
        connection, True, lambda writer: _read_name_and_plans(writer, leader_kinds)
    )
    moves = _moves_of(plans)
    if not as_json:
        _print_plan(plans)
    if dry_run or not moves:
        if as_json:
            click.echo(_balance_json(plans, [], None))
        if moves:
            click.get_current_context().exit(1)
        return
    prompt = f"this will move {counted(len(moves), 'leader')} of {system_name}"
    yes, confirm = flags["yes"], flags["confirm"]
    confirm_name(connection, system_name, clean_line(prompt), yes=yes, confirm=confirm)
    moved_texts: list[str] = []

    async def work(writer: Writer) -> tuple[list[BalancePlan], int | None]:
        return await _move_leaders(writer, leader_kinds, pause_s, moved_texts, is_quiet=as_json)

    remaining_plans, signal_number = run_with_writer(
        connection, flags["read_only"], work, work_prints=True
    )
    if as_json:
        click.echo(_balance_json(plans, moved_texts, remaining_plans))
    else:
        _print_balance_result(
            remaining_plans, len(moved_texts), is_stopped=signal_number is not None
        )
    if signal_number is not None:
        raise Interrupted("the balance was stopped", signal_number)
    if _moves_of(remaining_plans):
        click.get_current_context().exit(1)


async def _read_name_and_plans(
    writer: Writer, leader_kinds: Sequence[str]
) -> tuple[str, list[BalancePlan]]:
    """Return the name to type (that of the cluster, else `balance`), and the plan of each kind.

    A plan has the moves of the leaders of one kind: `stream` or `consumer`.
    """
    return writer.client.link.cluster or "balance", await _read_plans_by_kind(writer, leader_kinds)


async def _read_plans_by_kind(writer: Writer, leader_kinds: Sequence[str]) -> list[BalancePlan]:
    raft_groups = await read_groups(writer.client)
    return [plan_moves(groups_of_kind(raft_groups, kind)) for kind in leader_kinds]


def _moves_of(plans: Sequence[BalancePlan]) -> tuple[Move, ...]:
    return tuple(move for plan in plans for move in plan.moves)


async def _move_leaders(
    writer: Writer,
    leader_kinds: Sequence[str],
    pause_s: float,
    moved_texts: list[str],
    *,
    is_quiet: bool,
) -> tuple[list[BalancePlan], int | None]:
    """Move leaders until there is nothing to move, for three rounds of planning at most.

    Adds a sentence for each move to `moved_texts`, and prints it unless `is_quiet`. Returns the
    remaining plans, and the number of the signal that stopped the moves, if any.
    """
    stop_event = make_stop_event()

    def print_move(sentence: str) -> None:
        moved_texts.append(sentence)
        if not is_quiet:
            click.echo(clean_line(sentence))

    for _ in range(_MAX_PLANNING_ROUNDS):
        moves = _moves_of(await _read_plans_by_kind(writer, leader_kinds))
        if not moves:
            break
        await run_moves(writer, moves, pause_s, stop_event, print_move)
        if stop_event.is_set():
            break
    return await _read_plans_by_kind(
        writer, leader_kinds
    ), stop_event.signal_number if stop_event.is_set() else None


def _print_plan(plans: Sequence[BalancePlan]) -> None:
    for plan in plans:
        if plan.before_count:
            click.echo(clean_line(f"leaders: {leader_counts_text(plan.before_count)}"))
        if plan.leaderless_count:
            click.echo(f"skipped because they have no leader: {plan.leaderless_count}")
        for move in plan.moves:
            click.echo(clean_line(f"  {move.text}"))
        if plan.moves:
            click.echo(clean_line(f"afterwards: {leader_counts_text(plan.after_count)}"))
    if not _moves_of(plans):
        click.echo("nothing to move: the leaders are already even, as far as replicas allow")


def _print_balance_result(
    remaining_plans: Sequence[BalancePlan], moves_count: int, *, is_stopped: bool
) -> None:
    remaining_moves_count = len(_moves_of(remaining_plans))
    stopped_text = "stopped: " if is_stopped else ""
    click.echo(
        f"{stopped_text}{counted(moves_count, 'move')} done, {remaining_moves_count} left to do"
    )
    for plan in remaining_plans:
        if plan.before_count:
            click.echo(clean_line(f"leaders now: {leader_counts_text(plan.before_count)}"))


def _balance_json(
    plans: Sequence[BalancePlan],
    moved_texts: Sequence[str],
    remaining_plans: Sequence[BalancePlan] | None,
) -> str:
    values: dict[str, object] = {
        "schema": 1,
        "moves": [
            {
                "stream": move.group.stream,
                "consumer": move.group.consumer,
                "from": move.group.leader,
                "to": move.to,
            }
            for move in _moves_of(plans)
        ],
        "before": [plan.before_count for plan in plans],
        "planned": [plan.after_count for plan in plans],
        "done": list(moved_texts),
    }
    if remaining_plans is not None:
        values["after"] = [plan.before_count for plan in remaining_plans]
    return json.dumps(values).replace("\x7f", "\\u007f")


@click.group(cls=Group)
def meta() -> None:
    """Manage the meta group of the cluster. Show its leader and members, and change them."""


@meta.command("step-down")
@argument_options("step_down_meta")
@change_flags
@connection_options
def step_down(connection: Connection, arguments: dict[str, Any], **flags: Any) -> None:
    """Elect another leader of the meta group.

    Needs the system account. During the election, streams and consumers cannot be created or
    changed; messages still flow.
    """

    async def work(writer: Writer, system: SystemConnection, confirmed_name: str | None) -> str:
        request = StepDownRequest(
            await read_meta(system), arguments.get("preferred"), confirmed_name
        )
        return await step_down_meta(writer, system, request)

    click.echo(clean_line(change_system(connection, flags, work)))


@meta.command("peer-remove")
@click.argument("node", metavar="SERVER")
@change_flags
@connection_options
def peer_remove(connection: Connection, node: str, **flags: Any) -> None:
    """Remove a lost server from the meta group.

    SERVER is a server that will not come back. Needs the system account. Replicas on SERVER are
    recreated on other servers, if there are enough. A server that still replies is not removed.
    SERVER may rejoin later only with an empty store.
    """

    async def work(writer: Writer, system: SystemConnection, confirmed_name: str | None) -> str:
        return await remove_server(writer, system, RemoveServer(0, node, confirmed_name))

    click.echo(clean_line(change_system(connection, flags, work)))
