"""A server and a viewer that several tests use, one after the other."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import nats
import pytest
from nats.aio.client import Client

from natstui.tui.bench.form import BenchmarkDraft, BenchmarkForm
from natstui.tui.bench.scenarios import ScenariosScreen
from natstui.tui.kit.command_line import CommandLine
from tests.tui.viewer import Viewer

on_the_files_loop = pytest.mark.asyncio(loop_scope="module")


@asynccontextmanager
async def connected(url: str, **words: Any) -> AsyncIterator[Client]:
    nc = await nats.connect(url, **words)
    try:
        yield nc
    finally:
        await nc.close()


async def asked(nc: Client, verb: str, body: object = None) -> dict[str, Any]:
    payload = b"" if body is None else json.dumps(body).encode()
    reply = await nc.request(f"$JS.API.{verb}", payload, timeout=10)
    answer: dict[str, Any] = json.loads(reply.data)
    return answer


@dataclass
class Shared:
    """What one test left behind is gone before the next, also where it failed."""

    url: str
    _viewer: Viewer

    @asynccontextmanager
    async def as_new(self, size: tuple[int, int]) -> AsyncIterator[Viewer]:
        """The viewer on its first screen, and no stream on the server."""
        await self._close_screens()
        async with connected(self.url) as nc:
            for name in (await asked(nc, "STREAM.NAMES"))["streams"] or ():
                await asked(nc, f"STREAM.DELETE.{name}")
        viewer, app = self._viewer, self._viewer.app
        if tuple(app.size) != size:
            await viewer.pilot.resize_terminal(*size)
        await viewer.until(
            lambda: (
                not viewer.rows()
                and not app.state.stream_configurations
                and not app.state.consumer_configurations
            ),
            "nothing of the test before",
        )
        app.clear_notifications()
        app._shown_at_s_by_toast.clear()
        viewer.toasts.clear()
        yield viewer

    async def _close_screens(self) -> None:
        app = self._viewer.app
        # To switch costs a drawing: only where something lies on the list.
        for mode, screens in [*app._screen_stacks.items()]:
            if len(screens) > 1:
                await app.switch_mode(mode)
                while len(app.screen_stack) > 1:
                    await app.pop_screen()
        if app.current_mode != "streams":
            await app.switch_mode("streams")
        self._viewer.table.command_line.close()
        self._viewer.table.table.action_unmark()
        for lines in CommandLine.history.values():
            lines.clear()
        ScenariosScreen.edited_text_by_scenario.clear()
        BenchmarkForm.draft = BenchmarkDraft()
