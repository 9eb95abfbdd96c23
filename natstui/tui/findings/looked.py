"""What was found in one system: made anew only when something of it is another."""

from __future__ import annotations

from natstui.model.live.state import State
from natstui.tui.findings.cells import Found
from natstui.tui.findings.hints import Hints


class Looked:
    """The findings of one system, and those about its settings."""

    def __init__(self) -> None:
        self.hints = Hints()
        self.found = Found(State())
        self._made_for: tuple[object, ...] = ()

    def found_in(self, state: State, *, with_hints: bool, with_over: bool) -> Found:
        """Return the findings of a state; the same object while they are the same."""
        made_for = (state.findings, self.hints.found, with_hints, with_over)
        if not self._made_for or any(
            new is not old for new, old in zip(made_for, self._made_for, strict=True)
        ):
            self._made_for = made_for
            self.found = Found(state, self.hints.found, with_hints=with_hints, with_over=with_over)
        return self.found
