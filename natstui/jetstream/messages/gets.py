"""Reads stored messages without a consumer: by batches of direct gets, or one by one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

from nats.aio.msg import Msg

from natstui.errors import NotFound, PermissionDenied, RequestFailed, RequestTimedOut
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.nats_client import status_of
from natstui.jetstream.connection.replies import NO_MESSAGE_CODE, raise_unreadable
from natstui.jetstream.messages.decode import decode_api_reply, decode_direct_reply
from natstui.model.records.messages import StoredMessage

T = TypeVar("T")

MAX_BATCH_MSGS = 500
_MAX_OPEN_REQUESTS = 50
_MAX_BATCH_BYTES = 8 * 1024 * 1024


class MessageGetter(Protocol):
    """Reads the messages of one stream, in order of sequence."""

    async def read(
        self, from_seq: int, count: int, subject: str | None, before_seq: int | None = None
    ) -> list[StoredMessage]:
        """Return up to `count` messages from a sequence on, perhaps fewer if they are big.

        `subject` is a filter, None for all messages. Messages from `before_seq` on are not needed,
        but may be returned.
        """

    async def count_from(self, from_seq: int, subject: str | None) -> int | None:
        """Return the number of messages of `subject` from a sequence on; None if unavailable."""

    async def read_from_time(self, text: str) -> list[StoredMessage] | None:
        """Return the message at which the server starts a consumer with this start time, or no
        message if there is none; None if the server has no such request.

        Servers before 2.11.12, and 2.12 before 2.12.4, skip messages next to deleted ones.
        """

    async def read_last_of_each(
        self, subjects: Collection[str], filter_subject: str
    ) -> list[StoredMessage]:
        """Return the newest message of each subject that matches the filter.

        `subjects` are those subjects that match it and have messages.
        """


class _MirrorReply(RequestFailed):
    """A mirror replied instead of the stream; it may have only a part of the messages."""


class DirectGetter:
    """Reads by direct gets, to which any replica replies, with up to 500 messages per request.

    A mirror with `mirror_direct` replies as well, although it may have a filter or limits, or be
    behind: the methods raise `_MirrorReply` then.
    """

    def __init__(self, client: Client, stream: str, preview_bytes: int | None) -> None:
        self._client, self._stream = client, stream
        self._subject = f"{client.prefix}.DIRECT.GET.{stream}"
        self._preview_bytes = preview_bytes

    async def read(
        self, from_seq: int, count: int, subject: str | None, before_seq: int | None = None
    ) -> list[StoredMessage]:
        """Return up to `count` messages from a sequence on, 8 MiB of payload at most."""
        body = {
            "seq": max(1, from_seq),
            "batch": min(count, MAX_BATCH_MSGS),
            "max_bytes": _MAX_BATCH_BYTES,
        }
        return await self._read_batch(body | ({"next_by_subj": subject} if subject else {}))

    async def count_from(self, from_seq: int, subject: str | None) -> int | None:
        """Return the number of messages of `subject`, None for all, from a sequence on."""
        body: dict[str, Any] = {"seq": max(1, from_seq), "batch": 1}
        messages, end_msg = await self._request_batch(
            body | ({"next_by_subj": subject} if subject else {})
        )
        # All versions count alike at the end of a batch; in a message, 2.11 counts it as well.
        if not messages:
            return 0
        self._decode(messages)
        with raise_unreadable("DIRECT.GET"):
            return len(messages) + int((end_msg.headers or {})["Nats-Num-Pending"])

    async def read_from_time(self, text: str) -> list[StoredMessage] | None:
        """Return the message at which a consumer with this start time would start, if any."""
        return await self._read_batch(
            {"batch": 1, "start_time": _utc_text(text), "next_by_subj": ">"}
        )

    async def read_last_of_each(
        self, subjects: Collection[str], filter_subject: str
    ) -> list[StoredMessage]:
        """Return the newest message of each subject that matches the filter, 1024 at most."""
        body = {"multi_last": [filter_subject], "batch": 1024, "max_bytes": _MAX_BATCH_BYTES}
        messages = await self._read_batch(body)
        newest = {message.subject: message for message in messages}
        while messages and len(newest) < len(subjects):  # several replies if they are big
            messages = await self._read_batch(body | {"seq": (messages[-1].stream_seq or 0) + 1})
            newest |= {message.subject: message for message in messages}
        return sorted(newest.values(), key=lambda message: message.stream_seq or 0)

    async def _read_batch(self, body: dict[str, Any]) -> list[StoredMessage]:
        msgs, _ = await self._request_batch(body)
        messages = self._decode(msgs)
        before_seq = body.get("seq", 1) - 1
        for message in messages:
            if (message.stream_seq or 0) <= before_seq:
                raise RequestFailed(
                    f'the server replied on "{self._subject}" with message '
                    f"{message.stream_seq}, not with one after {before_seq}"
                )
            before_seq = message.stream_seq or 0
        return messages

    def _decode(self, msgs: list[Msg]) -> list[StoredMessage]:
        messages = []
        for msg in msgs:
            stream, message = decode_direct_reply(msg, self._preview_bytes)
            if stream != self._stream:
                raise _MirrorReply(f'{stream} replied on "{self._subject}"')
            messages.append(message)
        return messages

    async def _check_empty_batch(self, body: dict[str, Any]) -> None:
        """Raise _MirrorReply if the stream's leader has a message that a request should return.

        Called after a reply without messages, which a mirror may have sent.
        """
        if filters := body.get("multi_last"):
            request = {"last_by_subj": filters[0]}
        else:
            request = {name: body[name] for name in ("seq", "start_time") if name in body}
            request["next_by_subj"] = body.get("next_by_subj", ">")
        try:
            await self._client.request(f"STREAM.MSG.GET.{self._stream}", request)
        except NotFound as error:
            if error.err_code != NO_MESSAGE_CODE:
                raise
        except PermissionDenied:
            # The reply cannot be checked then.
            return
        else:
            raise _MirrorReply(f'a message is missing on "{self._subject}"')

    async def _request_batch(self, body: dict[str, Any]) -> tuple[list[Msg], Msg]:
        """Return the messages of a batch and the status message that ends it.

        Raises RequestTimedOut.
        """
        timeout_s = self._client.connection.request_timeout_s
        replies = self._client.request_many(
            self._subject, json.dumps(body).encode(), timeout_s=timeout_s
        )
        messages: list[Msg] = []
        async with aclosing(replies) as reply_stream:
            async for msg in reply_stream:
                status = status_of(msg.headers)
                if status is not None:
                    _check_status(status, self._subject)
                    if not messages:
                        await self._check_empty_batch(body)
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
    """Reads by STREAM.MSG.GET: one message per request, always from the stream's leader.

    `exact_headers`: see `parse_headers`.
    """

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

    async def read(
        self, from_seq: int, count: int, subject: str | None, before_seq: int | None = None
    ) -> list[StoredMessage]:
        """Return up to `count` messages from a sequence on."""
        messages: list[StoredMessage] = []
        next_seq = max(1, from_seq)
        while len(messages) < count:
            message = await self._get_message({"seq": next_seq, "next_by_subj": subject or ">"})
            if message is None or message.stream_seq is None:
                break
            if before_seq is not None and message.stream_seq >= before_seq:
                break
            messages.append(message)
            next_seq = message.stream_seq + 1
            if subject is None:  # probably all of the next sequences exist
                window = range(next_seq, next_seq + min(_MAX_OPEN_REQUESTS, count - len(messages)))
                messages += await self._get_messages([{"seq": seq} for seq in window])
                next_seq = window.stop
        return messages[:count]

    async def count_from(self, from_seq: int, subject: str | None) -> int | None:
        """Return None: STREAM.MSG.GET does not count messages."""
        return None

    async def read_from_time(self, text: str) -> list[StoredMessage] | None:
        """Return the message at which the server starts a consumer with this start time, if any;
        None from a 2.10 server.
        """
        if not can_batch_direct_gets(self._client):
            return None
        message = await self._get_message({"start_time": _utc_text(text), "next_by_subj": ">"})
        return [] if message is None else [message]

    async def read_last_of_each(
        self, subjects: Collection[str], filter_subject: str
    ) -> list[StoredMessage]:
        """Return the newest message of each of the subjects, in order of sequence."""
        request_bodies = [{"last_by_subj": subject} for subject in subjects]
        messages = []
        for start in range(0, len(request_bodies), _MAX_OPEN_REQUESTS):
            messages += await self._get_messages(
                request_bodies[start : start + _MAX_OPEN_REQUESTS]
            )
        return sorted(messages, key=lambda message: message.stream_seq or 0)

    async def read_each(self, seqs: Sequence[int]) -> list[StoredMessage]:
        """Return the messages with these sequences, without those that do not exist."""
        messages = []
        for start in range(0, len(seqs), _MAX_OPEN_REQUESTS):
            messages += await self._get_messages(
                [{"seq": seq} for seq in seqs[start : start + _MAX_OPEN_REQUESTS]]
            )
        return messages

    async def _get_messages(self, request_bodies: list[dict[str, Any]]) -> list[StoredMessage]:
        replies = await asyncio.gather(*map(self._get_message, request_bodies))
        return [message for message in replies if message is not None]

    async def _get_message(self, body: dict[str, Any]) -> StoredMessage | None:
        try:
            reply = await self._client.request(self._verb, body)
            return decode_api_reply(reply, self._preview_bytes, exact_headers=self._exact_headers)
        except NotFound as error:
            if error.err_code == NO_MESSAGE_CODE:
                return None
            raise


def _utc_text(text: str) -> str:
    return datetime.fromisoformat(text).astimezone(UTC).isoformat()


def can_batch_direct_gets(client: Client) -> bool:
    """Return whether direct gets can have a batch size and a start time: 2.10 ignores both."""
    return (client.api_level or 0) >= 1


async def call_with_getter(
    client: Client,
    stream: str,
    work: Callable[[MessageGetter], Awaitable[T]],
    *,
    uses_direct_get: bool,
    preview_bytes: int | None = None,
) -> T:
    """Return the result of `work`, called with a getter.

    The getter reads by direct gets if `uses_direct_get` and the server can batch them, else from
    the stream's leader. If a mirror replies to a direct get, `work` is called again with a getter
    that reads from the leader. At most `preview_bytes` of each payload are kept.
    """
    if uses_direct_get and can_batch_direct_gets(client):
        try:
            return await work(DirectGetter(client, stream, preview_bytes))
        except _MirrorReply:
            pass
    return await work(ApiGetter(client, stream, preview_bytes))
