"""Where to go among stored messages: sequence, time, subject, a consumer's place."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import msgspec
from textual.binding import Binding, BindingType

from natstui.model.stored import CountSubjects
from natstui.tui.asking import answer_to, next_command_id
from natstui.tui.message_pages import MessagePages
from natstui.tui.messages import Asked
from natstui.tui.pick import Pick
from natstui.tui.present.messages import payload_of
from natstui.tui.prompt import Prompt

_counts = msgspec.json.Decoder(dict[str, int])


class MessageJumps(MessagePages):
    """Asks where to go, and goes there."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "sequence", "Sequence", id="msg.sequence"),
        Binding("t", "time", "Time", id="msg.time"),
        Binding("slash", "subject", "Subject", key_display="/", id="msg.subject"),
        Binding("n", "subjects", "Subjects", id="msg.subjects"),
        Binding("l", "last", "Last each", id="msg.last"),
        Binding("o", "jump", "Consumer", id="msg.jump"),
        Binding("f", "find", "Find", show=False, id="msg.find"),
    ]

    _subjects_id = -1

    def refresh_state(self) -> None:
        """Take answers when they come."""
        super().refresh_state()
        if answer := answer_to(self.state, self._subjects_id):
            self._subjects_id = -1
            if answer.body_json is None:
                self.notify(answer.text, severity="error", markup=False)
            else:
                self._pick_subject(_counts.decode(answer.body_json))

    def prompt(self, question: str, then: Callable[[str], None], text: str = "") -> None:
        """Ask for a text, and do something with it unless it is cancelled."""

        def answered(typed: str | None) -> None:
            if typed is not None:
                then(typed.strip())

        self.app.push_screen(Prompt(question, text), answered)

    def action_sequence(self) -> None:
        """Go to a sequence."""

        def go(text: str) -> None:
            if text.isdecimal():
                self.read(from_seq=int(text), newer=True)
            else:
                self.notify(f"{text!r} is not a sequence", severity="error", markup=False)

        self.prompt("From which sequence on?", go)

    def action_time(self) -> None:
        """Go to a time."""
        question = "From which time on? As 2026-01-31T12:00:00Z"
        self.prompt(question, lambda text: self.read(from_time=text))

    def action_subject(self) -> None:
        """Show only messages of a subject or filter."""
        self.prompt(
            "Only which subjects? Empty is all",
            lambda text: self.read(filter_subject=text or None),
            self.asked.filter_subject or "",
        )

    def action_subjects(self) -> None:
        """Count the subjects, and pick one."""
        self._subjects_id = next_command_id()
        self.post_message(Asked(CountSubjects(self._subjects_id, self.stream)))

    def _pick_subject(self, counted: dict[str, int]) -> None:
        most = sorted(counted.items(), key=lambda pair: -pair[1])[:1000]
        words = [(subject, f"{count:,}") for subject, count in most]

        def pick(subject: str | None) -> None:
            if subject is not None:
                self.read(filter_subject=subject)

        self.app.push_screen(Pick(f"{len(counted):,} subjects", words), pick)

    def action_last(self) -> None:
        """Show the last message of each subject, or all again."""
        self.read(last_per_subject=not self.asked.last_per_subject)

    def action_jump(self) -> None:
        """Go to a place of a consumer."""
        if self.consumer is None:
            self.prompt("Which consumer?", self._jump)
        else:
            self._jump(self.consumer)

    def _jump(self, consumer: str) -> None:
        words = [
            ("first_unacked", "the first message it has not acknowledged"),
            ("ack_floor", "the last message all before which is settled"),
            ("next_to_deliver", "the next message it will deliver"),
        ]

        def go(jump: str | None) -> None:
            if jump is not None:
                self.read(consumer=consumer, jump=jump)

        self.app.push_screen(Pick(f"Where {consumer} is", words), go)

    def action_find(self) -> None:
        """Go to the next message on this page that holds a text."""
        self.prompt("Find in the messages shown", self._find)

    def _find(self, text: str) -> None:
        start = (self.list.highlighted or 0) + 1
        order = [*range(start, len(self.shown)), *range(start)]
        for at in order:
            message = self.shown[at]
            if text.encode() in payload_of(message) or text in message.subject:
                self.list.highlighted = at
                return
        self.notify(f"{text!r} is not in the messages shown", severity="warning", markup=False)
