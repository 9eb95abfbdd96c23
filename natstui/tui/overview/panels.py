"""The panels of the overview: which rows each shows, in which columns. No Textual widgets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from rich.cells import cell_len

from natstui.clean import clean_line
from natstui.model.columns.servers import ServerRow
from natstui.model.columns.view import ConsumerView, StreamView, View
from natstui.model.findings.finding import Finding, folded, worst_first
from natstui.model.findings.thresholds import STORE_FULL_SHARE, STORE_NEAR_SHARE
from natstui.model.live.rates import trend_per_s
from natstui.model.live.state import State, shown_at_us
from natstui.model.live.totals import (
    Total,
    busiest_streams,
    can_read_consumers,
    can_read_streams,
    delivered_per_s,
    lagging_consumers,
    pending_msgs,
    storage_use,
    stored_per_s,
)
from natstui.model.servers.leaders import leaders_of
from natstui.model.servers.server import Servers, ServerSeen
from natstui.model.servers.words import LEADER
from natstui.tui.consumers.cells import CONSUMER_COLUMNS
from natstui.tui.events.cells import EVENT_COLUMNS, EventView, FoldedEvents
from natstui.tui.findings.cells import FINDING_COLUMNS, FindingView, Found
from natstui.tui.findings.text import CALM
from natstui.tui.frame.columns import ColumnSpec, Listed, with_values
from natstui.tui.frame.happenings import kind_text
from natstui.tui.frame.head.several import system_cell, trouble_of
from natstui.tui.frame.head.status_text import wrong_cell
from natstui.tui.frame.systems import Joined, SystemState, joined, joined_specs
from natstui.tui.frame.table_screen import table_columns
from natstui.tui.frame.table_text import Rows
from natstui.tui.frame.view import GLYPHS, LOOKS, minute
from natstui.tui.kit.sparkline import bar, sparkline
from natstui.tui.kit.table.rows import Cell
from natstui.tui.kit.table.widths import place
from natstui.tui.kit.text import fit
from natstui.tui.servers.cells import SERVER_COLUMNS, ServerView
from natstui.tui.streams.cells import STREAM_COLUMNS
from natstui.units import bytes_text, count_text, counted, local_text, rate_text

PanelId = Literal["systems", "wrong", "servers", "busiest", "lagging", "events"]
PANELS: tuple[PanelId, ...] = get_args(PanelId)
TITLES: Mapping[PanelId, str] = {
    "systems": "Systems",
    "wrong": "Wrong now",
    "servers": "Servers",
    "busiest": "Busiest streams",
    "lagging": "Most lagging consumers",
    "events": "Latest events",
}
UNTITLED: frozenset[PanelId] = frozenset({"wrong", "events"})
"""Panels whose rows are sentences: they have no title line."""
MOST_ROWS = 50
"""Limit of rows in a panel; no terminal shows more."""
_NAME_CELLS = 24
"""Maximum width of a finding's entity in a narrow panel."""
_SINCE_FROM_CELLS = 100
"""Width from which a panel shows the start time of findings."""
_SPARK_CELLS = 8
_UNREAD = "unknown: {} cannot be read"
_ROWS_LOOKED_AT = 10
_FOLDED_EVENTS = 500
"""Number of the newest events that are folded."""


@dataclass(frozen=True, slots=True)
class Panel:
    """The current content of a panel."""

    id: PanelId
    rows: Rows[Any]
    empty: str
    """Text without rows."""
    states: Sequence[State] = ()
    """The states of its systems."""
    total_count: int = 0
    """Number of rows, including those that no terminal has space for."""

    def title(self, shown_count: int) -> str:
        """Return the title in its frame: subject, and the number of shown rows."""
        title = TITLES[self.id]
        if self.id == "wrong" and self.rows.order:
            title += f"  {wrong_cell(self.states).text}"
        if shown_count < self.total_count:
            title += f"  {shown_count} of {count_text(self.total_count)}"
        return title

    def fitted(self, width: int) -> Panel:
        """Return the panel with the columns that fit into `width` cells: no cell is cut off."""
        rows = _with_sentences(self.rows, width) if self.id == "wrong" else self.rows
        # A column of unknown values would take the room of one that says something.
        specs = with_values(rows.view, rows.specs, rows.order[:_ROWS_LOOKED_AT])
        layout = place(table_columns(specs), width)
        visible_count = len(layout.placed) - layout.hidden_count
        visible_indexes = sorted(column.index for column in layout.placed[:visible_count])
        return replace(
            self, rows=Rows(rows.view, [specs[index] for index in visible_indexes], rows.order)
        )


