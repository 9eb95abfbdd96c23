"""The keys that set how often the engine polls."""

from __future__ import annotations

from natstui.model.record import PollNow, SetInterval, SetPolling
from natstui.tui.replaying import Replaying

INTERVALS_S = (0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)


class Rhythm(Replaying):
    """Polling on or off, faster, slower, now: part of the app."""

    polling = True
    interval_s = 1.0

    def action_pause(self) -> None:
        """Stop or resume polling."""
        self.polling = not self.polling
        self.send(SetPolling(0, self.polling))
        self.notify("polling goes on" if self.polling else "polling is paused", timeout=2)

    def action_poll_now(self) -> None:
        """Poll at once."""
        self.send(PollNow(0))

    def action_faster(self) -> None:
        """Poll more often."""
        self.poll_every(max((s for s in INTERVALS_S if s < self.interval_s), default=0.25))

    def action_slower(self) -> None:
        """Poll less often."""
        self.poll_every(min((s for s in INTERVALS_S if s > self.interval_s), default=60.0))

    def poll_every(self, interval_s: float) -> None:
        """Ask the engine for another rhythm."""
        self.interval_s = interval_s
        self.send(SetInterval(0, interval_s))
        self.notify(f"polling every {interval_s:g} s", timeout=2)
