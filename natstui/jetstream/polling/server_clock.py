"""The time of a row by our own clock: a slow link may take seconds for a reply."""

from __future__ import annotations

from dataclasses import dataclass

from natstui.jetstream.polling.decode.cluster import clock_of
from natstui.jetstream.polling.decode.consumers import ConsumerRow
from natstui.jetstream.polling.decode.streams import StreamRow

_TRIPS_RATIO = 2
_SURE_US = 100_000
"""How exactly a server's clock must be known before rates are computed from its times."""


@dataclass(slots=True)
class _Clock:
    behind_us: int
    """Difference to add to a time of the server to get ours."""
    sure: bool


class ServerClocks:
    """Compares each server's clock with ours, by fast replies.

    A reply is created after its request was sent and before it arrives, so each one bounds the
    difference of the clocks. The fastest replies determine it; a late one is then dated by the
    server's own time. A clock that was set, or runs faster, changes the difference only as far as
    needed.
    """

    def __init__(self) -> None:
        self._clocks: dict[str, _Clock] = {}
        self.trip_us = 0
        """How long the quickest answers take over this link."""

    def date(self, row: StreamRow | ConsumerRow, *, settle: bool = False) -> bool:
        """Set the time of a row by our clock; returns False if unknown."""
        made_us = self.made_mono_us(
            clock_of(row.cluster),
            row.made_at_us,
            row.asked_mono_us,
            row.sampled_mono_us,
            settle=settle,
        )
        row.sampled_mono_us = row.sampled_mono_us if made_us is None else made_us
        return made_us is not None

    def made_mono_us(
        self,
        server: str | None,
        ts_us: int | None,
        asked_mono_us: int,
        received_mono_us: int,
        *,
        settle: bool = False,
    ) -> int | None:
        """Return when the server created a reply, by our clock; None while unknown.

        `settle` accepts this reply as exact enough, because no faster one can be expected. Servers
        before 2.10 send no time: theirs is the arrival of the reply. `server` is None without a
        leader: any replica may have replied then.
        """
        if ts_us is None:
            return received_mono_us
        if server is None:
            return self._earliest_us(ts_us, asked_mono_us, received_mono_us)
        lowest_us, highest_us = asked_mono_us - ts_us, received_mono_us - ts_us
        clock = self._clocks.get(server)
        if clock is None or not clock.sure:
            middle_us = (lowest_us + highest_us) // 2
            clock = self._clocks[server] = _Clock(middle_us, sure=False)
        nearest_us = min(max(clock.behind_us, lowest_us), highest_us)
        was_set = abs(nearest_us - clock.behind_us) > _SURE_US
        quick = highest_us - lowest_us <= max(_SURE_US, _TRIPS_RATIO * self.trip_us)
        clock.behind_us = nearest_us
        clock.sure = settle or quick or (clock.sure and not was_set)
        return ts_us + clock.behind_us if clock.sure else None

    def _earliest_us(self, ts_us: int, asked_mono_us: int, received_mono_us: int) -> int:
        """Return the earliest possible time of a reply of any server.

        It is never dated later than it is: the rows of a delayed list would look new.
        """
        candidates_us = (ts_us + clock.behind_us for clock in self._clocks.values() if clock.sure)
        possible = [
            made_us for made_us in candidates_us if asked_mono_us <= made_us <= received_mono_us
        ]
        return min(possible, default=asked_mono_us)
