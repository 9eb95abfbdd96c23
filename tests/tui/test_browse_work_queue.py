"""A big work queue is looked through on the screen, and nobody's work is disturbed by it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client

from natstui.tui.messages.screen import MessagesScreen
from tests.accounts import Account
from tests.tui.shared import asked, connected
from tests.tui.viewer import Viewer, viewing

pytestmark = pytest.mark.server

FLAT_BYTES = 12 * 1024 * 1024
"""More than caches of Textual take, and much less than the pages read would."""


def resident_bytes(pid: int | str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))


async def fill(nc: Client, stored: int) -> None:
    """Store messages of 400 bytes, deliver some and acknowledge every second of these."""
    queue = {"name": "W", "subjects": ["w.*"], "retention": "workqueue", "allow_direct": True}
    await asked(nc, "STREAM.CREATE.W", queue)
    consumer = {"durable_name": "C", "ack_policy": "explicit", "ack_wait": 3600 * 10**9}
    body = {"stream_name": "W", "config": consumer, "action": "create"}
    await asked(nc, "CONSUMER.CREATE.W.C", body)
    for number in range(stored):
        if number % 1_000 == 999 or number == stored - 1:
            # A stream drops what comes faster than it stores.
            await nc.request(f"w.{number % 10}", b"x" * 400, timeout=30)
        else:
            await nc.publish(f"w.{number % 10}", b"x" * 400)
    pull = await nc.jetstream().pull_subscribe("w.*", durable="C", stream="W")
    for at, message in enumerate(await pull.fetch(20, timeout=10)):
        if at % 2:
            await message.ack_sync(timeout=30)


async def consumer_state(nc: Client) -> dict[str, Any]:
    info = await asked(nc, "CONSUMER.INFO.W.C")
    return {key: value for key, value in info.items() if key != "ts"}


async def go(viewer: Viewer, *keys: str) -> None:
    """Press the keys of a jump, and wait for its page."""
    await viewer.press(*keys[:-1])
    screen = viewer.app.screen
    before = screen.pages.page if isinstance(screen, MessagesScreen) else None
    await viewer.press(keys[-1])

    def there() -> bool:
        shown = viewer.app.screen
        if not isinstance(shown, MessagesScreen) or shown.pages.page is None:
            return False
        return shown.pages.page is not before and bool(shown.pages.page.messages)

    await viewer.until(there, str(keys))


@pytest.mark.parametrize(
    ("stored", "rounds"), [(400, 1), pytest.param(5_000, 5, marks=pytest.mark.long)]
)
async def test_browsing_a_work_queue_changes_no_consumer_and_holds_no_pages(
    account: Account, stored: int, rounds: int
) -> None:
    url = account.url
    async with connected(url) as nc, viewing(url, size=(80, 24)) as viewer:
        await fill(nc, stored)
        before = json.dumps(await consumer_state(nc), sort_keys=True)
        await viewer.until(lambda: "W" in viewer.rows())
        await go(viewer, "m")
        held = []
        for _ in range(rounds):
            for jump in (
                ("G",), ("right_square_bracket",), ("g",), ("left_square_bracket",),
                ("s", *str(stored // 2), "enter"), ("left_square_bracket",), ("l",),
                ("slash", *"w.7", "enter"), ("slash", "ctrl+u", "enter"),
                ("o", "enter"), ("o", "down", "down", "enter"),
            ):  # fmt: skip
                await go(viewer, *jump)
            held.append((resident_bytes("self"), resident_bytes(viewer.app.link.pid)))
        assert json.dumps(await consumer_state(nc), sort_keys=True) == before
        assert (await asked(nc, "STREAM.INFO.W"))["state"]["messages"] == stored - 10
        assert (await asked(nc, "STREAM.INFO.W"))["state"]["consumer_count"] == 1
        for viewer_or_engine in zip(*held, strict=True):
            assert viewer_or_engine[-1] - viewer_or_engine[rounds // 2] < FLAT_BYTES, held
