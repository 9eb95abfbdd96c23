"""What a page of `natstui serve` that allows no changes refuses: all that changes its machine."""

from __future__ import annotations

import typing

import msgspec
import pytest
from textual.screen import Screen

from natstui.model.records.analysis import StartAnalysis
from natstui.model.records.messages import Answered
from natstui.model.records.record import Command, HostCommand, SetViewedRows, WriteNote
from natstui.model.records.recording import (
    ChangeSession,
    ExportSelection,
    ListSessions,
    SessionSummary,
    StartRecording,
)
from natstui.model.records.stores import BackUp, GetFile
from natstui.tui.app import app as app_module
from natstui.tui.bench.screen import BenchmarkScreen
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.requests import HOST_CHANGE_REFUSED, SystemEngine
from natstui.tui.frame.stored_settings import load_view_setting, store_view_setting
from natstui.tui.sessions.screen import SessionsScreen
from natstui.tui.streams.screen import StreamsScreen
from tests.tui.engine_records import engine_records
from tests.tui.viewer import FedViewer, fed

LAST = SetViewedRows(0, ("LAST",), ())
OF_THE_SERVER = {
    "AddWorker", "AnswerMessage", "Change", "ChangeKey", "ChangePayload", "ChangeRate",
    "PauseWorkers", "KickConnection", "KillWorker", "LinkObject", "PublishMessage", "PullNext",
    "RemoveServer", "RequestReply", "ResendMessages", "StopBenchmark", "Undo",
}  # fmt: skip
"""Changes of a server, and of benchmarks: read-only mode refuses them before anything is written,
or nothing runs that they could change."""
READ_VERBS = {
    "BrowseMessages", "ChangeSpeed", "CompareRuns", "CountSubjects", "Describe",
    "FindDroppedMessages", "ListBenchmarks", "ListSessions", "PauseReplay", "Play", "PollNow",
    "PreviewDelivery", "PreviewResend", "ReadApiAudit", "ReadClients", "ReadConnection",
    "ReadConnections", "ReadJournal", "ReadKeyNames", "ReadKeys", "ReadListeningMessage",
    "ReadMessage", "ReadNamesInUse", "ReadObjects", "ReadRevisions", "ReadServerIdentity",
    "ReadServers", "ReadTheseKeys", "SeekMark", "SeekTo", "SetInterval", "SetPolling",
    "SetPriorityConsumers", "SetSubjectRowOptions", "SetViewedRows", "StartListening",
    "StartTail", "StartTap", "Step", "StopListening", "StopReadingClients", "StopTail", "StopTap",
    "StopTransfer",
}  # fmt: skip


def test_every_command_either_changes_the_host_or_the_server_or_only_reads() -> None:
    every = {command.__name__ for command in typing.get_args(Command)}
    of_the_host = {command.__name__ for command in typing.get_args(HostCommand)}
    assert of_the_host | OF_THE_SERVER | READ_VERBS == every
    assert not of_the_host & (OF_THE_SERVER | READ_VERBS)


async def test_no_command_that_changes_the_host_reaches_an_engine() -> None:
    host_commands = (
        StartRecording(0, "named"),
        WriteNote(0, "seen"),
        ExportSelection(0, "/nowhere/new", "csv", ("ALPHA",), ()),
        ChangeSession(0, "delete", "/nowhere/session"),
        BackUp(0, "ALPHA", "/nowhere/backup"),
        GetFile(0, "FILES", "one", "/nowhere/file"),
        StartAnalysis(0),
    )
    async with fed(*engine_records({"ALPHA": ()}), may_change_host=False) as viewer:
        engine = SystemEngine(viewer.app, None)
        for command in host_commands:
            reply = await engine.request(command)
            assert (reply.status, reply.text) == ("failed", HOST_CHANGE_REFUSED), command
        await viewer.until(lambda: "ALPHA" in viewer.rows(), "what is exported")
        await viewer.press("E")
        # The same toast is not shown twice within seconds.
        await viewer.until(lambda: HOST_CHANGE_REFUSED in viewer.toasts, "no question first")
        assert isinstance(viewer.app.screen, StreamsScreen)
        engine.send(WriteNote(0, "seen"))
        await viewer.type_command("note seen")
        await viewer.press("R")
        # What comes after them has arrived.
        engine.send(LAST)
        await viewer.until(lambda: LAST in viewer.sent(SetViewedRows), "the last command")
        assert [command for command in viewer.commands if isinstance(command, HostCommand)] == []


async def test_what_a_browser_shows_is_not_remembered_for_the_user_of_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store_view_setting(app_module._THEME_SETTING, ["nord", "nord"])
    monkeypatch.setenv("TEXTUAL_DRIVER", "textual.drivers.web_driver:WebDriver")
    store_view_setting(app_module._THEME_SETTING, ["dracula", "nord"])
    assert load_view_setting(app_module._THEME_SETTING) == ["nord", "nord"]


async def _session_under_the_cursor(viewer: FedViewer) -> None:
    await viewer.type_command("sessions")
    await viewer.until(lambda: viewer.sent(ListSessions), "the list is requested")
    session = SessionSummary("/there", "one", "one", "server", 1, 2, 3, 1, 1, 1, 0, 0, "", ())
    body = msgspec.json.encode([session]).decode()
    number = viewer.sent(ListSessions)[-1].command_id
    await viewer.feed(Answered(1, number, "done", "1 recording", body))
    await viewer.until(lambda: len(viewer.rows()) == 1, "the recording")


@pytest.mark.slow
async def test_what_changes_the_host_is_refused_before_anything_is_asked() -> None:
    async with fed(*engine_records({"ALPHA": ()}), may_change_host=False) as viewer:

        async def is_refused(at: type[Screen[None]], *keys: str, line: str = "") -> None:
            # The same toast is not shown twice within seconds.
            viewer.app._shown_at_s_by_toast.clear()
            viewer.toasts.clear()
            if line:
                await viewer.type_command(line)
            await viewer.press(*keys)
            await viewer.until(
                lambda: HOST_CHANGE_REFUSED in viewer.toasts, f"{line}{keys} is refused"
            )
            screen = viewer.app.screen
            assert isinstance(screen, at) and isinstance(screen, LiveScreen)
            assert not screen.command_line.is_open

        await viewer.until(lambda: "ALPHA" in viewer.rows(), "the stream")
        await is_refused(StreamsScreen, line="backup ALPHA")
        await is_refused(StreamsScreen, line="restore")
        await is_refused(StreamsScreen, line="analyze")
        await is_refused(StreamsScreen, "n")
        await _session_under_the_cursor(viewer)
        for key in ("e", "w", "ctrl+d"):
            await is_refused(SessionsScreen, key)
        await viewer.press("escape", "b")
        await is_refused(BenchmarkScreen, "b")
