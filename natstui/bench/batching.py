"""What both kinds of publish batches share: an inbox, a wait, a way to fail."""

from __future__ import annotations

from abc import ABC, abstractmethod

from natstui.bench.frames import Run
from natstui.bench.job import Job
from natstui.bench.link import WireLink
from natstui.bench.window import Window
from natstui.bench.wire_publish import no_stream, refusal


class Batching(ABC):
    """What both kinds share: a window, an inbox, a way to fail."""

    def __init__(self, job: Job, link: WireLink) -> None:
        self.job, self.link = job, link
        self.inbox = link.nc.new_inbox()
        self.timeout_s = job.orders.role.timeout_s
        self._lost_count = link.lost_count

    async def room_for(self, window: Window, count: int) -> None:
        """Wait until so many more messages may be in flight."""
        await window.wait(lambda: window.room >= count, self.timeout_s, self.check)

    async def all_answered(self, window: Window) -> None:
        """Wait until nothing is in flight."""
        await window.wait(lambda: not window.open_count, self.timeout_s, self.check)

    def check(self) -> None:
        """Raise what failed on the link meanwhile; a lost connection loses the open batch."""
        if self.link.failure.done():
            raise self.link.failure.result()
        if self.link.lost_count != self._lost_count:
            self._lost_count = self.link.lost_count
            self.lost()

    @abstractmethod
    def lost(self) -> None:
        """Take note that nothing sent so far will be answered any more."""

    def refused(self, run: Run, count: int) -> None:
        """Count refused messages and end the run with the reason."""
        self.job.tally.add("refused_msgs", count)
        subject = self.job.orders.role.subject
        answer = run.text(0, run.layout.payload)
        self.link.fail(no_stream(subject) if run.status else refusal(answer, subject))
