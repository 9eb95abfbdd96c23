"""Who publishes to a stream: clients that wait for the stream's answer, found by their inboxes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from natstui.errors import RequestFailed
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.replies import read
from natstui.jetstream.system.asking import Servers
from natstui.jetstream.system.reply_tap import MOST_MSGS, ReplyTap, TappedRequest
from natstui.model.clients.requests import TappedRequests
from natstui.model.live.permissions import covers

_MOST_SUBJECTS = 200


class _Origin(msgspec.Struct):
    name: str = ""


class _Config(msgspec.Struct):
    subjects: list[str] | None = None
    mirror: _Origin | None = None
    sources: list[_Origin] | None = None


class _Info(msgspec.Struct):
    config: _Config


async def read_subjects(client: Client, stream: str) -> list[str]:
    """Return the subjects that a stream stores, those aside that another of them has too.

    Raises NotFound, RequestFailed for a stream that nobody publishes to, and what `request`
    raises.
    """
    verb = f"STREAM.INFO.{stream}"
    config = read(verb, await client.request(verb), _Info).config
    subjects = _widest(config.subjects or ())
    if not subjects:
        origins = [config.mirror] if config.mirror else config.sources or []
        names = ", ".join(origin.name for origin in origins)
        raise RequestFailed(
            f"nobody publishes to stream {stream}: it has no subjects of its own, its messages "
            f"come from {names or 'nowhere'}"
        )
    if len(subjects) > _MOST_SUBJECTS:
        raise RequestFailed(
            f"stream {stream} has {len(subjects)} subjects: a tap reads {_MOST_SUBJECTS} at most"
        )
    return subjects


def _widest(subjects: Sequence[str]) -> list[str]:
    """Return the subjects that none of the others covers: each message is read once."""
    distinct = list(dict.fromkeys(subjects))
    return [
        one
        for one in distinct
        if not any(other != one and covers(other, one) for other in distinct)
    ]


async def publishers(
    client: Client, servers: Servers, stream: str, subjects: Sequence[str], for_s: float,
    most_msgs: int = MOST_MSGS, stop: asyncio.Event | None = None,
) -> TappedRequests:  # fmt: skip
    """Read what is published to the subjects of a stream, and return who waits for its answer.

    It ends with `stop` at the latest.

    Raises PermissionDenied, and what `Servers.ask` raises.
    """
    tap = ReplyTap(
        subjects,
        lambda message: TappedRequest(message.subject),
        for_s=for_s,
        most_msgs=most_msgs,
        ends_on=f"{client.connection.js_event_prefix}.ADVISORY.STREAM.DELETED.{stream}",
        stop=stop,
    )
    await tap.begin(client, servers)
    return await tap.run(servers)
