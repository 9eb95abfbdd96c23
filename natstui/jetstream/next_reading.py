"""The part of a poll that finds out how far consumers lag, as time."""

from __future__ import annotations

from collections.abc import Mapping

from natstui.errors import PermissionDenied, RequestFailed
from natstui.jetstream.availability import Availability
from natstui.jetstream.decode_consumer import ConsumerRow
from natstui.jetstream.decode_stream import StreamRow
from natstui.jetstream.metered import MeteredApi
from natstui.jetstream.next_message import NextMessages
from natstui.jetstream.poll_round import Round

_NEXT_COUNT = 4
_NEXT = "STREAM.MSG.GET"


class NextReading:
    """Fills in when the next message of each consumer was stored, where that can be known."""

    def __init__(self, api: MeteredApi, availability: Availability) -> None:
        self._api = api
        self._availability = availability
        self._next = NextMessages()

    async def find(
        self,
        allowed: Round,
        in_view: tuple[tuple[str, str], ...],
        consumers: Mapping[tuple[str, str], ConsumerRow],
        streams: Mapping[str, StreamRow],
    ) -> None:
        """Look at every row, and ask a few times for what is in view; raises ServerGone only."""
        visible = set(in_view)
        self._next.keep(visible)
        asked_count = 0
        for key, row in consumers.items():
            stream = streams.get(row.stream_name)
            if stream is None or not row.num_pending:
                continue
            row.next_at_us = self._next.remembered_us(row, stream)
            worth = row.next_at_us is None and key in visible and asked_count < _NEXT_COUNT
            if worth and allowed.has_room and self._next.worth_asking(row, stream):
                asked_count += 1
                row.next_at_us = await self._ask(row)

    async def _ask(self, row: ConsumerRow) -> int | None:
        of_stream = f"{_NEXT}.{row.stream_name}"
        if not (self._availability.may_ask(_NEXT) and self._availability.may_ask(of_stream)):
            return None
        try:
            at_us = await self._next.ask_us(self._api, row)
        except PermissionDenied as error:
            self._availability.failed(_NEXT, error)
            return None
        except RequestFailed as error:
            self._availability.failed(of_stream, error)
            return None
        self._availability.worked(_NEXT)
        self._availability.worked(of_stream)
        return at_us
