"""The ack tap screen: acknowledgements of one consumer's clients, for a few seconds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual import getters
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget
from textual.widgets import Static

from natstui.model.live.tap_text import (
    TAP_NOTE,
    tap_count_lines,
    tap_message_lines,
    tap_progress_text,
)
from natstui.model.records.messages import Answered
from natstui.model.records.tap import StartTap, StopTap, TapResults
from natstui.tui.frame.action_keys import Target
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.requests import PendingRequest, run_task
from natstui.tui.kit.sections import Section, SectionText, line
from natstui.tui.kit.text import safe


class TapScreen(LiveScreen):
    """Shows the acks, naks and terms that a consumer's clients send, while the screen is open,
    until the tap ends.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("T", "again", "Again", id="tap.again"),
        Binding("space", "stop", "Stop", id="tap.stop"),
    ]

    caption = getters.query_one("#caption", Static)
    text = getters.query_one(SectionText)

    def __init__(self, stream: str, consumer: str) -> None:
        super().__init__()
        self.stream, self.consumer = stream, consumer
        self._request: PendingRequest | None = None

    def asset(self) -> Target | None:
        """Return the consumer whose acknowledgements are shown."""
        return Target(self.stream, self.consumer)

    def body(self) -> Iterable[Widget]:
        """Yield the caption and the results."""
        yield Static(id="caption", markup=False)
        yield VerticalScroll(SectionText())

    def on_mount(self) -> None:
        """Start the tap."""
        self.action_again()

    def on_unmount(self) -> None:
        """Stop the tap."""
        self.action_stop()
        if self._request is not None:
            self._request.close()

    def action_again(self) -> None:
        """Start a tap, which reads the acks of the consumer's clients for some seconds."""
        self._show_caption("starting …", "")
        if self._request is not None:
            self._request.close()
        self._request = self.engine.request(StartTap(0, self.stream, self.consumer))
        run_task(self, self._run_tap, self._request, replaces="read")

    async def _run_tap(self, request: PendingRequest) -> None:
        """Show the results of a tap while they arrive, or its error."""
        async for record in request:
            if isinstance(record, TapResults):
                self._show_caption(
                    tap_progress_text(record), "" if record.ended is None else "warn"
                )
                self.text.show(tap_sections(record))
                if record.ended is not None:
                    return
            elif isinstance(record, Answered) and record.status != "done":
                style_name = "warn" if record.status == "replaced" else "error"
                self._show_caption(record.text, style_name)
                return

    def action_stop(self) -> None:
        """Stop the tap before its time."""
        if self._request is not None:
            self.engine.send(StopTap(0, self._request.command_id))

    def _show_caption(self, text: str, style_name: str) -> None:
        self.caption.update(
            safe(f"ack tap of {self.stream}  ›  {self.consumer}  ·  {text}", style_name)
        )


def tap_sections(result: TapResults) -> list[Section]:
    """Return the results of a tap, acks counted and messages not acked, as sections."""
    count_lines = tuple(line(*label_and_text) for label_and_text in tap_count_lines(result))
    unacked_lines = tuple(line(*label_and_text) for label_and_text in tap_message_lines(result))
    return [
        Section("ACKS", count_lines),
        Section(
            "NOT ACKNOWLEDGED",
            unacked_lines or (line("", "no message was acked, nak'd or terminated"),),
        ),
        Section("", (line("", TAP_NOTE),)),
    ]
