"""The pull screen: consumes messages of a pull consumer one by one, and acks or naks each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual import getters
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Static
from textual.worker import Worker

from natstui.decoding import decoder_of
from natstui.model.assets.meaning import duration_meaning
from natstui.model.columns.view import ConsumerView
from natstui.model.live.state import State
from natstui.model.records.messages import (
    Answer,
    Answered,
    AnswerMessage,
    PulledMessage,
    PullNext,
)
from natstui.tui.frame.action_keys import Target
from natstui.tui.frame.confirmation import (
    confirmation_in,
    needs_confirmation,
    prompt_confirmation,
)
from natstui.tui.frame.live import CommandPrompt, LiveScreen, poll_rows_first, prompt_command
from natstui.tui.frame.requests import run_task
from natstui.tui.kit.raw.view import RawView
from natstui.tui.kit.text import safe
from natstui.tui.messages.text import message_text
from natstui.units import parse_duration_ns


def counters_text(state: State, stream: str, consumer: str) -> str:
    """Return a line with the consumer's counters of the newest poll."""
    view = ConsumerView(state, 0, stream)
    for row in reversed(view.rows()):
        columns = view.columns
        if columns.name[row] == consumer:
            ack_floor = columns.ack_floor_stream_seq[row]
            return (
                f"unprocessed {columns.pending_msgs[row]:,}   "
                f"ack pending {columns.ack_pending_msgs[row]:,}   "
                f"redelivered {columns.redelivered_msgs[row]:,}   "
                f"delivered {columns.delivered_stream_seq[row]}   floor {ack_floor}"
            )
    return "the consumer's counters are not known yet"


def parse_delay_s(text: str) -> float:
    """Return the seconds of a text such as `1m30s`; raises ValueError for other texts."""
    return parse_duration_ns(text) / 1e9


_decoder = decoder_of(PulledMessage)


