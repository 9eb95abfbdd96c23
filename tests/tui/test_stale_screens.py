"""A screen says when what it shows is gone or another, and the message list keeps up."""

from __future__ import annotations

import ast

import pytest

from natstui.tui.analysis.text import titles_of
from natstui.tui.consumers.screen import ConsumersScreen
from natstui.tui.frame.action_runner import consumers_of
from natstui.tui.frame.live import LiveScreen
from natstui.tui.kit.pick import PickDialog
from natstui.tui.managing.action import ActionScreen
from natstui.tui.messages import screen as messages_screen
from natstui.tui.messages.message import MessageScreen
from natstui.tui.messages.pull import PullScreen
from natstui.tui.messages.screen import MessagesScreen
from tests.architecture.source import modules
from tests.tui.engine_records import engine_records
from tests.tui.shared import Shared, asked, connected, on_the_files_loop
from tests.tui.test_forms import toasts
from tests.tui.viewer import Viewer, fed, frozen

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("stale screens")]

WIDE = (120, 40)


def became(viewer: Viewer) -> str:
    assert isinstance(viewer.app.screen, LiveScreen)
    return viewer.app.screen.note.replacement_note


def listed(viewer: Viewer) -> list[int | None]:
    screen = viewer.app.screen
    assert isinstance(screen, MessagesScreen)
    return [one.stream_seq for one in screen.pages.listed_messages]


@on_the_files_loop
async def test_open_screens_say_that_their_stream_was_made_again_and_nothing_of_it_is_deleted(
    shared: Shared,
) -> None:
    url = shared.url
    stream = {"name": "S", "subjects": ["s"]}
    async with connected(url) as nc, shared.as_new(WIDE) as viewer:
        await asked(nc, "STREAM.CREATE.S", stream)
        for number in range(3):
            await nc.request("s", b"%d" % number, timeout=20)
        await viewer.until(lambda: "S" in viewer.rows())
        await viewer.press("m")
        await viewer.until(lambda: listed(viewer) == [3, 2, 1], "the page")
        await viewer.press("enter")
        await viewer.until(lambda: "Stored:" in viewer.text, "the message")
        await asked(nc, "STREAM.DELETE.S")
        await viewer.until(lambda: "stream S was deleted: this screen" in viewer.words, "gone")
        await asked(nc, "STREAM.CREATE.S", stream)
        for _ in range(5):
            await nc.request("s", b"of the new one", timeout=20)
        await viewer.until(lambda: "S was recreated at" in viewer.words, "another")
        assert isinstance(viewer.app.screen, MessageScreen)
        await viewer.press("escape")
        await viewer.until(lambda: became(viewer), "the list knows it too")
        assert listed(viewer) == [3, 2, 1]
        await viewer.press("ctrl+d")
        await viewer.until(lambda: "recreated" in toasts(viewer), "refused")
        assert isinstance(viewer.app.screen, MessagesScreen)
        await viewer.press("f5")
        await viewer.until(lambda: listed(viewer) == [5, 4, 3, 2, 1], "the new one's messages")
        assert not became(viewer)
        await viewer.press("ctrl+d")
        await viewer.until(lambda: isinstance(viewer.app.screen, ActionScreen))
        await asked(nc, "STREAM.DELETE.S")
        await asked(nc, "STREAM.CREATE.S", stream)
        for _ in range(5):
            await nc.request("s", b"of the third", timeout=20)
        await viewer.until(lambda: "recreated" in became(viewer), "the question knows it")
        await viewer.press("tab", "S", "enter")
        await viewer.pilot.pause(0.5)
        assert (await asked(nc, "STREAM.INFO.S"))["state"]["messages"] == 5


