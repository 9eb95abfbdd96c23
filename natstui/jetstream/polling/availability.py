"""What cannot be read at the moment, why, and when it is worth asking again."""

from __future__ import annotations

import time
from dataclasses import dataclass

from natstui.clock import steady_s
from natstui.errors import JetStreamUnavailable, NatstuiError, PermissionDenied, RequestTimedOut
from natstui.feed import Sink
from natstui.model.records.record import Restored, Unavailable

BULK = "JSZ"
"""What lists stand in for while it does not answer: nothing waits for it."""
_DENIED_S = 30.0
_LONGEST_S = 30.0
_FIRST_S = 1.0


@dataclass(slots=True)
class _Trouble:
    reason: str
    denied: bool
    failures_count: int
    ask_again_mono_s: float


def _pause_s(error: NatstuiError, failures_count: int) -> float:
    if isinstance(error, PermissionDenied):
        return _DENIED_S
    if isinstance(error, JetStreamUnavailable | RequestTimedOut):
        # Waiting for an answer costs the server nothing, and it may be back at any moment.
        return _FIRST_S
    doubled_s: float = _FIRST_S * 2 ** min(failures_count, 10)
    return min(_LONGEST_S, doubled_s)


class Availability:
    """Reports once to the sink when something fails, and once when it works again."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._troubles: dict[str, _Trouble] = {}

    def may_ask(self, what: str) -> bool:
        """Return whether it works, or the pause after its failure is over."""
        trouble = self._troubles.get(what)
        return trouble is None or steady_s() >= trouble.ask_again_mono_s

    def failed(self, what: str, error: NatstuiError) -> None:
        """Pause it; report the reason unless it was reported already."""
        before = self._troubles.get(what)
        failures_count = before.failures_count + 1 if before else 0
        again_s = steady_s() + _pause_s(error, failures_count)
        self._troubles[what] = _Trouble(
            str(error), isinstance(error, PermissionDenied), failures_count, again_s
        )
        denied = error.subject if isinstance(error, PermissionDenied) else None
        # Each try may name another subject: one report stands for all denials of a verb.
        still_denied = before is not None and before.denied and denied is not None
        if not still_denied and (before is None or before.reason != str(error)):
            self._sink.add(Unavailable(time.time_ns() // 1000, what, str(error), denied))

    def worked(self, what: str) -> bool:
        """Report that it can be read again; return whether it had failed before."""
        was_failing = self._troubles.pop(what, None) is not None
        if was_failing:
            self._sink.add(Restored(time.time_ns() // 1000, what))
        return was_failing

    def retry_all(self) -> None:
        """Allow every request again at once: the server is back."""
        for trouble in self._troubles.values():
            trouble.ask_again_mono_s = 0.0

    @property
    def waiting_reason(self) -> str | None:
        """Why fewer questions are asked than could be, if the server did not answer some."""
        waiting = (
            trouble.reason
            for what, trouble in self._troubles.items()
            if trouble.failures_count and not trouble.denied and what != BULK
        )
        return next(waiting, None)
