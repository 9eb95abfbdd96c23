"""Messages sent again: which, where to, what that would do, and then done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from natstui.clean import clean_line
from natstui.decoding import decoder_of
from natstui.model.assets.subjects import is_subject
from natstui.model.records.copies import AgainCounted, CountAgain, GivenUpFound, SendAgain
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.messages import Announced, Asked, answer_to, next_command_id
from natstui.tui.kit.pick import Pick
from natstui.tui.kit.prompt import Prompt
from natstui.tui.kit.text import safe_copy
from natstui.units import bytes_text, counted

_decoder = decoder_of(AgainCounted)
_TOLD_SUBJECTS = 5


class SendingAgain:
    """Asks step by step for a screen, which hands it each newer state."""

    def __init__(self, screen: LiveScreen, stream: str) -> None:
        self._screen, self._stream = screen, stream
        self._counting: CountAgain | None = None
        self._is_known = True

    def choose(self, choices: Mapping[str, tuple[int, ...]], found: GivenUpFound) -> None:
        """Ask which messages, from words and their sequences; then go on asking."""
        self._is_known = found.is_known

        def chosen(word: str | None) -> None:
            if word is not None:
                self._ask_subject(choices[word], found.created_at_us)

        words = [(word, _span(seqs)) for word, seqs in choices.items()]
        self._screen.app.push_screen(Pick("Send which of them again?", words), chosen)

    def _ask_subject(self, seqs: tuple[int, ...], created_at_us: int) -> None:
        def refusal(text: str) -> str:
            text = text.strip()
            fits = not text or (is_subject(text) and "*" not in text and ">" not in text)
            return "" if fits else f"{text!r} is no subject to publish to"

        def go(text: str | None) -> None:
            if text is None:
                return
            number, subject = next_command_id(), text.strip() or None
            self._counting = CountAgain(number, self._stream, seqs, created_at_us, subject)
            self._screen.app.post_message(Asked(self._counting))

        question = (
            "To which subject? Empty: each to its own, where every consumer of it gets it again"
        )
        self._screen.app.push_screen(Prompt(question, refusal=refusal), go)

    def take_state(self) -> None:
        """Ask whether to do it once it was counted what that would do."""
        asked = self._counting
        if asked is None or (answer := answer_to(self._screen.state, asked.command_id)) is None:
            return
        self._counting = None
        if answer.body_json is None:
            self._screen.app.notify(safe_copy(answer.text), severity="error", timeout=15)
            return
        counted_ = _decoder.decode(answer.body_json)
        if not counted_.messages_count:
            self._screen.app.notify("none of them is stored any more", severity="warning")
            return
        self._ask(asked, counted_)

    def _ask(self, asked: CountAgain, counted_: AgainCounted) -> None:
        started = self._screen.state.started
        command = SendAgain(
            0, asked.stream, asked.sequences, asked.created_at_us, asked.to_subject,
            asked.stream if started is not None and started.production else None,
        )  # fmt: skip

        def answered(word: str | None) -> None:
            if word != "send":
                return
            if command.confirmed is None:
                self._send(command)
            else:
                self._confirm(lambda: self._send(command))

        words = [("send", "store them again"), ("leave", "nothing is sent")]
        told = preview_lines(counted_, is_known=self._is_known)
        self._screen.app.push_screen(Pick(question_text(asked, counted_), words, told), answered)

    def _confirm(self, then: Callable[[], None]) -> None:
        def typed(text: str | None) -> None:
            if text is not None:
                then()

        question = f"This is production. Type {self._stream} to send its messages again"
        self._screen.app.push_screen(Prompt(question, word=self._stream), typed)

    def _send(self, command: SendAgain) -> None:
        self._screen.app.post_message(
            Announced(replace(command, command_id=next_command_id()), "Sent again")
        )


def question_text(asked: CountAgain, counted_: AgainCounted) -> str:
    """Return what is asked before messages are sent again."""
    what = counted(f"{counted_.messages_count:,}", "message")
    where = f"to {asked.to_subject}" if asked.to_subject else "to their own subjects"
    size = bytes_text(counted_.payload_bytes)
    return clean_line(f"Send {what} of {asked.stream} ({size}) {where}?")


def preview_lines(counted_: AgainCounted, *, is_known: bool) -> list[str]:
    """Return what sending them would do, a clause a line."""
    lines = [
        f"{count:,} {subject} → {stream or 'no stream stores it: refused'}"
        for subject, count, stream in counted_.subjects[:_TOLD_SUBJECTS]
    ]
    others = counted_.other_subjects_count + len(counted_.subjects[_TOLD_SUBJECTS:])
    lines += [f"and {counted(others, 'more subject')}"] if others else []
    lines += [f"{counted_.gone_count:,} are gone and not sent"] if counted_.gone_count else []
    if not is_known:
        lines.append("some of them may have been acknowledged: nothing tells which")
    return [clean_line(line) for line in lines]


def _span(seqs: tuple[int, ...]) -> str:
    return f"{seqs[0]}" if len(seqs) == 1 else f"{seqs[0]}…{seqs[-1]}"
