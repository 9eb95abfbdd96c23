"""`natstui serve`: who is let in, what the page loads, and that keys arrive."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import nats
import pytest
from aiohttp import WSMsgType

from tests.accounts import Account
from tests.cli.processes import pids_of
from tests.cli.serving import served
from tests.cli.test_manage import Shell

pytestmark = [pytest.mark.server, pytest.mark.slow]

PATIENCE_S = 60.0
FOREIGN = "https://example.org"


@pytest.fixture
def address(account: Account, tmp_path: Path) -> Iterator[str]:
    with served(account.url, tmp_path) as found:
        yield found


def origin_of(address: str) -> str:
    """Return scheme, host and port."""
    return "/".join(address.split("/")[:3])


async def test_the_page_is_let_in_alone_loads_its_own_and_survives_what_is_no_http(
    address: str,
) -> None:
    await only_the_page_itself_is_let_in(address)
    await the_page_loads_nothing_from_elsewhere(address)
    for request_bytes in NO_HTTP:
        await what_is_no_http_is_refused(address, request_bytes)
    # `served` sees that nothing more was printed.


async def only_the_page_itself_is_let_in(address: str) -> None:
    origin, token = origin_of(address), address.split("/")[3]
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", origin)
    assert len(token) >= 40
    wrong = f"{origin}/{'x' * len(token)}/"
    async with aiohttp.ClientSession() as session:

        async def status(where: str, **headers: str) -> int:
            async with session.get(where, headers=headers) as reply:
                return reply.status

        assert await status(address) == 200
        assert await status(f"{address}static/js/textual.js") == 200
        for path in ("", "static/js/textual.js", "page.css", "ws"):
            assert await status(f"{wrong}{path}") == 403, path
            assert await status(f"{address}{path}", Origin=FOREIGN) == 403, path
            assert await status(f"{address}{path}", Host="example.org") == 403, path
            assert await status(f"{address}{path}", Host="localhost", Origin=origin) == 403, path
        assert await status(address, Host="localhost:1") == 200
        assert await status(f"{origin}/") == 404
        assert await status(f"{origin}/ws") == 404
        assert await status(f"{origin}/download/none") == 404
        assert await status(f"{origin}/download/none", Origin=FOREIGN) == 403
        assert await status(f"{address}static/%2e%2e/server.py") == 404
        for where, headers in (
            (f"{wrong}ws", {"Origin": origin}),
            (f"{address}ws", {"Origin": FOREIGN}),
            (f"{address}ws", {"Origin": "null"}),
            (f"{address}ws", {}),
        ):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await session.ws_connect(where, headers=headers)
            assert refused.value.status == 403, (where, headers)


NO_HTTP = (
    b"GET / HTTP/1.1\r\nX: " + b"a" * 9_000 + b"\r\n\r\n",
    b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"PUB \x00 0\r\n\r\n",
)
"""A long header, a wrong chunk, and no HTTP at all."""


async def what_is_no_http_is_refused(address: str, request_bytes: bytes) -> None:
    port = int(origin_of(address).rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request_bytes)
    async with asyncio.timeout(PATIENCE_S):
        reply = await reader.readline()
    assert reply.split()[1] in (b"400", b"404"), (request_bytes[:20], reply)
    writer.close()


async def the_page_loads_nothing_from_elsewhere(address: str) -> None:
    own = origin_of(address).removeprefix("http://")
    async with aiohttp.ClientSession() as session:
        for path in ("", "page.css", "static/css/xterm.css"):
            async with session.get(f"{address}{path}") as reply:
                text = await reply.text()
                policy = reply.headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy and f"connect-src ws://{own};" in policy
            code = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
            named = set(re.findall(r"\w*:?//[\w.:-]+", code))
            assert named <= {f"ws://{own}"}, path


async def draw_until(socket: aiohttp.ClientWebSocketResponse, *texts: bytes) -> bytes:
    """Return what was drawn until all texts were."""
    drawn = b""
    async with asyncio.timeout(PATIENCE_S):
        while any(text not in drawn for text in texts):
            message = await socket.receive()
            assert message.type == WSMsgType.BINARY, (message, drawn)
            drawn += message.data
    return drawn


async def make_stream(account: Account) -> None:
    client = await nats.connect(account.url)
    await client.jetstream().add_stream(name="WEBSTREAM", subjects=["seen"])
    await client.close()


async def test_the_page_has_a_context_and_another_address(
    account: Account, tmp_path: Path
) -> None:
    await make_stream(account)
    folder = tmp_path / "CONFIG" / "nats" / "context"
    folder.mkdir(parents=True)
    (folder / "prod.json").write_text('{"url": "nats://127.0.0.1:1"}')
    words = ("--context", "prod", "--server", account.url)
    with served(account.url, tmp_path, *words) as address:
        headers = {"Origin": origin_of(address)}
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(f"{address}ws?width=80&height=24", headers=headers) as socket,
        ):
            await draw_until(socket, b"WEBSTREAM", b"prod")


async def test_a_visitor_of_a_read_only_page_writes_nothing_on_the_host(
    account: Account, address: str, tmp_path: Path
) -> None:
    await make_stream(account)
    headers = {"Origin": origin_of(address)}
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{address}ws?width=80&height=24", headers=headers) as socket,
    ):
        await draw_until(socket, b"WEBSTREAM", b"read-only")
        await socket.send_str("{")
        await socket.send_json(["resize", {"width": "wide", "height": -1}])
        await socket.send_json(["resize", {"width": 84, "height": 26}])
        await socket.send_json(["stdin", "1"])
        await draw_until(socket, b"by STATUS")
        await socket.send_json(["stdin", "E"])
        await draw_until(socket, b"this page changes")
        # A picture is the visitor's: the browser gets it.
        await socket.send_json(["stdin", "\x10"])
        await draw_until(socket, b"Search for commands")
        await socket.send_json(["stdin", "screenshot"])
        await draw_until(socket, b"Save an SVG")
        await socket.send_json(["stdin", "\r"])
        kind, key = await told_page(socket)
        assert kind == "deliver_file_start"
        origin = origin_of(address)
        async with session.get(f"{origin}/download/{key}", headers=headers) as reply:
            assert (await reply.text()).startswith("<svg")
        await socket.send_json(["stdin", "q"])
        async with asyncio.timeout(PATIENCE_S):
            while (message := await socket.receive()).type == WSMsgType.BINARY:
                pass
        assert message.type in (WSMsgType.CLOSE, WSMsgType.CLOSED, WSMsgType.CLOSING)
    written = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert written == []


async def told_page(socket: aiohttp.ClientWebSocketResponse) -> list[Any]:
    """Return the next thing that the script of the page is told to do."""
    async with asyncio.timeout(PATIENCE_S):
        while (message := await socket.receive()).type == WSMsgType.BINARY:
            pass
    assert message.type == WSMsgType.TEXT, message
    told: list[Any] = json.loads(message.data)
    return told


def viewers_of(folder: Path) -> list[list[bytes]]:
    """Return the words of the viewers that a `served` of a folder has started."""
    found = []
    for pid in pids_of(folder / "private", "natstui"):
        with suppress(FileNotFoundError, ProcessLookupError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if b"natstui" in words and not {b"serve", b"engine"} & {*words}:
                found.append(words)
    return found


@pytest.mark.long
async def test_changes_are_allowed_where_that_was_said(account: Account, tmp_path: Path) -> None:
    with served(account.url, tmp_path, "--allow-changes") as address:
        headers = {"Origin": origin_of(address)}
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(f"{address}ws?width=120&height=40", headers=headers),
        ):
            async with asyncio.timeout(PATIENCE_S):
                while not (viewers := viewers_of(tmp_path)):
                    await asyncio.sleep(0.05)
            # What it does where it is not started so is tested with the screens.
            assert all(b"--read-only" not in words for words in viewers), viewers


@pytest.mark.long
@pytest.mark.parametrize("length_bytes", [0, 4096])
def test_a_page_that_is_closed_or_whose_serve_is_killed_is_no_crash_of_its_viewer(
    length_bytes: int, account: Account, tmp_path: Path
) -> None:
    shell = Shell(account.url, tmp_path)
    driver = {"TEXTUAL_DRIVER": "textual.drivers.web_driver:WebDriver"}
    viewer = subprocess.Popen(
        (sys.executable, "-P", "-m", "natstui"),
        env={**os.environ, **shell.environment, **driver},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert viewer.stdin and viewer.stdout and viewer.stderr
    with viewer.stdin, viewer.stdout, viewer.stderr:
        viewer.stdout.read(length_bytes)
        viewer.stdout.close()
        assert viewer.wait(PATIENCE_S) == 128 + signal.SIGHUP
        assert viewer.stderr.read() == b""
    assert list(tmp_path.rglob("crash-*.log")) == []


def test_a_port_that_is_taken_is_one_sentence(account: Account, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = Shell(account.url, tmp_path).run("serve", "--port", port)
    assert done.returncode == 2
    assert done.stderr.startswith(f"natstui: --port {port}: ")
