"""Requests are awaited: the reply comes, or why none will; and what goes for good is counted."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from nats.aio.client import Client

from natstui.lines import decode_command
from natstui.model.records.listening import StartListening
from natstui.model.records.managing import Change, ReadServerIdentity
from natstui.model.records.messages import Answered, BrowseMessages, StartTail, Tailed
from natstui.model.records.record import Noted, Record, SetViewedRows
from natstui.model.records.recording import ListSessions, SessionSummary
from natstui.model.records.tap import StartTap
from natstui.tui.app.link import Link
from natstui.tui.consumers.tap import TapScreen
from natstui.tui.frame import requests
from natstui.tui.frame.action_keys import SPECS, Target
from natstui.tui.frame.form.screen import FormScreen
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.requests import ReplyRecord, explain_change_reply
from natstui.tui.kit.prompt import Prompt
from natstui.tui.managing.action import ActionScreen
from natstui.tui.managing.journal import JournalScreen
from natstui.tui.messages.listening import ListenScreen
from natstui.tui.messages.publish import PublishScreen
from natstui.tui.messages.pull import PullScreen
from natstui.tui.messages.tail import TailScreen
from tests.accounts import Account
from tests.tui.engine_records import engine_records
from tests.tui.shared import Shared, asked, connected, on_the_files_loop
from tests.tui.test_forms import fill, on_form, on_streams, toasts
from tests.tui.viewer import Viewer, fed, frozen, viewing

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("requests")]

ENGINE = """
import os, sys
from natstui.lines import decode_command, encode_record
from natstui.model.records.messages import Answered, StartTail, Tailed
from natstui.model.records.record import Noted
for line in sys.stdin.buffer:
    command = decode_command(line)
    number = command.command_id
    os.write(1, encode_record(Noted(1, "an event")))
    if isinstance(command, StartTail):
        os.write(1, encode_record(Answered(1, number, "done", "following")))
        os.write(1, encode_record(Tailed(2, number, (), 1, 0)))
        os.write(1, encode_record(Answered(3, number, "failed", "not permitted any more")))
    elif command.stream == "KILL":
        sys.exit(1)
    else:
        os.write(1, encode_record(Answered(1, number, "done", command.stream)))
