"""The screens in a real browser. Only where there is one: Debian's chromium."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.accounts import Account
from tests.cli.serving import served

BROWSER = "chromium"
pytestmark = [
    pytest.mark.server,
    pytest.mark.slow,
    pytest.mark.needs_program(BROWSER),
]
PATIENCE_S = 90.0


class Tab:
    """A page of a browser, driven by its DevTools protocol."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket, self._numbers = socket, itertools.count(1)
        self.events: list[dict[str, Any]] = []

    async def send(self, method: str, **parameters: object) -> dict[str, Any]:
        """Send a command and return its result; events meanwhile are kept."""
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        while True:
            message: dict[str, Any] = await self._socket.receive_json()
            if message.get("id") == number:
                return dict(message["result"])
            self.events.append(message)

    async def value(self, expression: str) -> object:
        """Return the value of an expression in the page."""
        return (await self.send("Runtime.evaluate", expression=expression))["result"].get("value")


@asynccontextmanager
async def browser(folder: Path) -> AsyncIterator[Tab]:
    """Start a browser with an empty page."""
    process = await asyncio.create_subprocess_exec(
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0",
        f"--user-data-dir={folder / 'browser'}", "about:blank",
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stderr is not None
    try:
        async with asyncio.timeout(PATIENCE_S):
            while b"DevTools listening on ws://" not in (line := await process.stderr.readline()):
                assert line, "the browser has ended"
        host = line.decode().split("ws://")[1].split("/")[0]
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://{host}/json/list") as reply,
        ):
            pages = [it for it in json.loads(await reply.text()) if it["type"] == "page"]
            async with session.ws_connect(pages[0]["webSocketDebuggerUrl"]) as socket:
                yield Tab(socket)
    finally:
        process.kill()
        await process.wait()


async def test_a_browser_shows_the_screens_and_asks_nobody_else(
    account: Account, tmp_path: Path
) -> None:
    with served(account.url, tmp_path) as address:
        async with browser(tmp_path) as tab, asyncio.timeout(PATIENCE_S):
            for domain in ("Page", "Network", "Log", "Runtime"):
                await tab.send(f"{domain}.enable")
            await tab.send("Page.navigate", url=address)
            # The script of the page says so when the first bytes of a viewer came.
            while "-first-byte" not in str(await tab.value("document.body.className")):
                await asyncio.sleep(0.1)
            assert await tab.value("document.querySelectorAll('.xterm-screen').length") == 1
            shown_count = len(tab.events)
            await tab.send("Input.dispatchKeyEvent", type="keyDown", key="q", text="q")
            while "-closed" not in str(await tab.value("document.body.className")):
                await asyncio.sleep(0.1)
        asked = [it["params"] for it in tab.events if it["method"] == "Network.requestWillBeSent"]
        addresses = [it["request"]["url"] for it in asked]
        assert address in addresses
        assert [it for it in addresses if not it.startswith((address, "data:", "about:"))] == []
        # Its script still sends a moment after the viewer has ended, and the browser notes that.
        shown = tab.events[:shown_count]
        logged = [it["params"] for it in shown if it["method"] == "Log.entryAdded"]
        complaints = [it["entry"] for it in logged if it["entry"]["level"] == "error"]
        assert complaints == []
        assert [it for it in tab.events if it["method"] == "Runtime.exceptionThrown"] == []
