"""`:sub`: what is published is counted and listed on the screen, as it is on the server."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from nats.aio.client import Client
from nats.errors import NoRespondersError

from natstui.model.records.listening import StartListening
from natstui.model.records.messages import Answered
from natstui.model.records.record import Configured, LinkChanged
from natstui.tui.kit.pick import PickDialog
from natstui.tui.messages.listening import ListenScreen
from natstui.tui.messages.message import MessageScreen
from natstui.values import replace
from tests.ending import ended
from tests.jetstream.flushing import flushed
from tests.jetstream.raw_publisher import RawPublisher
from tests.tui.engine_records import engine_records
from tests.tui.shared import Shared, asked, connected, on_the_files_loop
from tests.tui.test_messages import typed
from tests.tui.viewer import Viewer, fed

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("listening")]

SIZE = (140, 40)


def screen_of(viewer: Viewer) -> ListenScreen:
    assert isinstance(viewer.app.screen, ListenScreen)
    return viewer.app.screen


def came(viewer: Viewer) -> int:
    """Return how many messages the screen says that came."""
    screen = viewer.app.screen
    shown = screen._newest_update if isinstance(screen, ListenScreen) else None
    return shown.came_msgs if shown is not None else -1


def subjects(viewer: Viewer) -> dict[str, str]:
    """Return the rows of subjects: what each is called, and its messages."""
    source = screen_of(viewer).panes.subjects.source
    cells = [source.cells(row) for row in source.order]
    return {row[0].text: row[3].text for row in cells}


async def listen(viewer: Viewer, line: str) -> None:
    await viewer.type_command(line)
    await viewer.until(lambda: isinstance(viewer.app.screen, ListenScreen))
    await viewer.until(lambda: came(viewer) >= 0, "it listens")


@on_the_files_loop
async def test_subjects_are_counted_in_a_tree_and_a_list_and_two_screens_do_not_mix(
    shared: Shared,
) -> None:
    async with connected(shared.url) as nc, shared.as_new(SIZE) as viewer:
        await listen(viewer, "sub shop.>")
        assert "requests without a responder time out" in viewer.words
        for subject, count in (("shop.eu.paid", 3), ("shop.eu.sent", 2), ("shop.us", 1)):
            for number in range(count):
                await nc.publish(subject, b'{"number": %d}' % number, headers={"Trace": "t"})
        await flushed(nc)
        await viewer.until(lambda: came(viewer) == 6)
        tree = {"▾ shop": "6", "  ▸ eu": "5", "    us": "1"}
        await viewer.until(lambda: subjects(viewer) == tree, str(tree))
        await viewer.press("right_square_bracket")
        whole = {"▾ shop": "6", "  ▾ eu": "5", "      paid": "3", "      sent": "2", "    us": "1"}
        await viewer.until(lambda: subjects(viewer) == whole, str(whole))
        await viewer.press("down", "enter")
        await viewer.until(lambda: subjects(viewer) == tree, "enter closes what is open")
        for internal in (True, False):
            await viewer.press("i")
            assert screen_of(viewer).looking.options.internal is internal
        await viewer.press("t")
        flat = {"shop.eu.paid": "3", "shop.eu.sent": "2", "shop.us": "1"}
        await viewer.until(lambda: subjects(viewer) == flat, str(flat))

        await viewer.press("slash", "p", "a", "i", "d", "enter")
        await viewer.until(lambda: list(subjects(viewer)) == ["shop.eu.paid"])
        await viewer.until(lambda: "3 msgs of others not shown" in viewer.words)
        await viewer.until(lambda: "the newest 3, newest first" in viewer.words)
        await viewer.press("escape")
        await viewer.until(lambda: subjects(viewer) == flat, "escape takes the filter away")

        await viewer.press("space")
        await nc.publish("shop.us", b"more")
        await viewer.until(lambda: came(viewer) == 7, "what comes is counted")
        assert "PAUSED" in viewer.text
        assert subjects(viewer) == flat
        await viewer.press("space")
        await viewer.until(lambda: subjects(viewer)["shop.us"] == "2")

        await viewer.press("z")
        await viewer.until(lambda: came(viewer) == 0, "from zero")
        await viewer.press("s", "ctrl+u")
        await viewer.type("other")
        await viewer.press("enter")
        await viewer.until(lambda: "sub other" in viewer.words and came(viewer) == 0)

        # Another screen has its own subjects; behind it, this one listens again.
        await listen(viewer, "sub two")
        await nc.publish("two", b"x")
        await viewer.until(lambda: "  two" in subjects(viewer))
        await viewer.press("escape")
        await viewer.until(lambda: screen_of(viewer).subjects == ("other",))
        await shows_one_of(viewer, nc, "other")


async def shows_one_of(viewer: Viewer, nc: Client, subject: str) -> None:
    """Send one message to a subject once somebody subscribes to it, and see it counted."""

    async def send() -> None:
        while True:
            # Who listens does not reply; who is told that nobody does asks again.
            with suppress(NoRespondersError):
                await nc.request(subject, b"x", timeout=120)
            await asyncio.sleep(0.15)

    sending = asyncio.create_task(send())
    try:
        await viewer.until(lambda: subjects(viewer) == {f"  {subject}": "1"}, subject)
    finally:
        sending.cancel()
        await ended(sending)


@on_the_files_loop
async def test_a_hostile_message_is_shown_harmless_and_whole(shared: Shared) -> None:
    async with shared.as_new(SIZE) as viewer:
        await listen(viewer, "subscribe")
        payload = b"\x00\xff\x1b]52;c;aGk=\x07[red]x[/]" + b"y" * 2_000
        with RawPublisher(shared.url) as publisher:
            publisher.publish(b"evil.\x1b[31m\x07", payload, b"NATS/1.0\r\nBad\x1b: \x07\r\n\r\n")
            publisher.settle()
        await viewer.until(lambda: "evil" in viewer.text)
        assert "\x1b" not in viewer.text
        await viewer.press("tab", "home", "enter")
        await viewer.until(lambda: isinstance(viewer.app.screen, MessageScreen))
        await viewer.until(lambda: "2,023 bytes" in viewer.words)
        assert "00 ff 1b 5d 35 32" in viewer.words
        assert "\x1b" not in viewer.text
        assert "\x07" not in viewer.text
        await viewer.press("v", "v")
        await viewer.until(lambda: "[red]x[/]" in viewer.text)
        await viewer.press("left_square_bracket")
        await viewer.press("escape")
        assert isinstance(viewer.app.screen, ListenScreen)


@on_the_files_loop
async def test_it_asks_before_it_takes_what_a_push_consumer_delivers(shared: Shared) -> None:
    async with connected(shared.url) as nc, shared.as_new(SIZE) as viewer:
        await asked(nc, "STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
        config = {"durable_name": "C", "deliver_subject": "push.here", "ack_policy": "none"}
        body = {"stream_name": "S", "config": config}
        await asked(nc, "CONSUMER.CREATE.S.C", body)
        await nc.request("s", b"precious", timeout=20)
        known = viewer.app.screen
        await viewer.until(lambda: known.state.consumer_configurations)  # type: ignore[attr-defined]
        await viewer.type_command("sub push.here")
        await viewer.until(lambda: isinstance(viewer.app.screen, PickDialog))
        await viewer.until(lambda: "S > C delivers to us" in viewer.words)
        await viewer.press("enter")
        await viewer.until(lambda: not isinstance(viewer.app.screen, PickDialog | ListenScreen))
        info = await asked(nc, "CONSUMER.INFO.S.C")
        assert info["delivered"]["stream_seq"] == 0, "nothing was taken"
        await viewer.type_command("sub push.*")
        await viewer.until(lambda: came(viewer) >= 0)
        info = await asked(nc, "CONSUMER.INFO.S.C")
        assert info["delivered"]["stream_seq"] == 0, "a wildcard wakes no consumer"


async def test_what_the_engine_refuses_to_take_of_a_push_consumer_is_named() -> None:
    *_, configured, _poll = records = engine_records({"S": ("C",)}, read_only=True)
    assert isinstance(configured, Configured)
    push = tuple(replace(each, deliver_subject="push.here") for each in configured.consumers)
    records[-2] = replace(configured, consumers=push)
    async with fed(*records, size=(100, 24)) as viewer:
        await viewer.until(lambda: viewer.app.state.consumer_configurations, "the consumer")
        await viewer.type_command("sub push.here")
        await viewer.until(lambda: isinstance(viewer.app.screen, PickDialog))
        assert not viewer.sent(StartListening)
        await viewer.press("down", "enter")
        await viewer.until(lambda: viewer.sent(StartListening), "it is asked for")
        (command,) = viewer.sent(StartListening)
        assert command.subjects == ("push.here",)
        refused = "read-only: C of S delivers to push.here, which has no subscriber"
        await viewer.feed(Answered(2_000_000, command.command_id, "refused", refused))
        await viewer.until(lambda: refused in viewer.words, refused)
        # Another connection may have other permissions: it is asked for again, once.
        await viewer.feed(LinkChanged(3_000_000, "connected", None, "n2"))
        await viewer.until(lambda: len(viewer.sent(StartListening)) == 2, "asked for again")


async def test_a_screen_whose_subscription_was_ended_by_another_one_subscribes_again() -> None:
    async with fed(*engine_records({"S": ("C",)}), size=(100, 24)) as viewer:
        for count, subject in enumerate(("one", "two"), 1):
            await viewer.type_command(f"sub {subject}")
            await viewer.until(lambda count=count: len(viewer.sent(StartListening)) == count)
        first, _ = viewer.sent(StartListening)
        text = "another subscription ended this one"
        await viewer.feed(Answered(2_000_000, first.command_id, "replaced", text))
        await viewer.press("escape")
        await viewer.until(lambda: len(viewer.sent(StartListening)) == 3, "it subscribes again")
        assert viewer.sent(StartListening)[-1].subjects == ("one",)
        assert text not in viewer.words


@on_the_files_loop
async def test_panes_and_the_other_table_have_the_keys(shared: Shared) -> None:
    async with shared.as_new((80, 24)) as viewer:
        await listen(viewer, "sub x")
        screen = screen_of(viewer)
        assert screen.panes.subjects.has_focus
        await viewer.press("tab")
        assert screen.panes.messages.has_focus
        await viewer.press("m")
        assert screen.panes.subjects.has_focus
        assert not screen.panes.messages.display
        await viewer.press("m")
        assert screen.panes.messages.has_focus
        assert not screen.panes.subjects.display
        await viewer.press("m", "greater_than_sign")
        await viewer.until(lambda: screen.looking.options.by == "bytes_per_s")
        await viewer.press("slash")
        await typed(viewer, "(", "enter")
        await viewer.until(lambda: "is not a regular expression" in viewer.words)
