"""How a form is sent: what it removes for good is found out first, and confirmed."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import ClassVar

from textual.binding import Binding, BindingType

from natstui.decoding import decoder_of
from natstui.model.assets.fields import text_at
from natstui.model.records.managing import Action, Change, Preview, PreviewChange
from natstui.model.records.messages import Answered
from natstui.tui.frame.form.entries import Entries
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.messages import Asked, answer_to, next_command_id
from natstui.tui.frame.screen_part import ScreenPart
from natstui.tui.kit.keys import key_of
from natstui.tui.kit.prompt import Prompt

_preview = decoder_of(Preview)


class Sending(ScreenPart):
    """Sends what was entered, once nothing is wrong with it and what it removes is confirmed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s,f2", "part('sending', 'send')", "Send", id="form.send", priority=True),
    ]

    def __init__(
        self,
        screen: LiveScreen,
        entries: Entries,
        redraft: Callable[[], None],
        say: Callable[[str, str], None],
        correct: Callable[[str], Awaitable[None]],
    ) -> None:
        """`redraft` shows what the form means, `say` a sentence, `correct` goes to a field."""
        self._screen, self._entries = screen, entries
        self._redraft, self._say, self._correct = redraft, say, correct
        self.removes: tuple[str, ...] = ()
        """What the present draft would remove for good."""
        self._sent_id = self._preview_id = -1
        self._previewed = json.dumps(entries.draft.config)
        """The draft whose losses are known, or were asked for."""
        self._send_when_previewed = False
        self._sent_texts: dict[str, str] = {}

    @property
    def is_all(self) -> bool:
        """Whether nothing was typed since it was sent."""
        return self._entries.texts == self._sent_texts

    async def action_send(self) -> None:
        """Send it, or go to the first field that is wrong."""
        if problems := self._entries.draft.problems:
            await self._correct(problems[0].path)
        elif self._entries.subject.editing:
            self._preview_loss(then_send=True)
        else:
            self._confirm(None)

    def preview_loss(self) -> None:
        """Ask what an edit removes, unless the last question was about the same edit."""
        draft = self._entries.draft
        if (
            self._entries.subject.editing
            and not draft.problems
            and json.dumps(draft.config) != self._previewed
        ):
            self._preview_loss()

    def _preview_loss(self, *, then_send: bool = False) -> None:
        """Ask what the edit removes: it is shown, and asked about before it is sent."""
        if self._send_when_previewed and not then_send:
            key = key_of(self._screen, "form.send")
            text = f"not sent: you typed meanwhile. {key} sends it"
            self._screen.notify(text, severity="warning")
        config = json.dumps(self._entries.draft.config)
        self._previewed, self._send_when_previewed = config, then_send
        self._preview_id = next_command_id()
        subject = self._entries.subject
        consumer = text_at(subject.base, "name") if subject.kind == "consumer" else None
        action: Action = "edit_consumer" if consumer is not None else "edit_stream"
        made = subject.created_at_us
        asked = PreviewChange(self._preview_id, action, subject.stream, consumer, config, made)
        self._screen.app.post_message(Asked(asked))

    def take_as_previewed(self) -> None:
        """Count the losses that are known as those of the present draft."""
        self._previewed = json.dumps(self._entries.draft.config)

    def take_preview(self) -> None:
        """Show what the edit removes when that is known, and go on with sending it."""
        answer = answer_to(self._screen.state, self._preview_id)
        if answer is None:
            return
        self._preview_id = -1
        seen = _preview.decode(answer.body_json) if answer.body_json else None
        self.removes = seen.lines if seen is not None else ()
        self._redraft()
        wanted, self._send_when_previewed = self._send_when_previewed, False
        if wanted and seen is None:
            self._say(answer.text, "error")
        elif wanted:
            self._confirm(seen)

    def _confirm(self, seen: Preview | None) -> None:
        """Send it, after the name was typed where something goes for good or in production."""
        started = self._screen.state.started
        production = started is not None and started.production
        lines = seen.lines if seen is not None else ()
        if not lines and not production:
            self._send(None)
            return
        why = [f"{line[:1].upper()}{line[1:]}." for line in lines]
        why += ["This is production."] if production else []
        name = self._entries.name
        question = f"{' '.join(why)} Type {name} to do it"

        def send(typed: str | None) -> None:
            if typed is not None:
                self._send(typed, seen.most_msgs if seen is not None else None)

        self._screen.app.push_screen(Prompt(question, word=name), send)

    def _send(self, confirmed: str | None, previewed_msgs: int | None = None) -> None:
        subject, config = self._entries.subject, self._entries.draft.config
        name = self._entries.name
        consumer = name or None if subject.kind == "consumer" else None
        stream = subject.stream if subject.kind == "consumer" else name
        self._sent_id = next_command_id()
        self._sent_texts = dict(self._entries.texts)
        change = Change(
            self._sent_id,
            f"{'edit' if subject.editing else 'create'}_{subject.kind}",  # type: ignore[arg-type]
            stream,
            consumer,
            json.dumps(config),
            json.dumps(dict(subject.base)) if subject.editing else None,
            confirmed,
            subject.created_at_us,
            previewed_msgs,
        )
        self._say("sending …", "")
        self._screen.app.post_message(Asked(change))

    def answer(self) -> Answered | None:
        """Return the answer to what was sent, once, when it has come."""
        answer = answer_to(self._screen.state, self._sent_id)
        if answer is not None:
            self._sent_id = -1
        return answer
