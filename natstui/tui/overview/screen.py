"""The overview, the first screen of natstui: findings, traffic, servers and events."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from textual import getters, on
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal
from textual.message import Message
from textual.widget import Widget

from natstui.model.findings.finding import Finding
from natstui.model.records.record import Advisory
from natstui.tui.findings.detail import FindingDetail
from natstui.tui.findings.keys import FindingKeys
from natstui.tui.frame.action_keys import is_allowed
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.messages import EnteredCommand, Open
from natstui.tui.frame.row_order import Rows
from natstui.tui.frame.selection import poll_visible_rows_first
from natstui.tui.frame.systems import find_system_row, key_without_system, system_of
from natstui.tui.frame.table_screen import table_columns
from natstui.tui.kit.keys import key_of
from natstui.tui.kit.table.big_table import BigTable
from natstui.tui.kit.table.paint import RowAppearance
from natstui.tui.kit.table.rows import Cell
from natstui.tui.kit.table.view import RowHighlighted, RowSelected, VisibleChanged
from natstui.tui.kit.text import safe
from natstui.tui.overview.layout import arrange_panels, find_subtitles
from natstui.tui.overview.panels import PANELS, TITLES, UNTITLED_PANELS, Panel, PanelId, panels
from natstui.tui.overview.vitals import VITALS_HELP, vitals


class PanelTable(BigTable):
    """The table of a panel in a titled frame; the cursor moves on into the next panel."""

    DEFAULT_CSS = """
    PanelTable {
        border: round $foreground 25%; border-title-color: $text-accent; border-title-style: bold;
        border-subtitle-color: $foreground;
        scrollbar-size: 0 0; overflow-y: hidden;
    }
    PanelTable:focus { border: round $primary; }
    PanelTable.-bad { border: round $error; border-title-color: $text-error; }
    PanelTable.-bare { border: none; }
    """

    def __init__(self, panel: PanelId) -> None:
        super().__init__((), id=panel, titles=panel not in UNTITLED_PANELS)
        self.border_title = TITLES[panel]

    def _row_appearance(self, y: int) -> RowAppearance | None:
        """Return the appearance of a line; only the focused panel shows its cursor."""
        appearance = super()._row_appearance(y)
        return (
            appearance
            if appearance is None or self.has_focus
            else appearance._replace(has_cursor=False)
        )

    def watch_has_focus(self, has_focus: bool) -> None:
        """Show or hide the cursor of the panel."""
        super().watch_has_focus(has_focus)
        self.refresh()

    def action_step(self, rows: int) -> None:
        """Move the cursor by `rows` rows; at the edge move to the previous or next panel."""
        if 0 <= self.cursor + rows < len(self.source.order):
            super().action_step(rows)
        elif rows > 0:
            self.screen.focus_next(PanelTable)
        else:
            self.screen.focus_previous(PanelTable)


class PanelArea(Container):
    """The container of all panels."""

    class Resized(Message):
        """The size of the area has changed, also without a new terminal size."""

    def on_resize(self) -> None:
        """Post that the panels must be arranged again."""
        self.post_message(self.Resized())


class OverviewScreen(LiveScreen):
    """The overview: panels of findings, servers, streams, consumers and events."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "describe", "Describe", id="describe"),
        *FindingKeys.BINDINGS,
    ]
    DEFAULT_CSS = """
    OverviewScreen #overview { height: 1fr; layout: vertical; }
    OverviewScreen .band { height: auto; layout: horizontal; }
    OverviewScreen.-narrow #upper { layout: vertical; }
    """
    SECOND_LINE_HELP: ClassVar[Sequence[tuple[str, str]]] = VITALS_HELP

    body_container = getters.query_one("#overview", Container)

    def __init__(self) -> None:
        super().__init__()
        self.finding = FindingKeys(self, self.find_finding)
        self.scope.get_target_keys = self._get_target_keys
        self.tables: dict[PanelId, PanelTable] = {panel: PanelTable(panel) for panel in PANELS}
        self._panels: Mapping[PanelId, Panel] = {}
        self._visible_keys_by_panel: dict[str, tuple[Hashable, ...]] = {}

    def body(self) -> Iterable[Widget]:
        """Yield the panels in their bands."""
        tables = self.tables
        yield PanelArea(
            tables["systems"],
            Horizontal(tables["wrong"], tables["servers"], id="upper", classes="band"),
            Horizontal(tables["busiest"], tables["lagging"], id="lower", classes="band"),
            tables["events"],
            id="overview",
        )

    def on_mount(self) -> None:
        """Focus the findings panel."""
        self.set_focus(self.tables["wrong"])

    @on(PanelArea.Resized)
    def _schedule_arrange(self) -> None:
        """Arrange the panels for the new size, after the next refresh."""
        self.call_after_refresh(self._arrange_panels)

    def second_line(self) -> list[Cell]:
        """Return the line with the totals of all shown systems."""
        return vitals(self.scope.shown_systems, self.size.width)

    def refresh_state(self) -> None:
        """Show the newest rows of every panel."""
        self._panels = {panel.id: panel for panel in panels(self.scope.shown_systems)}
        self._arrange_panels()
        self.tables["wrong"].set_class(bool(self._panels["wrong"].rows.order), "-bad")

    def _arrange_panels(self) -> None:
        """Set the size, columns and title of every panel."""
        if not self._panels or not self.is_mounted:
            return
        size = self.body_container.size
        counts = {id: len(panel.rows.order) for id, panel in self._panels.items()}
        size_by_panel = {
            panel_size.id: panel_size
            for band in arrange_panels(size.width, size.height, counts)
            for panel_size in band
        }
        subtitles = find_subtitles(
            size_by_panel, self._panels["servers"], self.scope.shown_systems
        )
        for panel, table in self.tables.items():
            panel_size = size_by_panel.get(panel)
            table.display = panel_size is not None
            if panel_size is None:
                continue
            table.styles.width, table.styles.height = panel_size.width, panel_size.height
            table.set_class(not panel_size.is_framed, "-bare")
            fitted_panel = self._panels[panel].fit_columns(
                panel_size.width - (2 if panel_size.is_framed else 0)
            )
            table.empty, table.border_title = (
                fitted_panel.empty,
                fitted_panel.title(panel_size.rows_count),
            )
            table.border_subtitle = safe(subtitles.get(panel, ""))
            if panel == "busiest" and not fitted_panel.rows.order and self.can_add_stream:
                table.empty += f": create one in {key_of(self, 'screen.streams')} Streams"
            table.show(fitted_panel.rows, columns=table_columns(fitted_panel.rows.specs))

    @property
    def can_add_stream(self) -> bool:
        """Return whether the user may create a stream: live, and with permission."""
        return self.state.replay is None and is_allowed(self.state, "add-stream")

    def _focused_panel(self) -> PanelTable:
        """Return the focused panel, else the findings panel."""
        return self.focused if isinstance(self.focused, PanelTable) else self.tables["wrong"]

    def _get_target_keys(self) -> Iterable[object]:
        return {self._focused_panel().cursor_key} if self.is_mounted else ()

    def _row_under_cursor(self, panel: PanelId) -> tuple[Any, int] | None:
        """Return the view and row number under the cursor of a panel; None without rows."""
        rows = self.tables[panel].source
        cursor = self.tables[panel].cursor
        if not isinstance(rows, Rows) or cursor >= len(rows.order):
            return None
        return find_system_row(rows.view, rows.order[cursor])

    def find_finding(self) -> Finding | None:
        """Return the finding under the cursor; None in another panel."""
        view_and_row = (
            self._row_under_cursor("wrong") if self._focused_panel().id == "wrong" else None
        )
        if view_and_row is None:
            return None
        finding: Finding = view_and_row[0].at(view_and_row[1])
        return finding

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action is enabled: keys of findings only with a finding under the
        cursor.
        """
        needs_finding = action == "describe" or parameters[:1] == ("finding",)
        if needs_finding and (not self.is_mounted or self.find_finding() is None):
            return False
        return super().check_action(action, parameters)

    def on_descendant_focus(self) -> None:
        """Update the keys in the footer for the focused panel."""
        self.refresh_bindings()

    @on(RowHighlighted)
    def _update_keys(self) -> None:
        self.refresh_bindings()
        if self.scope.is_joined:
            self.strip.show(self.scope, paused=self.paused)

    def action_describe(self) -> None:
        """Open the finding under the cursor."""
        if (finding := self.find_finding()) is not None:
            self.app.push_screen(FindingDetail(finding))

    @on(RowSelected)
    def _open_row(self, message: RowSelected) -> None:
        """Open the screen for the row of a panel."""
        key = key_without_system(message.key)
        match message.table.id:
            case "wrong":
                self.finding.action_go()
            case "systems" if key is not None:
                self.app.post_message(EnteredCommand(f"ctx {key[0]}"))
            case "servers":
                self.app.post_message(EnteredCommand("servers"))
            case "busiest" if key is not None:
                self._post_for_row(Open("stream", str(key[0])), message.key)
            case "lagging" if key is not None:
                self._post_for_row(Open("consumer", str(key[0]), str(key[1])), message.key)
            case "events":
                self._open_event(message.key)

    def _post_for_row(self, message: Open, key: object) -> None:
        message.system = system_of(key)
        self.app.post_message(message)

    def _open_event(self, key: object) -> None:
        """Open the consumer or stream of an event, else all events."""
        view_and_row = self._row_under_cursor("events")
        event = None if view_and_row is None else view_and_row[0].at(view_and_row[1])
        state = self.state
        if isinstance(event, Advisory) and event.stream:
            if (event.stream, event.consumer) in {
                consumer_key[:2] for consumer_key in state.consumers.roster.keys
            }:
                self._post_for_row(Open("consumer", event.stream, event.consumer), key)
                return
            if event.stream in state.streams.roster.rows_of_stream:
                self._post_for_row(Open("stream", event.stream), key)
                return
        self.app.post_message(EnteredCommand("events"))

    @on(VisibleChanged)
    def _poll_visible_rows(self, message: VisibleChanged) -> None:
        """Request that visible rows are polled first."""
        if message.table.id in ("busiest", "lagging"):
            self._visible_keys_by_panel[str(message.table.id)] = message.keys
            poll_visible_rows_first(
                self, [key for keys in self._visible_keys_by_panel.values() for key in keys]
            )
