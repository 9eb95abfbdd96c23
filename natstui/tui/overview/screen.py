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
from natstui.tui.frame.action_keys import allowed
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.messages import Open, Typed
from natstui.tui.frame.selection import watch_shown
from natstui.tui.frame.systems import of_system, own_key, system_of
from natstui.tui.frame.table_screen import table_columns
from natstui.tui.frame.table_text import Rows
from natstui.tui.kit.keys import key_of
from natstui.tui.kit.table.big_table import BigTable
from natstui.tui.kit.table.paint import Look
from natstui.tui.kit.table.rows import Cell
from natstui.tui.kit.table.view import RowHighlighted, RowSelected, VisibleChanged
from natstui.tui.kit.text import safe
from natstui.tui.overview.layout import arrange, subtitle_of
from natstui.tui.overview.panels import PANELS, TITLES, UNTITLED, Panel, PanelId, panels
from natstui.tui.overview.vitals import VITALS_HELP, vitals


class PanelTable(BigTable):
    """The rows of a panel in a titled frame; below its last row begins the next panel."""

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
        super().__init__((), id=panel, titles=panel not in UNTITLED)
        self.border_title = TITLES[panel]

    def _look(self, y: int) -> Look | None:
        """Return the content of a line: only the focused panel has a cursor."""
        look = super()._look(y)
        return look if look is None or self.has_focus else look._replace(cursor=False)

    def watch_has_focus(self, has_focus: bool) -> None:
        """Show the cursor in the focused panel."""
        super().watch_has_focus(has_focus)
        self.refresh()

    def action_step(self, rows: int) -> None:
        """Move the cursor by rows, at the edge into the previous or next panel."""
        if 0 <= self.cursor + rows < len(self.source.order):
            super().action_step(rows)
        elif rows > 0:
            self.screen.focus_next(PanelTable)
        else:
            self.screen.focus_previous(PanelTable)


class PanelArea(Container):
    """The area of all panels."""

    class Resized(Message):
        """The size of the area has changed, also without a new terminal size."""

    def on_resize(self) -> None:
        """Post that the panels must be arranged again."""
        self.post_message(self.Resized())


