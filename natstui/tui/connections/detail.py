"""One connection in full, for as long as it lasts, and why it ended."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import ClassVar

from textual.binding import BindingType

from natstui.clean import clean_line
from natstui.decoding import decoder_of
from natstui.model.assets.configuration import ConsumerConfiguration
from natstui.model.clients.connection import (
    ClientConnection,
    Connections,
    Traffic,
    traffic_between,
)
from natstui.model.clients.holding import Held, push_consumers_of
from natstui.model.live.history import WINDOWS_S
from natstui.model.records.messages import Answered
from natstui.model.records.system import ReadConnection
from natstui.tui.connections.kicking import Kicking
from natstui.tui.connections.text import Sampled, connection_charts, connection_sections
from natstui.tui.frame.action_keys import KICK
from natstui.tui.frame.detail.screen import ChartedScreen
from natstui.tui.frame.live import Renewing

_decoder = decoder_of(Connections)
_RENEWED_AFTER_S = 2.0
_GAP_S = 4 * _RENEWED_AFTER_S
"""After so long, a rate between two looks says little of either moment."""
_SAMPLES_KEPT = round(WINDOWS_S[-1] / _RENEWED_AFTER_S)


class ConnectionDetail(ChartedScreen):
    """Who it is, what it does, what it holds and subscribes to; why it ended."""

    BINDINGS: ClassVar[list[BindingType]] = [KICK.binding("part('kicking', 'kick')")]

    def __init__(self, one: ClientConnection) -> None:
        super().__init__()
        self._one = one
        self.kicking = Kicking(self, lambda: self._one)
        self._seen: Connections | None = None
        self._traffic: Traffic | None = None
        self._problem = "asking …"
        self._samples: deque[Sampled] = deque(maxlen=_SAMPLES_KEPT)
        self._held: Sequence[Held] = ()
        self._held_among: Mapping[tuple[str, str], ConsumerConfiguration] | None = None
        self._renewing = Renewing(
            self, lambda: ReadConnection(0, *one.key), _RENEWED_AFTER_S, self._keep
        )

    def on_mount(self) -> None:
        """Read it again and again."""
        self._renewing.begin()

    def refresh_state(self) -> None:
        """Show what is known, and read it again when that is due; one that ended stays so."""
        self._renewing.keep_up()
        self._match()
        one = self._one
        title = clean_line(one.name or one.address)
        if self._problem:
            title += f"  ·  {self._problem}"
        title += "  ·  paused (p)" if self.paused else ""
        charts = connection_charts(self._samples, monotonic(), self.window_s)
        self.show_detail(title, connection_sections(one, self._traffic, self._held), charts)

    def _keep(self, reply: Answered) -> None:
        if reply.status != "done" or reply.body_json is None:
            self._problem = clean_line(reply.text)
            return
        self._problem, seen = "", _decoder.decode(reply.body_json)
        if not seen.rows:
            self._problem = "it has ended, and its server remembers it no more"
            return
        before, self._seen = self._seen, seen
        self._one, self._held_among = seen.rows[0], None
        traffic = traffic_between(before, seen) if before is not None else {}
        now_s, self._traffic = monotonic(), traffic.get(self._one.key)
        if self._one.stopped_at_us is not None:
            return
        if self._samples and now_s - self._samples[-1].at_s > _GAP_S:
            self._traffic = None
        self._samples.append(Sampled(now_s, self._traffic, self._one.pending_bytes))

    def _match(self) -> None:
        """Find the consumers it holds, when either it or the consumers are newer."""
        if self._held_among is not self.state.consumer_configurations:
            self._held_among = self.state.consumer_configurations
            self._held = push_consumers_of(self._one, self._held_among.values())
