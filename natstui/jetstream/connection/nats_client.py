"""nats-py's client with stricter rules for encryption, silent connections and unsent data.

It refuses a connection without encryption if TLS is required, closes a connection on which nothing
arrives, and can discard the data that was not sent before an outage. Everything that uses private
parts of nats-py (2.16) is here, in `wire_parser.py` and in `transport.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

import nats.errors
from nats.aio.client import PING_PROTO, Srv
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.protocol.command import hpub_cmd

from natstui.clock import steady_us
from natstui.errors import NatstuiError
from natstui.jetstream.connection.transport import Arrival, Step, Transport
from natstui.jetstream.connection.wire_parser import OnBlock, WireParser

ErrorCallback = Callable[[Exception], Awaitable[None]]

_CLOSE_TIMEOUT_S = 0.5
_CRLF_BYTES = 2
_CHECK_INTERVAL_S = 1.0
_MIN_STALE_TIMEOUT_S = 6.0
_MAX_STALE_TIMEOUT_S = 15.0
_STALE_TIMEOUT_PER_LONGEST_GAP = 2.5

# Without any handler, Python prints these to stderr, across the terminal's screen.
for _logger_name in ("nats", "asyncio"):
    logging.getLogger(_logger_name).addHandler(logging.NullHandler())


class LocalHandshakeError(nats.errors.Error):  # type: ignore[misc]
    """Our own part of the handshake failed, for example a file; `cause` is the error."""

    def __init__(self, cause: NatstuiError) -> None:
        super().__init__(str(cause))
        self.cause = cause


async def unsubscribe(*subscriptions: Subscription) -> None:
    """End subscriptions; without a connection, do nothing."""
    for subscription in subscriptions:
        with contextlib.suppress(nats.errors.Error):
            await subscription.unsubscribe()


class Headers(dict[str, str]):
    """Headers as nats-py reads them: the last of repeated names; `block` has the raw bytes."""

    block = b""  # the raw headers


STATUS_LINE_START = b"NATS/1.0 "
"""Start of headers with a status; those of a message have none."""


def status_of(headers: Mapping[str, str] | None) -> str | None:
    """Return the status that the server wrote in the first line of headers; None for a message.

    A header named Status is of the publisher, and is no status.
    """
    if isinstance(headers, Headers) and not headers.block.startswith(STATUS_LINE_START):
        return None
    return (headers or {}).get("Status")


_HEADER_NAME_PATTERN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")


def is_valid_header(name: str, text: str) -> bool:
    """Return whether this is a valid header: a name without blanks and a text of one line."""
    return bool(_HEADER_NAME_PATTERN.fullmatch(name)) and "\r" not in text and "\n" not in text


class HeaderPairs(dict[str, str]):
    """Headers to send unchanged, with repeated names, which a plain dict cannot contain.

    nats-py removes blanks around names and texts, leaves out headers without a name, and cannot
    send a text that is not UTF-8.
    """

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._header_pairs = tuple(pairs)
        super().__init__(self._header_pairs)

    def items(self) -> Any:
        """Return all pairs of name and text, in order."""
        return self._header_pairs

    def block(self) -> bytes:
        """Return the encoded headers; raises BadHeaderError for an invalid one."""
        lines = [b"NATS/1.0"]
        for name, text in self._header_pairs:
            if not is_valid_header(name, text):
                raise nats.errors.BadHeaderError(name)
            lines.append(f"{name}: {text}".encode("utf-8", "surrogateescape"))
        return b"\r\n".join((*lines, b"", b""))


class TimedMsg(Msg):  # type: ignore[misc]
    """A message with its position in the byte stream of its connection, which gives its time."""

    first_byte_position = 0
    end_byte_position = 0


@contextlib.contextmanager
def reraise_cancelled() -> Iterator[None]:
    """Raise CancelledError at the end of the block if its task was cancelled in the block.

    `asyncio.wait_for` of Python 3.11, which nats-py uses, loses a cancellation that comes at the
    same moment as its result.
    """
    task = asyncio.current_task()
    cancels_count = 0 if task is None else task.cancelling()
    yield
    if task is not None and task.cancelling() > cancels_count:
        raise asyncio.CancelledError


class StrictClient(NatsClient):  # type: ignore[misc]
    """nats-py's client that never hangs, never leaks a password and never stops reconnecting."""

    msg_class = TimedMsg

    def __init__(self, *, tls_only: bool) -> None:
        super().__init__()
        self._tls_only = tls_only
        self._transport: Transport = Transport()
        self._parser = WireParser(self)
        self._ps: Any = self._parser
        self.attempts_count = 0
        """Number of attempts to connect; grows while reconnecting works."""
        self.tried_url: str | None = None
        """Address of the last attempt."""
        self.loss_error: Exception | None = None
        """The error that ended the last connection."""
        self.is_reading_paused = False
        """Whether nothing is read on purpose, so that silence is no sign of a failed server."""

    async def _connect_to_server(self, s: Srv) -> None:
        """Connect, and count the attempt, so that stuck reconnecting is detected."""
        self.attempts_count += 1
        self.tried_url = s.uri.geturl()
        with reraise_cancelled():
            await super()._connect_to_server(s)

    async def _process_op_err(self, e: Exception) -> None:
        """Store the error that ended the connection, then let nats-py reconnect."""
        if self.is_connected:
            self.loss_error = e
        await super()._process_op_err(e)

    def _connect_command(self) -> bytes:
        """Return the CONNECT command; raises SecureConnWantedError without encryption."""
        if self._tls_only and self._transport.encryption is None:
            self._transport.step = "TLS"
            raise nats.errors.SecureConnWantedError
        self._transport.step = "authentication"
        try:
            command: bytes = super()._connect_command()
        except NatstuiError as error:
            raise LocalHandshakeError(error) from error
        return command

    async def _process_connect_init(self) -> None:
        """Do the handshake; unlike nats-py, raise UnexpectedEOF if the server ends it."""
        with reraise_cancelled():
            await super()._process_connect_init()
        if not self.is_connected:
            for task in (self._reading_task, self._ping_interval_task, self._flusher_task):
                task.cancel()
            raise nats.errors.UnexpectedEOF
        self._transport.step = "ready"

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        """Let nats-py apply an INFO; accept the server's offer of TLS if TLS is required."""
        if initial_connection and self._tls_only and info.get("tls_available"):
            info["tls_required"] = True
        await super()._process_info(info, initial_connection)
        if self._transport.is_websocket and self._current_server is not None:
            # A server announces WebSockets to a WebSocket, which nats-py does not know.
            for server in self._server_pool:
                if server.discovered:
                    uri = server.uri
                    server.uri = uri._replace(scheme=self._current_server.uri.scheme)

    async def _send_publish(
        self,
        subject: str,
        reply: str,
        payload: bytes,
        payload_size: int,
        headers: dict[str, Any] | None,
    ) -> None:
        """Send a message; `HeaderPairs` headers are sent unchanged."""
        if not isinstance(headers, HeaderPairs):
            await super()._send_publish(subject, reply, payload, payload_size, headers)
            return
        self.stats["out_msgs"] += 1
        self.stats["out_bytes"] += payload_size
        await self._send_command(hpub_cmd(subject, reply, headers.block(), payload))
        if self._flush_queue is not None and self._flush_queue.empty():
            await self._flush_pending()

    async def limit_subscription(self, subscription: Subscription, max_msgs: int) -> None:
        """Let the server end a subscription after `max_msgs` messages; a reconnect ends the limit.

        `Subscription.unsubscribe` would end the callback after the first of them.
        """
        await self._send_unsubscribe(subscription._id, limit=max_msgs)

    async def _process_headers(self, headers: bytes | None) -> dict[str, str] | None:
        """Decode headers; of invalid ones, which would end nats-py's loop, only keep the bytes."""
        if headers is None:
            return None
        parsed_headers: dict[str, str] | None = None
        with contextlib.suppress(UnicodeDecodeError, IndexError):
            parsed_headers = await super()._process_headers(headers)
        decoded_headers = Headers(parsed_headers or {})
        decoded_headers.block = headers
        return decoded_headers

    def _build_message(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: dict[str, str] | None
    ) -> TimedMsg:
        """Create a message with the position of its bytes; the parser has just read the last one.

        Bytes of the subject that are not UTF-8 become U+FFFD.
        """
        message = self.msg_class(
            subject=subject.decode(errors="replace"),
            reply=reply.decode(errors="replace"),
            data=data,
            headers=headers,
            _client=self,
            _sid=sid,
        )
        message.end_byte_position = self._transport.arrivals.bytes_count - len(self._parser.buf)
        message.first_byte_position = message.end_byte_position - len(message.data) - _CRLF_BYTES
        return message

    async def _process_pong(self) -> None:
        """Accept an unexpected PONG, which would end nats-py's read loop."""
        if self._pongs:
            pong = self._pongs.pop(0)
            if not pong.done():
                pong.set_result(True)
        self._pongs_received += 1
        self._pings_outstanding = 0

    async def _ping_interval(self) -> None:
        """Send a PING while no byte arrives, and close the connection if none arrives for too
        long.

        nats-py requires each PONG in time, but a PONG behind a long reply on a slow link is
        delayed.
        """
        arrivals = self._transport.arrivals
        last_bytes_count, silent_s = arrivals.bytes_count, 0.0
        while self.is_connected:
            # Checks are counted, not time: a process that was suspended received nothing either.
            await asyncio.sleep(_CHECK_INTERVAL_S)
            is_silent = arrivals.bytes_count == last_bytes_count and not self.is_reading_paused
            silent_s = silent_s + _CHECK_INTERVAL_S if is_silent else 0.0
            last_bytes_count = arrivals.bytes_count
            stale_timeout_s = max(
                _MIN_STALE_TIMEOUT_S, _STALE_TIMEOUT_PER_LONGEST_GAP * arrivals.longest_gap_s
            )
            if silent_s > min(_MAX_STALE_TIMEOUT_S, stale_timeout_s):
                await self._process_op_err(nats.errors.StaleConnectionError())
                return
            if silent_s and silent_s % self.options["ping_interval"] < _CHECK_INTERVAL_S:
                await self._send_ping()

    async def _process_err(self, err_msg: str) -> None:
        """Reconnect after each error that ends the connection, such as an expired JWT."""
        if "permissions violation" in err_msg:
            await super()._process_err(err_msg)
        elif self.is_connected:
            error = nats.errors.Error("nats: " + err_msg.strip("'"))
            await self._error_cb(error)
            await self._process_op_err(error)


