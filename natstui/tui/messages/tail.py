"""The tail screen: new messages on the subjects of a stream, live."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import ClassVar

from textual import getters
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from natstui.model.records.messages import Answered, StartTail, StopTail, StoredMessage, Tailed
from natstui.tui.frame.action_keys import Target
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.requests import PendingRequest, run_task
from natstui.tui.kit.lists import SingleChoiceList
from natstui.tui.kit.prompt import Prompt
from natstui.tui.kit.text import safe
from natstui.tui.messages.text import message_line, payload_of
from natstui.units import counted, rate_text

_MAX_LISTED_MSGS = 500


class TailScreen(LiveScreen):
    """The tail screen: new messages, the newest at the bottom; dropped messages are counted."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "hold", "Pause", id="tail.hold"),
        Binding("slash", "filter", "Filter", key_display="/", id="tail.filter"),
    ]
    DEFAULT_CSS = """
    TailScreen OptionList {
        height: 1fr; padding: 0; border: none !important;
        text-wrap: nowrap; text-overflow: ellipsis;
    }
    """

    caption = getters.query_one("#caption", Static)
    message_list = getters.query_one(OptionList)

    def __init__(self, stream: str, subjects: tuple[str, ...]) -> None:
        super().__init__()
        self.stream = stream
        self.subjects = subjects
        self.messages: deque[StoredMessage] = deque(maxlen=_MAX_LISTED_MSGS)
        self.is_paused = False
        self.filter_text = ""
        self._request: PendingRequest | None = None
        self._was_replaced = False
        """Whether the tail of another screen has ended this one."""
        self._last_update: Tailed | None = None
        self._refusal = ""
        """The reason why no messages can arrive (any more); empty without one."""
        self._arrived_msgs_per_s = 0.0
        self._missed_msgs = 0

    def asset(self) -> Target | None:
        """Return the stream whose subjects are followed."""
        return Target(self.stream)

    def body(self) -> Iterable[Widget]:
        """Yield caption and list."""
        yield Static(id="caption", markup=False)
        yield SingleChoiceList()

    def on_mount(self) -> None:
        """Start to receive messages."""
        self.message_list.focus()
        self._start()

    def on_screen_resume(self) -> None:
        """Start to receive messages again if the tail of another screen has ended this one."""
        if self._was_replaced:
            self.notify(f"{self._refusal}: the messages since then are missing")
            self._start()

    def on_unmount(self) -> None:
        """Stop receiving messages."""
        if self._request is not None:
            self.engine.send(StopTail(0, self._request.command_id))
            self._request.close()

    def _start(self) -> None:
        """Start to receive messages; all counts start at 0."""
        self._last_update, self._refusal, self._was_replaced = None, "", False
        self._arrived_msgs_per_s, self._missed_msgs = 0.0, 0
        self.caption.update(safe(f"tail of {', '.join(self.subjects)}  ·  waiting"))
        if self._request is not None:
            self._request.close()
        self._request = self.engine.request(StartTail(0, self.subjects))
        run_task(self, self._follow, self._request, replaces="follow")

    async def _follow(self, request: PendingRequest) -> None:
        async for record in request:
            if isinstance(record, Tailed):
                self._show(record)
            elif isinstance(record, Answered) and record.status != "done":
                self._refusal, self._was_replaced = record.text, record.status == "replaced"
                self._show_caption()
                if self._was_replaced:
                    break
        if self._was_replaced and self.is_active:
            self.on_screen_resume()

    def _show(self, update: Tailed) -> None:
        """Add the new messages to the list, unless it is paused, and update the counts."""
        previous_update, self._last_update = self._last_update, update
        if previous_update is not None and update.at_us > previous_update.at_us:
            new_msgs = update.arrived_msgs - previous_update.arrived_msgs
            self._arrived_msgs_per_s = new_msgs / ((update.at_us - previous_update.at_us) / 1e6)
            # Messages that arrived between two records are counted as missed too.
            reported_msgs = (
                len(update.messages) + update.dropped_msgs - previous_update.dropped_msgs
            )
            self._missed_msgs += max(0, new_msgs - reported_msgs)
        if not self.is_paused:
            self.messages.extend(update.messages)
            self._draw()
        self._show_caption()

    def _draw(self) -> None:
        self.message_list.clear_options()
        self.message_list.add_options(
            [
                Option(message_line(message))
                for message in self.messages
                if self._matches_filter(message)
            ]
        )
        self.message_list.highlighted = (
            self.message_list.option_count - 1 if self.message_list.option_count else None
        )

    def _matches_filter(self, message: StoredMessage) -> bool:
        pattern = self.filter_text
        return pattern in message.subject or pattern.encode() in payload_of(message)

    def _show_caption(self) -> None:
        update = self._last_update
        if update is None or (self._refusal and not update.arrived_msgs):
            self.caption.update(safe(self._refusal, "error"))
            return
        dropped_msgs = update.dropped_msgs + self._missed_msgs
        parts = [
            f"tail of {', '.join(self.subjects)}",
            f"{rate_text(self._arrived_msgs_per_s)}/s",
            f"{update.arrived_msgs:,} arrived",
            f"{dropped_msgs:,} not shown: too fast",
            *_gap_parts(update),
            *([f"/{self.filter_text}"] if self.filter_text else []),
            *(["paused"] if self.is_paused else []),
        ]
        if self._refusal:
            parts.insert(0, self._refusal)
        has_warning = self.is_paused or self._refusal or update.interruptions_count
        self.caption.update(safe("  ·  ".join(parts), "warn" if has_warning else ""))

    def action_hold(self) -> None:
        """Pause or resume the list."""
        self.is_paused = not self.is_paused
        if self._last_update is not None:
            self._show_caption()

    def action_filter(self) -> None:
        """Prompt for a text, and show only messages that contain it."""
        run_task(self, self._prompt_filter)

    async def _prompt_filter(self) -> None:
        prompt = Prompt("Show only messages that contain", self.filter_text)
        if (text := await self.app.push_screen_wait(prompt)) is not None:
            self.filter_text = text
            self._draw()


def _gap_parts(update: Tailed) -> list[str]:
    """Return the part of the caption about messages missed while disconnected; empty without such
    a gap.
    """
    count = update.interruptions_count
    if not count:
        return []
    return [f"{counted(count, 'gap')}: the connection was lost, messages of that time are missing"]
