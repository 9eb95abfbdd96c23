"""The panels of the overview: the rows and columns of each; without widgets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

from msgspec import Struct
from rich.cells import cell_len

from natstui.clean import clean_line
from natstui.model.columns.servers import ServerRow
from natstui.model.columns.view import ConsumerView, StreamView, View
from natstui.model.findings.finding import Finding, group_findings, severity_sort_key
from natstui.model.findings.thresholds import STORAGE_FULL_SHARE, STORAGE_NEARLY_FULL_SHARE
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
from natstui.model.servers.leaders import count_leaders
from natstui.model.servers.server import Servers, ServerState
from natstui.model.servers.text import LEADER
from natstui.tui.consumers.cells import CONSUMER_COLUMNS
from natstui.tui.events.cells import EVENT_COLUMNS, EventView, FoldedEvents
from natstui.tui.findings.cells import FINDING_COLUMNS, FindingView, SortedFindings
from natstui.tui.findings.text import NO_FINDINGS_TEXT
from natstui.tui.frame.columns import ColumnSpec, ItemsView, find_filled_specs
from natstui.tui.frame.head.several import find_silence_reason, system_cell
from natstui.tui.frame.head.status_text import findings_cell
from natstui.tui.frame.recent_events import event_kind_text
from natstui.tui.frame.row_order import Rows
from natstui.tui.frame.shared_cells import GLYPHS, LEVEL_STYLES, minute_means
from natstui.tui.frame.systems import JoinedView, SystemState, join_views, joined_specs
from natstui.tui.frame.table_screen import table_columns
from natstui.tui.kit.sparkline import bar, sparkline
from natstui.tui.kit.table.rows import Cell
from natstui.tui.kit.table.widths import compute_layout
from natstui.tui.kit.text import fit
from natstui.tui.servers.cells import SERVER_COLUMNS, ServerView
from natstui.tui.streams.cells import STREAM_COLUMNS
from natstui.units import bytes_text, count_text, counted, local_text, rate_text
from natstui.values import replace

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
UNTITLED_PANELS: frozenset[PanelId] = frozenset({"wrong", "events"})
"""Panels without a title line: their rows are sentences."""
MAX_ROWS = 50
"""Maximum number of rows in a panel; no terminal shows more."""
_MAX_NAME_CELLS = 24
"""Maximum width of a finding's entity in a narrow panel."""
_MIN_WIDTH_WITH_AGE = 100
"""Minimum width of a panel that always shows the age of findings."""
_SPARKLINE_CELLS = 8
_UNREADABLE_TEXT = "unknown: {} cannot be read"
_MAX_ROWS_CHECKED_FOR_VALUES = 10
_NEWEST_EVENTS_COUNT = 500
"""Number of newest events that are shown for a system; similar events share a row."""


class Panel(Struct, frozen=True):
    """The current content of a panel of the overview: its rows and columns."""

    id: PanelId
    rows: Rows[Any]
    empty: str
    """The text that is shown instead of rows if there are none."""
    states: Sequence[State] = ()
    """The states of the shown systems."""
    total_count: int = 0
    """Number of rows before they were limited to `MAX_ROWS`."""

    def title(self, shown_count: int) -> str:
        """Return the title in the frame; if not all rows are shown, with their number."""
        title = TITLES[self.id]
        if self.id == "wrong" and self.rows.order:
            title += f"  {findings_cell(self.states).text}"
        if shown_count < self.total_count:
            title += f"  {shown_count} of {count_text(self.total_count)}"
        return title

    def fit_columns(self, width: int) -> Panel:
        """Return the panel with only the columns that fit completely into `width` cells."""
        rows = _widen_sentences(self.rows, width) if self.id == "wrong" else self.rows
        # A column of unknown values would use the space of a useful one.
        specs = find_filled_specs(rows.view, rows.specs, rows.order[:_MAX_ROWS_CHECKED_FOR_VALUES])
        layout = compute_layout(table_columns(specs), width)
        visible_count = len(layout.columns) - layout.hidden_count
        visible_indexes = sorted(column.index for column in layout.columns[:visible_count])
        return replace(
            self, rows=Rows(rows.view, [specs[index] for index in visible_indexes], rows.order)
        )


