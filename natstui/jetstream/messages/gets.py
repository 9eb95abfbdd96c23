"""Reads stored messages without a consumer: direct gets in batches, or one by one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

from nats.aio.msg import Msg

from natstui.errors import NotFound, PermissionDenied, RequestFailed, RequestTimedOut
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.nats_client import status_of
from natstui.jetstream.connection.replies import NO_MESSAGE, reading
from natstui.jetstream.messages.decode import from_api, from_direct
from natstui.model.records.messages import StoredMessage

T = TypeVar("T")

MOST_MSGS = 500
_IN_FLIGHT = 50
_BATCH_BYTES = 8 * 1024 * 1024


class Getter(Protocol):
    """Reads the messages of one stream, in order of sequence."""

    async def run(
        self, from_seq: int, count: int, subject: str | None, before_seq: int | None = None
    ) -> list[StoredMessage]:
        """Return up to `count` messages from a sequence on; perhaps fewer when they are big.

        Messages from `before_seq` on are not needed; they may be returned all the same.
        """

    async def count_from(self, from_seq: int, subject: str | None) -> int | None:
        """Return how many messages match from a sequence on; None if that cannot be requested."""

    async def from_time(self, text: str) -> list[StoredMessage] | None:
        """Return the message at which the server starts a consumer with a start time, if any.

        Servers before 2.11.12, and 2.12 before 2.12.4, skip messages where others were deleted.
        None when the server has no such request.
        """

    async def last_of_each(
        self, subjects: Iterable[str], filter_subject: str
    ) -> list[StoredMessage]:
        """Return the newest message of each subject; `subjects` are the existing ones."""


class _MirrorReply(RequestFailed):
    """A mirror replied in place of the stream, of which it may have a part only."""


class DirectGetter:
    """Direct gets: any replica replies, up to 500 messages per request.

    So does a mirror with `mirror_direct`, which may have a filter or limits, or be behind.
    """

    def __init__(self, client: Client, stream: str, preview_bytes: int | None) -> None:
        self._client, self._stream = client, stream
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
        messages, end = await self._raw(body | ({"next_by_subj": subject} if subject else {}))
        # Only the end of a batch counts alike everywhere: until 2.11 a message counts itself.
        if not messages:
            return 0
        self._messages(messages)
        with reading("DIRECT.GET"):
            return len(messages) + int((end.headers or {})["Nats-Num-Pending"])

    async def from_time(self, text: str) -> list[StoredMessage] | None:
        """Return the message at which the server starts a consumer with a start time, if any."""
        return await self._batch({"batch": 1, "start_time": _utc(text), "next_by_subj": ">"})

    async def last_of_each(
        self, subjects: Iterable[str], filter_subject: str
    ) -> list[StoredMessage]:
        """Return the newest message of each subject that matches, 1024 at most."""
        return await self._batch({"multi_last": [filter_subject], "batch": 1024})

    async def _batch(self, body: dict[str, Any]) -> list[StoredMessage]:
        msgs, _ = await self._raw(body)
        messages = self._messages(msgs)
        before_seq = body.get("seq", 1) - 1
        for message in messages:
            if (message.stream_seq or 0) <= before_seq:
                raise RequestFailed(
                    f'the server replied on "{self._subject}" with message '
                    f"{message.stream_seq}, not with one after {before_seq}"
                )
            before_seq = message.stream_seq or 0
        return messages

    def _messages(self, msgs: list[Msg]) -> list[StoredMessage]:
        messages = []
        for msg in msgs:
            stream, message = from_direct(msg, self._preview_bytes)
            if stream != self._stream:
                raise _MirrorReply(f'{stream} replied on "{self._subject}"')
            messages.append(message)
        return messages

    async def _check_none(self, body: dict[str, Any]) -> None:
        """Raise _MirrorReply if the stream's leader has a message for a request."""
        if filters := body.get("multi_last"):
            asked = {"last_by_subj": filters[0]}
        else:
            asked = {name: body[name] for name in ("seq", "start_time") if name in body}
            asked["next_by_subj"] = body.get("next_by_subj", ">")
        try:
            await self._client.request(f"STREAM.MSG.GET.{self._stream}", asked)
        except NotFound as error:
            if error.err_code != NO_MESSAGE:
                raise
        except PermissionDenied:
            # There is no other reply then.
            return
        else:
            raise _MirrorReply(f'a message is missing on "{self._subject}"')

    async def _raw(self, body: dict[str, Any]) -> tuple[list[Msg], Msg]:
        """Return the messages of a batch and the status that ends it; raises RequestTimedOut."""
        timeout_s = self._client.connection.request_timeout_s
        replies = self._client.answers(
            self._subject, json.dumps(body).encode(), timeout_s=timeout_s
        )
        messages: list[Msg] = []
        async with aclosing(replies) as reply_stream:
            async for msg in reply_stream:
                status = status_of(msg.headers)
                if status is not None:
                    _check_status(status, self._subject)
                    if not messages:
                        await self._check_none(body)
                    return messages, msg
                messages.append(msg)
        raise RequestTimedOut(self._subject, timeout_s)


