"""HTTP servers that reply wrongly: they drip, redirect, say nothing, refuse, or are none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.serving import serving

MODES = ("drip", "redirect", "hang", "500", "ssh")


@asynccontextmanager
async def wrong_http(mode: str, requests: list[str], port: int = 0) -> AsyncIterator[str]:
    """Serve one mode, or "ok"; give its address and keep each request line."""
    replies = {
        "redirect": b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n",
        "500": b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n",
        "ssh": b"SSH-2.0-hello\r\n",
        "ok": b"HTTP/1.1 204 No Content\r\n\r\n",
    }

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = (await reader.readline()).decode().strip()
        if not line:
            # A client whose deadline came before it had sent anything.
            return
        requests.append(line)
        if mode == "drip":
            writer.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
            while not reader.at_eof():
                writer.write(b"a")
                await writer.drain()
                await asyncio.sleep(0.1)
        elif mode != "hang":
            writer.write(replies["ok" if "/elsewhere" in line else mode])
            await writer.drain()
        await reader.read()

    async with serving(serve, port) as served_port:
        yield f"http://127.0.0.1:{served_port}"
