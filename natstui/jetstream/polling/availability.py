"""Tracks what cannot be read, why, and when to request it again."""

from __future__ import annotations

import time
from dataclasses import dataclass

from natstui.clock import steady_s
from natstui.errors import JetStreamUnavailable, NatstuiError, PermissionDenied, RequestTimedOut
from natstui.feed import Sink
from natstui.model.records.record import BULK, Restored, Unavailable

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
    """Reports to the sink once when a request fails, and once when it works again."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._troubles: dict[str, _Trouble] = {}

    def may_ask(self, request: str) -> bool:
        """Return whether a request works, or the pause after its failure is over."""
        failure = self._troubles.get(request)
        return failure is None or steady_s() >= failure.ask_again_mono_s

    def failed(self, request: str, error: NatstuiError) -> None:
        """Pause a request; report the reason unless it was reported already."""
        # The report names the request beside the reason.
        reason = str(error).removeprefix(f"{request}: ")
        before = self._troubles.get(request)
        failures_count = before.failures_count + 1 if before else 0
        again_s = steady_s() + _pause_s(error, failures_count)
        self._troubles[request] = _Trouble(
            reason, isinstance(error, PermissionDenied), failures_count, again_s
        )
        denied_subject = error.subject if isinstance(error, PermissionDenied) else None
        # Each try may name another subject: one report stands for all denials of a verb.
        still_denied = before is not None and before.denied and denied_subject is not None
        if not still_denied and (before is None or before.reason != reason):
            self._sink.add(Unavailable(time.time_ns() // 1000, request, reason, denied_subject))

    def worked(self, request: str) -> bool:
        """Report that it can be read again; return whether it had failed before."""
        was_failing = self._troubles.pop(request, None) is not None
        if was_failing:
            self._sink.add(Restored(time.time_ns() // 1000, request))
        return was_failing

    def retry_all(self) -> None:
        """Allow every request again at once, after a reconnect."""
        for failure in self._troubles.values():
            failure.ask_again_mono_s = 0.0

    @property
    def waiting_reason(self) -> str | None:
        """Return why fewer requests are sent than possible, if the server did not reply to
        some.
        """
        waiting = (
            failure.reason
            for request, failure in self._troubles.items()
            if failure.failures_count and not failure.denied and request != BULK
        )
        return next(waiting, None)
