"""What is risky in settings: looked for in a few rows at a time, and again when they change."""

from __future__ import annotations

from itertools import chain

from natstui.model.findings.causes.settings import consumer_settings, stream_settings
from natstui.model.findings.finding import Finding
from natstui.model.live.state import State
from natstui.model.live.table import Key

ROWS_AT_ONCE = 400
"""Rows that are looked at together: a few milliseconds, so that keys are answered meanwhile."""
_AGAIN_AFTER_US = 60_000_000
"""Some settings become risky by time alone, as one that nobody uses for weeks."""
_Seen = tuple[object, object]
"""The settings of a row, and those of its stream, as they were looked at."""


class Hints:
    """The findings about the settings of every stream and consumer."""

    def __init__(self) -> None:
        self.found: tuple[Finding, ...] = ()
        """Another object when something is another one."""
        self._known: dict[Key, tuple[_Seen, tuple[Finding, ...]]] = {}
        self._complete_for: tuple[object, ...] = ()
        self._complete_at_us = 0

    def look(self, state: State) -> bool:
        """Look at rows that are new or set otherwise; return whether some are left for later."""
        whole = (
            state.streams.roster, state.consumers.roster,
            state.stream_configurations, state.consumer_configurations,
        )  # fmt: skip
        same = len(whole) == len(self._complete_for) and all(
            new is old for new, old in zip(whole, self._complete_for, strict=True)
        )
        if abs(state.now_at_us - self._complete_at_us) > _AGAIN_AFTER_US:
            if same:
                self._known = {key: ((None, None), it) for key, (_, it) in self._known.items()}
            self._complete_at_us = state.now_at_us
        elif same:
            return False
        left = self._look_at_some(state)
        if not left:
            self._complete_for = whole
        return left

    def _look_at_some(self, state: State) -> bool:
        known, before = self._known, len(self._known)
        streams, consumers = state.stream_configurations, state.consumer_configurations
        keys = state.streams.roster.keys, state.consumers.roster.keys
        changed, looked, left = False, 0, False
        for row, key in chain(enumerate(keys[0]), enumerate(keys[1])):
            name = str(key[0])
            of_consumer = len(key) == 3
            own = consumers.get((name, str(key[1]))) if of_consumer else streams.get(name)
            seen = (own, streams.get(name))
            was = known.get(key)
            if was is not None and was[0][0] is own and was[0][1] is seen[1]:
                continue
            if looked == ROWS_AT_ONCE:
                left = True
                break
            looked += 1
            found = tuple((consumer_settings if of_consumer else stream_settings)(state, row))
            changed = changed or found != (was[1] if was else ())
            known[key] = (seen, found)
        if not left and before > len(keys[0]) + len(keys[1]):
            alive = {*keys[0], *keys[1]}
            self._known = known = {key: it for key, it in known.items() if key in alive}
            changed = True
        if changed:
            self.found = tuple(chain.from_iterable(found for _, found in known.values()))
        return left
