"""Messages sent again: which, where to, what that would do, and then done."""

from __future__ import annotations

from collections.abc import Mapping

from natstui.clean import clean_line
from natstui.decoding import decoder_of
from natstui.model.assets.subjects import is_subject
from natstui.model.records.copies import AgainCounted, CountAgain, GivenUpFound, SendAgain
from natstui.tui.frame.live import LiveScreen
from natstui.tui.kit.pick import Pick
from natstui.tui.kit.prompt import Prompt
from natstui.tui.kit.text import safe_copy
from natstui.units import bytes_text, counted

_decoder = decoder_of(AgainCounted)
_TOLD_SUBJECTS = 5


async def send_again(
    screen: LiveScreen, stream: str, choices: Mapping[str, tuple[int, ...]], found: GivenUpFound
) -> None:
    """Ask which messages, from labels and their sequences, and where to; then send them."""
    app, engine = screen.app, screen.engine
    labels = [(label, _span(seqs)) for label, seqs in choices.items()]
    label = await app.push_screen_wait(Pick("Send which of them again?", labels))
    if label is None:
        return
    question = "To which subject? Empty: each to its own, where every consumer of it gets it again"
    subject = await app.push_screen_wait(Prompt(question, refusal=_subject_refusal))
    if subject is None:
        return
    count = CountAgain(0, stream, choices[label], found.created_at_us, subject.strip() or None)
    reply = await engine.request(count)
    if reply.body_json is None:
        app.notify(safe_copy(reply.text), severity="error", timeout=15)
        return
    counts = _decoder.decode(reply.body_json)
    if not counts.messages_count:
        app.notify("none of them is stored any more", severity="warning")
        return
    options = [("send", "store them again"), ("leave", "nothing is sent")]
    effects = preview_lines(counts, is_known=found.is_known)
    pick = Pick(question_text(count, counts), options, effects)
    if await app.push_screen_wait(pick) != "send":
        return
    started, typed = screen.state.started, None
    if started is not None and started.production:
        question = f"This is production. Type {stream} to send its messages again"
        typed = await app.push_screen_wait(Prompt(question, word=stream))
        if typed is None:
            return
    command = SendAgain(0, stream, count.sequences, count.created_at_us, count.to_subject, typed)
    engine.start(command, "Sent again")


def _subject_refusal(text: str) -> str:
    """Return why a text is no subject to publish to; empty: it is one, or nothing."""
    text = text.strip()
    fits = not text or (is_subject(text) and "*" not in text and ">" not in text)
    return "" if fits else f"{text!r} is no subject to publish to"


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