def _check_status(status: str, subject: str) -> None:
    if status == "413":
        raise RequestFailed("more than 1024 subjects match: give a narrower filter", code=413)
    if status == "503":
        raise NotFound(f'no reply on "{subject}": does the stream allow direct gets?', code=503)
    if status not in ("204", "404"):
        code = int(status) if status.isdecimal() else None
        raise RequestFailed(f'the server replies {status} on "{subject}"', code=code)


class ApiGetter:
    """Reads by STREAM.MSG.GET: one message per request, always from the stream's leader."""

    def __init__(
        self,
        client: Client,
        stream: str,
        preview_bytes: int | None,
        *,
        exact_headers: bool = False,
    ) -> None:
        self._client = client
        self._verb = f"STREAM.MSG.GET.{stream}"
        self._preview_bytes = preview_bytes
        self._exact_headers = exact_headers

    async def run(
        self, from_seq: int, count: int, subject: str | None, before_seq: int | None = None
    ) -> list[StoredMessage]:
        """Return up to `count` messages from a sequence on."""
        messages: list[StoredMessage] = []
        next_seq = max(1, from_seq)
        while len(messages) < count:
            message = await self._get({"seq": next_seq, "next_by_subj": subject or ">"})
            if message is None or message.stream_seq is None:
                break
            if before_seq is not None and message.stream_seq >= before_seq:
                break
            messages.append(message)
            next_seq = message.stream_seq + 1
            if subject is None:  # the sequences that follow are probably all there
                window = range(next_seq, next_seq + min(_IN_FLIGHT, count - len(messages)))
                messages += await self._each([{"seq": seq} for seq in window])
                next_seq = window.stop
        return messages[:count]

    async def count_from(self, from_seq: int, subject: str | None) -> int | None:
        """Return None: this kind of request does not count."""
        return None

    async def from_time(self, text: str) -> list[StoredMessage] | None:
        """Return the message at which the server starts a consumer with a start time; None on
        2.10.
        """
        if not has_batches(self._client):
            return None
        message = await self._get({"start_time": _utc(text), "next_by_subj": ">"})
        return [] if message is None else [message]

    async def last_of_each(
        self, subjects: Iterable[str], filter_subject: str
    ) -> list[StoredMessage]:
        """Return the newest message of each of the subjects."""
        bodies = [{"last_by_subj": subject} for subject in subjects]
        messages = []
        for start in range(0, len(bodies), _IN_FLIGHT):
            messages += await self._each(bodies[start : start + _IN_FLIGHT])
        return sorted(messages, key=lambda message: message.stream_seq or 0)

    async def each(self, seqs: Sequence[int]) -> list[StoredMessage]:
        """Return the existing messages with these sequences."""
        messages = []
        for start in range(0, len(seqs), _IN_FLIGHT):
            messages += await self._each(
                [{"seq": seq} for seq in seqs[start : start + _IN_FLIGHT]]
            )
        return messages

    async def _each(self, bodies: list[dict[str, Any]]) -> list[StoredMessage]:
        replies = await asyncio.gather(*map(self._get, bodies))
        return [message for message in replies if message is not None]

    async def _get(self, body: dict[str, Any]) -> StoredMessage | None:
        try:
            reply = await self._client.request(self._verb, body)
            return from_api(reply, self._preview_bytes, exact_headers=self._exact_headers)
        except NotFound as error:
            if error.err_code == NO_MESSAGE:
                return None
            raise


def _utc(text: str) -> str:
    return datetime.fromisoformat(text).astimezone(UTC).isoformat()


def has_batches(client: Client) -> bool:
    """Return whether the server reads batches and times: 2.10 ignores both fields."""
    return (client.api_level or 0) >= 1


async def read_with(
    client: Client,
    stream: str,
    work: Callable[[Getter], Awaitable[T]],
    *,
    direct: bool,
    preview_bytes: int | None = None,
) -> T:
    """Return what `work` reads: by direct gets if the stream allows them, else of its leader.

    Of its leader as well where a mirror replied to a direct get.
    """
    if direct and has_batches(client):
        try:
            return await work(DirectGetter(client, stream, preview_bytes))
        except _MirrorReply:
            pass
    return await work(ApiGetter(client, stream, preview_bytes))