async def test_a_closing_screen_still_knows_what_became_of_its_stream() -> None:
    """A timer of its message list may ask while the widgets are already gone."""
    async with fed(*engine_records({"S": ()}), size=(80, 24)) as viewer:
        await viewer.until(lambda: "S" in viewer.rows())
        await viewer.press("m")
        screen = viewer.app.screen
        assert isinstance(screen, MessagesScreen)
        await viewer.press("escape")
        await viewer.until(lambda: not screen.is_attached, "closed")
        assert screen.note.replacement_note == ""


@on_the_files_loop
async def test_the_message_list_shows_its_age_and_follows_the_stream(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages_screen, "MIN_PAGE_REREAD_INTERVAL_S", 0.5)
    url = shared.url
    async with connected(url) as nc, shared.as_new(WIDE) as viewer:
        queue = {"name": "W", "subjects": ["w"], "retention": "workqueue"}
        await asked(nc, "STREAM.CREATE.W", queue)
        body = {"stream_name": "W", "config": {"durable_name": "C", "ack_policy": "explicit"}}
        await asked(nc, "CONSUMER.CREATE.W.C", body)
        await viewer.until(lambda: "W" in viewer.rows())
        await viewer.press("m")
        await viewer.until(lambda: "no messages" in viewer.words, "the empty page")
        for number in range(4):
            await nc.request("w", b"%d" % number, timeout=20)
        # Where the first page took seconds to come, the next one waits nine times as long.
        await viewer.until(lambda: listed(viewer) == [4, 3, 2, 1], "what was published", s=120)
        screen = viewer.app.screen
        assert isinstance(screen, MessagesScreen)
        await viewer.press("j", "j")
        subscription = await nc.jetstream().pull_subscribe_bind("C", "W")
        for message in await subscription.fetch(1, timeout=10):
            await message.ack_sync(timeout=30)
        await viewer.until(
            lambda: listed(viewer) == [4, 3, 2], "without the acknowledged one", s=120
        )
        assert screen.pages.message is not None
        assert screen.pages.message.stream_seq == 2
        await viewer.until(lambda: "2…4 of 2…4  ·  now" in viewer.text, "its age")
        # Where a page was quicker than the poll that tells why, it is read once more.
        for _ in range(8):
            read_s = screen.pages._requested_at_s
            await viewer.pilot.pause(1.5)
            if screen.pages._requested_at_s == read_s:
                break
        assert screen.pages._requested_at_s == read_s, "a stream that rests is not read again"