class OverviewScreen(LiveScreen):
    """Panels of findings, servers, busiest rows and events; enter opens a row."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "describe", "Describe", id="describe"),
        *FindingKeys.BINDINGS,
    ]
    DEFAULT_CSS = """
    OverviewScreen #overview { height: 1fr; layout: vertical; }
    OverviewScreen .band { height: auto; layout: horizontal; }
    OverviewScreen.-narrow #upper { layout: vertical; }
    """
    FIGURES: ClassVar[Sequence[tuple[str, str]]] = VITALS_HELP

    body_container = getters.query_one("#overview", Container)

    def __init__(self) -> None:
        super().__init__()
        self.finding = FindingKeys(self, self.chosen)
        self.where.meant = self._meant
        self.tables: dict[PanelId, PanelTable] = {panel: PanelTable(panel) for panel in PANELS}
        self._shown: Mapping[PanelId, Panel] = {}
        self._visible: dict[str, tuple[Hashable, ...]] = {}

    def body(self) -> Iterable[Widget]:
        """Yield bands of panels, each as high as the space allows."""
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
    def _fit(self) -> None:
        """Arrange the panels for another size."""
        self.call_after_refresh(self._arrange)

    def second_line(self) -> list[Cell]:
        """Return the totals of all shown systems, instead of the account's line."""
        return vitals(self.where.shown, self.size.width)

    def refresh_state(self) -> None:
        """Show the newer rows of every panel."""
        self._shown = {panel.id: panel for panel in panels(self.where.shown)}
        self._arrange()
        self.tables["wrong"].set_class(bool(self._shown["wrong"].rows.order), "-bad")

    def _arrange(self) -> None:
        """Set the size of every panel."""
        if not self._shown or not self.is_mounted:
            return
        size = self.body_container.size
        counts = {id: len(panel.rows.order) for id, panel in self._shown.items()}
        places = {
            place.id: place for band in arrange(size.width, size.height, counts) for place in band
        }
        subtitles = subtitle_of(places, self._shown["servers"], self.where.shown)
        for panel, table in self.tables.items():
            panel_place = places.get(panel)
            table.display = panel_place is not None
            if panel_place is None:
                continue
            table.styles.width, table.styles.height = panel_place.width, panel_place.height
            table.set_class(not panel_place.framed, "-bare")
            fitted_panel = self._shown[panel].fitted(
                panel_place.width - (2 if panel_place.framed else 0)
            )
            table.empty, table.border_title = (
                fitted_panel.empty,
                fitted_panel.title(panel_place.rows_count),
            )
            table.border_subtitle = safe(subtitles.get(panel, ""))
            if panel == "busiest" and not fitted_panel.rows.order and self.may_add_stream:
                table.empty += f": create one in {key_of(self, 'screen.streams')} Streams"
            table.show(fitted_panel.rows, columns=table_columns(fitted_panel.rows.specs))

    @property
    def may_add_stream(self) -> bool:
        """Return whether a stream can be created here."""
        return self.state.replay is None and allowed(self.state, "add-stream")

    def _focused(self) -> PanelTable:
        """Return the focused panel, else the findings panel."""
        return self.focused if isinstance(self.focused, PanelTable) else self.tables["wrong"]

    def _meant(self) -> Iterable[object]:
        return {self._focused().cursor_key} if self.is_mounted else ()

    def _row(self, panel: PanelId) -> tuple[Any, int] | None:
        """Return the view and the row under the cursor of a panel."""
        rows = self.tables[panel].source
        cursor = self.tables[panel].cursor
        if not isinstance(rows, Rows) or cursor >= len(rows.order):
            return None
        return of_system(rows.view, rows.order[cursor])

    def chosen(self) -> Finding | None:
        """Return the finding under the cursor; None in another panel."""
        view_and_row = self._row("wrong") if self._focused().id == "wrong" else None
        if view_and_row is None:
            return None
        finding: Finding = view_and_row[0].at(view_and_row[1])
        return finding

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action is offered: keys of findings only with one under the cursor."""
        of_finding = action == "describe" or parameters[:1] == ("finding",)
        if of_finding and (not self.is_mounted or self.chosen() is None):
            return False
        return super().check_action(action, parameters)

    def on_descendant_focus(self) -> None:
        """Update the keys for the newly focused panel."""
        self.refresh_bindings()

    @on(RowHighlighted)
    def _on_another_row(self) -> None:
        self.refresh_bindings()
        if self.where.joins:
            self.strip.show(self.where, paused=self.paused)

    def action_describe(self) -> None:
        """Open the finding under the cursor."""
        if (finding := self.chosen()) is not None:
            self.app.push_screen(FindingDetail(finding))

    @on(RowSelected)
    def _go(self, message: RowSelected) -> None:
        """Open the subject of a row."""
        key = own_key(message.key)
        match message.table.id:
            case "wrong":
                self.finding.action_go()
            case "systems" if key is not None:
                self.app.post_message(Typed(f"ctx {key[0]}"))
            case "servers":
                self.app.post_message(Typed("servers"))
            case "busiest" if key is not None:
                self._open(Open("stream", str(key[0])), message.key)
            case "lagging" if key is not None:
                self._open(Open("consumer", str(key[0]), str(key[1])), message.key)
            case "events":
                self._go_to_event(message.key)

    def _open(self, message: Open, key: object) -> None:
        message.system = system_of(key)
        self.app.post_message(message)

    def _go_to_event(self, key: object) -> None:
        """Open the consumer or stream of an event, else all events."""
        view_and_row = self._row("events")
        event = None if view_and_row is None else view_and_row[0].at(view_and_row[1])
        state = self.state
        if isinstance(event, Advisory) and event.stream:
            if (event.stream, event.consumer) in {
                consumer_key[:2] for consumer_key in state.consumers.roster.keys
            }:
                self._open(Open("consumer", event.stream, event.consumer), key)
                return
            if event.stream in state.streams.roster.rows_of_stream:
                self._open(Open("stream", event.stream), key)
                return
        self.app.post_message(Typed("events"))

    @on(VisibleChanged)
    def _watch(self, message: VisibleChanged) -> None:
        """Request that visible rows are polled first."""
        if message.table.id in ("busiest", "lagging"):
            self._visible[str(message.table.id)] = message.keys
            watch_shown(self, [key for keys in self._visible.values() for key in keys])
