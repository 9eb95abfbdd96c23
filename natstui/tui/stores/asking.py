"""What a screen of a bucket reads again and again, and the newest page of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from natstui.clean import clean_line
from natstui.model.records.messages import Answered
from natstui.model.records.record import Command
from natstui.tui.frame.live import LiveScreen, Renewing

T = TypeVar("T")


class RenewedPage(Generic[T]):
    """Keeps the newest page; what cannot be read leaves the one before, with the reason."""

    def __init__(
        self,
        screen: LiveScreen,
        command: Callable[[], Command],
        every_s: float,
        decoder: msgspec.json.Decoder[T],
        show: Callable[[T], None] = lambda _: None,
    ) -> None:
        """`show` gets each page when it has come."""
        self._renewing = Renewing(screen, command, every_s, self._keep)
        self._decoder, self._show = decoder, show
        self.page: T | None = None
        self.problem = ""
        self.begin, self.ask = self._renewing.begin, self._renewing.ask
        self.keep_up = self._renewing.keep_up

    def _keep(self, reply: Answered) -> None:
        if reply.status != "done" or reply.body_json is None:
            self.problem = clean_line(reply.text)
            return
        self.problem, self.page = "", self._decoder.decode(reply.body_json)
        self._show(self.page)