_CLAUSE_END = re.compile(r"[:;,] | \(")
_WORD_END = re.compile(r"(?<![:;,]) | \(|[:;,] ")
_MORE_SIGN = " …"


def cut_sentence(cell: Cell, max_cells: int) -> Cell:
    """Return a sentence, or the part that fits into `max_cells` cells with a sign for the rest.

    The label at the start stays complete. The sentence is cut after a clause if at least half of
    `max_cells` is used then, else after a word.
    """
    if cell_len(cell.text) <= max_cells:
        return cell

    def find_fitting_ends(separator: re.Pattern[str]) -> list[int]:
        possible_ends = [
            end.start()
            for end in separator.finditer(cell.text)
            if end.start() >= cell.second_style_start
        ]
        available_cells = max_cells - len(_MORE_SIGN)
        return [end for end in possible_ends if cell_len(cell.text[:end]) <= available_cells]

    clause_ends, word_ends = find_fitting_ends(_CLAUSE_END), find_fitting_ends(_WORD_END)
    fitting_ends = clause_ends if clause_ends and clause_ends[-1] >= max_cells / 2 else word_ends
    return cell._replace(text=cell.text[: fitting_ends[-1]] + _MORE_SIGN) if fitting_ends else cell


def _widen_sentences(rows: Rows[Any], width: int) -> Rows[Any]:
    """Return the rows of findings with more space for sentences: the entity's column is only as
    wide as its texts.

    In a narrow panel the age is hidden if a sentence would be cut otherwise.
    """
    row_cells = [rows.cells(row) for row in rows.order[:MAX_ROWS]]
    index_by_id = {spec.id: index for index, spec in enumerate(rows.specs)}
    longest_name_cells = max(
        (cell_len(cells[index_by_id["entity"]].text) for cells in row_cells), default=0
    )
    name_cells = min(longest_name_cells, max(_MAX_NAME_CELLS, width // 3))
    max_cells, specs = 0, list(rows.specs)
    for hidden_column_id in ("",) if width >= _MIN_WIDTH_WITH_AGE else ("", "since"):
        specs = [
            replace(spec, width=name_cells, max_width=name_cells, flex=0)
            if spec.id == "entity"
            else spec
            for spec in rows.specs
            if spec.id != hidden_column_id
        ]
        columns = compute_layout(table_columns(specs), width).columns
        max_cells = next(column.width for column in columns if column.column.id == "what")
        if all(cell_len(cells[index_by_id["what"]].text) <= max_cells for cells in row_cells):
            break

    def cut_sentence_cell(
        view: Any, row: int, get_cell: Any = rows.specs[index_by_id["what"]].cell
    ) -> Cell:
        return cut_sentence(get_cell(view, row), max_cells)

    specs = [
        replace(spec, cell=cut_sentence_cell) if spec.id == "what" else spec for spec in specs
    ]
    return Rows(rows.view, specs, rows.order)


class SystemView(ItemsView[SystemState]):
    """The rows of the table of systems."""

    def __init__(self, systems: Sequence[SystemState]) -> None:
        names = [system.name for system in systems]
        super().__init__(systems, [(name,) for name in names], names)


class _WorstFindings(SortedFindings):
    """The worst open findings of a system, without those of severity info."""

    def __init__(self, state: State) -> None:
        serious_findings = (
            finding
            for finding in state.findings.iterate_open_findings()
            if finding.kind.severity != "info"
        )
        self.hidden_hints_count = 0
        finding_groups = group_findings(serious_findings)
        self.lines_count = len(finding_groups)
        lines = finding_groups[:MAX_ROWS]
        self.open = [line.worst for line in lines]
        self.others_text = {row: line.others_text for row, line in enumerate(lines)}
        self.silenced, self.ended = [], []
        self.all = self.open
        self.rows = range(len(self.all))


def panels(systems: Sequence[SystemState]) -> list[Panel]:
    """Return the overview's panels with their content; the systems' panel only with several
    systems.
    """
    has_several_systems = len(systems) > 1
    worst_findings = join_views(
        systems,
        [
            FindingView(system.state, system.poll_age_us, _WorstFindings(system.state))
            for system in systems
        ],
    )
    servers = join_views(systems, [server_view(system.state) for system in systems])
    streams = join_views(
        systems, [StreamView(system.state, system.poll_age_us) for system in systems]
    )
    consumers = join_views(
        systems, [ConsumerView(system.state, system.poll_age_us) for system in systems]
    )
    events = join_views(
        systems,
        [
            FoldedEvents(system.state, system.poll_age_us, _NEWEST_EVENTS_COUNT)
            for system in systems
        ],
    )
    states = [system.state for system in systems]
    shown_panels = [
        _create_panel(
            "systems", SystemView(systems), SYSTEM_COLUMNS, range(len(systems)), "no system"
        ),
        _create_panel(
            "wrong",
            worst_findings,
            FINDING_PANEL_COLUMNS,
            _worst_finding_rows(worst_findings),
            no_findings_text(systems),
        ),
        _create_panel(
            "servers",
            servers,
            SERVER_PANEL_COLUMNS,
            _first_rows(servers),
            "no server is known yet",
        ),
        _create_panel(
            "busiest",
            streams,
            BUSIEST_STREAMS_COLUMNS,
            _top_rows(systems, streams, busiest_streams, _stored_rate_per_s),
            "no streams"
            if all(map(can_read_streams, states))
            else _UNREADABLE_TEXT.format("streams"),
        ),
        _create_panel(
            "lagging",
            consumers,
            LAGGING_CONSUMERS_COLUMNS,
            _top_rows(systems, consumers, lagging_consumers, _pending_msgs_of),
            "no message is pending"
            if all(map(can_read_consumers, states))
            else _UNREADABLE_TEXT.format("consumers"),
        ),
        _create_panel(
            "events",
            events,
            EVENT_PANEL_COLUMNS,
            _newest_event_rows(events),
            "nothing happened yet",
        ),
    ]
    count_by_panel: Mapping[PanelId, int] = {
        "wrong": sum(view.sorted_findings.lines_count for view in _system_views(worst_findings)),
        "lagging": sum(sum(map(bool, state.consumers.columns.pending_msgs)) for state in states),
    }
    return [
        replace(
            panel,
            states=states,
            total_count=count_by_panel.get(panel.id, len(panel.rows.view.rows())),
        )
        for panel in (shown_panels if has_several_systems else shown_panels[1:])
    ]


def _system_views(view: Any) -> Sequence[Any]:
    """Return the views of the systems in a joined view; a view of one system itself."""
    return view.views if isinstance(view, JoinedView) else [view]


def servers_text(systems: Sequence[SystemState]) -> str:
    """Return a text with the numbers of servers and of led streams; empty without servers."""
    views = [server_view(system.state) for system in systems]
    servers: list[ServerRow] = [view.at(row) for view in views for row in view.rows()]
    if not servers:
        return ""
    parts = [counted(len(servers), "server")]
    if down_count := sum(server.down_s is not None for server in servers):
        parts.append(f"{GLYPHS['bad']} {down_count} down")
    if len(systems) > 1:
        return " · ".join(parts)
    names = [fit(clean_line(server.seen.name), _MAX_NAME_CELLS).rstrip() for server in servers]
    meta_leaders = [
        name for name, server in zip(names, servers, strict=True) if server.role == LEADER
    ]
    led_counts = [server.streams_led_count or 0 for server in servers]
    parts += [f"{name} leads the meta group" for name in meta_leaders[:1]]
    if max_led_count := max(led_counts):
        streams_text = counted(sum(led_counts), "stream")
        parts.append(
            f"{names[led_counts.index(max_led_count)]} leads {max_led_count} of {streams_text}"
        )
    return " · ".join(parts)


def no_findings_text(systems: Sequence[SystemState]) -> str:
    """Return the text shown without findings: there are none, or no poll has arrived yet."""
    if any(not system.state.costs for system in systems):
        return "waiting for the first poll"
    return NO_FINDINGS_TEXT


def _create_panel(
    id: PanelId, view: Any, specs: Sequence[ColumnSpec[Any]], order: Sequence[int], empty_text: str
) -> Panel:
    joined_columns = joined_specs(specs) if isinstance(view, JoinedView) else specs
    return Panel(id, Rows(view, joined_columns, order), empty_text)


def _worst_finding_rows(view: Any) -> Sequence[int]:
    """Return the rows of the findings of all systems, the worst first."""
    if not isinstance(view, JoinedView):
        return range(min(len(view), MAX_ROWS))
    rows = view.rows()

    def rank(row: int) -> tuple[int, bool, int]:
        index, system_row = view.at(row)
        finding: Finding = view.views[index].at(system_row)
        return severity_sort_key(finding)

    return sorted(rows, key=rank)[:MAX_ROWS]


def _first_rows(view: Any) -> Sequence[int]:
    return list(view.rows())[:MAX_ROWS]


def _newest_event_rows(view: Any) -> Sequence[int]:
    """Return the rows of the events of all systems, the newest first."""
    if not isinstance(view, JoinedView):
        return list(view.rows())[:MAX_ROWS]

    def at_us(row: int) -> int:
        index, system_row = view.at(row)
        return int(view.views[index].at(system_row).at_us)

    return sorted(view.rows(), key=at_us, reverse=True)[:MAX_ROWS]


def _stored_rate_per_s(view: StreamView, row: int) -> float:
    return trend_per_s(view.state.stream_history, view.key(row), "last_seq") or 0.0


def _pending_msgs_of(view: ConsumerView, row: int) -> float:
    return float(view.columns.pending_msgs[row])


def _top_rows(
    systems: Sequence[SystemState],
    view: Any,
    choose_rows: Callable[[State, int], list[int]],
    get_value: Callable[[Any, int], float],
) -> Sequence[int]:
    """Return the rows with the highest values of all systems.

    `choose_rows` returns such rows of one system.
    """
    if not isinstance(view, JoinedView):
        return choose_rows(systems[0].state, MAX_ROWS)
    chosen_rows = [set(choose_rows(system.state, MAX_ROWS)) for system in systems]
    rows = [row for row in view.rows() if view.at(row)[1] in chosen_rows[view.at(row)[0]]]

    def rank(row: int) -> float:
        index, system_row = view.at(row)
        return get_value(view.views[index], system_row)

    return sorted(rows, key=rank, reverse=True)[:MAX_ROWS]


def server_view(state: State) -> ServerView:
    """Return a view of the servers of a system; if no server data was read, of the servers that
    streams and consumers name.
    """
    leaders = count_leaders(state.streams.columns, state.consumers.columns)
    server_watch = state.servers
    servers = (
        server_watch.newest
        if server_watch.newest is not None and server_watch.newest.rows
        else None
    )
    servers = servers or _named_servers(state)
    return ServerView(servers, server_watch.rates, leaders, server_watch, shown_at_us(state))


def _named_servers(state: State) -> Servers:
    """Return the servers that streams and consumers name, and the connected server."""
    columns = (state.streams.columns, state.consumers.columns)
    names = {leader for asset_columns in columns for leader in asset_columns.leader if leader}
    names.update(
        peer.name for asset_columns in columns for peers in asset_columns.peers for peer in peers
    )
    link = state.link
    if link is not None and link.server_name:
        names.add(link.server_name)
    rows = [
        ServerState(
            name, name, link.cluster if link else None,
            link.server_version if link and link.server_name == name else None,
            state.now_at_us, None, None, None, None, None, None, None,
        )
        for name in sorted(names)
    ]  # fmt: skip
    return Servers("account", tuple(rows))


def _severity_mark(view: FindingView, row: int) -> Cell:
    """Severity of the finding: ✖ critical, ▲ a warning."""
    kind = view.at(row).kind
    return Cell(GLYPHS[kind.level], LEVEL_STYLES[kind.level])


def _finding_sentence(view: FindingView, row: int) -> Cell:
    """Label of the finding, and the numbers that show it."""
    kind = view.at(row).kind
    cell = _FINDING_SPEC_BY_ID["what"].cell(view, row)
    head = len(clean_line(kind.word))
    return Cell(cell.text, LEVEL_STYLES[kind.level], head, "")


def _event_time(view: EventView, row: int) -> Cell:
    """Local time of the event."""
    return Cell(local_text(view.at(row).at_us), "dim")


def _event_sentence(view: EventView, row: int) -> Cell:
    """Text of the event; for repeated events, their kind and number too."""
    counts = view.events_count_by_row if isinstance(view, FoldedEvents) else {}
    cell, times = _EVENT_SPEC_BY_ID["text"].cell(view, row), counts.get(row, 1)
    if times == 1:
        return cell
    return cell._replace(text=f"{event_kind_text(view.at(row))} ×{count_text(times)}: {cell.text}")


def _stored_per_s(view: StreamView, row: int) -> Cell:
    """Messages stored per second, over the last 30 s."""
    rate = trend_per_s(view.state.stream_history, view.key(row), "last_seq")
    return Cell(rate_text(rate), "" if rate else "dim")


def _pending_change(view: ConsumerView, row: int) -> Cell:
    """Change of pending messages per second, over the last 30 s."""
    change = trend_per_s(view.state.consumer_history, view.key(row), "pending_msgs")
    if not change:
        return Cell("" if change is None else "steady", "dim")
    return Cell(f"{'+' if change > 0 else '-'}{rate_text(abs(change))}/s",
                "warn" if change > 0 else "ok")  # fmt: skip


def _system_name(view: SystemView, row: int) -> Cell:
    """The system; enter shows it alone."""
    return system_cell(view.items[row])


def _open_findings(view: SystemView, row: int) -> Cell:
    """Number of open critical findings and warnings, or the reason for missing data."""
    system = view.items[row]
    if error_text := find_silence_reason(system):
        return Cell(clean_line(error_text), "bad")
    return findings_cell([system.state])


def _total_cell_function(
    get_total: Callable[[State], Total], format_value: Callable[[float | None], str]
) -> Any:
    def cell(view: SystemView, row: int) -> Cell:
        return Cell(" ".join(total_text(view.items[row : row + 1], get_total, format_value)))

    return cell


def total_text(
    systems: Sequence[SystemState],
    get_total: Callable[[State], Total],
    format_value: Callable[[float | None], str],
    cells: int = _SPARKLINE_CELLS,
) -> tuple[str, str]:
    """Return the sum of a figure over all systems: the last minute as a sparkline, and the
    current value as text.

    A system without a value counts as 0.
    """
    totals = [get_total(system.state) for system in systems]
    current_values = [total.current_value for total in totals if total.current_value is not None]
    minute_means_by_system = [
        minute_means(View(system.state, system.poll_age_us), total.points, cells)
        for system, total in zip(systems, totals, strict=True)
    ]
    sums = [
        None if all(value is None for value in values) else sum(value or 0 for value in values)
        for values in zip(*minute_means_by_system, strict=True)
    ]
    return sparkline(sums, cells), format_value(sum(current_values) if current_values else None)


def _storage(view: SystemView, row: int) -> Cell:
    """Used share of the storage."""
    return storage_cell([view.items[row].state])


def storage_cell(states: Sequence[State], bar_cells: int = 8) -> Cell:
    """Return the cell with the used share of the storage as bar and percentage; without limits
    the used bytes.
    """
    storage_uses = [use for use in map(storage_use, states) if use is not None]
    if not storage_uses:
        return Cell("–", "dim")
    used_bytes = sum(use.used_bytes for use in storage_uses)
    limits = [use.max_bytes for use in storage_uses if use.max_bytes]
    if len(limits) < len(storage_uses):
        return Cell(bytes_text(used_bytes))
    share = used_bytes / sum(limits)
    near_full_share, full_share = STORAGE_NEARLY_FULL_SHARE, STORAGE_FULL_SHARE
    style_name = "bad" if share >= full_share else "warn" if share >= near_full_share else "ok"
    return Cell(f"{bar(share, bar_cells)} {100 * share:.0f}%", style_name)


def _no_sort_values(view: object) -> Sequence[object]:
    return ()


def _column(id: str, title: str, width: int, priority: int, cell: Any, **layout: Any) -> Any:
    return ColumnSpec(id, title, width, priority, cell, _no_sort_values, **layout)


_FINDING_SPEC_BY_ID = {spec.id: spec for spec in FINDING_COLUMNS}
_SERVER_SPEC_BY_ID = {spec.id: spec for spec in SERVER_COLUMNS}
_STREAM_SPEC_BY_ID = {spec.id: spec for spec in STREAM_COLUMNS}
_CONSUMER_SPEC_BY_ID = {spec.id: spec for spec in CONSUMER_COLUMNS}
_EVENT_SPEC_BY_ID = {spec.id: spec for spec in EVENT_COLUMNS}

SYSTEM_COLUMNS: Sequence[ColumnSpec[Any]] = (
    _column("name", "SYSTEM", 12, 0, _system_name, align="left", flex=1, max_width=24),
    _column("wrong", "WRONG", 9, 1, _open_findings, align="left", flex=2, max_width=40),
    _column("in", "IN/s", 14, 2, _total_cell_function(stored_per_s, rate_text)),
    _column("out", "OUT/s", 14, 4, _total_cell_function(delivered_per_s, rate_text)),
    _column("pending", "PENDING", 14, 3, _total_cell_function(pending_msgs, count_text)),
    _column("storage", "STORAGE", 13, 5, _storage),
)
FINDING_PANEL_COLUMNS: Sequence[ColumnSpec[Any]] = (
    _column("mark", "", 1, 0, _severity_mark, align="left"),
    replace(_FINDING_SPEC_BY_ID["entity"], width=20, max_width=38, flex=1),
    replace(_FINDING_SPEC_BY_ID["what"], cell=_finding_sentence, width=18, flex=6),
    replace(_FINDING_SPEC_BY_ID["since"], width=7),
)
SERVER_PANEL_COLUMNS: Sequence[ColumnSpec[Any]] = (
    replace(_SERVER_SPEC_BY_ID["name"], max_width=30),
    replace(_SERVER_SPEC_BY_ID["meta"], priority=1),
    replace(_SERVER_SPEC_BY_ID["streams_led"], priority=2),
    replace(_SERVER_SPEC_BY_ID["cpu"], priority=3),
    replace(_SERVER_SPEC_BY_ID["file"], priority=4),
    replace(_SERVER_SPEC_BY_ID["in_s"], priority=5),
    replace(_SERVER_SPEC_BY_ID["conns"], priority=6),
    replace(_SERVER_SPEC_BY_ID["memory"], priority=7),
    replace(_SERVER_SPEC_BY_ID["out_s"], priority=8),
    replace(_SERVER_SPEC_BY_ID["behind"], priority=9),
    replace(_SERVER_SPEC_BY_ID["version"], priority=10),
    replace(_SERVER_SPEC_BY_ID["uptime"], priority=11),
)
BUSIEST_STREAMS_COLUMNS: Sequence[ColumnSpec[Any]] = (
    replace(_STREAM_SPEC_BY_ID["name"], width=12, max_width=40),
    _column("stored", "IN/s 30s", 8, 1, _stored_per_s),
    replace(_STREAM_SPEC_BY_ID["trend"], priority=2),
    replace(_STREAM_SPEC_BY_ID["replicas"], priority=3, min_table_width=0, max_width=30),
    replace(_STREAM_SPEC_BY_ID["msgs"], priority=4),
    replace(_STREAM_SPEC_BY_ID["bytes"], priority=5),
)
LAGGING_CONSUMERS_COLUMNS: Sequence[ColumnSpec[Any]] = (
    replace(_CONSUMER_SPEC_BY_ID["name"], width=12, max_width=40),
    replace(_CONSUMER_SPEC_BY_ID["pending"], priority=1),
    _column("growing", "CHANGE", 8, 2, _pending_change),
    replace(_CONSUMER_SPEC_BY_ID["trend"], priority=3),
    replace(_CONSUMER_SPEC_BY_ID["stream"], priority=4, max_width=24),
    replace(_CONSUMER_SPEC_BY_ID["status"], priority=5, width=20),
    replace(_CONSUMER_SPEC_BY_ID["lag"], priority=6),
)
EVENT_PANEL_COLUMNS: Sequence[ColumnSpec[Any]] = (
    replace(_EVENT_SPEC_BY_ID["time"], width=8, cell=_event_time),
    replace(_EVENT_SPEC_BY_ID["where"], width=22, max_width=38),
    replace(_EVENT_SPEC_BY_ID["text"], width=24, cell=_event_sentence),
)
