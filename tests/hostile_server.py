"""A server that lies: a real one behind a wire that exchanges values of its replies.

Requests that would change something never reach the real server: the wire answers them itself,
unless it carries changes.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from tests.accounts import through

Values = Any
Exchange = Callable[[Values], Values]

API = "$JS.API."
SYSTEM = "$SYS.REQ."
_READS = re.compile(
    r"INFO|ACCOUNT\.|(STREAM|CONSUMER)\.(INFO|LIST|NAMES)\b|STREAM\.MSG\.GET\.|DIRECT\.GET\.|"
    r"STREAM\.SNAPSHOT\.|CONSUMER\.(CREATE|DELETE|DURABLE\.CREATE|MSG\.NEXT)\..*\bnatstui-"
)
"""The requests of the JetStream API that change nothing; a reader is a consumer of our own."""
_VERB = re.compile(
    r"INFO|ACCOUNT\.\w+|DIRECT\.GET|(STREAM|CONSUMER)\.(MSG\.|LEADER\.|PEER\.|DURABLE\.)?[A-Z]+"
)
ENDLESS = 10**15
BUCKETS = {"$KV": "KV_", "$O": "OBJ_"}
"""First token of the subjects of buckets → how the names of their streams begin."""


def is_change(subject: str) -> bool:
    """Tell whether a request would change what is stored, or who leads it."""
    if not subject.startswith(API):
        return not subject.startswith(("$SYS.", "$JS.FC.", "$JS.ACK.", "_INBOX."))
    return _READS.match(subject[len(API) :]) is None


def verb_of(subject: str) -> str:
    """Return what a request asks for, without the names in it."""
    if subject.startswith(API):
        found = _VERB.match(subject[len(API) :])
        return found[0] if found else "other"
    if subject.startswith(SYSTEM):
        return SYSTEM + subject.rpartition(".")[2]
    return "deliver" if subject.startswith("deliver") else "publish"


def each_leaf(value: Values, exchange: Exchange) -> Values:
    """Return the same value with every string, number, truth and null exchanged."""
    if isinstance(value, dict):
        return {key: each_leaf(part, exchange) for key, part in value.items()}
    if isinstance(value, list):
        return [each_leaf(part, exchange) for part in value]
    return exchange(value)


def leaves_of(value: Values, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of everything in a value, from the outside to the inside."""
    if path:
        yield path
    parts = value.items() if isinstance(value, dict) else enumerate(value[:1])
    for key, part in parts:
        if isinstance(part, dict | list):
            yield from leaves_of(part, (*path, key))
        else:
            yield (*path, key)


def at(value: Values, path: tuple[Any, ...], instead: Exchange) -> Values:
    """Return the same value with one part of it exchanged, where it has that part."""
    if not path:
        return instead(value)
    if isinstance(value, dict) and path[0] in value:
        return {**value, path[0]: at(value[path[0]], path[1:], instead)}
    if isinstance(value, list) and isinstance(path[0], int) and path[0] < len(value):
        return [at(one, path[1:], instead) if n == path[0] else one for n, one in enumerate(value)]
    return value


class Lie(Struct, frozen=True):
    """What one command is told instead of the truth."""

    verb: str
    """Which replies are exchanged; empty: all of them."""
    bodies: Callable[[bytes], bytes | None]
    """What a reply becomes; None: it never comes."""
    headers: Callable[[bytes], bytes] = lambda block: block
    reply: bytes | None = None
    """Where a message wants its reply, instead of where the server wants it."""


TRUTH = Lie("nothing", lambda body: body)


@dataclass
class Wire:
    """Where natstui connects, and what it sent there."""

    url: str
    real_url: str = ""
    lie: Lie = TRUTH
    carries_changes: bool = False
    requests: list[str] = field(default_factory=list)
    replies: dict[str, list[bytes]] = field(default_factory=dict)
    """What the real server replied, by verb, while it was listened to."""
    sent_bytes: int = 0