_CLAUSE_END = re.compile(r"[:;,] | \(")
_WORD_END = re.compile(r"(?<![:;,]) | \(|[:;,] ")
_MORE = " …"


def whole_clauses(cell: Cell, room: int) -> Cell:
    """Return a sentence, or the part that fits into `room` cells with a sign for the rest.

    Its head stays complete. It ends with a clause where that leaves less than half of the space
    empty, else with a word.
    """
    if cell_len(cell.text) <= room:
        return cell

    def fitting(separator: re.Pattern[str]) -> list[int]:
        ends = [
            end.start() for end in separator.finditer(cell.text) if end.start() >= cell.tail_from
        ]
        return [end for end in ends if cell_len(cell.text[:end]) + len(_MORE) <= room]

    clauses, word_ends = fitting(_CLAUSE_END), fitting(_WORD_END)
    ends = clauses if clauses and clauses[-1] >= room / 2 else word_ends
    return cell._replace(text=cell.text[: ends[-1]] + _MORE) if ends else cell


def _with_sentences(rows: Rows[Any], width: int) -> Rows[Any]:
    """Return findings with more space for the sentence: the entity's column is as narrow as its
    texts.

    In a narrow panel the start time is hidden if a sentence would be cut for it.
    """
    looked_at = [rows.cells(row) for row in rows.order[:MOST_ROWS]]
    index_by_id = {spec.id: index for index, spec in enumerate(rows.specs)}
    longest = max((cell_len(cells[index_by_id["entity"]].text) for cells in looked_at), default=0)
    name_cells = min(longest, max(_NAME_CELLS, width // 3))
    room, specs = 0, list(rows.specs)
    for hidden_id in ("",) if width >= _SINCE_FROM_CELLS else ("", "since"):
        specs = [
            replace(spec, width=name_cells, max_width=name_cells, flex=0)
            if spec.id == "entity"
            else spec
            for spec in rows.specs
            if spec.id != hidden_id
        ]
        columns = place(table_columns(specs), width).placed
        room = next(column.width for column in columns if column.column.id == "what")
        if all(cell_len(cells[index_by_id["what"]].text) <= room for cells in looked_at):
            break

    def sentence(
        view: Any, row: int, get_cell: Any = rows.specs[index_by_id["what"]].cell
    ) -> Cell:
        return whole_clauses(get_cell(view, row), room)

    specs = [replace(spec, cell=sentence) if spec.id == "what" else spec for spec in specs]
    return Rows(rows.view, specs, rows.order)


class SystemView(Listed[SystemState]):
    """Several systems, by row."""

    def __init__(self, systems: Sequence[SystemState]) -> None:
        names = [system.name for system in systems]
        super().__init__(systems, [(name,) for name in names], names)


class _Worst(Found):
    """The worst open findings of a system, without informational ones."""

    def __init__(self, state: State) -> None:
        serious = (finding for finding in state.findings.told() if finding.kind.severity != "info")
        self.left_out_count = 0
        every_line = folded(serious)
        self.lines_count = len(every_line)
        lines = every_line[:MOST_ROWS]
        self.open = [line.first for line in lines]
        self.others_text = {row: line.others_text for row, line in enumerate(lines)}
        self.silenced, self.over = [], []
        self.all = self.open
        self.rows = range(len(self.all))


def panels(systems: Sequence[SystemState]) -> list[Panel]:
    """Return every panel that has content for these systems."""
    several = len(systems) > 1
    worst = joined(
        systems, lambda system: FindingView(system.state, system.late_us, _Worst(system.state))
    )
    servers = joined(systems, lambda system: server_view(system.state))
    streams = joined(systems, lambda system: StreamView(system.state, system.late_us))
    consumers = joined(systems, lambda system: ConsumerView(system.state, system.late_us))
    events = joined(
        systems, lambda system: FoldedEvents(system.state, system.late_us, _FOLDED_EVENTS)
    )
    states = [system.state for system in systems]
    shown_panels = [
        _panel("systems", SystemView(systems), SYSTEM_COLUMNS, range(len(systems)), "no system"),
        _panel("wrong", worst, WRONG_COLUMNS, _worst_rows(worst), calm_text(systems)),
        _panel("servers", servers, SERVERS, _in_turn(servers), "no server is known yet"),
        _panel(
            "busiest",
            streams,
            BUSIEST,
            _most(systems, streams, busiest_streams, _rate_of),
            "no streams" if all(map(can_read_streams, states)) else _UNREAD.format("streams"),
        ),
        _panel(
            "lagging",
            consumers,
            LAGGING,
            _most(systems, consumers, lagging_consumers, _pending_of),
            "no message is pending"
            if all(map(can_read_consumers, states))
            else _UNREAD.format("consumers"),
        ),
        _panel("events", events, EVENTS, _newest(events), "nothing happened yet"),
    ]
    totals: Mapping[PanelId, int] = {
        "wrong": sum(view.found.lines_count for view in _each(worst)),
        "lagging": sum(sum(map(bool, state.consumers.columns.pending_msgs)) for state in states),
    }
    return [
        replace(
            panel, states=states, total_count=totals.get(panel.id, len(panel.rows.view.rows()))
        )
        for panel in (shown_panels if several else shown_panels[1:])
    ]


def _each(view: Any) -> Sequence[Any]:
    """Return the views of all systems."""
    return view.views if isinstance(view, Joined) else [view]


def servers_text(systems: Sequence[SystemState]) -> str:
    """Return the number of servers and their leader counts; empty if none is known."""
    views = [server_view(system.state) for system in systems]
    servers: list[ServerRow] = [view.at(row) for view in views for row in view.rows()]
    if not servers:
        return ""
    parts = [counted(len(servers), "server")]
    if down_count := sum(server.down_s is not None for server in servers):
        parts.append(f"{GLYPHS['bad']} {down_count} down")
    if len(systems) > 1:
        return " · ".join(parts)
    names = [fit(clean_line(server.seen.name), _NAME_CELLS).rstrip() for server in servers]
    metas = [name for name, server in zip(names, servers, strict=True) if server.role == LEADER]
    led = [server.streams_led_count or 0 for server in servers]
    parts += [f"{name} leads the meta group" for name in metas[:1]]
    if max_led := max(led):
        parts.append(
            f"{names[led.index(max_led)]} leads {max_led} of {counted(sum(led), 'stream')}"
        )
    return " · ".join(parts)


def calm_text(systems: Sequence[SystemState]) -> str:
    """Return that there is no finding, or that it is not known yet."""
    if any(not system.state.costs for system in systems):
        return "waiting for the first poll"
    return CALM


def _panel(
    id: PanelId, view: Any, specs: Sequence[ColumnSpec[Any]], order: Sequence[int], empty: str
) -> Panel:
    joined_columns = joined_specs(specs) if isinstance(view, Joined) else specs
    return Panel(id, Rows(view, joined_columns, order), empty)


def _worst_rows(view: Any) -> Sequence[int]:
    """Return the rows of findings, the worst of all systems first."""
    if not isinstance(view, Joined):
        return range(min(len(view), MOST_ROWS))
    rows = view.rows()

    def rank(row: int) -> tuple[int, bool, int]:
        index, system_row = view.at(row)
        finding: Finding = view.views[index].at(system_row)
        return worst_first(finding)

    return sorted(rows, key=rank)[:MOST_ROWS]


def _in_turn(view: Any) -> Sequence[int]:
    return list(view.rows())[:MOST_ROWS]


def _newest(view: Any) -> Sequence[int]:
    """Return the newest events of all systems, newest first."""
    if not isinstance(view, Joined):
        return list(view.rows())[:MOST_ROWS]

    def at_us(row: int) -> int:
        index, system_row = view.at(row)
        return int(view.views[index].at(system_row).at_us)

    return sorted(view.rows(), key=at_us, reverse=True)[:MOST_ROWS]


def _rate_of(view: StreamView, row: int) -> float:
    return trend_per_s(view.state.stream_history, view.key(row), "last_seq") or 0.0


def _pending_of(view: ConsumerView, row: int) -> float:
    return float(view.columns.pending_msgs[row])


def _most(
    systems: Sequence[SystemState],
    view: Any,
    choose: Callable[[State, int], list[int]],
    value: Callable[[Any, int], float],
) -> Sequence[int]:
    """Return the rows with the highest values, of all systems."""
    if not isinstance(view, Joined):
        return choose(systems[0].state, MOST_ROWS)
    chosen_rows = [set(choose(system.state, MOST_ROWS)) for system in systems]
    rows = [row for row in view.rows() if view.at(row)[1] in chosen_rows[view.at(row)[0]]]

    def rank(row: int) -> float:
        index, system_row = view.at(row)
        return value(view.views[index], system_row)

    return sorted(rows, key=rank, reverse=True)[:MOST_ROWS]


def server_view(state: State) -> ServerView:
    """Return the servers of a system; if none is known, those that its streams name."""
    leaders = leaders_of(state.streams.columns, state.consumers.columns)
    watch = state.servers
    servers = watch.newest if watch.newest is not None and watch.newest.rows else None
    servers = servers or _named_servers(state)
    return ServerView(servers, watch.rates, leaders, watch, shown_at_us(state))


def _named_servers(state: State) -> Servers:
    """Return the servers named by streams and consumers, and the connected one."""
    columns = (state.streams.columns, state.consumers.columns)
    names = {leader for columns_of in columns for leader in columns_of.leader if leader}
    names.update(
        peer.name for columns_of in columns for peers in columns_of.peers for peer in peers
    )
    link = state.link
    if link is not None and link.server_name:
        names.add(link.server_name)
    rows = [
        ServerSeen(
            name, name, link.cluster if link else None,
            link.server_version if link and link.server_name == name else None,
            state.now_at_us, None, None, None, None, None, None, None,
        )
        for name in sorted(names)
    ]  # fmt: skip
    return Servers("account", tuple(rows))


def _mark(view: FindingView, row: int) -> Cell:
    """How bad it is: ✖ critical, ▲ a warning."""
    kind = view.at(row).kind
    return Cell(GLYPHS[kind.level], LOOKS[kind.level])


def _wrong(view: FindingView, row: int) -> Cell:
    """What is wrong in a word or two, and the numbers that show it."""
    kind = view.at(row).kind
    cell = _COLUMNS_OF_FINDINGS["what"].cell(view, row)
    head = len(clean_line(kind.word))
    return Cell(cell.text, LOOKS[kind.level], head, "")


def _clock(view: EventView, row: int) -> Cell:
    """When it happened: local time of day."""
    return Cell(local_text(view.at(row).at_us), "dim")


def _event(view: EventView, row: int) -> Cell:
    """What happened; how often, where the same happened again and again."""
    counts = view.times_count if isinstance(view, FoldedEvents) else {}
    cell, times = _OF_EVENTS["text"].cell(view, row), counts.get(row, 1)
    if times == 1:
        return cell
    return cell._replace(text=f"{kind_text(view.at(row))} ×{count_text(times)}: {cell.text}")


def _stored_lately(view: StreamView, row: int) -> Cell:
    """Messages stored per second, over the last 30 s."""
    rate = trend_per_s(view.state.stream_history, view.key(row), "last_seq")
    return Cell(rate_text(rate), "" if rate else "dim")


def _growing(view: ConsumerView, row: int) -> Cell:
    """Whether what is pending grows or falls, over the last 30 s."""
    change = trend_per_s(view.state.consumer_history, view.key(row), "pending_msgs")
    if not change:
        return Cell("" if change is None else "steady", "dim")
    return Cell(f"{'+' if change > 0 else '-'}{rate_text(abs(change))}/s",
                "warn" if change > 0 else "ok")  # fmt: skip


def _system_name(view: SystemView, row: int) -> Cell:
    """The system; enter shows it alone."""
    return system_cell(view.things[row])


def _system_wrong(view: SystemView, row: int) -> Cell:
    """How many critical findings and warnings are open, or why nothing new comes."""
    system = view.things[row]
    if error_text := trouble_of(system):
        return Cell(clean_line(error_text), "bad")
    return wrong_cell([system.state])


def _total(get: Callable[[State], Total], text: Callable[[float | None], str]) -> Any:
    def cell(view: SystemView, row: int) -> Cell:
        return Cell(" ".join(total_text(view.things[row : row + 1], get, text)))

    return cell


def total_text(
    systems: Sequence[SystemState],
    get: Callable[[State], Total],
    text: Callable[[float | None], str],
    cells: int = _SPARK_CELLS,
) -> tuple[str, str]:
    """Return the last minute of a figure of all systems as a sparkline, and its current value.

    A system without a value counts as 0.
    """
    totals = [get(system.state) for system in systems]
    known = [total.now for total in totals if total.now is not None]
    minutes = [
        minute(View(system.state, system.late_us), total.points, cells)
        for system, total in zip(systems, totals, strict=True)
    ]
    sums = [
        None if all(value is None for value in values) else sum(value or 0 for value in values)
        for values in zip(*minutes, strict=True)
    ]
    return sparkline(sums, cells), text(sum(known) if known else None)


def _stored(view: SystemView, row: int) -> Cell:
    """How full the storage is."""
    return storage_cell([view.things[row].state])


def storage_cell(states: Sequence[State], bar_cells: int = 8) -> Cell:
    """Return the used share of the storage: a bar and percentage, else the bytes."""
    uses = [use for use in map(storage_use, states) if use is not None]
    if not uses:
        return Cell("–", "dim")
    used_bytes = sum(use.used_bytes for use in uses)
    limits = [use.max_bytes for use in uses if use.max_bytes]
    if len(limits) < len(uses):
        return Cell(bytes_text(used_bytes))
    share = used_bytes / sum(limits)
    near_share, full = STORE_NEAR_SHARE, STORE_FULL_SHARE
    look = "bad" if share >= full else "warn" if share >= near_share else "ok"
    return Cell(f"{bar(share, bar_cells)} {100 * share:.0f}%", look)


def _nothing(view: object) -> Sequence[object]:
    return ()


def _column(id: str, title: str, width: int, priority: int, cell: Any, **layout: Any) -> Any:
    return ColumnSpec(id, title, width, priority, cell, _nothing, **layout)


_COLUMNS_OF_FINDINGS = {spec.id: spec for spec in FINDING_COLUMNS}
_OF_SERVERS = {spec.id: spec for spec in SERVER_COLUMNS}
_OF_STREAMS = {spec.id: spec for spec in STREAM_COLUMNS}
_OF_CONSUMERS = {spec.id: spec for spec in CONSUMER_COLUMNS}
_OF_EVENTS = {spec.id: spec for spec in EVENT_COLUMNS}

SYSTEM_COLUMNS: Sequence[ColumnSpec[Any]] = (
    _column("name", "SYSTEM", 12, 0, _system_name, align="left", flex=1, max_width=24),
    _column("wrong", "WRONG", 9, 1, _system_wrong, align="left", flex=2, max_width=40),
    _column("in", "IN/s", 14, 2, _total(stored_per_s, rate_text)),
    _column("out", "OUT/s", 14, 4, _total(delivered_per_s, rate_text)),
    _column("pending", "PENDING", 14, 3, _total(pending_msgs, count_text)),
    _column("storage", "STORAGE", 13, 5, _stored),
)
WRONG_COLUMNS: Sequence[ColumnSpec[Any]] = (
    _column("mark", "", 1, 0, _mark, align="left"),
    replace(_COLUMNS_OF_FINDINGS["entity"], width=20, max_width=38, flex=1),
    replace(_COLUMNS_OF_FINDINGS["what"], cell=_wrong, width=18, flex=6),
    replace(_COLUMNS_OF_FINDINGS["since"], width=7),
)
SERVERS: Sequence[ColumnSpec[Any]] = (
    replace(_OF_SERVERS["name"], max_width=30),
    replace(_OF_SERVERS["meta"], priority=1),
    replace(_OF_SERVERS["streams_led"], priority=2),
    replace(_OF_SERVERS["cpu"], priority=3),
    replace(_OF_SERVERS["file"], priority=4),
    replace(_OF_SERVERS["in_s"], priority=5),
    replace(_OF_SERVERS["conns"], priority=6),
    replace(_OF_SERVERS["memory"], priority=7),
    replace(_OF_SERVERS["out_s"], priority=8),
    replace(_OF_SERVERS["behind"], priority=9),
    replace(_OF_SERVERS["version"], priority=10),
    replace(_OF_SERVERS["uptime"], priority=11),
)
BUSIEST: Sequence[ColumnSpec[Any]] = (
    replace(_OF_STREAMS["name"], width=12, max_width=40),
    _column("stored", "IN/s 30s", 8, 1, _stored_lately),
    replace(_OF_STREAMS["trend"], priority=2),
    replace(_OF_STREAMS["replicas"], priority=3, from_width=0, max_width=30),
    replace(_OF_STREAMS["msgs"], priority=4),
    replace(_OF_STREAMS["bytes"], priority=5),
)
LAGGING: Sequence[ColumnSpec[Any]] = (
    replace(_OF_CONSUMERS["name"], width=12, max_width=40),
    replace(_OF_CONSUMERS["pending"], priority=1),
    _column("growing", "CHANGE", 8, 2, _growing),
    replace(_OF_CONSUMERS["trend"], priority=3),
    replace(_OF_CONSUMERS["stream"], priority=4, max_width=24),
    replace(_OF_CONSUMERS["status"], priority=5, width=20),
    replace(_OF_CONSUMERS["lag"], priority=6),
)
EVENTS: Sequence[ColumnSpec[Any]] = (
    replace(_OF_EVENTS["time"], width=8, cell=_clock),
    replace(_OF_EVENTS["where"], width=22, max_width=38),
    replace(_OF_EVENTS["text"], width=24, cell=_event),
)
