"""How a form is sent: what it removes for good is shown while it is typed, and confirmed."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import ClassVar

from textual.binding import Binding, BindingType

from natstui.decoding import decoder_of
from natstui.model.records.managing import Change, Confirmation
from natstui.model.records.messages import Answered
from natstui.tui.frame.confirmation import request_confirmed
from natstui.tui.frame.form.entries import Entries
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.requests import run_task
from natstui.tui.frame.screen_part import ScreenPart

_confirmation = decoder_of(Confirmation)


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
        self._is_sending = False
        self._sent_texts: dict[str, str] = {}

    @property
    def is_all(self) -> bool:
        """Whether nothing was typed since it was sent."""
        return self._entries.texts == self._sent_texts

    async def action_send(self) -> None:
        """Send it, or go to the first field that is wrong."""
        if problems := self._entries.draft.problems:
            await self._correct(problems[0].path)
        elif not self._is_sending:
            run_task(self._screen, self._send)

    def preview_loss(self) -> None:
        """Read what an edit removes, unless that is known of the same edit."""
        draft = self._entries.draft
        config = json.dumps(draft.config)
        if not self._entries.subject.editing or draft.problems or config == self._previewed:
            return
        self._previewed = config
        run_task(self._screen, self._read_loss, replaces="preview")

    async def _read_loss(self) -> None:
        """Show what the edit removes."""
        reply = await self._screen.engine.request(replace(self._change(), dry_run=True))
        shown = _confirmation.decode(reply.body_json) if reply.body_json else None
        self.removes = shown.lines if shown is not None else ()
        self._redraft()

    def take_as_previewed(self) -> None:
        """Count the losses that are known as those of the present draft."""
        self._previewed = json.dumps(self._entries.draft.config)

    async def _send(self) -> None:
        """Send it, again once the name was typed where the engine wants that."""
        self._sent_texts = dict(self._entries.texts)
        self._say("sending …", "")
        self._is_sending = True
        reply = await request_confirmed(self._screen, self._change())
        self._is_sending = False
        if reply is None:
            self._say("", "")
        else:
            self._show_reply(reply)

    def _change(self) -> Change:
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
            created_at_us=subject.created_at_us,
        )
