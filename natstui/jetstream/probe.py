"""What answers at a port that does not greet as NATS does."""

from __future__ import annotations

import asyncio
import ssl

_PROBE_S = 1.0


async def guess_speaker(host: str, port: int) -> str | None:
    """Return half a sentence on what is there, or None; takes 2 s at most."""
    for guess in (_speaks_tls, _speaks_http):
        try:
            async with asyncio.timeout(_PROBE_S):
                found = await guess(host, port)
        except (OSError, EOFError, ValueError):
            continue  # not that one; TimeoutError is an OSError
        if found:
            return found
    return None


async def _speaks_tls(host: str, port: int) -> str:
    """Shake hands without looking at the certificate; nothing is sent after it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection(host, port, ssl=context)
    writer.transport.abort()
    return "it begins with a TLS handshake: set tls_first"


async def _speaks_http(host: str, port: int) -> str | None:
    """Ask as a browser would."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(b"GET / HTTP/1.0\r\n\r\n")
        answer = await reader.read(5)
    finally:
        writer.transport.abort()
    return "it speaks HTTP: is this its monitoring port?" if answer == b"HTTP/" else None
