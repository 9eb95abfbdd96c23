"""Reading stored messages without a consumer: direct gets in batches, or one by one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any, Protocol

from nats.aio.msg import Msg

from natstui.errors import NotFound, RequestFailed
from natstui.jetstream.connection.client import Client
from natstui.jetstream.messages.decode import from_api, from_direct
from natstui.model.records.messages import StoredMessage

MOST_MSGS = 500
_IN_FLIGHT = 50
_BATCH_BYTES = 8 * 1024 * 1024


class Getter(Protocol):
    """Reads the messages of one stream, in order of sequence."""

    async def run(
        self, from_seq: int, count: int, subject: str | None, before_seq: int | None = None
    ) -> list[StoredMessage]:
        """Return up to `count` messages from a sequence on; perhaps fewer when they are big.

        From `before_seq` on messages are not needed; they may be returned all the same.
        """

    async def count_from(self, from_seq: int, subject: str | None) -> int | None:
        """Return how many messages match from a sequence on; None when it cannot be asked."""

    async def from_time(self, text: str) -> list[StoredMessage] | None:
        """Return the first message stored from a time on; None when that cannot be asked."""

    async def last_of_each(
        self, subjects: Iterable[str], filter_subject: str
    ) -> list[StoredMessage]:
        """Return the newest message of each subject; `subjects` are those there are."""


class DirectGetter:
    """Direct gets: any replica answers, up to 500 messages per request."""

    def __init__(self, client: Client, stream: str, preview_bytes: int | None) -> None:
        self._client = client
        self._subject = f"{client.prefix}.DIRECT.GET.{stream}"
        self._preview_bytes = preview_bytes

    async def run(
        self, from_seq: int, count: int, subject: str | None, before_seq: int | None = None
    ) -> list[StoredMessage]:
        """Return up to `count` messages from a sequence on, 8 MiB of payload at most."""
        body = {"seq": max(1, from_seq), "batch": min(count, MOST_MSGS), "max_bytes": _BATCH_BYTES}
        return await self._batch(body | ({"next_by_subj": subject} if subject else {}))

    async def count_from(self, from_seq: int, subject: str | None) -> int | None:
        """Return how many messages match from a sequence on."""
        body: dict[str, Any] = {"seq": max(1, from_seq), "batch": 1}
        messages = await self._raw(body | ({"next_by_subj": subject} if subject else {}))
        return int((messages[0].headers or {})["Nats-Num-Pending"]) + 1 if messages else 0

    async def from_time(self, text: str) -> list[StoredMessage] | None:
        """Return the first message stored at a time or after it, if any."""
        moment = datetime.fromisoformat(text).astimezone(UTC).isoformat()
        return await self._batch({"batch": 1, "start_time": moment})

    async def last_of_each(
        self, subjects: Iterable[str], filter_subject: str
    ) -> list[StoredMessage]:
        """Return the newest message of each subject that matches, 1024 at most."""
        return await self._batch({"multi_last": [filter_subject], "batch": 1024})

    async def _batch(self, body: dict[str, Any]) -> list[StoredMessage]:
        return [from_direct(msg, self._preview_bytes) for msg in await self._raw(body)]

    async def _raw(self, body: dict[str, Any]) -> list[Msg]:
        timeout_s = self._client.connection.request_timeout_s
        asked = self._client.answers(self._subject, json.dumps(body).encode(), timeout_s=timeout_s)
        found: list[Msg] = []
        async with aclosing(asked) as answers:
            async for msg in answers:
                status = (msg.headers or {}).get("Status")
                if status is not None:
                    _check_status(status, self._subject)
                    break
                found.append(msg)
        return found


def _check_status(status: str, subject: str) -> None:
    if status == "413":
        raise RequestFailed("more than 1024 subjects match: give a narrower filter", code=413)
    if status == "503":
        raise NotFound(f'nobody answers on "{subject}": does it allow direct gets?', code=503)
    if status not in ("204", "404"):
        raise RequestFailed(f'the server answers {status} on "{subject}"', code=int(status))


class ApiGetter:
    """STREAM.MSG.GET: one message per request, always answered by the stream's leader."""

    def __init__(self, client: Client, stream: str, preview_bytes: int | None) -> None:
        self._client = client
        self._verb = f"STREAM.MSG.GET.{stream}"
        self._preview_bytes = preview_bytes

    async def run(
        self, from_seq: int, count: int, subject: str | None, before_seq: int | None = None
    ) -> list[StoredMessage]:
        """Return up to `count` messages from a sequence on."""
        found: list[StoredMessage] = []
        next_seq = max(1, from_seq)
        while len(found) < count:
            message = await self._get({"seq": next_seq, "next_by_subj": subject or ">"})
            if message is None or message.stream_seq is None:
                break
            if before_seq is not None and message.stream_seq >= before_seq:
                break
            found.append(message)
            next_seq = message.stream_seq + 1
            if subject is None:  # the sequences that follow are probably all there
                window = range(next_seq, next_seq + min(_IN_FLIGHT, count - len(found)))
                found += await self._each([{"seq": seq} for seq in window])
                next_seq = window.stop
        return found[:count]

    async def count_from(self, from_seq: int, subject: str | None) -> int | None:
        """Return None: this way of reading does not count."""
        return None

    async def from_time(self, text: str) -> list[StoredMessage] | None:
        """Return None: this way of reading knows sequences only."""
        return None

    async def last_of_each(
        self, subjects: Iterable[str], filter_subject: str
    ) -> list[StoredMessage]:
        """Return the newest message of each of the subjects."""
        bodies = [{"last_by_subj": subject} for subject in subjects]
        found = []
        for start in range(0, len(bodies), _IN_FLIGHT):
            found += await self._each(bodies[start : start + _IN_FLIGHT])
        return sorted(found, key=lambda message: message.stream_seq or 0)

    async def each(self, seqs: Sequence[int]) -> list[StoredMessage]:
        """Return the messages with these sequences that are there."""
        found = []
        for start in range(0, len(seqs), _IN_FLIGHT):
            found += await self._each([{"seq": seq} for seq in seqs[start : start + _IN_FLIGHT]])
        return found

    async def _each(self, bodies: list[dict[str, Any]]) -> list[StoredMessage]:
        answers = await asyncio.gather(*map(self._get, bodies))
        return [message for message in answers if message is not None]

    async def _get(self, body: dict[str, Any]) -> StoredMessage | None:
        try:
            return from_api(await self._client.request(self._verb, body), self._preview_bytes)
        except NotFound as error:
            if error.err_code == 10037:
                return None
            raise


def getter_of(
    client: Client, stream: str, *, direct: bool, preview_bytes: int | None = None
) -> Getter:
    """Return the best way to read a stream that allows direct gets or not."""
    if direct and (client.api_level or 0) >= 1:
        return DirectGetter(client, stream, preview_bytes)
    return ApiGetter(client, stream, preview_bytes)