"""


async def test_commands_that_a_hanging_engine_does_not_take_wait_until_it_goes_on(
    tmp_path: Path,
) -> None:
    written = tmp_path / "commands"
    link = Link(("sh", "-c", 'exec cat > "$0"', str(written)))
    commands = [SetViewedRows(number, (f"STREAM-{number}",) * 60, ()) for number in range(300)]
    try:
        os.kill(link.pid, signal.SIGSTOP)
        for command in commands:
            link.send(command)
        assert link._unsent_commands, "more than a pipe holds"
        os.kill(link.pid, signal.SIGCONT)
        for _ in range(3000):
            if not link._unsent_commands:
                break
            await asyncio.sleep(0.01)
        assert link._writer_loop is None
    finally:
        link.close()
    assert [decode_command(line) for line in written.read_bytes().splitlines()] == commands


def read_all(link: Link) -> tuple[list[Record], asyncio.Task[None]]:
    """Read what no request waits for, in the background."""
    records: list[Record] = []

    async def read() -> None:
        async for record in link.records():
            records.append(record)

    return records, asyncio.create_task(read())


async def test_each_request_gets_its_own_reply_and_nobody_else_sees_it() -> None:
    link = Link((sys.executable, "-c", ENGINE))
    records, reading = read_all(link)
    try:
        replies = await asyncio.gather(
            *(link.request(BrowseMessages(0, f"S{at}")) for at in range(20))
        )
        assert [reply.text for reply in replies] == [f"S{at}" for at in range(20)]
        assert len({reply.command_id for reply in replies}) == 20
    finally:
        link.close()
    await reading
    assert records == [Noted(1, "an event")] * 20


async def test_a_request_yields_all_that_comes_of_it_until_the_engine_ends() -> None:
    link = Link((sys.executable, "-c", ENGINE))
    records, reading = read_all(link)
    seen: list[ReplyRecord] = []
    try:
        request = link.request(StartTail(0, (">",)))
        async for record in request:
            seen.append(record)
            if len(seen) == 3:
                os.kill(link.pid, signal.SIGKILL)
    finally:
        link.close()
    await reading
    number = request.command_id
    assert seen[:3] == [
        Answered(1, number, "done", "following"),
        Tailed(2, number, (), 1, 0),
        Answered(3, number, "failed", "not permitted any more"),
    ]
    assert [(one.status, one.text) for one in seen[3:] if isinstance(one, Answered)] == [
        ("failed", "the engine ended before it replied")
    ]
    assert records == [Noted(1, "an event")]


async def test_a_request_fails_when_the_engine_ends_and_at_once_when_it_has_ended() -> None:
    link = Link((sys.executable, "-c", ENGINE))
    _, reading = read_all(link)
    try:
        reply = await link.request(BrowseMessages(0, "KILL"))
        assert (reply.status, reply.text) == ("failed", "the engine ended before it replied")
        await reading
        later = await link.request(BrowseMessages(0, "S"))
        # Of what was only read, it does not matter that nothing was sent.
        assert (later.status, later.text) == ("failed", "the engine has ended")
        assert explain_change_reply(later).text == "the engine has ended: nothing was sent"
        assert "it is not known whether that was done" in explain_change_reply(reply).text
    finally:
        link.close()


async def test_a_request_that_is_cancelled_is_forgotten() -> None:
    link = Link((sys.executable, "-c", "import sys; sys.stdin.read()"))
    _, reading = read_all(link)
    try:

        async def wait() -> None:
            await link.request(BrowseMessages(0, "S"))

        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)
        assert len(link.pending) == 1
        waiting.cancel()
        await asyncio.wait({waiting})
        assert len(link.pending) == 0
    finally:
        link.close()
    await reading


@pytest.mark.parametrize(
    ("create", "start"),
    [
        pytest.param(lambda: TailScreen("S", ("s",)), TailScreen._start, id="tail"),
        pytest.param(lambda: TapScreen("S", "c"), TapScreen.action_again, id="tap"),
        pytest.param(
            lambda: ListenScreen(("s",)), ListenScreen.action_subscribe_again, id="subscription"
        ),
    ],
)
async def test_a_request_whose_task_is_cancelled_before_its_start_is_forgotten(
    create: Callable[[], LiveScreen], start: Callable[[Any], None]
) -> None:
    async with fed(*engine_records({"S": ()})) as viewer:
        screen = create()
        await viewer.app.push_screen(screen)
        await viewer.until(lambda: screen.is_current, "the screen")

        def pending_ids() -> list[int]:
            commands = viewer.app.link.pending_commands
            kinds = (StartTail, StartTap, StartListening)
            return [command.command_id for command in commands if isinstance(command, kinds)]

        await viewer.until(pending_ids, "its request")
        start(screen)
        start(screen)
        await viewer.settle()
        assert len(pending_ids()) == 1
        # The screen is closed before the task of another request has started.
        start(screen)
        viewer.app.workers.cancel_node(screen)
        screen.dismiss()
        await viewer.until(lambda: not screen.is_attached, "it is closed")
        await viewer.until(lambda: not pending_ids(), "nothing is pending", s=5)


async def test_a_screen_that_waits_shows_that_the_engine_ended() -> None:
    records = engine_records({"S": ()})
    async with fed(*records) as viewer:
        await viewer.until(lambda: "S" in viewer.rows(), "the stream")
        await viewer.press("P")
        await viewer.until(
            lambda: "counting the messages that this removes" in viewer.words, "it waits"
        )
        await viewer.until(lambda: viewer.sent(Change), "it is counted")
        before = viewer.app.link
        pending = before.pending
        assert pending
        os.killpg(before.pid, signal.SIGKILL)
        await viewer.until(lambda: "the engine ended before it replied" in viewer.said)
        assert not pending
        await viewer.feed(*records)
        await viewer.until(lambda: viewer.app.link is not before, "another engine")
        screen = viewer.app.screen
        assert isinstance(screen, ActionScreen)
        await viewer.press(*["down"] * len(screen.spec.fields))
        await viewer.type("S")
        await viewer.press("ctrl+s")
        # What is removed was never shown.
        await viewer.until(lambda: "S: nothing was changed: the engine ended" in viewer.words)
        assert all(change.dry_run for change in viewer.sent(Change))


@on_the_files_loop
async def test_what_was_changed_is_not_changed_again_after_others_failed(shared: Shared) -> None:
    async with connected(shared.url) as nc, shared.as_new((120, 40)) as viewer:
        for name in ("A", "B"):
            await asked(nc, f"STREAM.CREATE.{name}", {"name": name, "subjects": [name]})
        await viewer.until(lambda: {"A", "B"} <= set(viewer.rows()), "the streams")
        await viewer.press("home", "space", "down", "space", "ctrl+d")
        await viewer.until(lambda: "Type delete 2" in viewer.words, "it is counted")
        screen = viewer.app.screen
        assert isinstance(screen, ActionScreen)
        await asked(nc, "STREAM.DELETE.B")
        await viewer.type("delete 2")
        await viewer.press("ctrl+s")
        await viewer.until(lambda: "stream A deleted" in " ".join(viewer.toasts), "the first")
        await viewer.until(lambda: not screen._is_sending, "the second failed")
        await viewer.press("ctrl+s")
        await viewer.until(lambda: not screen._is_sending, "it failed again")
        assert str(screen.effect.visual).count("stream") == 1, screen.effect.visual


@pytest.mark.long
@on_the_files_loop
async def test_a_change_that_wants_a_name_of_a_closed_screen_is_said_not_to_be_made(
    shared: Shared,
) -> None:
    environ = {"NATSTUI_CONNECTION_PRODUCTION": "true"}
    async with connected(shared.url) as nc, viewing(shared.url, environ=environ) as viewer:
        await asked(nc, "STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
        await viewer.until(lambda: "S" in viewer.rows(), "the stream")
        await viewer.press("e")
        await on_form(viewer)
        await fill(viewer, max_msgs="5")
        with frozen(viewer):
            await viewer.press("ctrl+s")
            await viewer.until(lambda: "closing this does not stop it" in viewer.words, "sent")
            form = viewer.app.screen
            assert isinstance(form, FormScreen)
            # As for a reply to the preview that the engine had sent before.
            form.update_draft()
            await viewer.settle()
            assert "closing this does not stop it" in viewer.words
            await viewer.press("escape")
            await viewer.until(lambda: not isinstance(viewer.app.screen, FormScreen), "closed")
        await viewer.until(
            lambda: "before its confirmation: nothing was changed" in " ".join(viewer.toasts)
        )
        assert (await asked(nc, "STREAM.INFO.S"))["config"]["max_msgs"] == -1


async def test_a_tail_shows_that_the_engine_ended_also_after_messages() -> None:
    async with fed(*engine_records({"S": ()})) as viewer:
        await viewer.app.push_screen(TailScreen("S", ("s",)))
        await viewer.until(lambda: viewer.sent(StartTail), "it follows")
        number = viewer.sent(StartTail)[0].command_id
        await viewer.feed(
            Answered(1, number, "done", "following"), Tailed(2, number, (), 0, 0),
            Tailed(3, number, (), 1, 0),
        )  # fmt: skip
        await viewer.until(lambda: "1 arrived" in viewer.words, "the message")
        os.killpg(viewer.app.link.pid, signal.SIGKILL)
        ended_text = "the engine ended before it replied · tail of"
        await viewer.until(lambda: ended_text in viewer.words, "why no more come")
        assert "1 arrived" in viewer.words


async def test_a_list_that_cannot_be_read_again_stays_and_says_why() -> None:
    session = SessionSummary("/there/one", "one", "", "server", 1, 2, 3, 1, 1, 1, 0, 0, "", ())
    records = engine_records({})

    async def replied() -> None:
        await viewer.until(lambda: viewer.sent(ListSessions), "it is requested")
        number = viewer.sent(ListSessions)[-1].command_id
        body = msgspec.json.encode([session]).decode()
        await viewer.feed(Answered(1, number, "done", "1 recording", body))

    async with fed(*records) as viewer:
        await viewer.type_command("sessions")
        await replied()
        await viewer.until(lambda: len(viewer.rows()) == 1, "the recording")
        viewer.commands.clear()
        await viewer.press("ctrl+r")
        await viewer.until(lambda: viewer.sent(ListSessions), "it is requested again")
        before = viewer.app.link
        os.killpg(before.pid, signal.SIGKILL)
        await viewer.until(lambda: "the engine ended before it replied" in viewer.words)
        assert len(viewer.rows()) == 1
        viewer.commands.clear()
        await viewer.feed(*records)
        await viewer.until(lambda: viewer.app.link is not before, "another engine")
        await viewer.press("ctrl+r")
        await replied()
        await viewer.until(lambda: "the engine ended" not in viewer.words, "read again")
        assert len(viewer.rows()) == 1


@on_the_files_loop
async def test_what_was_sent_is_told_of_though_its_screen_was_closed(shared: Shared) -> None:
    async with connected(shared.url) as nc, shared.as_new((120, 40)) as viewer:
        await asked(nc, "STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
        await viewer.until(lambda: "S" in viewer.rows(), "the stream")
        await viewer.press("ctrl+d")
        await viewer.until(lambda: "Type S and press enter" in viewer.words, "it is counted")
        await viewer.type("S")
        with frozen(viewer):
            await viewer.press("ctrl+s")
            await viewer.until(lambda: "closing this does not stop it" in viewer.words, "sent")
            await viewer.until(lambda: "esc Close" in viewer.words, "no key cancels it any more")
            await viewer.press("escape")
            await viewer.until(lambda: "Type S" not in viewer.words, "closed")
        await viewer.until(lambda: "stream S deleted" in " ".join(viewer.toasts), "the reply")


@on_the_files_loop
async def test_what_is_being_sent_is_not_sent_again_by_the_same_key(shared: Shared) -> None:
    async with connected(shared.url) as nc, shared.as_new((120, 40)) as viewer:
        await asked(nc, "STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
        config = {"name": "C", "durable_name": "C", "ack_policy": "explicit"}
        await asked(nc, "CONSUMER.DURABLE.CREATE.S.C", {"stream_name": "S", "config": config})
        await viewer.until(lambda: "S" in viewer.rows(), "the stream")
        await viewer.press("m", "w")
        await viewer.until(lambda: isinstance(viewer.app.screen, PublishScreen), "the form")
        with frozen(viewer):
            for _ in range(3):
                await viewer.press("ctrl+s")
            await viewer.until(lambda: "closing this does not stop it" in viewer.words, "sent")
        await viewer.until(lambda: "stored as 1 in S" in viewer.words, "the reply")
        await nc.request("s", b"another", timeout=10)
        assert (await asked(nc, "STREAM.INFO.S"))["state"]["messages"] == 2
        await viewer.app.push_screen(PullScreen("S", "C"))
        await viewer.until(lambda: isinstance(viewer.app.screen, PullScreen), "the pull screen")
        with frozen(viewer):
            for _ in range(3):
                await viewer.press("enter")
        await viewer.until(lambda: "first delivery" in viewer.words, "the message")
        info = await asked(nc, "CONSUMER.INFO.S.C")
        assert info["delivered"]["consumer_seq"] == 1


@pytest.mark.long
async def test_a_change_whose_engine_is_killed_may_have_been_made(account: Account) -> None:
    async with connected(account.url) as nc, viewing(account.url) as viewer:
        await asked(nc, "STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
        await viewer.until(lambda: "S" in viewer.rows(), "the stream")
        await viewer.press("e")
        await on_form(viewer)
        await fill(viewer, max_msgs="5")
        with frozen(viewer) as engine:
            await viewer.press("ctrl+s")
            await viewer.until(lambda: "closing this does not stop it" in viewer.words, "sent")
            engine.kill()
        await viewer.until(
            lambda: "it is not known whether that was done" in viewer.said, "it is told"
        )


async def test_a_change_of_an_engine_that_hangs_is_told_of_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(requests, "MAX_ENGINE_SILENCE_S", 2.0)
    async with fed(*engine_records({"S": ()})) as viewer:
        await viewer.until(lambda: "S" in viewer.rows(), "the stream")
        await viewer.app.push_screen(
            ActionScreen(SPECS["step_down_stream"], [Target("S", None)], False)
        )
        await viewer.until(lambda: viewer.sent(ReadServerIdentity), "where it is")
        await viewer.press("ctrl+s")
        await viewer.until(lambda: viewer.sent(Change), "it is sent")
        await viewer.until(lambda: "has not replied for 2 s" in viewer.said, "the limit")
        assert "the change may have been made" in viewer.said
        (change,) = viewer.sent(Change)
        assert change.command_id not in viewer.app.link.pending
        # The engine goes on, and makes the change.
        await viewer.feed(
            Answered(2_000_000, change.command_id, "done", "S has a leader again"),
            Noted(2_000_000, "what came after it"),
        )
        await viewer.until(lambda: viewer.app.state.recent_events, "all was read")
        assert "S has a leader again" not in viewer.said


async def test_a_change_whose_screen_was_closed_is_not_made_without_the_name_it_wants() -> None:
    async with fed(*engine_records({"S": ()})) as viewer:
        await viewer.until(lambda: "S" in viewer.rows(), "the stream")
        waiting = asyncio.create_task(viewer.table.engine.change(Change(0, "edit_stream", "S")))
        await viewer.until(lambda: viewer.sent(Change), "it is sent")
        waiting.cancel()
        await asyncio.wait({waiting})
        (change,) = viewer.sent(Change)
        await viewer.feed(Answered(2_000_000, change.command_id, "refused", "type S", "{}"))
        said = "before its confirmation: nothing was changed"
        await viewer.until(lambda: said in " ".join(viewer.toasts), said)


@pytest.mark.long
@on_the_files_loop
async def test_a_form_that_is_closed_while_it_is_sent_tells_of_its_reply(shared: Shared) -> None:
    async with connected(shared.url) as nc, shared.as_new((120, 40)) as viewer:
        await asked(nc, "STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
        await viewer.until(lambda: "S" in viewer.rows(), "the stream")
        await viewer.press("e")
        await on_form(viewer)
        await fill(viewer, max_msgs="5")
        with frozen(viewer):
            await viewer.press("ctrl+s")
            await viewer.until(lambda: "closing this does not stop it" in viewer.words, "sent")
            await viewer.press("escape")
            await on_streams(viewer)
        await viewer.until(lambda: "stream S changed" in " ".join(viewer.toasts), "the reply")


async def make(nc: Client, count: int) -> None:
    await asked(nc, "STREAM.CREATE.S", {"name": "S", "subjects": ["s"], "storage": "memory"})
    for _ in range(count):
        await nc.request("s", b"x", timeout=10)


async def held(nc: Client) -> int:
    count: int = (await asked(nc, "STREAM.INFO.S"))["state"]["messages"]
    return count


def unwrapped(viewer: Viewer) -> str:
    return " ".join(viewer.text.replace("│", " ").split())


async def on_prompt(viewer: Viewer, said: str) -> None:
    await viewer.until(lambda: isinstance(viewer.app.screen, Prompt), "the question")
    await viewer.until(lambda: said in unwrapped(viewer), said)


@pytest.mark.long
@on_the_files_loop
async def test_an_edit_that_removes_is_counted_and_asked_for_and_so_is_its_undo(
    shared: Shared,
) -> None:
    async with connected(shared.url) as nc, shared.as_new((120, 40)) as viewer:
        await make(nc, 20)
        await viewer.until(lambda: "S" in viewer.rows(), "the stream")
        await viewer.press("e")
        await on_form(viewer)
        await fill(viewer, max_msgs="5")
        await viewer.until(lambda: "15 of 20 messages" in viewer.words, "in the preview")
        await viewer.press("ctrl+s")
        await on_prompt(viewer, "15 of 20 messages")
        await viewer.press("escape")
        await on_form(viewer)
        await viewer.until(lambda: "closing this does not stop it" not in viewer.words, "unsent")
        await viewer.press("ctrl+s")
        await on_prompt(viewer, "15 of 20 messages")
        await viewer.press("X", "enter")
        await on_prompt(viewer, "That is not S")
        assert await held(nc) == 20
        await viewer.press("backspace", "S", "enter")
        await on_streams(viewer)
        assert await held(nc) == 5
        await viewer.press("u")
        await on_prompt(viewer, "but not what the change removed (15 of 20 messages")
        await viewer.press("K", "E", "E", "P", "enter")
        await on_prompt(viewer, "That is not S")
        assert (await asked(nc, "STREAM.INFO.S"))["config"]["max_msgs"] == 5
        viewer.toasts.clear()
        await viewer.press("ctrl+u", "S", "enter")
        await viewer.until(lambda: "stream S changed" in toasts(viewer), "undone")
        assert isinstance(viewer.app.screen, JournalScreen)
        assert (await asked(nc, "STREAM.INFO.S"))["config"]["max_msgs"] == -1


@on_the_files_loop
async def test_what_is_made_again_while_the_question_is_open_is_left_alone(
    shared: Shared,
) -> None:
    async with connected(shared.url) as nc, shared.as_new((120, 40)) as viewer:
        await make(nc, 3)
        await viewer.until(lambda: "S" in viewer.rows(), "the stream")
        await viewer.press("ctrl+d")
        await viewer.until(lambda: isinstance(viewer.app.screen, ActionScreen))
        await viewer.until(lambda: "all 3 messages" in viewer.words, "what goes")
        await asked(nc, "STREAM.DELETE.S")
        await make(nc, 4)
        await viewer.press("S", "enter")
        await viewer.until(lambda: "was recreated" in viewer.said, "the refusal")
        assert await held(nc) == 4