@contextmanager
def lying(url: str) -> Iterator[Wire]:
    """Yield a wire to the server at `url`."""
    ready, wire, ended = threading.Event(), Wire("", url), asyncio.Event()
    loops = list[asyncio.AbstractEventLoop]()

    async def serve() -> None:
        joined = list[asyncio.Task[None] | None]()

        async def join(here: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
            joined.append(asyncio.current_task())
            await _Joined(wire, here, back).run(url)

        loops.append(asyncio.get_running_loop())
        async with await asyncio.start_server(join, "127.0.0.1", 0) as server:
            wire.url = through(server.sockets[0].getsockname()[1], url)
            ready.set()
            await ended.wait()
            # Nothing stays open that a later test would be blamed for.
            carrying = [task for task in joined if task is not None and not task.done()]
            for task in carrying:
                task.cancel()
            await asyncio.gather(*carrying, return_exceptions=True)

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(30)
    try:
        yield wire
    finally:
        loops[0].call_soon_threadsafe(ended.set)
        thread.join(30)
        assert not thread.is_alive()


class _Joined:
    """One connection through the wire."""

    def __init__(self, wire: Wire, here: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        self._wire, self._here, self._back = wire, here, back
        self._verbs: dict[str, str] = {}
        """Where a reply is awaited → what was asked for."""
        self._sids: dict[str, str] = {}

    async def run(self, url: str) -> None:
        """Carry until one side hangs up."""
        place = urlsplit(url)
        writers, ways = [self._back], list[asyncio.Task[None]]()
        try:
            there, on = await asyncio.open_connection(place.hostname, place.port)
            writers.append(on)
            ways += [
                asyncio.create_task(self._to_server(on)),
                asyncio.create_task(self._to_client(there)),
            ]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # Before anything is awaited: whoever ends the wire now cancels that.
            for writer in writers:
                writer.close()
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            for writer in writers:
                with suppress(OSError):
                    await writer.wait_closed()

    async def _to_server(self, on: asyncio.StreamWriter) -> None:
        while line := await self._here.readline():
            words = line.split()
            if words[:1] == [b"SUB"]:
                self._sids[words[-1].decode()] = words[1].decode(errors="replace")
            if words[:1] not in ([b"PUB"], [b"HPUB"]):
                on.write(line)
                continue
            payload = await self._here.readexactly(int(words[-1]) + 2)
            sizes = 2 if words[0] == b"HPUB" else 1
            subject = words[1].decode(errors="replace")
            reply = words[2].decode() if len(words) == 3 + sizes else ""
            self._wire.requests.append(subject)
            if reply:
                self._verbs[reply] = verb_of(subject)
            if is_change(subject) and not self._wire.carries_changes:
                if reply:
                    await self._answer(reply, subject)
                continue
            on.write(line + payload)
            await on.drain()

    async def _answer(self, reply: str, subject: str) -> None:
        """Answer a change as if it had been made."""
        made: dict[str, Any] = {
            "name": "C",
            "config": {"name": "S"},
            "created": "2026-01-01T00:00:00Z",
        }
        done = {"type": "io.nats.done", "success": True, "seq": 7, "purged": 1, "reset_seq": 7}
        paused = {"paused": True, "pause_until": "2099-01-01T00:00:00Z"}
        tokens = subject.split(".")
        made["stream"] = BUCKETS[tokens[0]] + tokens[1] if tokens[0] in BUCKETS else "S"
        body = json.dumps(done | paused | made).encode()
        for sid, filtered in self._sids.items():
            prefix = filtered.rstrip("*>")
            if reply == filtered or (prefix != filtered and reply.startswith(prefix)):
                await self._deliver(reply.encode(), sid.encode(), b"", b"", body)
                return

    async def _to_client(self, there: asyncio.StreamReader) -> None:
        while line := await there.readline():
            words = line.split()
            if words[:1] not in ([b"MSG"], [b"HMSG"]):
                if words[:1] == [b"INFO"]:
                    line = self._greeting(line)
                self._back.write(line)
                continue
            content = (await there.readexactly(int(words[-1]) + 2))[:-2]
            sizes = 2 if words[0] == b"HMSG" else 1
            block = content[: int(words[-2])] if sizes == 2 else b""
            about = words[3] if len(words) == 4 + sizes else b""
            await self._deliver(words[1], words[2], about, block, content[len(block) :])

    def _greeting(self, line: bytes) -> bytes:
        """Lie about the server itself, but not about what the protocol rests on."""
        lie = self._wire.lie
        if lie.verb != "greeting":
            return line
        said = json.loads(line[5:])
        told = json.loads(lie.bodies(line[5:]) or b"{}")
        kept = ("nonce", "auth_required", "headers", "proto", "max_payload", "tls_required")
        told |= {key: said[key] for key in kept if key in said}
        return b"INFO " + json.dumps(told).encode() + b"\r\n"

    async def _deliver(
        self, subject: bytes, sid: bytes, about: bytes, block: bytes, body: bytes
    ) -> None:
        verb = self._verbs.get(subject.decode(errors="replace"), "deliver")
        self._wire.replies.setdefault(verb, []).append(body)
        lie, is_status = self._wire.lie, block.startswith(b"NATS/1.0 ")
        if lie.verb in ("", verb) and lie.reply is not None:
            about = lie.reply
        if lie.verb in ("", verb) and not is_status:
            exchanged = lie.bodies(body)
            if exchanged is None:
                return
            body, block = exchanged, lie.headers(block) if block else b""
        size = f" {len(block) + len(body)}".encode()
        size = f" {len(block)}".encode() + size if block else size
        words = [b"HMSG" if block else b"MSG", subject, sid, *([about] if about else [])]
        frame = b" ".join(words) + size + b"\r\n" + block + body + b"\r\n"
        self._wire.sent_bytes += len(frame)
        self._back.write(frame)
        with suppress(ConnectionError):
            await self._back.drain()
