"""The socket under nats-py's client: it knows how far it came, and its closing always ends."""

from __future__ import annotations

import asyncio
import ssl
from typing import Literal
from urllib.parse import ParseResult

from nats.aio.transport import TcpTransport

from natstui.jetstream.lookup import lookup

Step = Literal["address", "TCP", "greeting", "TLS", "authentication", "ready"]
"""How far an attempt to connect came: where it is now, or where it failed."""

_CLOSE_S = 0.5


def _netloc(ip: str, port: int) -> str:
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"


class Transport(TcpTransport):  # type: ignore[misc]
    """A socket that knows how far it came, and whose closing always ends."""

    step: Step = "address"
    refusal: str | None = None
    """What the server said before it hung up."""

    async def connect(self, uri: ParseResult, buffer_size: int, connect_timeout: float) -> None:
        """Find the address, then open the socket."""
        self.abort()
        self.step, self.refusal = "address", None
        host, port = uri.hostname or "", uri.port or 0
        ips = await asyncio.wait_for(lookup(host, port), connect_timeout)
        self.step = "TCP"
        end = asyncio.get_running_loop().time() + connect_timeout
        for left in range(len(ips), 0, -1):
            share_s = (end - asyncio.get_running_loop().time()) / left
            place = uri._replace(netloc=_netloc(ips[-left], port))
            try:
                await super().connect(place, buffer_size, share_s)
                break
            except OSError:
                if left == 1:
                    raise
        self.step = "greeting"

    async def connect_tls(
        self,
        uri: str | ParseResult,
        ssl_context: ssl.SSLContext,
        buffer_size: int,
        connect_timeout: float,
    ) -> None:
        """Encrypt the open socket."""
        self.step = "TLS"
        await super().connect_tls(uri, ssl_context, buffer_size, connect_timeout)
        self.step = "greeting"

    async def readline(self) -> bytes:
        """Read a line of the handshake; keep one that says why there will be none."""
        line: bytes = await super().readline()
        self._keep_refusal(line)
        return line

    def _keep_refusal(self, line: bytes) -> None:
        if line.startswith(b"-ERR "):
            self.refusal = line[5:].decode(errors="replace").strip().strip("'")

    async def drain(self) -> None:
        """Send what was written; a server that hung up may have said why."""
        try:
            await super().drain()
        except ConnectionError:
            # A reset makes the reader raise, but what came before it is still there.
            self._keep_refusal(bytes(self._io_reader._buffer).partition(b"\r\n")[0])
            raise

    @property
    def encryption(self) -> str | None:
        """Return protocol and cipher of an encrypted socket."""
        tls = self._io_writer.get_extra_info("ssl_object") if self._io_writer else None
        return f"{tls.version()}, {tls.cipher()[0]}" if tls else None

    def abort(self) -> None:
        """Close the socket at once, dropping what was not sent."""
        for writer in (self._io_writer, self._bare_io_writer):
            if writer is not None:
                writer.transport.abort()

    def __bool__(self) -> bool:
        """Keep nats-py from replacing this transport with its own."""
        return True

    async def wait_closed(self) -> None:
        """Wait for the end of the socket, but not for a peer that is frozen or cut off."""
        writer = self._io_writer
        if writer is None:
            return
        waiting = asyncio.ensure_future(writer.wait_closed())
        _, unfinished = await asyncio.wait({waiting}, timeout=_CLOSE_S)
        self.abort()
        if unfinished:
            waiting.cancel()
            await asyncio.wait({waiting})
        elif (error := waiting.exception()) is not None and not isinstance(error, OSError):
            raise error
