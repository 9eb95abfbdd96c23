"""Denied lists of consumers: told once for the whole verb, or stream by stream."""

from __future__ import annotations

from natstui.errors import PermissionDenied
from natstui.jetstream.availability import Availability

_LIST = "CONSUMER.LIST"
_ENOUGH_COUNT = 3


class ConsumerDenials:
    """Concludes from a few denials, and no success ever, that the user may list none."""

    def __init__(self, availability: Availability) -> None:
        self._availability = availability
        self._undecided: dict[str, PermissionDenied] = {}
        self._any_worked = False

    def may_ask(self, stream: str) -> bool:
        """Tell whether the consumers of this stream may be asked for now."""
        if len(self._undecided) >= _ENOUGH_COUNT or stream in self._undecided:
            return False
        available = self._availability
        return available.may_ask(_LIST) and available.may_ask(f"{_LIST}.{stream}")

    def denied(self, stream: str, error: PermissionDenied) -> None:
        """Take up one denial."""
        if self._any_worked:
            self._availability.failed(f"{_LIST}.{stream}", error)
        else:
            self._undecided[stream] = error

    def worked(self, stream: str) -> None:
        """Take up one success."""
        self._any_worked = True
        self._availability.worked(_LIST)
        self._availability.worked(f"{_LIST}.{stream}")

    def settle(self) -> None:
        """Tell what this poll's denials mean."""
        if self._undecided and not self._any_worked:
            self._availability.failed(_LIST, next(iter(self._undecided.values())))
        else:
            for stream, error in self._undecided.items():
                self._availability.failed(f"{_LIST}.{stream}", error)
        self._undecided.clear()