class PullScreen(LiveScreen):
    """The pull screen: a message with the keys to ack or nak it, and the consumer's counters."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "next", "Next message", key_display="enter", id="pull.next"),
        Binding("a", "answer('ack')", "Ack", id="pull.ack"),
        Binding("A", "answer('double_ack')", "Double ack", id="pull.double_ack"),
        Binding("r", "answer('nak')", "Nak", id="pull.nak"),
        Binding("D", "delay", "Nak later", id="pull.delay"),
        Binding("i", "answer('in_progress')", "In progress", id="pull.in_progress"),
        Binding("t", "term", "Term", id="pull.term"),
    ]
    DEFAULT_CSS = """
    PullScreen #caption { height: auto; max-height: 4; }
    PullScreen #counters { height: 2; padding: 0 1; background: $surface; }
    """

    caption = getters.query_one("#caption", Static)
    counters = getters.query_one("#counters", Static)
    raw = getters.query_one(RawView)

    def __init__(self, stream: str, consumer: str) -> None:
        super().__init__()
        self.stream, self.consumer = stream, consumer
        self.pulled_message: PulledMessage | None = None
        self._confirmed_pull: PullNext | None = None
        """The last pull that the user confirmed, with the values that the prompt showed."""
        self._pulling_task: Worker[None] | None = None
        """The task that pulls a message; the key does nothing until the task has ended."""

    def asset(self) -> Target | None:
        """Return the consumer that the screen pulls from."""
        return Target(self.stream, self.consumer)

    def body(self) -> Iterable[Widget]:
        """Yield caption, counters and message."""
        yield Static(id="caption", markup=False)
        yield Static(id="counters", markup=False)
        yield RawView()

    def on_mount(self) -> None:
        """Show the key that pulls a message."""
        self._show_caption("enter pulls the next message")
        self.raw.focus()

    def on_screen_resume(self) -> None:
        """Request that the consumer is polled first."""
        poll_rows_first(self, (self.stream,), ((self.stream, self.consumer),))

    def _show_caption(self, text: str, style_name: str = "") -> None:
        self.caption.update(safe(f"{self.stream}  ›  {self.consumer}  ·  {text}", style_name))

    def refresh_state(self) -> None:
        """Show the consumer's counters."""
        self.counters.update(safe(counters_text(self.state, self.stream, self.consumer)))

    def _draw(self, result: PulledMessage) -> None:
        text, format_name, caption = message_text(result.message, "auto")
        self.raw.show(text, "json" if format_name == "json" else "text")
        delivery_note = (
            "first delivery"
            if result.deliveries_count == 1
            else (f"delivery {result.deliveries_count}")
        )
        self._show_caption(f"{caption}  ·  {delivery_note}  ·  not acked yet")

    def action_next(self) -> None:
        """Pull the next message."""
        if self._pulling_task is None or self._pulling_task.is_finished:
            self._pulling_task = run_task(self, self._pull_message)

    async def _pull_message(self) -> None:
        self._show_caption("pulling …")
        reply = await self._pull_confirmed(PullNext(0, self.stream, self.consumer))
        if reply is None:
            self._show_caption("not confirmed: nothing is pulled", "warn")
        elif reply.body_json is None or reply.status != "done":
            self._show_caption(reply.text, "warn")
        else:
            self.pulled_message = _decoder.decode(reply.body_json)
            self._draw(self.pulled_message)

    async def _pull_confirmed(self, command: PullNext) -> Answered | None:
        """Return the reply to a pull, after a prompt for the name if the engine requires it; None
        if the name was not typed.

        The screen prompts again only if the values that the prompt shows have changed.
        """
        engine = self.engine
        reply = await engine.change(command)
        if not needs_confirmation(command, reply):
            return reply
        if self._confirmed_pull is None or self._confirmed_pull.decided_on != confirmation_in(
            reply
        ):
            confirmed_command = await prompt_confirmation(self, command, reply)
            if not isinstance(confirmed_command, PullNext):
                return None
            self._confirmed_pull = confirmed_command
        return await engine.change(self._confirmed_pull)

    def action_answer(self, answer: Answer) -> None:
        """Send an ack, nak or other acknowledgement of the message."""
        if (pulled_message := self._require_message()) is not None:
            run_task(self, self._send_ack, self._ack_command(pulled_message, answer))

    async def _send_ack(self, command: AnswerMessage) -> None:
        self._show_reply(await self.engine.change(command))

    def _show_reply(self, reply: Answered) -> None:
        self._show_caption(reply.text, "ok" if reply.status == "done" else "error")

    def _require_message(self) -> PulledMessage | None:
        """Return the pulled message; if none was pulled yet, show how to pull and return None."""
        if self.pulled_message is None:
            self._show_caption("no message was pulled yet: enter pulls one", "warn")
        return self.pulled_message

    def _ack_command(
        self,
        pulled_message: PulledMessage,
        answer: Answer,
        delay_s: float | None = None,
        reason: str | None = None,
    ) -> AnswerMessage:
        """Return the command that sends an acknowledgement of a message."""
        confirmed_name = None if self._confirmed_pull is None else self._confirmed_pull.confirmed
        return AnswerMessage(
            0, self.consumer, pulled_message.reply, answer, delay_s, reason, confirmed_name,
            pulled_message.consumer_created_at_us,
        )  # fmt: skip

    def action_delay(self) -> None:
        """Prompt for a delay, and nak the message with it."""
        if (pulled_message := self._require_message()) is None:
            return

        # Another message may be pulled while the time is typed.
        def to_command(text: str) -> AnswerMessage:
            return self._ack_command(pulled_message, "nak", parse_delay_s(text))

        title = "Deliver again after what time? As 5s or 1m30s"
        prompt = CommandPrompt(
            title, to_command, refusal=_delay_refusal, meaning=duration_meaning,
            show=self._show_reply,
        )  # fmt: skip
        prompt_command(self, prompt)

    def action_term(self) -> None:
        """Prompt for a reason, and terminate the message."""
        if (pulled_message := self._require_message()) is None:
            return

        def to_command(reason: str) -> AnswerMessage:
            return self._ack_command(pulled_message, "term", reason=reason or None)

        prompt_command(
            self,
            CommandPrompt("Reason to terminate the message?", to_command, show=self._show_reply),
        )


def _delay_refusal(text: str) -> str:
    """Return the reason why a text is no valid delay; empty for a valid one."""
    try:
        parse_delay_s(text)
    except ValueError as error:
        return str(error)
    return ""
