"""Looking inside, publishing, pulling and answering with keys, checked against the server."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from nats.aio.client import Client
from textual.widgets import TextArea

from natstui.model.records.confirmation import Confirmation
from natstui.model.records.messages import Answered, PublishMessage, StartTail, StopTail
from natstui.model.records.tap import StartTap
from natstui.tui.frame.action_keys import Target
from natstui.tui.frame.messages import Manage
from natstui.tui.kit.fields import FieldRow
from natstui.tui.kit.pick import PickDialog
from natstui.tui.messages.message import MessageScreen
from natstui.tui.messages.publish import PublishScreen
from natstui.tui.messages.pull import PullScreen
from natstui.tui.messages.screen import MessagesScreen
from natstui.tui.messages.tail import TailScreen
from tests.accounts import Account
from tests.tui.engine_records import engine_records
from tests.tui.shared import Shared, asked, connected, on_the_files_loop
from tests.tui.test_forms import SMALL, fill, flat, on_form, own_state, toasts
from tests.tui.viewer import Viewer, fed, frozen, viewing

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("messages")]

__all__ = ["own_state"]

WIDE = (120, 40)


async def typed(viewer: Viewer, text: str, *then: str) -> None:
    await viewer.type(text)
    await viewer.press(*then)


async def shows(viewer: Viewer, text: str) -> None:
    await viewer.until(lambda: text in viewer.text, text)


async def state(nc: Client, verb: str, *path: str) -> Any:
    found: Any = await asked(nc, verb)
    for key in path:
        found = found[key]
    return found


async def publish(viewer: Viewer, **texts: str) -> None:
    """Fill the open publish screen and send it."""
    for row in viewer.app.screen.query(FieldRow):
        if row.field.path in texts:
            row.editor.focus(scroll_visible=False)
            await viewer.press("ctrl+u")
            await typed(viewer, texts[row.field.path])
    if "payload" in texts:
        viewer.app.screen.query_one(TextArea).text = texts["payload"]
    await viewer.press("ctrl+s")


@on_the_files_loop
async def test_publishing_dedupes_and_a_work_queue_loses_what_is_acknowledged(
    shared: Shared,
) -> None:
    url = shared.url
    async with connected(url) as nc, shared.as_new(SMALL) as viewer:
        queue = {"name": "W", "subjects": ["w"], "retention": "workqueue"}
        await asked(nc, "STREAM.CREATE.W", queue)
        consumer = {"durable_name": "C", "ack_policy": "explicit"}
        body = {"stream_name": "W", "config": consumer, "action": "create"}
        await asked(nc, "CONSUMER.CREATE.W.C", body)
        await viewer.until(lambda: "W" in viewer.rows())
        await viewer.press("m", "w")
        await viewer.until(lambda: isinstance(viewer.app.screen, PublishScreen))
        await publish(viewer, payload="hello", message_id="one")
        await shows(viewer, "stored as 1 in W")
        await viewer.press("ctrl+s")
        await shows(viewer, "a duplicate of 1 in W")
        assert await state(nc, "STREAM.INFO.W", "state", "messages") == 1
        for number in range(2, 4):
            await publish(viewer, message_id=str(number))
            await shows(viewer, f"stored as {number} in W")
        await viewer.press("escape", "N")
        await viewer.until(lambda: isinstance(viewer.app.screen, PullScreen))
        for left in (2, 1):
            await viewer.press("enter")
            await shows(viewer, "not acked yet")
            await viewer.press("A")
            await shows(viewer, "confirmed by the server")
            assert await state(nc, "STREAM.INFO.W", "state", "messages") == left
        await shows(viewer, "unprocessed 1   ack pending 0")


@on_the_files_loop
async def test_nak_with_a_delay_and_term_with_a_reason_do_what_they_say(
    shared: Shared,
) -> None:
    url = shared.url
    async with connected(url) as nc, shared.as_new(SMALL) as viewer:
        await asked(nc, "STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
        consumer = {"durable_name": "C", "ack_policy": "explicit"}
        body = {"stream_name": "S", "config": consumer, "action": "create"}
        await asked(nc, "CONSUMER.CREATE.S.C", body)
        await nc.request("s", b"{}", timeout=20)
        heard = await nc.subscribe("$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.S.C")
        await viewer.until(lambda: "S" in viewer.rows())
        await shows(viewer, "consumers 1")
        await viewer.press("m", "N")
        await viewer.until(lambda: isinstance(viewer.app.screen, PullScreen))
        await viewer.press("enter")
        await shows(viewer, "first delivery")
        await viewer.press("D", "1", "s", "enter")
        await shows(viewer, "redelivered after 1 s")
        # A second by the clock of the server, which a busy machine may hold up.
        while "delivery 2" not in viewer.text:
            await viewer.press("enter")
            await viewer.until(lambda: not viewer.app.link.pending, "a message, or none yet")
        await shows(viewer, "delivery 2")
        await viewer.press("i")
        await shows(viewer, "the ack wait begins again")
        await viewer.press("t")
        await viewer.type("broken")
        await viewer.press("enter")
        await shows(viewer, "terminated: broken")
        told = json.loads((await heard.next_msg(timeout=10)).data)
        assert told["reason"] == "broken"
        info = await asked(nc, "CONSUMER.INFO.S.C")
        assert (info["num_ack_pending"], info["delivered"]["consumer_seq"]) == (0, 2)
        await shows(viewer, "ack pending 0")


async def pull(viewer: Viewer, name: str, *shown: str) -> None:
    """Take messages of a consumer, and see which they are."""
    await viewer.press("N")
    await viewer.until(lambda: isinstance(viewer.app.screen, PickDialog))
    await viewer.press(*"j" * sorted("TW").index(name), "enter")
    await viewer.until(lambda: isinstance(viewer.app.screen, PullScreen))
    for text in shown:
        await viewer.press("enter")
        await shows(viewer, text)
    await viewer.press("escape")
    await viewer.until(lambda: isinstance(viewer.app.screen, MessagesScreen))


@pytest.mark.long
@on_the_files_loop
async def test_a_consumer_is_made_by_the_form_and_pulled_as_its_preview_said(
    shared: Shared,
) -> None:
    """Every policy: tests/jetstream/test_delivery_preview.py."""
    async with connected(shared.url) as nc, shared.as_new(SMALL) as viewer:
        stream = {"name": "S", "subjects": ["s.>"], "allow_direct": True}
        await asked(nc, "STREAM.CREATE.S", stream)
        for number in range(6):
            await nc.request(f"s.{number % 3}", b"x", timeout=20)
        third = (await asked(nc, "STREAM.MSG.GET.S", {"seq": 3}))["message"]["time"]
        await viewer.until(lambda: "S" in viewer.rows())
        await viewer.press("enter", "a")
        await on_form(viewer)
        await fill(viewer, name="T")
        for words, preview in (
            ({}, "message 1 (s.0) first, 6 pending"),
            ({"deliver_policy": "new"}, "none of the stored messages"),
            ({"filter_subjects": "s.2", "deliver_policy": "last"}, "message 6 (s.2) first, 1 "),
            ({"deliver_policy": "by_start_time", "opt_start_time": third},
             "would deliver message 3 (s.2) first, 2 pending"),
        ):  # fmt: skip
            await fill(viewer, **words)
            await viewer.until(lambda preview=preview: preview in flat(viewer), preview)  # type: ignore[misc]
        await viewer.press("ctrl+s")
        await viewer.until(lambda: "T" in viewer.rows(), "the consumer")
        info = await asked(nc, "CONSUMER.INFO.S.T")
        assert info["num_pending"] == 2
        config = info["config"]
        assert (config["deliver_policy"], config["ack_policy"]) == ("by_start_time", "explicit")
        body = {"stream_name": "S", "action": "create"}
        config = {"durable_name": "W", "deliver_policy": "new", "ack_policy": "explicit"}
        await asked(nc, "CONSUMER.CREATE.S.W", body | {"config": config})
        await viewer.until(lambda: "W" in viewer.rows(), "another consumer")
        await viewer.press("escape", "m")
        await pull(viewer, "T", "message 3  ·")
        info = await asked(nc, "CONSUMER.INFO.S.T")
        assert info["delivered"]["stream_seq"] == 3
        await nc.request("s.9", b"y", timeout=20)
        await pull(viewer, "W", "message 7  ·", "no message to deliver now")


@on_the_files_loop
async def test_the_browser_pages_filters_jumps_and_reads(shared: Shared, tmp_path: Path) -> None:
    url = shared.url
    async with connected(url) as nc, shared.as_new(SMALL) as viewer:
        config = {"name": "S", "subjects": ["s.>"], "allow_direct": True}
        await asked(nc, "STREAM.CREATE.S", config)
        for number in range(1, 251):
            body = json.dumps({"number": number}).encode()
            await nc.request(f"s.{number % 2}", body, headers={"Trace": str(number)}, timeout=20)
        await viewer.until(lambda: "S" in viewer.rows())
        await viewer.press("m")
        await shows(viewer, "151…250 of 1…250")
        await viewer.press("[")
        await shows(viewer, "51…150 of 1…250")
        await viewer.press("]")
        await shows(viewer, "151…250 of 1…250")
        await viewer.press("s", "7", "enter")
        await shows(viewer, "7…106 of 1…250")
        await viewer.press("/")
        await typed(viewer, "s.1", "enter")
        await shows(viewer, "51…249 of 1…250")
        await viewer.press("l")
        await shows(viewer, "last of each subject")
        await viewer.press("g", "enter")
        await viewer.until(lambda: isinstance(viewer.app.screen, MessageScreen))
        await shows(viewer, '"number": 249')
        await shows(viewer, "Trace: 249")
        await viewer.press("v", "v", "v")
        await shows(viewer, "7b 22 6e 75")
        await viewer.press("ctrl+s")
        await viewer.press("ctrl+u")
        file = tmp_path / "out"
        await typed(viewer, str(file), "enter")
        await viewer.until(lambda: "saved 15 bytes" in toasts(viewer))
        assert file.read_bytes() == b'{"number": 249}'


@on_the_files_loop
async def test_a_tail_shows_what_arrives_and_can_be_paused(shared: Shared) -> None:
    url = shared.url
    async with connected(url) as nc, shared.as_new(SMALL) as viewer:
        await asked(nc, "STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"]})
        await viewer.until(lambda: "S" in viewer.rows())
        await viewer.press("m", "T")
        await viewer.until(lambda: isinstance(viewer.app.screen, TailScreen))
        await shows(viewer, "0 arrived")
        await nc.publish("s.a", b"first words")
        await shows(viewer, "first words")
        await viewer.press("space")
        await nc.publish("s.a", b"second words")
        await shows(viewer, "2 arrived")
        assert "second words" not in viewer.words
        await viewer.press("slash")
        await viewer.type("first")
        await viewer.press("enter", "space")
        await nc.publish("s.a", b"words of another")
        await shows(viewer, "3 arrived")
        await shows(viewer, "first words")
        assert "second words" not in viewer.words and "of another" not in viewer.words


async def test_a_tail_starts_again_after_another_one_above_it_was_closed() -> None:
    async with fed(*engine_records({"ORDERS": (), "PAYMENTS": ()}), size=SMALL) as viewer:
        await viewer.until(lambda: "ORDERS" in viewer.rows(), "the streams")
        for stream in ("ORDERS", "PAYMENTS"):
            viewer.app.post_message(Manage("tail", (Target(stream),)))
            subjects = (f"{stream.lower()}.>",)
            await viewer.until(
                lambda of=subjects: [tail.subjects for tail in viewer.sent(StartTail)][-1:] == [of]
            )
        first, _second = viewer.sent(StartTail)
        text = "another tail ended this one"
        await viewer.feed(Answered(2_000_000, first.command_id, "replaced", text))
        await viewer.settle()
        assert len(viewer.sent(StartTail)) == 2, "the one behind leaves the other alone"
        await viewer.press("escape")
        await viewer.until(lambda: len(viewer.sent(StartTail)) == 3, "it starts again")
        assert viewer.sent(StartTail)[-1].subjects == ("orders.>",)
        await viewer.until(lambda: "another tail ended this one" in viewer.said, "why")
        await viewer.press("escape")
        started_ids = [tail.command_id for tail in viewer.sent(StartTail)]
        await viewer.until(
            lambda: [stop.tail_id for stop in viewer.sent(StopTail)] == started_ids[1:], "the ends"
        )


async def test_an_ack_tap_that_another_one_has_ended_says_so() -> None:
    async with fed(*engine_records({"S": ("one", "two")}), size=SMALL) as viewer:
        await viewer.until(lambda: "S" in viewer.rows(), "the stream")
        for count, consumer in enumerate(("one", "two"), 1):
            viewer.app.post_message(Manage("tap", (Target("S", consumer),)))
            await viewer.until(lambda of=count: len(viewer.sent(StartTap)) == of, consumer)
        first, _second = viewer.sent(StartTap)
        text = "another tap ended this one"
        await viewer.feed(Answered(2_000_000, first.command_id, "replaced", text))
        await viewer.press("escape")
        ended_text = "ack tap of S › one · another tap ended this one"
        await viewer.until(lambda: ended_text in viewer.words, "its end")
        await viewer.press("T")
        await viewer.until(lambda: len(viewer.sent(StartTap)) == 3, "it starts again")
        await viewer.until(lambda: "ack tap of S › one · starting" in viewer.words, "it starts")


async def test_what_wants_its_subject_typed_is_sent_with_it_or_not_at_all() -> None:
    async with fed(*engine_records({"S": ()}), size=SMALL) as viewer:
        await viewer.until(lambda: "S" in viewer.rows(), "the stream")
        await viewer.app.push_screen(PublishScreen("S", "s.a", None))
        confirmation = Confirmation("this is production", "s.a", True)
        body = msgspec.json.encode(confirmation).decode()
        for count in (1, 2):
            await viewer.press("ctrl+s")
            await viewer.until(lambda count=count: len(viewer.sent(PublishMessage)) == count)  # type: ignore[misc]
            sent = viewer.sent(PublishMessage)[-1]
            assert sent.confirmed is None
            await viewer.feed(Answered(1, sent.command_id, "refused", "type s.a", body))
            await shows(viewer, "This is production. Type s.a to confirm")
            if count == 1:
                await viewer.press("escape")
                await shows(viewer, "not confirmed: nothing is sent")
        await typed(viewer, "s.a", "enter")
        await viewer.until(lambda: len(viewer.sent(PublishMessage)) == 3, "it is sent")
        sent = viewer.sent(PublishMessage)[-1]
        assert (sent.confirmed, sent.decided_on) == ("s.a", confirmation)


@pytest.mark.long
async def test_in_production_a_message_is_published_and_pulled_once_its_name_is_typed(
    account: Account,
) -> None:
    environ = {"NATSTUI_CONNECTION_PRODUCTION": "true"}
    async with (
        connected(account.url) as nc,
        viewing(account.url, size=SMALL, environ=environ) as viewer,
    ):
        await asked(nc, "STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"]})
        consumer = {"durable_name": "C", "ack_policy": "explicit"}
        await asked(nc, "CONSUMER.DURABLE.CREATE.S.C", {"stream_name": "S", "config": consumer})
        await viewer.until(lambda: "S" in viewer.rows(), "the stream")
        await shows(viewer, "consumers 1")
        await viewer.press("m", "w")
        await viewer.until(lambda: isinstance(viewer.app.screen, PublishScreen))
        await publish(viewer, subject="s.a", payload="hello")
        await shows(viewer, "This is production. Type s.a to confirm")
        await viewer.press("escape")
        await shows(viewer, "not confirmed: nothing is sent")
        await viewer.press("ctrl+s")
        await shows(viewer, "This is production. Type s.a to confirm")
        await typed(viewer, "s.a", "enter")
        await shows(viewer, "stored as 1 in S")
        await viewer.press("escape", "N")
        await viewer.until(lambda: isinstance(viewer.app.screen, PullScreen))
        await viewer.press("enter")
        await shows(viewer, "This is production. Type C to confirm")
        await typed(viewer, "C", "enter")
        await shows(viewer, "first delivery")
        assert await state(nc, "CONSUMER.INFO.S.C", "num_ack_pending") == 1


@on_the_files_loop
async def test_each_pull_that_takes_something_else_for_good_is_asked_for(shared: Shared) -> None:
    async with connected(shared.url) as nc, shared.as_new(WIDE) as viewer:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s"])
        await js.add_consumer("S", durable_name="C", ack_policy="explicit", max_deliver=2)
        for _ in range(4):
            await js.publish("s", b"x")
        await viewer.until(lambda: "S" in viewer.rows(), "the stream")
        await viewer.app.push_screen(PullScreen("S", "C"))
        await viewer.press("enter")
        await shows(viewer, "first delivery")
        await viewer.press("enter")
        await shows(viewer, "1 message of C may reach max deliver 2")
        await viewer.press("escape")
        await shows(viewer, "not confirmed: nothing is pulled")
        await js.delete_consumer("S", "C")
        await js.add_consumer("S", durable_name="C", ack_policy="none")
        await viewer.press("enter")
        await shows(viewer, "C has ack policy none: a received message is not")
        await typed(viewer, "C", "enter")
        await shows(viewer, "message 1  ·")
        await viewer.press("enter")
        await shows(viewer, "message 2  ·")
        # Another consumer of that name is another question.
        await js.delete_consumer("S", "C")
        await js.add_consumer("S", durable_name="C", ack_policy="none")
        await viewer.press("enter")
        await shows(viewer, "C has ack policy none: a received message is not")
        await viewer.press("escape")
        await shows(viewer, "not confirmed: nothing is pulled")
        assert await state(nc, "CONSUMER.INFO.S.C", "num_pending") == 4


@on_the_files_loop
async def test_a_message_is_sent_again_only_after_it_was_read_and_byte_by_byte(
    shared: Shared,
) -> None:
    stored = b"line1\r\nline2\ttab\n"
    async with connected(shared.url) as nc, shared.as_new(WIDE) as viewer:
        await nc.jetstream().add_stream(name="S", subjects=["s"])
        await nc.jetstream().publish("s", stored)
        await viewer.until(lambda: "S" in viewer.rows(), "the stream")
        with frozen(viewer):
            screen = PublishScreen("S", "s", 1)
            await viewer.app.push_screen(screen)
            await viewer.press("ctrl+s")
            await viewer.until(
                lambda: "nothing was sent: message 1 was not read yet" in viewer.words
            )
        await viewer.until(lambda: "line1" in viewer.text, "it is read")
        await viewer.press("ctrl+s")
        await viewer.until(lambda: "stored as 2 in S" in viewer.words, "the reply")
        assert (await nc.jetstream().get_msg("S", 2)).data == stored
        missing = PublishScreen("S", "s", 9)
        await viewer.app.push_screen(missing)
        await viewer.until(lambda: "message 9 cannot be read" in viewer.words, "the reason")
        await viewer.press("ctrl+s")
        await viewer.until(lambda: "nothing was sent: message 9 cannot be read" in viewer.words)
        assert (await nc.jetstream().stream_info("S")).state.last_seq == 2


@on_the_files_loop
async def test_a_message_that_is_not_read_is_not_saved_as_another(shared: Shared) -> None:
    async with connected(shared.url) as nc, shared.as_new(WIDE) as viewer:
        await nc.jetstream().add_stream(name="S", subjects=["s"])
        await nc.jetstream().publish("s", b"the first")
        await viewer.until(lambda: "S" in viewer.rows(), "the stream")
        await viewer.app.push_screen(MessageScreen("S", 1))
        await viewer.until(lambda: "the first" in viewer.words, "the message")
        await viewer.press("right_square_bracket")
        await viewer.until(lambda: "the first" not in viewer.words, "there is no second one")
        await viewer.press("ctrl+s")
        await viewer.until(lambda: "message 2 is not read" in viewer.said, "nothing to save")
        assert isinstance(viewer.app.screen, MessageScreen)


@on_the_files_loop
async def test_the_message_is_terminated_for_which_the_reason_was_typed(shared: Shared) -> None:
    async with connected(shared.url) as nc, shared.as_new(WIDE) as viewer:
        await nc.jetstream().add_stream(name="S", subjects=["s"])
        await nc.jetstream().add_consumer("S", durable_name="C", ack_policy="explicit")
        for payload in (b"the first", b"the second"):
            await nc.jetstream().publish("s", payload)
        await viewer.until(lambda: "S" in viewer.rows(), "the stream")
        await viewer.app.push_screen(PullScreen("S", "C"))
        await viewer.until(lambda: isinstance(viewer.app.screen, PullScreen), "the screen")
        screen = viewer.app.screen
        assert isinstance(screen, PullScreen)
        await viewer.press("enter")
        await viewer.until(lambda: "the first" in viewer.words, "the message")
        with frozen(viewer):
            await viewer.press("enter", "t")
            await viewer.until(lambda: "Reason to terminate" in viewer.words, "the question")
        await viewer.until(
            lambda: (
                screen.pulled_message is not None and screen.pulled_message.message.stream_seq == 2
            ),
            "a newer",
        )
        await viewer.type("broken")
        await viewer.press("enter")
        async with asyncio.timeout(30):
            while await state(nc, "CONSUMER.INFO.S.C", "num_ack_pending") != 1:
                await asyncio.sleep(0.05)
        assert await state(nc, "CONSUMER.INFO.S.C", "ack_floor", "stream_seq") == 1


@on_the_files_loop
async def test_an_ack_goes_to_no_other_consumer_of_the_name(shared: Shared) -> None:
    async with connected(shared.url) as nc, shared.as_new(WIDE) as viewer:
        for payload in (b"the first", b"the second"):
            await nc.jetstream().add_stream(name="S", subjects=["s"])
            await nc.jetstream().add_consumer("S", durable_name="C", ack_policy="explicit")
            await nc.jetstream().publish("s", payload)
            if payload == b"the first":
                await viewer.until(lambda: "S" in viewer.rows(), "the stream")
                await viewer.app.push_screen(PullScreen("S", "C"))
                await viewer.press("enter")
                await viewer.until(lambda: "the first" in viewer.words, "the message")
                await nc.jetstream().delete_stream("S")
        await viewer.press("a")
        refused = "is not the consumer that this message was pulled from: nothing was sent"
        await viewer.until(lambda: refused in viewer.words, "it is refused")
        await viewer.press("enter")
        await viewer.until(lambda: "the second" in viewer.words, "the other message")
        await viewer.press("a")
        async with asyncio.timeout(30):
            while await state(nc, "CONSUMER.INFO.S.C", "ack_floor", "stream_seq") != 1:
                await asyncio.sleep(0.05)
