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
from natstui.tui.frame.requests import run_task
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
        show_reply: Callable[[Answered], None],
    ) -> None:
        """`redraft` shows what the form means, `say` a sentence, `correct` goes to a field.

        `show_reply` gets the reply to what was sent.
        """
        self._screen, self._entries = screen, entries
        self._redraft, self._say, self._correct = redraft, say, correct
        self._show_reply = show_reply
        self.removes: tuple[str, ...] = ()
        """What the present draft would remove for good."""
        self._previewed = json.dumps(entries.draft.config)
        """The draft whose losses are known, or are read now."""
        self._send_when_previewed = self._is_sending = False
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
            self._send_when_previewed = True
            run_task(self._screen, self._preview_and_send, replaces="preview")
        else:
            self._start_sending(None)

    def preview_loss(self) -> None:
        """Read what an edit removes, unless that is known of the same edit."""
        draft = self._entries.draft
        known = json.dumps(draft.config) == self._previewed
        if not self._entries.subject.editing or draft.problems or known:
            return
        if self._send_when_previewed:
            key = key_of(self._screen, "form.send")
            text = f"not sent: you typed meanwhile. {key} sends it"
            self._screen.notify(text, severity="warning")
        self._send_when_previewed = False
        run_task(self._screen, self._preview_and_send, replaces="preview")

    async def _preview_and_send(self) -> None:
        """Show what the edit removes, and go on with sending it if that is wanted."""
        config = json.dumps(self._entries.draft.config)
        self._previewed = config
        subject = self._entries.subject
        consumer = text_at(subject.base, "name") if subject.kind == "consumer" else None
        action: Action = "edit_consumer" if consumer is not None else "edit_stream"
        preview = PreviewChange(0, action, subject.stream, consumer, config, subject.created_at_us)
        reply = await self._screen.engine.request(preview)
        seen = _preview.decode(reply.body_json) if reply.body_json else None
        self.removes = seen.lines if seen is not None else ()
        self._redraft()
        wanted, self._send_when_previewed = self._send_when_previewed, False
        if wanted and seen is None:
            self._say(reply.text, "error")
        elif wanted:
            self._start_sending(seen)

    def take_as_previewed(self) -> None:
        """Count the losses that are known as those of the present draft."""
        self._previewed = json.dumps(self._entries.draft.config)

    def _start_sending(self, seen: Preview | None) -> None:
        if not self._is_sending:
            run_task(self._screen, self._confirm_and_send, seen)

    async def _confirm_and_send(self, seen: Preview | None) -> None:
        """Send it, after the name was typed where something goes for good or in production."""
        started = self._screen.state.started
        production = started is not None and started.production
        lines = seen.lines if seen is not None else ()
        typed = None
        if lines or production:
            why = [f"{line[:1].upper()}{line[1:]}." for line in lines]
            why += ["This is production."] if production else []
            name = self._entries.name
            prompt = Prompt(f"{' '.join(why)} Type {name} to do it", word=name)
            typed = await self._screen.app.push_screen_wait(prompt)
            if typed is None:
                return
        change = self._change(typed, seen.most_msgs if seen is not None and typed else None)
        self._sent_texts = dict(self._entries.texts)
        self._say("sending …", "")
        self._is_sending = True
        reply = await self._screen.engine.request(change)
        self._is_sending = False
        self._show_reply(reply)

    def _change(self, confirmed: str | None, previewed_msgs: int | None) -> Change:
        subject, config = self._entries.subject, self._entries.draft.config
        name = self._entries.name
        is_consumer = subject.kind == "consumer"
        return Change(
            0,
            f"{'edit' if subject.editing else 'create'}_{subject.kind}",  # type: ignore[arg-type]
            subject.stream if is_consumer else name,
            name or None if is_consumer else None,
            json.dumps(config),
            json.dumps(dict(subject.base)) if subject.editing else None,
            confirmed,
            subject.created_at_us,
            previewed_msgs,
        )
