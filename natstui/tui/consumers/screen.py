"""Every consumer across all streams, or of one stream, live."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from textual import on
from textual.binding import Binding, BindingType

from natstui.model.columns.view import ConsumerView
from natstui.model.live.state import State
from natstui.tui.consumers.cells import CONSUMER_COLUMNS
from natstui.tui.consumers.detail import consumer_brief
from natstui.tui.frame.action_keys import ADD_CONSUMER, Target, manage_keys
from natstui.tui.frame.action_runner import Managing
from natstui.tui.frame.columns import ColumnSpec, Order
from natstui.tui.frame.detail.peek import Brief
from natstui.tui.frame.messages import Open
from natstui.tui.frame.selection import (
    SelectionScreen,
    acted_on,
    away_text,
    open_of_row,
    watch_shown,
)
from natstui.tui.frame.systems import joined, of_system, own_key
from natstui.tui.kit.keys import key_of
from natstui.tui.kit.table.view import RowSelected, VisibleChanged


def unlisted_consumers_count(state: State) -> int:
    """Return how many consumers of the account no stream lists: those of mirrors and sources.

    0 where the difference may have another reason: an incomplete list, or fewer mirrors and
    sources than that.
    """
    listed_count = len(state.consumers)
    if state.account is None or listed_count != sum(state.streams.columns.consumers_count):
        return 0
    configurations = state.stream_configurations.values()
    feeds = sum(len(config.sources) + bool(config.mirror) for config in configurations)
    unlisted_count = state.account.consumers_count - listed_count
    return unlisted_count if 0 < unlisted_count <= feeds else 0


class ConsumersScreen(SelectionScreen):
    """The consumers table."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "open('consumer')", "Describe", id="describe"),
        Binding("y", "open('raw')", "Raw", id="raw"),
        *manage_keys("consumer"),
    ]
    SPECS: ClassVar[Sequence[ColumnSpec[Any]]] = CONSUMER_COLUMNS
    NOUN = "consumers"
    START = Order("status", reverse=True)

    def __init__(self, stream: str | None = None) -> None:
        super().__init__()
        self.stream = stream
        self.managing = Managing(
            self,
            self.targets,
            # What is done to a stream can be done to that whose consumers are shown.
            lambda spec: self.has_row or (stream is not None and not spec.needs_consumer),
        )

    def tab(self) -> str:
        """Return the tab of consumers, also when it was opened from a stream."""
        return "consumers"

    def asset(self) -> Target | None:
        """Return the stream whose consumers are shown, if it is a single one."""
        return Target(self.stream) if self.stream is not None else None

    def view(self) -> Any:
        """Return the consumers of the current state, of all systems or of one stream."""
        return joined(
            self.where.shown,
            lambda system: ConsumerView(system.state, system.late_us, self.stream),
        )

    def caption_text(self, shown: int, total: int) -> str:
        """Return the caption, with the names of consumers without a row."""
        rowless_names = {
            consumer if self.stream is not None else f"{stream} {consumer}"
            for system in self.where.shown
            for stream, consumer in system.state.rowless_consumers()
            if self.stream in (None, stream)
        }
        text = super().caption_text(shown, total) + away_text(rowless_names)
        if self.stream is not None:
            return f"{self.stream}  ›  {text}"
        count = 0 if self.where.joins else unlisted_consumers_count(self.state)
        return f"{text}  ·  {count} unlisted feed mirrors and sources" if count else text

    def empty_hint(self) -> str:
        """Return which key creates a consumer; without a stream, which opens the streams."""
        key = key_of(self, ADD_CONSUMER.id)
        if not key:
            return ""
        if not len(self.state.streams):
            return f"they need a stream. {key_of(self, 'screen.streams')} leads to the streams"
        return f"{key} creates one"

    @on(RowSelected)
    def _drill_down(self) -> None:
        self.action_open("consumer")

    def brief(self, view: Any, row: int) -> Brief:
        """Return the content of the panel for a row."""
        return consumer_brief(*of_system(view, row), key_of(self, "consumer.actions"))

    def targets(self) -> list[Target]:
        """Return the consumers that are marked, else the one under the cursor, else the stream."""
        found = sorted(Target(str(key[0]), str(key[1]), int(key[2])) for key in acted_on(self))
        return found or ([Target(self.stream)] if self.stream else [])

    def action_open(self, target: str) -> None:
        """Open the details, messages, clients or raw INFO of the consumer under the cursor."""
        if (key := own_key(self.table.cursor_key)) is not None:
            open_of_row(self, Open(target, str(key[0]), str(key[1])))

    @on(VisibleChanged)
    def _watch(self, message: VisibleChanged) -> None:
        watch_shown(self, message.keys)
