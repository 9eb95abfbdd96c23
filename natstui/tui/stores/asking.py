"""What a screen of a bucket asks again and again, and the newest answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from natstui.clean import clean_line
from natstui.model.records.record import Command
from natstui.tui.frame.live import LiveScreen, Renewing

T = TypeVar("T")


class Asking(Generic[T]):
    """Keeps the newest page; what cannot be read leaves the one before, and says why."""

    def __init__(
        self,
        screen: LiveScreen,
        question: Callable[[int], Command],
        every_s: float,
        decoder: msgspec.json.Decoder[T],
    ) -> None:
        self._renewing, self._decoder = Renewing(screen, question, every_s), decoder
        self.page: T | None = None
        self.problem = ""
        self.begin, self.ask = self._renewing.begin, self._renewing.ask

    def take_state(self) -> T | None:
        """Return a page once, when it has come."""
        answer = self._renewing.answer()
        if answer is None:
            if self.page is None:
                self._renewing.keep_up()
            return None
        if answer.status != "done" or answer.body_json is None:
            self.problem = clean_line(answer.text)
            return None
        self.problem, self.page = "", self._decoder.decode(answer.body_json)
        return self.page