@pytest.mark.long
@on_the_files_loop
async def test_what_a_part_asks_for_while_its_screen_is_at_work_reaches_the_engine(
    shared: Shared,
) -> None:
    """A message goes no further than to who was at work when it was made, if that lies above."""
    async with connected(shared.url) as nc, shared.as_new(WIDE) as viewer:
        await asked(nc, "STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
        await viewer.until(lambda: "S" in viewer.rows())
        await viewer.press("m")
        await viewer.until(lambda: "no messages" in viewer.words, "the empty page")
        screen = viewer.app.screen
        assert isinstance(screen, MessagesScreen)
        # Otherwise the page may ask when its own time has come, and not when the screen has news.
        for timer in screen.pages._timers:
            timer.stop()
        await nc.request("s", b"x", timeout=20)
        await viewer.until(lambda: listed(viewer) == [1], "what was published")


@on_the_files_loop
async def test_a_page_whose_answer_was_lost_with_the_engine_is_read_again(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages_screen, "MIN_PAGE_REREAD_INTERVAL_S", 1e9)
    async with connected(shared.url) as nc, shared.as_new(WIDE) as viewer:
        await asked(nc, "STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
        await viewer.until(lambda: "S" in viewer.rows())
        await viewer.press("m")
        await viewer.until(lambda: "no messages" in viewer.words, "the empty page")
        await nc.request("s", b"x", timeout=20)
        await viewer.until(lambda: 1 in viewer.app.state.streams.columns.stored_msgs, "the poll")
        with frozen(viewer) as engine:
            await viewer.press("f5")
            engine.kill()
        monkeypatch.setattr(messages_screen, "MIN_PAGE_REREAD_INTERVAL_S", 1.0)
        await viewer.until(lambda: listed(viewer) == [1], "what was published")


@on_the_files_loop
async def test_the_next_message_is_taken_from_the_consumer_there_is_or_one_picked(
    shared: Shared,
) -> None:
    async def ready(count: int) -> None:
        def known() -> bool:
            screen = viewer.app.screen
            assert isinstance(screen, LiveScreen)
            return len(consumers_of(screen.state, "S", is_pull=True)[0]) == count

        await viewer.until(known, f"{count} consumers")

    url = shared.url
    async with connected(url) as nc, shared.as_new(WIDE) as viewer:
        await asked(nc, "STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
        await viewer.until(lambda: "S" in viewer.rows())
        await viewer.press("N")
        await viewer.until(lambda: "S has no pull consumer" in toasts(viewer), "none")
        push = {"durable_name": "PUSHED", "deliver_subject": "to.here", "ack_policy": "explicit"}
        for config in ({"durable_name": "A", "ack_policy": "explicit"}, push):
            body = {"stream_name": "S", "config": config}
            await asked(nc, f"CONSUMER.CREATE.S.{config['durable_name']}", body)
        await viewer.until(lambda: viewer.rows()["S"]["consumers"] == "2")
        await viewer.until(lambda: len(viewer.app.state.consumer_configurations) == 2)
        await ready(1)
        for keys in (("N",), ("m", "N")):
            await viewer.press(*keys)
            await viewer.until(lambda: isinstance(viewer.app.screen, PullScreen))
            assert "S  ›  A" in viewer.text
            await viewer.press("escape")
        for name in "BCDEFG":
            body = {"stream_name": "S", "config": {"durable_name": name, "ack_policy": "explicit"}}
            await asked(nc, f"CONSUMER.CREATE.S.{name}", body)
        await ready(7)
        await viewer.press("N")
        await viewer.until(lambda: isinstance(viewer.app.screen, PickDialog))
        await viewer.press("j", "j", "k", "enter")
        await viewer.until(lambda: "S  ›  B" in viewer.text, "the one picked")


def test_every_list_of_the_viewer_moves_with_j_and_k() -> None:
    """Textual's own lists have only the arrows: each list is one of ours."""
    found = []
    for module in modules("natstui.tui"):
        # To parse a file takes longer than to look for a word in it.
        has_lists = "OptionList" in module.text or "SelectionList" in module.text
        for node in module.nodes() if has_lists else ():
            if isinstance(node, ast.Call):
                called = node.func.value if isinstance(node.func, ast.Subscript) else node.func
                if isinstance(called, ast.Name) and called.id in ("OptionList", "SelectionList"):
                    found.append(f"{module.name}:{node.lineno}")
    assert found == []


def test_two_columns_of_the_analysis_never_have_the_same_head() -> None:
    names = ["stream", "lag_msgs", "lag_s", "rate_per_s"]
    assert titles_of(names) == ["STREAM", "LAG MSGS", "LAG S", "RATE/S"]


async def test_in_an_empty_list_of_consumers_no_key_takes_the_stream_for_one() -> None:
    async with fed(*engine_records({"S": ()})) as viewer:
        await viewer.until(lambda: "S" in viewer.rows())
        await viewer.press("enter")
        await viewer.until(lambda: isinstance(viewer.app.screen, ConsumersScreen), "its list")
        listed = viewer.app.screen
        await viewer.until(lambda: "no consumers: a creates one" in viewer.words, "an empty list")
        offered = {active.binding.key for active in listed.active_bindings.values()}
        assert {"a", "m", "N"} <= offered, "what is done to the stream"
        for key in ("ctrl+d", "e", "A", "T", "x"):
            assert key not in offered
            await viewer.press(key)
            assert viewer.app.screen is listed