class SocketParser(Protocol):
    """A parser of the data that nats-py reads from the socket."""

    async def parse(self, data: bytes = b"") -> None:
        """Parse the next bytes of the socket."""

    def reset(self) -> None:
        """Forget an incomplete command: the connection was lost."""


class GuardedClient(StrictClient):
    """The interface of nats-py's client that other modules use."""

    @property
    def step(self) -> Step:
        """Return the last step of the current or last attempt to connect."""
        return self._transport.step

    @property
    def refusal(self) -> str | None:
        """Return the error that the server sent before it closed the connection, or None."""
        return self._transport.refusal

    @property
    def encryption(self) -> str | None:
        """Return TLS version and cipher (`TLSv1.3, TLS_AES_256_GCM_SHA384`); None without TLS."""
        return self._transport.encryption

    @property
    def arrived_bytes(self) -> int:
        """Return the number of received bytes, over all connections."""
        return self._transport.arrivals.bytes_count

    @property
    def silent_s(self) -> float:
        """Return the time since the last received byte, in seconds."""
        return self._transport.arrivals.silent_s

    @property
    def message_silent_s(self) -> float:
        """Return the time since the last received byte of a message, in seconds."""
        return (steady_us() - self._parser.last_message_mono_us) / 1e6

    def is_arriving(self, subject: str) -> bool:
        """Return whether a message of this subject has arrived in part."""
        return self._parser.arriving_subject == subject.encode()

    def arrival_of(self, message: Msg) -> Arrival:
        """Return the arrival times of a message's bytes; must be called soon after the message."""
        return self._transport.arrivals.find_arrival(
            message.first_byte_position, message.end_byte_position
        )

    async def ping(self) -> asyncio.Future[bool]:
        """Send a PING after all other data; return a future that is done with its PONG.

        By then the server has received all of that data, and we have received everything that it
        sent before the PONG.
        """
        pong: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._pongs.append(pong)
        # nats-py's own PING would overtake waiting data: its PONG would prove nothing about it.
        await self._send_command(PING_PROTO)
        await self._flush_pending()
        return pong

    def deliver_blocks(self, subscription: Subscription, on_block: OnBlock | None) -> None:
        """Pass the messages of a subscription to `on_block` in blocks; with None, singly again."""
        self._parser.set_block_callback(subscription._id, on_block)

    @property
    def server_info(self) -> dict[str, Any]:
        """Return the INFO that the server sent at the start of the connection."""
        info: dict[str, Any] = self._server_info
        return info

    @property
    def url(self) -> str | None:
        """Return the address of the current or last server."""
        return None if self._current_server is None else self._current_server.uri.geturl()

    @property
    def ended_loop(self) -> str | None:
        """Return the name of an inner loop that ended during a connection; None if all run."""
        for name, task in (("read", self._reading_task), ("write", self._flusher_task)):
            if self.is_connected and task is not None and task.done():
                return name
        return None

    @property
    def has_reconnecting_ended(self) -> bool:
        """Return whether the reconnecting task has ended without a connection."""
        task = self._reconnection_task
        return bool(self.is_reconnecting) and (task is None or task.done())

    def abort(self) -> None:
        """Close the socket at once; unsent data is lost."""
        self._transport.abort()

    def keep_connected(
        self,
        urls: Iterable[str],
        on_error: ErrorCallback,
        on_lost: Callable[[], Awaitable[None]],
        on_reconnected: Callable[[], Awaitable[None]],
        on_lame_duck: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Reconnect forever from now on, to these servers and those that they announce.

        The callbacks are called for an error, a lost and a restored connection, and when the
        server announces lame duck mode.
        """
        self._error_cb, self._disconnected_cb, self._reconnected_cb = (
            on_error,
            on_lost,
            on_reconnected,
        )
        self._lame_duck_mode_cb = on_lame_duck
        self.options["allow_reconnect"] = True
        self.options["max_reconnect_attempts"] = -1
        known_hosts = {server.uri.netloc for server in self._server_pool}
        for url in urls:
            uri = self._parse_server_uri(url)
            if uri.netloc not in known_hosts:
                self._server_pool.append(Srv(uri))

    def replace_parser(self, parser: SocketParser) -> None:
        """Pass what is read from the socket to another parser, as a benchmark does."""
        self._ps = parser

    def pop_unsent(self) -> bytes:
        """Return the data that is not yet written to the socket, and discard it here."""
        unsent_data = b"".join(self._pending)
        self.drop_unsent()
        return unsent_data

    def drop_unsent(self) -> None:
        """Discard unsent data, so that no request from before an outage is sent after it."""
        self._pending.clear()
        self._pending_data_size = 0

    async def reconnect_now(self) -> None:
        """Close the socket or cancel the attempt to reconnect, and reconnect at once."""
        if self._reconnection_task is not None:
            self._reconnection_task.cancel()
            await asyncio.wait({self._reconnection_task}, timeout=_CLOSE_TIMEOUT_S)
        self.abort()
        self._status = NatsClient.CONNECTED
        await self.force_reconnect()
