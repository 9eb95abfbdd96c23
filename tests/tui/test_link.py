"""The viewer's end of an engine's pipe."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from natstui.errors import NatstuiError
from natstui.lines import decode_command, encode_record
from natstui.model.records.record import EngineStarted, Noted, Record, WriteNote
from natstui.tui.app import engine_process
from natstui.tui.app import link as link_module
from natstui.tui.app.engine_process import EngineFailed
from natstui.tui.app.follower import Follower
from natstui.tui.app.link import Link
from tests.session.scenario import Scenario
from tests.tui.viewer import NATSTUI

pytestmark = pytest.mark.slow

WRITES = """
import os, sys
from pathlib import Path
from natstui.lines import encode_record
from natstui.model.records.record import Noted
lines, told, written = encode_record(Noted(1, "x" * 20_000)) * 50, Path(sys.argv[1]), 0
aside = told.with_suffix(".part")
while written < 200_000_000:
    left = memoryview(lines)
    while left:
        left = left[os.write(1, left):]
    written += len(lines)
    aside.write_text(str(written))
    aside.replace(told)
"""


async def test_what_a_slow_viewer_has_not_folded_stays_with_the_engine(tmp_path: Path) -> None:
    told = tmp_path / "written"
    link = Link((sys.executable, "-c", WRITES, str(told)))
    records = link.records()
    try:
        assert await anext(records) == Noted(1, "x" * 20_000)
        while not told.exists():
            await asyncio.sleep(0.05)
        before = 0
        # Until the engine is held up by us, or has written everything.
        while (written := int(told.read_text())) != before:
            before = written
            await asyncio.sleep(0.5)
        assert written < 30_000_000
    finally:
        await records.aclose()  # type: ignore[attr-defined]
        link.close()


GOOD = encode_record(Noted(1, "good"))
BAD = (
    b"", b"\xff\xfe", b"Warning: a word of a library", b'{"kind":"noted","at_us":"x"}',
    b'{"kind":"of_tomorrow"}',
)  # fmt: skip


@pytest.fixture
def said(tmp_path: Path) -> str:
    """A file of records between lines that are none."""
    file = tmp_path / "said"
    file.write_bytes(b"".join(GOOD + bad + b"\n" for bad in BAD) + GOOD)
    return str(file)


async def test_lines_that_cannot_be_read_are_counted_and_left_out(said: str) -> None:
    link = Link(("cat", said))
    counts: list[int] = []
    try:
        records = link.records(lambda _error, count: counts.append(count))
        assert [record async for record in records] == [Noted(1, "good")] * 6
    finally:
        link.close()
    assert counts == [1, 2, 3, 4, 5]


ENDLESS = 'cat "$1"; exec tr "\\000" x < /dev/zero'


async def test_output_that_never_ends_a_line_is_no_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = link_module._MAX_FIRST_LINE_BYTES, link_module.MAX_LINE_BYTES
    assert limits == (1 << 20, 128 << 20)
    # The first line is read byte by byte.
    monkeypatch.setattr(link_module, "_MAX_FIRST_LINE_BYTES", 1 << 15)
    monkeypatch.setattr(engine_process, "STOP_TIMEOUT_S", 0.5)
    monkeypatch.setattr(link_module, "MAX_LINE_BYTES", 4 << 20)
    link = Link(("sh", "-c", ENDLESS, "sh", "/dev/null"))
    try:
        with pytest.raises(EngineFailed, match=r"more than 32\.0 KiB without a line end"):
            link.wait_started()
    finally:
        link.close()
    (tmp_path / "good").write_bytes(GOOD)
    link = Link(("sh", "-c", ENDLESS, "sh", str(tmp_path / "good")))
    records = link.records()
    try:
        assert await anext(records) == Noted(1, "good")
        with pytest.raises(EngineFailed, match=r"more than 4\.00 MiB without a line end"):
            await anext(records)
    finally:
        await records.aclose()  # type: ignore[attr-defined]
        link.close()


def test_a_program_that_says_something_else_and_goes_on_is_no_engine(
    said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_process, "STOP_TIMEOUT_S", 0.5)
    link = Link(("sh", "-c", "echo '{}'; exec cat"))
    try:
        with pytest.raises(NatstuiError):
            link.wait_started()
    finally:
        link.close()
    link = Link(("sh", "-c", 'cat "$1"; exec cat', "sh", said))
    try:
        with pytest.raises(
            EngineFailed, match="is not an engine of natstui: its first line is wrong"
        ):
            link.wait_started()
    finally:
        link.close()


async def test_an_engine_that_was_closed_before_anybody_read_has_no_records() -> None:
    link = Link((sys.executable, "-c", "print('not read')"))
    await link.close_in_thread()
    assert [record async for record in link.records()] == []


def test_an_engine_that_was_killed_is_reported_with_the_signal() -> None:
    link = Link((*NATSTUI, "engine", "--server", "nats://127.0.0.1:1"))
    try:
        link.wait_started()
        os.kill(link.pid, signal.SIGKILL)
    finally:
        link.close()
    assert link.engine.end_reason() == "the engine was ended by SIGKILL"


@pytest.mark.parametrize(
    ("script", "reason", "exit_code"),
    [
        ("exit 3", "the engine ended unexpectedly (exit code 3)", 3),
        ("echo first >&2; echo 'natstui: the disk is full' >&2; exit 6", "the disk is full", 6),
        ("echo 'a line of a library' >&2; kill -TERM $$", "the engine was ended by SIGTERM", 143),
        ("kill -36 $$", "the engine was ended by signal 36", 164),
    ],
)
def test_an_engine_that_does_not_start_says_why(script: str, reason: str, exit_code: int) -> None:
    link = Link(("sh", "-c", script))
    try:
        with pytest.raises(EngineFailed) as failed:
            link.wait_started()
    finally:
        link.close()
    assert str(failed.value) == link.engine.end_reason() == reason
    assert failed.value.exit_code == exit_code


def test_an_engine_that_the_viewer_had_to_kill_is_reported_as_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine_process, "STOP_TIMEOUT_S", 0.2)
    link = Link(("sleep", "100"))
    link.close()
    reason = "natstui killed the engine: it did not end within 0.2 s"
    assert link.engine.end_reason() == reason


async def test_an_engine_that_ends_as_it_is_closed_ends_its_records() -> None:
    link = Link(("cat",))

    async def read() -> list[Record]:
        return [record async for record in link.records()]

    reading = asyncio.create_task(read())
    await asyncio.sleep(0.1)
    # The loop learns of both in one turn: the end of the pipe, and that nobody needs it.
    os.kill(link.pid, signal.SIGKILL)
    os.waitid(os.P_PID, link.pid, os.WEXITED | os.WNOWAIT)
    await asyncio.sleep(0)
    link.close()
    assert await reading == []


def test_a_sleep_of_the_machine_counts_in_the_age_of_the_newest_poll(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scenario = Scenario(streams=1, consumers=1)
    started, *rest = scenario.beginning()
    assert isinstance(started, EngineStarted)
    steady_s = 1000.0
    monkeypatch.setattr(time, "clock_gettime", lambda _: steady_s)
    link = Link(("true",))
    try:
        follower = Follower(link, started)
        for record in (*rest, scenario.poll(2)):
            follower.fold(record)
        steady_s += 3600.0
        assert follower.poll_age_us == 3_600_000_000
    finally:
        link.close()


def test_a_poll_is_shown_once_it_is_known_what_is_wrong_in_it() -> None:
    scenario = Scenario(streams=1, consumers=1)
    started, *rest = scenario.beginning()
    assert isinstance(started, EngineStarted)
    link = Link(("true",))
    try:
        follower = Follower(link, started)
        for record in rest:
            follower.fold(record)
        shown = follower.state
        assert follower.fold_without_findings(scenario.poll(2)) and follower.state is shown
        # What nothing is judged by is not shown before what it comes after, either.
        assert follower.fold_without_findings(Noted(1, "x")) and follower.state is shown
        follower.update_findings()
        assert (
            len(follower.state.streams) == 1
            and follower.state.findings.evaluation.streams is not None
        )
        judged = follower.state
        assert follower.fold_without_findings(Noted(2, "y"))
        assert follower.state is not judged and follower.state.recent_events[-1] == Noted(2, "y")
    finally:
        link.close()


async def test_commands_reach_an_engine_that_reads_slowly_whole_and_in_order(
    tmp_path: Path,
) -> None:
    read, go_on = tmp_path / "read", tmp_path / "go on"
    os.mkfifo(go_on)
    # It reads nothing, then a part, then the rest, each once it is told to go on.
    reads = 'cat "$2" > /dev/null; head -c 70000 > "$1"; cat "$2" > /dev/null; cat >> "$1"'
    link = Link(("sh", "-c", reads, "sh", str(read), str(go_on)))
    commands = [WriteNote(number, "x" * 40_000) for number in range(20)]
    try:
        for command in commands:
            link.send(command)
        kept = len(link._unsent_commands)
        assert kept > 500_000, "the engine has not taken them yet"
        # The pipe has room again, for a part of what is left.
        await asyncio.to_thread(go_on.write_text, "")
        while not read.exists() or read.stat().st_size < 70_000:
            await asyncio.sleep(0.01)
        while len(link._unsent_commands) > kept - 60_000:
            await asyncio.sleep(0.01)
        assert link._unsent_commands, "the rest waits for the engine"
        await asyncio.to_thread(go_on.write_text, "")
        while link._unsent_commands:
            await asyncio.sleep(0.01)
    finally:
        await link.close_in_thread()
    assert [decode_command(line) for line in read.read_bytes().splitlines()] == commands


def test_an_engine_that_says_nothing_is_told_of_and_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(link_module, "_NOTIFY_NO_OUTPUT_AFTER_S", 0.1)
    link = Link(("sh", "-c", "printf 'a password?' >&2; cat"))
    told: list[str] = []
    try:
        with pytest.raises(EngineFailed, match=r"did not reply within 2 s.*a password") as failed:
            link.wait_started(told.append, timeout_s=2.0)
    finally:
        link.close()
    assert len(told) == 1
    assert told[0].startswith("the engine `sh -c ")
    assert told[0].endswith("` has not replied yet: still waiting")
    assert "run it in a shell" in str(failed.value)


def test_an_engine_that_stops_within_its_first_line_is_not_waited_for_for_ever() -> None:
    link = Link((sys.executable, "-c", "import os, sys; os.write(1, b'{'); sys.stdin.read()"))
    try:
        with pytest.raises(EngineFailed, match="did not reply within 1 s"):
            link.wait_started(timeout_s=1.0)
    finally:
        link.close()
