"""Several systems in one viewer: joined tables, keys that act on one, one that hangs or dies."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from datetime import datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import nats
import pytest

from natstui.cli.open_viewer import parse_systems
from natstui.errors import UsageError
from natstui.jetstream.testbed.broker import Broker
from natstui.model.clients.connection import AccountServer, Connections
from natstui.model.live.snapshot import Snapshot
from natstui.model.live.state import State
from natstui.model.records.benchmark import StartBenchmark
from natstui.model.records.confirmation import Confirmation
from natstui.model.records.managing import Change, SilenceFinding
from natstui.model.records.messages import Answered
from natstui.model.records.record import (
    Advisory,
    Configured,
    EngineStarted,
    LinkChanged,
    Noted,
    SetViewedRows,
)
from natstui.model.records.recording import RecordingChanged
from natstui.model.records.stores import ReadKeys
from natstui.model.records.system import ReadConnections, ReadServers, RemoveServer
from natstui.model.servers.server import Meta, MetaPeer, Servers
from natstui.tui.app import engine_process
from natstui.tui.app.app import NatstuiApp
from natstui.tui.app.controls.systems import Contexts
from natstui.tui.app.help import HelpScreen
from natstui.tui.app.link import Link
from natstui.tui.app.live_system import OpenSystem
from natstui.tui.connections.screen import ConnectionsScreen
from natstui.tui.consumers.form import ConsumerForm
from natstui.tui.events.screen import EventsScreen
from natstui.tui.findings import keys as findings_keys
from natstui.tui.frame.detail.peek import PEEK_STATE_KEY
from natstui.tui.frame.head.several import find_silence_reason
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.stored_settings import store_view_setting
from natstui.tui.frame.systems import SystemKey, SystemState
from natstui.tui.kit.pick import PickDialog
from natstui.tui.kit.prompt import Prompt
from natstui.tui.managing.action import ActionScreen
from natstui.tui.messages.screen import MessagesScreen
from natstui.tui.stores.buckets import BucketForm
from natstui.tui.stores.keys import KeysScreen
from natstui.tui.streams.detail import StreamDetail
from natstui.tui.streams.form import StreamForm
from natstui.values import replace
from tests.model.findings.test_servers import seen
from tests.tui.engine_records import engine_records
from tests.tui.test_event_moment import created
from tests.tui.test_findings_screen import bad_records, to_row
from tests.tui.test_status_strip import ACCOUNT
from tests.tui.viewer import FIRST, NATSTUI, Pipes, Viewer, piped, shown, start

pytestmark = pytest.mark.server

WATCH = SetViewedRows(0, tuple(f"STREAM-{at}" for at in range(60)), ())
NAMES = ("east", "west", "north")
WEST_WAS_KILLED = "west: the engine was ended by SIGKILL; starting another"


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[dict[str, Broker]]:
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(Broker(store=tmp_path / name, name=name))
            for name in (*NAMES, "spare")
        }


@asynccontextmanager
async def viewing_all(
    brokers: dict[str, Broker], *names: str, interval: str = "500ms"
) -> AsyncIterator[Viewer]:
    """Show those of these names, in one viewer; the others can be added."""
    engines = {
        name: (*NATSTUI, "engine", "--server", broker.url, "--interval", interval)
        for name, broker in brokers.items()
    }
    async with viewing_engines(engines, *names) as viewer:
        yield viewer


@asynccontextmanager
async def viewing_engines(
    engines: Mapping[str, tuple[str, ...]], *names: str
) -> AsyncIterator[Viewer]:
    """Show those of these names, in one viewer; the others can be added."""

    def connect(name: str) -> Callable[..., Link]:
        return lambda *more: start((*engines[name], *more))

    opened = []
    for name in names:
        link = connect(name)()
        opened.append(
            OpenSystem(name, await asyncio.to_thread(link.wait_started), link, connect(name))
        )
    first = opened[0]
    store_view_setting("screen", FIRST)
    store_view_setting(PEEK_STATE_KEY, "none")
    app = NatstuiApp(
        first.started,
        first.connect,
        first.link,
        other_systems=opened[1:],
        contexts=Contexts(lambda: list(engines), connect, first.name),
    )
    try:
        async with shown(app, (160, 30)) as viewer:
            yield viewer
    finally:
        for link in app.parts.engines.links:
            link.close()


async def streams_of(broker: Broker) -> set[str]:
    nc = await nats.connect(broker.url)
    try:
        return {str(one.config.name) for one in await nc.jetstream().streams_info()}
    finally:
        await nc.close()


async def add(broker: Broker, *names: str) -> None:
    nc = await nats.connect(broker.url)
    for name in names:
        await nc.jetstream().add_stream(name=name, subjects=[f"{name}.>"])
    await nc.close()


def rows(viewer: Viewer) -> list[tuple[str, str]]:
    """Return system and name of every row in view."""
    source = viewer.table.rows
    keys = [source.key(row) for row in source.order] if source is not None else []
    return [(key.system, key.key[0]) for key in keys if isinstance(key, SystemKey)]


def happened_in(viewer: Viewer) -> set[str]:
    """Return the systems whose events are in view, as the rows name them."""
    source = viewer.table.rows
    at = [spec.id for spec in source.specs].index("system") if source is not None else 0
    return {source.cells(row)[at].text for row in source.order} if source is not None else set()


def state_of(viewer: Viewer, system: str) -> State:
    return viewer.app.parts.engines.systems[system].follower.state


def shows(viewer: Viewer, system: str) -> bool:
    """Tell whether the servers or connections of a system are shown."""
    screen = viewer.table
    column = "server" if isinstance(screen, ConnectionsScreen) else "name"
    of = {row[column] for row in viewer.rows().values()}
    # Never those of another system under its name.
    assert of <= {screen.scope.acting.name}
    return of == {system} == {screen.scope.acting.name}


async def put_cursor_on(viewer: Viewer, system: str, stream: str) -> None:
    await viewer.until(lambda: (system, stream) in rows(viewer), f"{stream} of {system}")
    viewer.table.table.move(rows(viewer).index((system, stream)))
    await viewer.settle()


@asynccontextmanager
async def fed_systems() -> AsyncIterator[tuple[Viewer, dict[str, Pipes]]]:
    """Show two systems with streams and buckets of the same names; a third one can be added."""
    link = LinkChanged(1, "connected", None, "n1", "2.15.1")
    *before, configured, poll = engine_records({"KV_PRICES": (), "OTHER": (), "SAME": ()})
    assert isinstance(configured, Configured) and isinstance(poll, Snapshot)
    prices, *others = configured.streams
    configured = replace(configured, streams=(replace(prices, kind="kv"), *others))
    both = [*before, configured, link, replace(poll, account=replace(ACCOUNT, streams_count=3))]
    async with AsyncExitStack() as stack:
        pipes = {
            name: await stack.enter_async_context(piped(*records))
            for name, records in (
                ("east", both), ("west", both), ("spare", [*engine_records({"SPARE": ()}), link]),
            )
        }  # fmt: skip
        engines = {name: each.argv for name, each in pipes.items()}
        yield await stack.enter_async_context(viewing_engines(engines, "east", "west")), pipes


async def replies(viewer: Viewer, pipes: Pipes, kind: type, body: object) -> None:
    """Reply to the last command of a kind, once it came."""
    await viewer.until(lambda: pipes.sent(kind), kind.__name__)
    text = msgspec.json.encode(body).decode()
    await pipes.feed(Answered(2_000_000, pipes.sent(kind)[-1].command_id, "done", "read", text))


async def test_keys_act_on_the_system_of_the_row_under_the_cursor_and_on_no_other() -> None:
    async with fed_systems() as (viewer, pipes):
        east, west = pipes["east"], pipes["west"]
        await viewer.until(lambda: len(rows(viewer)) == 6, "all rows")
        await viewer.until(lambda: "2 systems, totals:  streams 6" in viewer.text, "totals")
        assert "SYSTEM" in viewer.text
        # A key right after the cursor moved: no message between them has been handled.
        viewer.table.table.move(rows(viewer).index(("west", "SAME")))
        await viewer.press("ctrl+d")
        await viewer.until(lambda: isinstance(viewer.app.screen, ActionScreen), "the question")
        await replies(viewer, west, Change, Confirmation("delete", "SAME", True, ("3 messages",)))
        await viewer.until(
            lambda: "3 messages" in viewer.words and "press enter to confirm" in viewer.words,
            "what goes is counted",
        )
        assert "[west]" in viewer.text, "whose it is"
        await viewer.press("ctrl+s")
        await viewer.until(lambda: "Type SAME to confirm." in viewer.words, "what is missing")
        await viewer.type("SAME")
        await viewer.press("enter")
        await viewer.until(lambda: len(west.sent(Change)) == 2, "it is sent")
        change = west.sent(Change)[-1]
        assert (change.action, change.stream, change.confirmed) == (
            "delete_stream",
            "SAME",
            "SAME",
        )
        assert not change.dry_run and not east.sent(Change)
        await west.feed(Answered(2_000_000, change.command_id, "done", "stream SAME deleted"))
        await viewer.until(lambda: len(viewer.app.screen_stack) == 1, "it is done")
        # Rows of two systems are marked: nothing is done, and it is said.
        for system in ("east", "west"):
            await put_cursor_on(viewer, system, "OTHER")
            await viewer.press("space")
        await viewer.press("P")
        await viewer.until(lambda: "rows of east and west" in viewer.said, "refused")
        assert len(viewer.app.screen_stack) == 1
        await viewer.press("ctrl+backslash")
        # A form stays with the system it was opened on, whichever is the current one.
        await put_cursor_on(viewer, "west", "OTHER")
        await viewer.press("a")
        await viewer.until(lambda: isinstance(viewer.app.screen, StreamForm), "form")
        screen = viewer.app.screen
        assert isinstance(screen, LiveScreen)
        assert screen.scope.system == "west"
        await viewer.press("escape")
        await viewer.until(lambda: len(viewer.app.screen_stack) == 1, "closed")
        # Buckets and events of all stand together too, and lead to what is their own system's.
        await viewer.press("7")
        await viewer.until(
            lambda: rows(viewer) == [("east", "KV_PRICES"), ("west", "KV_PRICES")], "buckets"
        )
        await put_cursor_on(viewer, "west", "KV_PRICES")
        await viewer.press("enter")
        await viewer.until(lambda: isinstance(viewer.app.screen, KeysScreen), "its keys")
        assert viewer.table.scope.system == "west"
        await viewer.until(lambda: west.sent(ReadKeys), "they are asked for")
        assert not east.sent(ReadKeys)
        await viewer.press("escape", "a")
        await viewer.until(lambda: isinstance(viewer.app.screen, BucketForm), "its form")
        screen = viewer.app.screen
        assert isinstance(screen, BucketForm)
        assert screen.scope.system == "west"
        for each in (east, west):
            await each.feed(Noted(2_000_000, "an event"))
        await viewer.press("escape", "3")
        await viewer.until(lambda: {"east", "west"} == happened_in(viewer), "events")
        await viewer.press("1")
        # One more is watched, one is gone to, one is left.
        await viewer.type_command("ctx spare")
        await viewer.until(lambda: ("spare", "SPARE") in rows(viewer), "the third")
        await viewer.type_command("ctx west")
        await viewer.until(lambda: viewer.table.scope.system == "west", "the cursor is there")
        connected = Connections((AccountServer("1", "n1", None, "2.12.1", 1, 1),), ())
        for key, kind, systems in (
            ("4", ReadServers, ("west", "spare")), ("6", ReadConnections, ("spare", "east")),
        ):  # fmt: skip
            for press, name in zip((key, "X"), systems, strict=True):
                await viewer.press(press)
                body = Servers("system", (seen(f"of-{name}"),)) if key == "4" else connected
                await replies(viewer, pipes[name], kind, body)
                assert viewer.table.scope.acting.name == name
                if key == "4":
                    await viewer.until(lambda of=name: viewer.rows().keys() == {f"of-{of}"}, name)
        await viewer.press("5")
        await viewer.until(lambda: "3 systems, totals" in viewer.words, "findings of all")
        systems_shown = viewer.app.parts.engines.systems
        killed = systems_shown["west"].follower.link.pid
        os.killpg(killed, signal.SIGKILL)
        await viewer.until(lambda: WEST_WAS_KILLED in viewer.said, "the sentence")
        await west.feed(*engine_records({"OTHER": ()}))
        await viewer.press("1")
        left = systems_shown["east"].follower.link
        await viewer.type_command("ctx -east")
        await viewer.until(
            lambda: all(system != "east" for system, _ in rows(viewer)), "one fewer"
        )
        await viewer.until(lambda: left.engine.process.poll() is not None, "its engine has ended")
        await viewer.until(lambda: systems_shown["west"].follower.link.pid != killed, "another")
        await viewer.until(lambda: rows(viewer)[-1:] == [("west", "OTHER")], "west is back")
        await viewer.type_command("ctx")
        await viewer.until(lambda: "add it" in viewer.words and "watched" in viewer.text, "list")


async def test_a_key_for_one_row_is_refused_while_rows_of_another_system_are_marked() -> None:
    async with fed_systems() as (viewer, _):
        await put_cursor_on(viewer, "east", "OTHER")
        await viewer.press("space")
        await put_cursor_on(viewer, "west", "SAME")
        await viewer.press("m")
        refusal = "rows of east are marked, but the cursor is on west"
        await viewer.until(lambda: refusal in viewer.said, "refused")
        assert len(viewer.app.screen_stack) == 1
        await viewer.press("ctrl+backslash", "space")
        await put_cursor_on(viewer, "west", "OTHER")
        await viewer.press("m")
        await viewer.until(lambda: isinstance(viewer.app.screen, MessagesScreen), "messages")
        screen = viewer.app.screen
        assert isinstance(screen, MessagesScreen)
        assert (screen.scope.system, screen.stream) == ("west", "OTHER")


async def test_commands_act_on_the_system_of_the_row_under_the_cursor() -> None:
    async with fed_systems() as (viewer, pipes):
        east, west = pipes["east"], pipes["west"]
        await put_cursor_on(viewer, "west", "SAME")
        await viewer.type_command("bench fanout-slow")
        await viewer.until(lambda: east.sent(StartBenchmark) or west.sent(StartBenchmark), "load")
        assert west.sent(StartBenchmark) and not east.sent(StartBenchmark)
        await viewer.press("1")
        for system, command, mode in (
            ("east", "servers", "server"), ("west", "conn", "connections"),
            ("east", "bench", "benchmark"),
        ):  # fmt: skip
            await put_cursor_on(viewer, system, "SAME")
            await viewer.type_command(command)
            await viewer.until(lambda of=mode: viewer.app.current_mode == of, mode)
            screen = viewer.app.screen
            assert isinstance(screen, LiveScreen)
            await viewer.until(lambda of=screen: of.scope.acting.name, "the first state")
            assert screen.scope.acting.name == system
            await viewer.press("1")


async def test_a_benchmark_of_one_system_starts_on_no_other() -> None:
    async with fed_systems() as (viewer, pipes):
        await put_cursor_on(viewer, "west", "SAME")
        await viewer.type_command("bench fanout-slow")
        await viewer.until(lambda: pipes["west"].sent(StartBenchmark), "it is requested")
        for text, again in (
            ("starting the benchmark", False), ("no benchmark has run: b opens the form", True),
            ("starting the benchmark", False),
        ):  # fmt: skip
            await viewer.until(lambda of=text: of in viewer.words, text, s=15)
            assert ("r" in viewer.app.screen.active_bindings) is again
            await viewer.press("X")


async def test_a_system_is_added_once_although_its_command_is_entered_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with fed_systems() as (viewer, _):
        links: list[Link] = []
        may_start, wait_started = threading.Event(), Link.wait_started

        def wait_until_released(link: Link, *arguments: Any) -> EngineStarted:
            links.append(link)
            assert may_start.wait(20)
            return wait_started(link, *arguments)

        monkeypatch.setattr(Link, "wait_started", wait_until_released)
        await viewer.type_command("ctx spare")
        await viewer.until(lambda: links, "its engine")
        await viewer.type_command("ctx spare")
        try:
            await viewer.until(lambda: "spare is being added" in viewer.said, "refused")
        finally:
            may_start.set()
        await viewer.until(lambda: ("spare", "SPARE") in rows(viewer), "the third")
        assert len(links) == 1


async def test_a_server_is_removed_from_the_system_on_which_the_prompt_was_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dead = MetaPeer("n3", current=False, offline=True, active_ns=None, lag_entries_count=0)
    servers = Servers("system", (seen("n1"),), (Meta("A", "n1", 3, 2, 0, (dead,)),))
    async with fed_systems() as (viewer, pipes):
        may_start, wait_started = threading.Event(), Link.wait_started

        def wait_until_released(link: Link, *arguments: Any) -> EngineStarted:
            assert may_start.wait(20)
            return wait_started(link, *arguments)

        monkeypatch.setattr(Link, "wait_started", wait_until_released)
        await put_cursor_on(viewer, "west", "SAME")
        await viewer.press("4")
        await replies(viewer, pipes["west"], ReadServers, servers)
        await viewer.until(lambda: "n1" in viewer.rows(), "the servers")
        await viewer.type_command("ctx spare")
        await viewer.press("ctrl+d")
        await viewer.until(lambda: isinstance(viewer.app.screen, PickDialog), "which server")
        await viewer.press("enter")
        await viewer.until(lambda: pipes["west"].sent(RemoveServer), "what is lost is read")
        lost = Confirmation("its replicas are lost", "n3", needed=True, lines=("its replicas",))
        body_json = msgspec.json.encode(lost).decode()
        command_id = pipes["west"].sent(RemoveServer)[0].command_id
        await pipes["west"].feed(Answered(2_000_000, command_id, "refused", "no", body_json))
        await viewer.until(lambda: "Type n3 to confirm" in viewer.words, "the confirmation")
        assert "Its replicas are lost." in viewer.words
        may_start.set()
        await viewer.until(lambda: viewer.app.parts.engines.current_name == "spare", "added")
        await viewer.type("n3")
        await viewer.press("enter")
        await viewer.until(lambda: len(pipes["west"].sent(RemoveServer)) == 2, "it is sent")
        assert [name for name, each in pipes.items() if each.sent(RemoveServer)] == ["west"]
        confirmed = pipes["west"].sent(RemoveServer)[1]
        assert (confirmed.confirmed, confirmed.decided_on) == ("n3", lost)


@asynccontextmanager
async def fed_single_system() -> AsyncIterator[tuple[Viewer, dict[str, Pipes]]]:
    """Show the findings of one system; another one can be added."""
    link = LinkChanged(1, "connected", None, "n1", "2.15.1")
    async with AsyncExitStack() as stack:
        pipes = {
            name: await stack.enter_async_context(piped(*records, link))
            for name, records in (
                ("east", bad_records()),
                ("spare", engine_records({"SPARE": ()})),
            )
        }
        engines = {name: each.argv for name, each in pipes.items()}
        viewer = await stack.enter_async_context(viewing_engines(engines, "east"))
        await viewer.press("5")
        await to_row(viewer, "NT-C09")
        yield viewer, pipes


async def add_spare(viewer: Viewer) -> None:
    """Add a system, which becomes the current one, as its engine starts while a prompt is open."""
    await viewer.app.parts.systems.switch_to("spare")
    assert viewer.app.parts.engines.current_name == "spare"


async def test_a_finding_is_silenced_on_the_system_on_which_the_prompt_was_opened() -> None:
    async with fed_single_system() as (viewer, pipes):
        await viewer.press("z")
        await viewer.until(lambda: isinstance(viewer.app.screen, Prompt), "the prompt")
        await add_spare(viewer)
        await viewer.type("a reason")
        await viewer.press("enter")
        await viewer.until(
            lambda: any(each.sent(SilenceFinding) for each in pipes.values()), "it is sent"
        )
        assert [name for name, each in pipes.items() if each.sent(SilenceFinding)] == ["east"]


async def test_an_advised_action_is_opened_on_the_system_on_which_the_prompt_was_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    actions = ("edit-consumer max_ack_pending", "delete_consumer")
    monkeypatch.setattr(findings_keys, "advised_actions", lambda _finding: actions)
    async with fed_single_system() as (viewer, _):
        await viewer.press("full_stop")
        await viewer.until(lambda: isinstance(viewer.app.screen, PickDialog), "the actions")
        await add_spare(viewer)
        await viewer.press("enter")
        await viewer.until(lambda: isinstance(viewer.app.screen, ConsumerForm), "the form")
        screen = viewer.app.screen
        assert isinstance(screen, ConsumerForm)
        assert screen.scope.system == "east"


async def test_a_benchmark_is_confirmed_on_the_system_on_which_the_prompt_was_opened() -> None:
    async with fed_single_system() as (viewer, pipes):
        await viewer.type_command("bench fanout-slow")
        await viewer.until(lambda: pipes["east"].sent(StartBenchmark), "it is requested")
        confirmation = Confirmation("start", "fanout-slow", True)
        body = msgspec.json.encode(confirmation).decode()
        command_id = pipes["east"].sent(StartBenchmark)[0].command_id
        await pipes["east"].feed(Answered(2_000_000, command_id, "refused", "confirm", body))
        await viewer.until(lambda: isinstance(viewer.app.screen, Prompt), "the confirmation")
        await add_spare(viewer)
        await viewer.type("fanout-slow")
        await viewer.press("enter")
        await viewer.until(
            lambda: sum(len(each.sent(StartBenchmark)) for each in pipes.values()) == 2,
            "it is sent",
        )
        assert not pipes["spare"].sent(StartBenchmark)


async def test_leaving_ends_an_engine_that_has_not_started_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine_process, "STOP_TIMEOUT_S", 0.2)
    links: list[Link] = []
    wait_started = Link.wait_started

    def wait_and_note(link: Link, *arguments: Any) -> EngineStarted:
        links.append(link)
        return wait_started(link, *arguments)

    async with piped(*engine_records({"SAME": ()})) as pipes:
        engines = {"east": pipes.argv, "slow": ("sleep", "100")}
        async with viewing_engines(engines, "east") as viewer:
            monkeypatch.setattr(Link, "wait_started", wait_and_note)
            await viewer.type_command("ctx slow")
            await viewer.until(lambda: links, "its engine")
            await viewer.press("q")
            await viewer.until(lambda: viewer.app.return_code == 0, "it left")
    try:
        async with asyncio.timeout(10):
            while links[0].engine.process.poll() is None:
                await asyncio.sleep(0.05)
    finally:
        links[0].close()


async def test_after_a_system_is_removed_keys_lead_to_those_that_are_watched() -> None:
    async with fed_systems() as (viewer, _):
        await viewer.type_command("ctx spare")
        await viewer.until(lambda: ("spare", "SPARE") in rows(viewer), "the third")
        await put_stream_in_view_and_remove(viewer, "west", "SAME")
        await viewer.press("4")
        for system in ("east", "spare"):
            await viewer.until(lambda of=system: viewer.table.scope.acting.name == of, system)
            await viewer.press("X")
        await put_stream_in_view_and_remove(viewer, "spare", "SPARE")
        await viewer.press("1")
        await viewer.until(lambda: "SAME" in viewer.rows(), "those of east")


async def test_a_screen_of_a_removed_system_comes_back_without_an_error() -> None:
    async with fed_systems() as (viewer, _):
        await put_stream_in_view_and_remove(viewer, "east", "SAME")
        await viewer.press("question_mark")
        await viewer.until(lambda: isinstance(viewer.app.screen, HelpScreen), "the help")
        await viewer.press("escape")
        await viewer.until(lambda: isinstance(viewer.app.screen, StreamDetail), "it is back")
        assert not [text for text in viewer.toasts if "no longer watched" in text]


async def test_who_leaves_is_asked_while_a_recording_of_any_system_runs() -> None:
    async with fed_systems() as (viewer, pipes):
        for system, on in (("east", True), ("west", True), ("west", False)):
            await put_cursor_on(viewer, system, "SAME")
            await viewer.press("R")
            await pipes[system].feed(RecordingChanged(1, on=on, folder=system, size_bytes=1))
            await viewer.until(partial(_is_recording, viewer, system, is_on=on), system)
        await viewer.press("q")
        await viewer.until(lambda: isinstance(viewer.app.screen, PickDialog), "the question")
        assert "a recording is running" in viewer.words


async def test_a_system_whose_engine_works_is_removed_after_a_question() -> None:
    async with fed_systems() as (viewer, pipes):
        await put_cursor_on(viewer, "west", "SAME")
        await viewer.press("R")
        await pipes["west"].feed(RecordingChanged(1, on=True, folder="west", size_bytes=1))
        await viewer.until(partial(_is_recording, viewer, "west", is_on=True), "it records")
        for keys, left in ((("escape",), 6), (("down", "enter"), 3)):
            await viewer.type_command("ctx -west")
            await viewer.until(lambda: isinstance(viewer.app.screen, PickDialog), "the question")
            assert "a recording is running" in viewer.words
            await viewer.press(*keys)
            await viewer.until(lambda: not isinstance(viewer.app.screen, PickDialog), "an answer")
            await viewer.until(lambda of=left: len(viewer.table.rows.order) == of, f"{left} rows")
        assert "west" not in viewer.app.parts.engines.systems


def _is_recording(viewer: Viewer, system: str, *, is_on: bool) -> bool:
    recording = state_of(viewer, system).recording
    return recording is not None and recording.on is is_on


async def put_stream_in_view_and_remove(viewer: Viewer, system: str, stream: str) -> None:
    await viewer.press("1")
    await put_cursor_on(viewer, system, stream)
    await viewer.press("d")
    await viewer.until(lambda: isinstance(viewer.app.screen, StreamDetail), "its detail")
    await viewer.type_command(f"ctx -{system}")
    await viewer.until(lambda: "no longer watched" in viewer.words, "it is removed")


async def test_a_key_leads_to_the_events_of_a_time_on_all_systems() -> None:
    first_us = 1_900_000_000_000_000
    async with fed_systems() as (viewer, pipes):
        await viewer.press("3")
        for number, name in enumerate(("east", "west", "east", "west")):
            await pipes[name].feed(created(f"NEW_{number}", first_us + number * 1_000_000))
        await viewer.until(
            lambda: all(f"NEW_{number}" in viewer.text for number in range(4)), "events"
        )
        for number, system in ((1, "west"), (2, "east")):
            await viewer.press("t")
            await viewer.type(
                datetime.fromtimestamp(first_us / 1e6 + number).astimezone().isoformat()
            )
            await viewer.press("enter")
            await viewer.until(lambda of=system: viewer.table.scope.system == of, system)
            assert isinstance(viewer.table, EventsScreen)
            event = viewer.table.find_event()
            assert isinstance(event, Advisory) and event.stream == f"NEW_{number}"


@pytest.mark.long
async def test_keys_change_the_server_of_the_row_under_the_cursor_and_no_other(
    brokers: dict[str, Broker],
) -> None:
    for name in ("east", "west"):
        await add(brokers[name], "SAME", "OTHER")
    await add(brokers["spare"], "SPARE")
    async with viewing_all(brokers, "east", "west") as viewer:
        await viewer.until(lambda: len(rows(viewer)) == 4, "all rows")
        await viewer.until(lambda: "2 systems, totals:  streams 4" in viewer.text, "totals")
        assert "SYSTEM" in viewer.text
        # A key right after the cursor moved: no message between them has been handled.
        viewer.table.table.move(rows(viewer).index(("west", "SAME")))
        await viewer.press("ctrl+d")
        await viewer.until(lambda: viewer.app.screen is not viewer.app.screen_stack[0], "question")
        await viewer.until(lambda: "[west]" in viewer.text, "whose it is")
        await viewer.until(
            lambda: "press enter to confirm" in viewer.words, "what goes is counted"
        )
        await viewer.press("ctrl+s")
        await viewer.until(lambda: "Type SAME to confirm." in viewer.words, "what is missing")
        await viewer.type("SAME")
        await viewer.press("enter")
        await viewer.until(lambda: len(viewer.app.screen_stack) == 1, "it is done")
        await viewer.until(lambda: ("west", "SAME") not in rows(viewer), "SAME of west is gone")
        assert await streams_of(brokers["west"]) == {"OTHER"}
        assert await streams_of(brokers["east"]) == {"OTHER", "SAME"}
        # Rows of two systems are marked: nothing is done, and it is said.
        for system in ("east", "west"):
            await put_cursor_on(viewer, system, "OTHER")
            await viewer.press("space")
        await viewer.press("P")
        await viewer.until(lambda: "rows of east and west" in viewer.said, "refused")
        assert len(viewer.app.screen_stack) == 1
        await viewer.press("ctrl+backslash")
        # A form stays with the system it was opened on, whichever is the current one.
        await put_cursor_on(viewer, "west", "OTHER")
        await viewer.press("a")
        await viewer.until(lambda: isinstance(viewer.app.screen, StreamForm), "form")
        screen = viewer.app.screen
        assert isinstance(screen, LiveScreen)
        assert screen.scope.system == "west"
        await viewer.press("escape")
        await viewer.until(lambda: len(viewer.app.screen_stack) == 1, "closed")
        # Buckets and events of all stand together too, and lead to what is their own system's.
        for name in ("west", "east"):
            nc = await nats.connect(brokers[name].url)
            kv = await nc.jetstream().create_key_value(bucket="PRICES")
            await kv.put(f"of.{name}", b"1")
            await nc.close()
        await viewer.press("7")
        await viewer.until(
            lambda: rows(viewer) == [("east", "KV_PRICES"), ("west", "KV_PRICES")], "buckets"
        )
        await put_cursor_on(viewer, "west", "KV_PRICES")
        await viewer.press("enter")
        await viewer.until(lambda: "of.west" in viewer.rows(), "the keys of west")
        assert viewer.table.scope.system == "west" and "of.east" not in viewer.text
        await viewer.press("escape", "a")
        await viewer.until(lambda: isinstance(viewer.app.screen, BucketForm), "its form")
        screen = viewer.app.screen
        assert isinstance(screen, BucketForm)
        assert screen.scope.system == "west"
        await viewer.press("escape", "3")
        await viewer.until(lambda: {"east", "west"} == happened_in(viewer), "events")
        await viewer.press("1")
        # One more is watched, one is gone to, one is left.
        await viewer.type_command("ctx spare")
        await viewer.until(lambda: ("spare", "SPARE") in rows(viewer), "the third")
        await viewer.type_command("ctx west")
        await viewer.until(lambda: viewer.table.scope.system == "west", "the cursor is there")
        for key, first, then in (("4", "west", "spare"), ("6", "spare", "east")):
            await viewer.press(key)
            await viewer.until(partial(shows, viewer, first), first)
            await viewer.press("X")
            await viewer.until(partial(shows, viewer, then), then)
        await viewer.press("5")
        await viewer.until(lambda: "3 systems, totals" in viewer.words, "findings of all")
        killed = viewer.app.parts.engines.systems["west"].follower.link.pid
        os.kill(killed, signal.SIGKILL)
        await viewer.until(lambda: WEST_WAS_KILLED in viewer.said, "the sentence")
        await viewer.press("1")
        left = viewer.app.parts.engines.systems["east"].follower.link
        await viewer.type_command("ctx -east")
        await viewer.until(
            lambda: all(system != "east" for system, _ in rows(viewer)), "one fewer"
        )
        await viewer.until(lambda: left.engine.process.poll() is not None, "its engine has ended")
        west = state_of(viewer, "west").now_at_us
        await viewer.until(lambda: state_of(viewer, "west").now_at_us > west, "west is back")
        assert viewer.app.parts.engines.systems["west"].follower.link.pid != killed
        await viewer.type_command("ctx")
        await viewer.until(lambda: "add it" in viewer.words and "watched" in viewer.text, "list")


def polled_of(viewer: Viewer, system: str) -> list[int]:
    """Return when the engine of a system polled lately."""
    return [cost.mono_us for cost in state_of(viewer, system).costs]


async def rhythm_s(viewer: Viewer, system: str) -> float:
    """Return the usual time between two polls of a system from now on."""
    first_us = polled_of(viewer, system)[-1]

    def since() -> list[int]:
        return [us for us in polled_of(viewer, system) if us >= first_us]

    await viewer.until(lambda: len(since()) > POLLS, f"polls of {system}", 60.0)
    return median(later - earlier for earlier, later in pairwise(since())) / 1e6


async def key_s(viewer: Viewer) -> float:
    """Return how long a key usually takes to move the cursor."""
    times = []
    for number in range(KEYS):
        cursor, began_s = viewer.table.table.cursor, time.monotonic()
        viewer.app.simulate_key("up" if number % 2 else "down")
        while viewer.table.table.cursor == cursor:
            await asyncio.sleep(0.001)
        times.append(time.monotonic() - began_s)
        await asyncio.sleep(0.05)
    return median(times)


POLLS, KEYS = 7, 10
BUSY_RATIO, BUSY_S = 3, 1.0
"""So much more may something take because the machine got busier meanwhile. Waiting for a server
that does not answer would take seconds.
"""


@pytest.mark.long
async def test_engines_and_servers_that_hang_or_die_disturb_no_other_system(
    brokers: dict[str, Broker],
) -> None:
    for name in NAMES:
        await add(brokers[name], f"OF_{name}", f"TOO_{name}")
    async with viewing_all(brokers, *NAMES, interval="250ms") as viewer:
        await viewer.until(lambda: len(rows(viewer)) == 6, "all rows")
        engines = viewer.app.parts.engines
        hung = engines.systems["east"].follower.link.pid
        os.kill(hung, signal.SIGSTOP)
        try:
            killed = engines.systems["west"].follower.link.pid
            os.kill(killed, signal.SIGKILL)
            await viewer.until(lambda: WEST_WAS_KILLED in viewer.said)
            # What is asked of the one that hangs piles up, and holds nothing up.
            for _ in range(300):
                engines.systems["east"].follower.link.send(WATCH)
            # The third one goes on, and keys work.
            await add(brokers["north"], "NEW")
            await put_cursor_on(viewer, "north", "NEW")
            await viewer.press("d")
            await viewer.until(lambda: len(viewer.app.screen_stack) == 2, "its detail")
            await viewer.press("escape")
            # Not how many are kept: on a busy machine that is all that may be.
            old = state_of(viewer, "north").costs

            def new_polls() -> int:
                return sum(one not in old for one in state_of(viewer, "north").costs)

            await viewer.until(lambda: new_polls() > 8, "polls")
            # The one that died is back, and the one that hangs has stale rows and says why.
            west = state_of(viewer, "west").now_at_us
            await viewer.until(lambda: state_of(viewer, "west").now_at_us > west, "west is back")
            assert engines.systems["west"].follower.link.pid != killed
            await viewer.until(lambda: "east: nothing new for" in viewer.words, "east is late")
            await viewer.until(lambda: "stale" in viewer.text, "stale rows")
        finally:
            os.kill(hung, signal.SIGCONT)
        await viewer.until(lambda: "east: nothing new" not in viewer.words, "east goes on")
        # The same of servers: they change neither rhythm nor keys of the others.
        await put_cursor_on(viewer, "north", "OF_north")
        before = await rhythm_s(viewer, "north"), await key_s(viewer)
        brokers["east"].freeze()
        brokers["west"].kill()
        await viewer.until(lambda: "✖ west" in viewer.words, "west is lost")
        await viewer.until(lambda: "✖ east" in viewer.words, "east is late")
        during = await rhythm_s(viewer, "north"), await key_s(viewer)
        brokers["west"].restart()
        brokers["east"].thaw()
        for name in ("east", "west"):
            await add(brokers[name], f"NEW_{name}")
        await viewer.until(
            lambda: {("east", "NEW_east"), ("west", "NEW_west")} <= set(rows(viewer)),
            "both go on",
            60.0,
        )
        after = await rhythm_s(viewer, "north"), await key_s(viewer)
    for then in (during, after):
        for usual_s, now_s in zip(before, then, strict=True):
            assert now_s <= BUSY_RATIO * usual_s + BUSY_S, (before, during, after)


def test_a_system_of_several_says_why_its_rows_are_old() -> None:
    link = LinkChanged(1, "connected", None, "n1", "2.15.1")
    state = replace(State().after(link), now_at_us=1_000_000, now_mono_us=1_000_000)
    assert find_silence_reason(SystemState("east", "", state, 0)) == ""
    late = SystemState("east", "", state, 60_000_000)
    assert find_silence_reason(late) == "nothing new for 1m00s"


def test_the_flag_of_several_systems_is_split() -> None:
    assert parse_systems(["--ascii", "--context", "a,b"]) == (
        "--context", ["a", "b"], ["--ascii"],
    )  # fmt: skip
    assert parse_systems(["--profile=a"]) == ("--profile", ["a"], [])
    assert parse_systems(["--server", "x"])[1:] == ([], ["--server", "x"])
    for wrong in (
        ["--context", "a,,b"],
        ["--server", "x", "--context", "a,b"],
        ["--profile", "p", "--context", "a,b"],
    ):
        with pytest.raises(UsageError):
            parse_systems(wrong)
