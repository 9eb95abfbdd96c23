"""The screen with the table of all consumers, or of the consumers of one stream."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

from textual import on
from textual.binding import Binding, BindingType

from natstui.model.columns.view import ConsumerView
from natstui.model.live.state import State
from natstui.tui.consumers.cells import CONSUMER_COLUMNS
from natstui.tui.consumers.detail import consumer_peek_content
from natstui.tui.frame.action_keys import ADD_CONSUMER, Target, action_bindings
from natstui.tui.frame.action_runner import ActionRunner
from natstui.tui.frame.columns import ColumnSpec, SortAndFilter
from natstui.tui.frame.detail.peek import PeekContent
from natstui.tui.frame.messages import Open
from natstui.tui.frame.selection import (
    SelectionScreen,
    find_target_assets,
    poll_visible_rows_first,
    post_for_row,
    unreachable_text,
)
from natstui.tui.frame.systems import find_system_row, join_views, key_without_system
from natstui.tui.kit.keys import key_of, user_keys
from natstui.tui.kit.table.view import RowSelected, VisibleChanged


def count_unlisted_consumers(state: State) -> int:
    """Return the number of consumers that no stream lists, because they feed mirrors and sources.

    0 if the account may have more consumers than listed for another reason: the list is
    incomplete, or there are fewer mirrors and sources.
    """
    listed_count = len(state.consumers)
    if state.account is None or listed_count != sum(state.streams.columns.consumers_count):
        return 0
    configurations = state.stream_configurations.values()
    mirrors_and_sources_count = sum(
        len(config.sources) + bool(config.mirror) for config in configurations
    )
    unlisted_count = state.account.consumers_count - listed_count
    return unlisted_count if 0 < unlisted_count <= mirrors_and_sources_count else 0


class ConsumersScreen(SelectionScreen):
    """The consumers table."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "open('consumer')", "Describe", id="describe"),
        Binding("y", "open('raw')", "Raw", id="raw"),
        *action_bindings("consumer"),
    ]
    SPECS: ClassVar[Sequence[ColumnSpec[Any]]] = CONSUMER_COLUMNS
    NOUN = "consumers"
    DEFAULT_ORDER = SortAndFilter("status", reverse=True)

    def __init__(self, stream: str | None = None) -> None:
        super().__init__()
        self.stream = stream
        self.managing = ActionRunner(
            self,
            self.targets,
            # What is done to a stream can be done to that whose consumers are shown.
            lambda spec: self.has_row or (stream is not None and not spec.needs_consumer),
            partial(self.targets, only_cursor=True),
        )

    def tab(self) -> str:
        """Return the mode of the consumers tab, also for the consumers of one stream."""
        return "consumers"

    def asset(self) -> Target | None:
        """Return the stream whose consumers are shown; None for all streams."""
        return Target(self.stream) if self.stream is not None else None

    def view(self) -> Any:
        """Return the consumers of the current state, of all systems or of one stream."""
        systems = self.scope.shown_systems
        return join_views(
            systems,
            [ConsumerView(system.state, system.poll_age_us, self.stream) for system in systems],
        )

    def caption_text(self, shown: int, total: int) -> str:
        """Return the caption, with the names of unreachable consumers, which have no row."""
        names_without_row = {
            consumer if self.stream is not None else f"{stream} {consumer}"
            for system in self.scope.shown_systems
            for stream, consumer in system.state.rowless_consumers()
            if self.stream in (None, stream)
        }
        text = super().caption_text(shown, total) + unreachable_text(names_without_row)
        if self.stream is not None:
            return f"{self.stream}  ›  {text}"
        count = 0 if self.scope.is_joined else count_unlisted_consumers(self.state)
        return f"{text}  ·  {count} unlisted feed mirrors and sources" if count else text

    def empty_hint(self) -> str:
        """Return the text of an empty table: the key to create a consumer, or if there are no
        streams, the key to the streams.
        """
        key = key_of(self, ADD_CONSUMER.id)
        if not key:
            return ""
        if not len(self.state.streams):
            return f"they need a stream. {key_of(self, 'screen.streams')} leads to the streams"
        return f"{key} creates one"

    @on(RowSelected)
    def _open_consumer(self) -> None:
        self.action_open("consumer")

    def peek_content(self, view: Any, row: int) -> PeekContent:
        """Return the content of the peek panel for the consumer in a row."""
        return consumer_peek_content(
            *find_system_row(view, row), user_keys(self, "consumer.actions")
        )

    def targets(self, *, only_cursor: bool = False) -> list[Target]:
        """Return the marked consumers, else or with `only_cursor` the consumer under the cursor,
        else the stream.
        """
        consumers = sorted(
            Target(str(key[0]), str(key[1]), int(key[2]))
            for key in find_target_assets(self, only_cursor=only_cursor)
        )
        return consumers or ([Target(self.stream)] if self.stream else [])

    def action_open(self, target: str) -> None:
        """Open the details, messages, clients or raw INFO of the consumer under the cursor."""
        if (key := key_without_system(self.table.cursor_key)) is not None:
            post_for_row(self, Open(target, str(key[0]), str(key[1])))

    @on(VisibleChanged)
    def _poll_visible_rows(self, message: VisibleChanged) -> None:
        poll_visible_rows_first(self, message.keys)
