"""Accounts of one server side by side, as the system account tells of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import nats
import pytest

from natstui.cli.open_viewer import parse_systems
from natstui.errors import UsageError
from natstui.jetstream.testbed.broker import Broker
from natstui.tui.app.app import NatstuiApp
from natstui.tui.app.controls.systems import Contexts
from natstui.tui.app.link import Link
from natstui.tui.app.live_system import OpenSystem
from natstui.tui.frame.detail.peek import PEEK_STATE_KEY
from natstui.tui.frame.stored_settings import store_view_setting
from tests.jetstream.flushing import flushed
from tests.jetstream.test_bulk import asked
from tests.jetstream.test_connections import as_user
from tests.jetstream.test_other_account import BOTH, a_consumer
from tests.tui.test_several_systems import put_cursor_on, rows
from tests.tui.viewer import FIRST, NATSTUI, Viewer, shown, start

pytestmark = pytest.mark.server

ACCOUNTS = ("APP", "OTHER")
ONLY_WATCHED = "the account OTHER is watched through the system account"


def engine(*words: str, more: tuple[str, ...]) -> Link:
    return start((*NATSTUI, "engine", "--interval", "500ms", *words, *more))


@asynccontextmanager
async def showing(opened: list[OpenSystem], contexts: Contexts) -> AsyncIterator[Viewer]:
    first, *others = opened
    store_view_setting("screen", FIRST)
    store_view_setting(PEEK_STATE_KEY, "none")
    app = NatstuiApp(
        first.started, first.connect, first.link, other_systems=others, contexts=contexts
    )
    try:
        async with shown(app, (160, 50)) as viewer:
            yield viewer
    finally:
        for link in app.parts.engines.links:
            link.close()


async def filled(server: Broker) -> None:
    for account in ACCOUNTS:
        nc = await nats.connect(as_user(server.url, account.lower()))
        await a_consumer(nc, "SAME", f"OF_{account}")
        await a_consumer(nc, f"OF_{account}", "C")
        await nc.publish("SAME", b"x")
        await flushed(nc)
        await nc.close()


async def test_an_account_is_put_beside_ones_own_and_only_read(
    nats_server_factory: Callable[..., Broker], tmp_path: Path
) -> None:
    server = nats_server_factory(BOTH)
    await filled(server)
    config = tmp_path / "config.toml"
    config.write_text(
        f'[connection]\nserver = "{as_user(server.url, "app")}"\n'
        '[system]\nuser = "sys"\npassword = "sys"\n'
    )
    connect = partial(engine, "--config", str(config))

    def started(*more: str) -> Link:
        return connect(more=more)

    link = started()
    first = OpenSystem("own", await asyncio.to_thread(link.wait_started), link, started)
    async with showing([first], Contexts(tuple, lambda _: started, "own")) as viewer:
        await viewer.until(lambda: {"OF_APP", "SAME"} <= viewer.rows().keys(), "own rows")
        await viewer.type_command("account OTHER")
        both = {("own", "OF_APP"), ("own", "SAME"), ("OTHER", "OF_OTHER"), ("OTHER", "SAME")}
        await viewer.until(lambda: set(rows(viewer)) == both, "both")
        await viewer.until(lambda: "2 systems, totals:  streams 4" in viewer.text, "totals")
        await viewer.press("2")
        await viewer.until(lambda: set(rows(viewer)) == both, "all consumers, by their streams")
        await viewer.press("1")
        # One's own can be changed as before, and by the key under the same name the other not.
        await put_cursor_on(viewer, "own", "SAME")
        await viewer.press("ctrl+d")
        await viewer.until(lambda: len(viewer.app.screen_stack) == 2, "the question")
        await viewer.press("escape")
        await put_cursor_on(viewer, "OTHER", "SAME")
        # What would be done or read by the API of our own account is not offered; it is said why.
        await viewer.press("x")
        await viewer.until(lambda: "read-only: " + ONLY_WATCHED in viewer.words, "actions")
        await viewer.press("escape")
        for key in ("ctrl+d", "m", "w"):
            await viewer.press(key)
        await viewer.until(lambda: len(viewer.app.screen_stack) == 1, "nothing was opened")
        await viewer.press("d")
        await viewer.until(lambda: len(viewer.app.screen_stack) == 2, "its detail")
        await viewer.until(lambda: "SAME" in viewer.text and "[OTHER]" in viewer.text, "whose")
        await viewer.press("escape", "6")
        await viewer.until(lambda: "is watched through" in viewer.words, "no connections")
        await viewer.press("4")
        await viewer.until(lambda: ":account NAME" in viewer.words, "the servers are told")
        await viewer.until(lambda: "streams 2 of an unknown limit" in viewer.words, "how many")
        assert "JetStream is not enabled" not in viewer.words
        # Asked for again, it is gone to; one that nobody knows says so.
        await viewer.press("1")
        await put_cursor_on(viewer, "own", "SAME")
        await viewer.type_command("account OTHER")
        await viewer.until(lambda: viewer.table.scope.system == "OTHER", "gone to")
        await viewer.type_command("account NOPE")
        await viewer.until(lambda: "no server knows an account NOPE" in viewer.said, "told")
        # One that changes its mind leaves it as every other system.
        await viewer.type_command("ctx -own")
        await viewer.until(lambda: "own" not in viewer.app.parts.engines.systems, "it is left")
    nc = await nats.connect(as_user(server.url, "other"))
    info = await asked(nc, "STREAM.INFO.SAME")
    assert info["state"]["messages"] == 1
    await nc.close()


def test_the_flag_of_several_accounts_is_split_and_the_rest_kept() -> None:
    words = ["--context", "sys", "--ascii"]
    assert parse_systems([*words, "--account", "A,B"]) == ("--account", ["A", "B"], words)
    assert parse_systems(["--server", "x", "--account=A"]) == (
        "--account", ["A"], ["--server", "x"],
    )  # fmt: skip
    for wrong in (["--account", "A,,B"], ["--context", "a,b", "--account", "A"]):
        with pytest.raises(UsageError):
            parse_systems(wrong)
