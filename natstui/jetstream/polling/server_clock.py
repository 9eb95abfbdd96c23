"""Converts the time of a row to our clock: over a slow link, a reply may take seconds."""

from __future__ import annotations

from dataclasses import dataclass

from natstui.jetstream.connection.decode.asset import clock_server_of
from natstui.jetstream.connection.decode.consumers import ConsumerRow
from natstui.jetstream.connection.decode.streams import StreamRow

_FAST_TRIPS_RATIO = 2
_MAX_UNCERTAINTY_US = 100_000
"""Maximum uncertainty of a server's clock for rates to be computed from its times."""


@dataclass(slots=True)
class _Clock:
    offset_us: int
    """Difference to add to a time of the server to get ours."""
    is_exact: bool


class ServerClocks:
    """Compares each server's clock with ours, by fast replies.

    A reply is created after its request was sent and before it arrives, so each reply bounds the
    difference of the clocks. The fastest replies determine it; the server's time of a slow reply
    is then converted with it. A clock that was set, or runs faster, changes the difference only as
    far as needed.
    """

    def __init__(self) -> None:
        self._clocks: dict[str, _Clock] = {}
        self.trip_us = 0
        """Time of the fastest replies over this link."""

    def set_time(self, row: StreamRow | ConsumerRow, *, trusts_reply: bool = False) -> bool:
        """Set the time of a row by our clock; return False if it is unknown.

        `trusts_reply` is as in `find_created_mono_us`.
        """
        created_us = self.find_created_mono_us(
            clock_server_of(row.cluster),
            row.written_at_us,
            row.requested_mono_us,
            row.sampled_mono_us,
            trusts_reply=trusts_reply,
        )
        row.sampled_mono_us = row.sampled_mono_us if created_us is None else created_us
        return created_us is not None

    def find_created_mono_us(
        self,
        server: str | None,
        ts_us: int | None,
        requested_mono_us: int,
        received_mono_us: int,
        *,
        trusts_reply: bool = False,
    ) -> int | None:
        """Return when the server created a reply, by our clock; None while unknown.

        With `trusts_reply` this reply counts as exact, because no faster one is expected. Servers
        before 2.10 send no time: then the arrival of the reply counts. `server` is None without a
        leader: any replica may have replied then.
        """
        if ts_us is None:
            return received_mono_us
        if server is None:
            return self._earliest_us(ts_us, requested_mono_us, received_mono_us)
        min_offset_us, max_offset_us = requested_mono_us - ts_us, received_mono_us - ts_us
        clock = self._clocks.get(server)
        if clock is None or not clock.is_exact:
            middle_offset_us = (min_offset_us + max_offset_us) // 2
            clock = self._clocks[server] = _Clock(middle_offset_us, is_exact=False)
        nearest_offset_us = min(max(clock.offset_us, min_offset_us), max_offset_us)
        has_clock_jumped = abs(nearest_offset_us - clock.offset_us) > _MAX_UNCERTAINTY_US
        is_reply_fast = max_offset_us - min_offset_us <= max(
            _MAX_UNCERTAINTY_US, _FAST_TRIPS_RATIO * self.trip_us
        )
        clock.offset_us = nearest_offset_us
        clock.is_exact = trusts_reply or is_reply_fast or (clock.is_exact and not has_clock_jumped)
        return ts_us + clock.offset_us if clock.is_exact else None

    def _earliest_us(self, ts_us: int, requested_mono_us: int, received_mono_us: int) -> int:
        """Return the earliest possible time of a reply of any server, by our clock.

        A later time could make the rows of a delayed list look new.
        """
        created_candidates_us = (
            ts_us + clock.offset_us for clock in self._clocks.values() if clock.is_exact
        )
        possible_created_us = [
            created_us
            for created_us in created_candidates_us
            if requested_mono_us <= created_us <= received_mono_us
        ]
        return min(possible_created_us, default=requested_mono_us)
