"""Tracks which requests fail, why, and when to send them again."""

from __future__ import annotations

import time
from dataclasses import dataclass

from natstui.clock import steady_s
from natstui.errors import JetStreamUnavailable, NatstuiError, PermissionDenied, RequestTimedOut
from natstui.feed import Sink
from natstui.model.records.record import BULK_SOURCE, Restored, Unavailable

_DENIED_PAUSE_S = 30.0
_MAX_PAUSE_S = 30.0
_FIRST_PAUSE_S = 1.0


@dataclass(slots=True)
class _RequestFailure:
    reason: str
    is_denied: bool
    failures_count: int
    retry_mono_s: float


def _retry_pause_s(error: NatstuiError, failures_count: int) -> float:
    if isinstance(error, PermissionDenied):
        return _DENIED_PAUSE_S
    if isinstance(error, JetStreamUnavailable | RequestTimedOut):
        # A request without a reply costs the server nothing, and may work again at any moment.
        return _FIRST_PAUSE_S
    doubled_pause_s: float = _FIRST_PAUSE_S * 2 ** min(failures_count, 10)
    return min(_MAX_PAUSE_S, doubled_pause_s)


class RequestAvailability:
    """Reports to the sink once when a request fails, and once when it works again."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._failures: dict[str, _RequestFailure] = {}

    def may_request(self, request: str) -> bool:
        """Return whether a request works, or the pause after its failure is over."""
        failure = self._failures.get(request)
        return failure is None or steady_s() >= failure.retry_mono_s

    def report_failure(self, request: str, error: NatstuiError) -> None:
        """Pause a request that failed; report the reason unless the last report had the same."""
        # The report names the request beside the reason.
        reason = str(error).removeprefix(f"{request}: ")
        previous_failure = self._failures.get(request)
        failures_count = previous_failure.failures_count + 1 if previous_failure else 0
        retry_mono_s = steady_s() + _retry_pause_s(error, failures_count)
        self._failures[request] = _RequestFailure(
            reason, isinstance(error, PermissionDenied), failures_count, retry_mono_s
        )
        denied_subject = error.subject if isinstance(error, PermissionDenied) else None
        # Each try may name another subject: one report stands for all denials of a verb.
        is_still_denied = (
            previous_failure is not None
            and previous_failure.is_denied
            and denied_subject is not None
        )
        if not is_still_denied and (previous_failure is None or previous_failure.reason != reason):
            self._sink.add(Unavailable(time.time_ns() // 1000, request, reason, denied_subject))

    def report_success(self, request: str) -> bool:
        """Report that a request works again, if it had failed; return whether it had."""
        was_failing = self._failures.pop(request, None) is not None
        if was_failing:
            self._sink.add(Restored(time.time_ns() // 1000, request))
        return was_failing

    def failed_streams(self, verb: str) -> list[str]:
        """Return the streams for which the request `<verb>.<stream>` has failed."""
        prefix = f"{verb}."
        return [
            request.removeprefix(prefix)
            for request in self._failures
            if request.startswith(prefix)
        ]

    def retry_all(self) -> None:
        """End the pauses of all failed requests."""
        for failure in self._failures.values():
            failure.retry_mono_s = 0.0

    @property
    def waiting_reason(self) -> str | None:
        """Return the reason of a request that failed repeatedly and is paused, or None."""
        waiting_reasons = (
            failure.reason
            for request, failure in self._failures.items()
            if failure.failures_count and not failure.is_denied and request != BULK_SOURCE
        )
        return next(waiting_reasons, None)
