"""`natstui record`, `sessions` and `export` against a real server."""

from __future__ import annotations

import asyncio
import csv
import errno
import json
import os
import re
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
import nats
import pytest

from natstui.cli.sessions import record as record_command
from natstui.jetstream.testbed.broker import Broker
from natstui.model.clients.watch import ConnectionsRead
from natstui.model.live.snapshot import Snapshot
from natstui.model.records.record import Noted
from natstui.session.files.folder import list_segments
from natstui.session.files.info import DroppedSegments, read_info, write_info
from natstui.session.library import list_session_folders
from natstui.session.read.recording import Recording
from natstui.values import replace
from tests.analysis.limited import bound_by_permissions, largest_file
from tests.cli.processes import NatstuiProcess
from tests.cli.test_core import connected
from tests.cli.test_manage import Done, run_here
from tests.session.making import made, wait_until
from tests.session.scenario import START_US, Scenario
from tests.session.test_damage import cut_off

pytestmark = pytest.mark.slow


def natstui(*words: str, sessions: Path | None = None) -> Done:
    return run_here(*words, *(["--sessions", str(sessions)] if sessions else []))


def recorder(
    sessions: Path,
    *options: str,
    environ: Mapping[str, str] = {},
    before: Callable[[], object] = int,
) -> NatstuiProcess:
    environment = {"NATSTUI_MONITOR_INTERVAL_S": "0.5", **environ}
    words = ("record", "--sessions", str(sessions), *options)
    return NatstuiProcess(*words, environment=environment, before=before)


@pytest.mark.long
@pytest.mark.server
async def test_a_recording_of_a_server_exports_the_counters_of_the_server(
    nats_server: Broker, tmp_path: Path
) -> None:
    nc = await nats.connect(nats_server.url)
    stream = nc.jetstream()
    await stream.add_stream(name="ORDERS", subjects=["orders.>"])
    await stream.add_consumer("ORDERS", durable_name="worker")
    child = recorder(
        tmp_path, "--server", nats_server.url, "--name", "load test", "--json",
        environ={"NATSTUI_SESSION_CONNECTIONS": "true"},
    )  # fmt: skip
    with child:
        folder = Path(child.stderr.readline().strip().rpartition(" ")[2])
        assert folder.parent == tmp_path and folder.name.endswith("-load-test")
        for number in range(25):
            await stream.publish("orders.new", b"secret payload %d" % number)
        polled = "25"
        wait_until(lambda: polled in _last_seqs(folder), timeout_s=40)
        wait_until(lambda: _connections_read(folder), timeout_s=40)
        info = await stream.stream_info("ORDERS")
        child.send_signal(signal.SIGTERM)
        output, _ = child.communicate(timeout=30)
        assert child.returncode == 0
    await nc.close()
    verified = natstui("sessions", "verify", "last", "--json", sessions=tmp_path)
    verdict = json.loads(verified.stdout)
    assert (verified.returncode, verdict["damaged"], verdict["cut_off"]) == (0, False, False)
    # All that was said while it recorded went to stderr, so that stdout is this line.
    told = json.loads(output)
    assert (told["folder"], told["name"], told["whole"]) == (str(folder), "load test", True)
    assert told["polls_count"] == verdict["polls_count"] > 0
    assert sum(told["records_count"].values()) == verdict["records_count"]
    spanned_us = told["ended_at_us"] - told["started_at_us"]
    assert told["span_s"] == spanned_us / 1e6 > 0
    exported = natstui("export", "load test", "--to", str(tmp_path / "out"), sessions=tmp_path)
    assert exported.returncode == 0, exported.stderr
    with (tmp_path / "out" / "stream_sample.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert rows[-1]["last_seq"] == str(info.state.last_seq)
    assert rows[-1]["stored_bytes"] == str(info.state.bytes)
    with (tmp_path / "out" / "configuration.csv").open() as file:
        assert {row["stream"] for row in csv.DictReader(file)} == {"ORDERS"}
    everything = b"".join(path.read_bytes() for path in (tmp_path / "out").iterdir())
    assert b"secret payload" not in everything


def _connections_read(folder: Path) -> bool:
    return any(isinstance(record, ConnectionsRead) for record in Recording(folder).records())


def _last_seqs(folder: Path) -> set[str]:
    polls = [poll for poll in Recording(folder).records() if hasattr(poll, "taken_mono_us")]
    return {str(seq) for poll in polls for seq in poll.streams.last_seq}


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_a_duration_ends_a_recording_and_a_server_that_never_was_is_exit_code_3(
    tmp_path: Path, flags: tuple[str, ...]
) -> None:
    log = tmp_path / "log"
    server = ("--server", "nats://127.0.0.1:1", "--duration", "1s", "--log-file", str(log))
    done = natstui("record", *server, *flags, sessions=tmp_path)
    assert done.returncode == 3
    assert "nothing was recorded: " in (json.loads(done.stderr)["error"] if flags else done.stderr)
    if flags:
        told = json.loads(done.stdout)
        assert (told["polls_count"], told["streams_count"], told["problem"]) == (0, None, None)
        assert not told["whole"], "nothing was polled"
    folder = Path(told["folder"] if flags else done.stdout.strip())
    assert all(segment.sealed for segment in list_segments(folder))
    assert "failed" in log.read_text()


@pytest.mark.server
async def test_several_systems_are_recorded_together_each_into_its_own_recording(
    nats_server_factory: Callable[..., Broker], tmp_path: Path
) -> None:
    contexts = tmp_path / "nats" / "context"
    contexts.mkdir(parents=True)
    for name in ("east", "west"):
        server = nats_server_factory()
        async with connected(server.url) as nc:
            await nc.jetstream().add_stream(name=f"OF_{name}", subjects=["s"])
        (contexts / f"{name}.json").write_text(json.dumps({"url": server.url}))
    (contexts / "gone.json").write_text(json.dumps({"url": "nats://127.0.0.1:1"}))
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    named = ("--context", "east,west,gone", "--name", "drill")
    with recorder(tmp_path / "all", *named, environ=environ) as child:
        lines = [child.stdout.readline().strip().partition(": ") for _ in range(3)]
        folders = {system: Path(folder) for system, _, folder in lines}
        for name in ("east", "west"):
            await asyncio.to_thread(wait_until, lambda of=name: seen_in(folders[of]))
        child.send_signal(signal.SIGTERM)
        _, errors = await asyncio.to_thread(child.communicate, timeout=60)
    assert child.returncode == 3, errors
    assert errors.splitlines()[-1].startswith("natstui: gone: nothing was recorded: ")
    assert " east: connected " in errors and " gone: failed " in errors
    assert {name: seen_in(folders[name]) for name in ("east", "west")} == {
        "east": {"OF_east"}, "west": {"OF_west"},
    }  # fmt: skip
    listed = natstui("sessions", "ls", "--json", sessions=tmp_path / "all").stdout.splitlines()
    assert {(one["name"], one["status"]) for one in map(json.loads, listed)} == {
        (f"drill {name}", "complete") for name in folders
    }
    refused = run_here("record", *named, "--metrics", "127.0.0.1:0", environment=environ)
    assert refused.returncode == 2 and "--metrics" in refused.stderr


class AnySystem:
    """The flags of a system that is never connected."""

    def resolve(self) -> tuple[None, None]:
        return None, None


def test_a_folder_that_cannot_be_printed_ends_the_recording_of_no_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed, logged, finished = list[str](), list[str](), list[str]()

    def echo(text: str) -> None:
        printed.append(text)
        if len(printed) > 1:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    async def record_server(*arguments: Any) -> None:
        recording, on_folder = arguments[2], arguments[5]
        on_folder(f"/{recording.name}")
        await asyncio.sleep(0)
        finished.append(recording.name)

    monkeypatch.setattr(click, "echo", echo)
    monkeypatch.setattr(record_command, "record_server", record_server)
    systems: Any = {"A": AnySystem(), "B": AnySystem()}
    recordings = record_command.SystemRecordings(
        systems, logged.append, str(tmp_path), {"name": ""}, as_json=False
    )
    assert recordings.record(None) == 0
    assert finished == ["A", "B"]
    assert printed == ["A: /A", "B: /B"]
    assert logged == ["B: recording into /B, which cannot be printed: Broken pipe"]


def seen_in(folder: Path) -> set[str]:
    """Return the streams that the polls of a recording saw."""
    polls = [one for one in Recording(folder).records() if isinstance(one, Snapshot)]
    return {name for poll in polls for name in poll.streams.name}


@pytest.mark.server
def test_a_folder_that_cannot_be_is_exit_code_6(tmp_path: Path, nats_server: Broker) -> None:
    (tmp_path / "file").write_text("x")
    done = natstui("record", "--server", nats_server.url, sessions=tmp_path / "file")
    assert done.returncode == 6
    assert done.stderr.startswith("natstui: cannot record into") and done.stderr.count("\n") == 1


@pytest.fixture
def library(tmp_path: Path) -> Path:
    scenario = Scenario(streams=2, consumers=3)
    made(tmp_path, [*scenario.beginning(), *scenario.records(0, 70)], polls_per_segment=40)
    return tmp_path


def test_the_library_lists_shows_notes_renames_and_deletes(library: Path) -> None:
    listed = natstui("sessions", "ls", "--json", sessions=library)
    (session,) = [json.loads(line) for line in listed.stdout.splitlines()]
    assert (session["streams_count"], session["consumers_count"]) == (2, 3)
    assert (session["status"], session["server"], session["polls_count"]) == ("complete", "n1", 70)
    assert "2 " in natstui("sessions", "ls", sessions=library).stdout.splitlines()[1]
    noted = natstui("sessions", "note", "test", "the incident", "--json", sessions=library)
    assert json.loads(noted.stdout)["notes"] == ["the incident"]
    shown = natstui("sessions", "show", "last", "--json", sessions=library)
    assert json.loads(shown.stdout)["notes"] == ["the incident"]
    plain = natstui("sessions", "show", "last", sessions=library).stdout
    assert re.search(r"^notes +the incident$", plain, re.M)
    assert re.search(r"^polls +70$", plain, re.M)
    assert re.search(r"^started +\d{4}-\d\d-\d\d \d\d:", plain, re.M)
    assert re.search(r"^size +[\d.]+ [KM]iB$", plain, re.M)
    assert "None" not in plain and "{" not in plain
    verified = natstui("sessions", "verify", "last", sessions=library).stdout
    assert re.search(r"\b1 segment,|\b[02-9]\d* segments,", verified)
    renamed = natstui("sessions", "rename", "test", "Incident 7/3", "--json", sessions=library)
    told = json.loads(renamed.stdout)
    assert (told["name"], told["notes"]) == ("Incident 7/3", ["the incident"])
    assert told["folder"].endswith("-Incident-7-3")
    assert natstui("sessions", "rm", "test", sessions=library).returncode == 2
    unsure = natstui("sessions", "rm", "Incident 7/3", "--json", sessions=library)
    assert (unsure.returncode, unsure.stdout) == (5, "")
    assert "add --yes" in json.loads(unsure.stderr)["error"]
    unasked = natstui("sessions", "rm", "Incident 7/3", sessions=library)
    assert unasked.returncode == 5 and Path(told["folder"]).exists()
    reason = (
        rf"deletes {re.escape(Path(told['folder']).name)} \([\d.]+ [KM]iB\) for good: add --yes"
    )
    assert re.search(reason, unasked.stderr)
    gone = natstui("sessions", "rm", "Incident 7/3", "--yes", "--json", sessions=library)
    assert (gone.returncode, json.loads(gone.stdout)["polls_count"]) == (0, 70)
    assert natstui("sessions", "ls", "--json", sessions=library).stdout == ""


def test_what_a_limit_deleted_is_shown_with_its_time_and_its_reason(library: Path) -> None:
    (folder,) = list_session_folders(library)
    assert re.search(
        r"^dropped +–$", natstui("sessions", "show", "last", sessions=library).stdout, re.M
    )
    dropped = DroppedSegments(12, 1_764_531_300_000_000, "--retain 48h")
    write_info(folder, replace(read_info(folder), dropped=dropped))
    shown = natstui("sessions", "show", "last", sessions=library).stdout
    told = "12 segments, before 2025-11-30 19:35:00, by --retain 48h"
    assert re.search(rf"^dropped +{told}$", shown, re.M)


def test_the_recording_of_the_current_folder_is_packed_and_renamed_by_its_name(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder,) = list_session_folders(library)
    monkeypatch.chdir(folder)
    packed = natstui("sessions", "pack", ".", sessions=library)
    assert (packed.returncode, packed.stdout) == (0, f"{folder.name}.natstui\n")
    renamed = natstui("sessions", "rename", ".", "incident", sessions=library)
    assert renamed.returncode == 0, renamed.stderr
    (folder,) = list_session_folders(library)
    assert renamed.stdout == f"{folder}\n" and folder.name.endswith("-incident")
    (folder / "notes").mkdir()
    monkeypatch.chdir(folder / "notes")
    assert natstui("sessions", "rename", "..", "solved", sessions=library).returncode == 0
    (folder,) = list_session_folders(library)
    assert folder.name.endswith("-solved") and read_info(folder).name == "solved"


def test_a_redacted_pack_holds_no_name_of_the_original(library: Path, tmp_path: Path) -> None:
    file = tmp_path / "handed-over.natstui"
    packed = natstui("sessions", "pack", "test", str(file), "--redact", "--json", sessions=library)
    told = json.loads(packed.stdout)
    assert (told["file"], told["redacted"]) == (str(file), True)
    assert told["size_bytes"] == file.stat().st_size
    there = tmp_path / "there"
    folder = Path(natstui("sessions", "unpack", str(file), sessions=there).stdout.strip())
    original, redacted = (
        list(Recording(path).records()) for path in (next(library.glob("*-test")), folder)
    )
    assert [type(record) for record in redacted] == [type(record) for record in original]
    text = "".join(map(str, redacted)) + (folder / "session.json").read_text()
    for name in ("ORDERS", "worker-", "gave up", "note at", "n1'"):
        assert name not in text, name
    last = [record for record in redacted if hasattr(record, "taken_mono_us")][-1]
    assert last.streams.name == ("stream-1", "stream-2")


def test_a_damaged_session_is_exit_code_6_and_says_what_is_missing(library: Path) -> None:
    folder = next(library.glob("*-test"))
    list_segments(folder)[0].path.unlink()
    said = natstui("sessions", "verify", "test", "--json", sessions=library)
    told = json.loads(said.stdout)
    assert (told["damaged"], told["findings"][0]["damage"]) == (True, True)
    assert "segment 1 is missing" in told["findings"][0]["text"]
    assert (said.returncode, json.loads(said.stderr)["code"]) == (6, 6)
    verdict = natstui("sessions", "verify", "test", sessions=library)
    assert verdict.returncode == 6
    assert verdict.stdout.startswith("damaged: segment 1 is missing")


def _segments(library: Path) -> list[Path]:
    return sorted(library.glob("*/records-*.jsonl.gz"))


def _spoil(path: Path) -> None:
    """Write over the middle of a file, as a bad disk does."""
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 40] = b"\x00" * 40
    path.write_bytes(content)


@pytest.mark.parametrize("how", ["spoiled", "missing", "last missing"])
def test_an_export_of_a_damaged_session_writes_what_can_be_read_and_says_what_cannot(
    library: Path, tmp_path: Path, how: str
) -> None:
    whole = natstui("export", "test", "--to", str(tmp_path / "whole"), "--json", sessions=library)
    assert whole.returncode == 0, whole.stderr
    sealed = _segments(library)
    first = sealed[0]
    if how == "spoiled":
        _spoil(first)
    else:
        (first if how == "missing" else sealed[-1]).unlink()
    done = natstui("export", "test", "--to", str(tmp_path / "rest"), sessions=library)
    assert done.returncode == 6
    assert done.stderr.startswith("damaged: ")
    gone = 1 if how == "missing" else len(sealed)
    assert (first.name if how == "spoiled" else f"segment {gone} is missing") in done.stderr
    assert "is damaged: only the readable part was exported" in done.stderr
    told = json.loads(whole.stdout)
    assert (told["format"], told["damage"]) == ("csv", [])
    before = told["rows_count"]
    after = {name: int(count) for name, count in map(str.split, done.stdout.splitlines())}
    assert before.keys() == after.keys()
    assert 0 < after["stream_sample"] < before["stream_sample"]
    rows = (tmp_path / "rest" / "stream_sample.csv").read_text().splitlines()
    assert len(rows) == after["stream_sample"] + 1


def test_a_damaged_session_is_not_packed_for_nobody_could_unpack_it(
    library: Path, tmp_path: Path
) -> None:
    _spoil(_segments(library)[1])
    file = tmp_path / "it.natstui"
    packed = natstui("sessions", "pack", "test", str(file), sessions=library)
    assert packed.returncode == 6
    assert "is damaged and is not packed" in packed.stderr
    assert not file.exists()


def test_a_session_that_was_cut_off_is_exit_code_6_and_is_exported_and_packed_whole(
    tmp_path: Path,
) -> None:
    cut_off(tmp_path / "sessions")
    sessions = tmp_path / "sessions"
    verdict = natstui("sessions", "verify", "last", sessions=sessions)
    assert verdict.returncode == 6
    assert "the recorder was cut off: the last record is of" in verdict.stdout
    assert "was cut off; everything that was written can be read" in verdict.stderr
    exported = natstui("export", "last", "--to", str(tmp_path / "out"), sessions=sessions)
    assert exported.returncode == 0, exported.stderr
    file = tmp_path / "it.natstui"
    packed = natstui("sessions", "pack", "last", str(file), sessions=sessions)
    assert (packed.returncode, packed.stdout.strip()) == (0, str(file)), packed.stderr
    there = tmp_path / "there"
    unpacked = natstui("sessions", "unpack", str(file), "--json", sessions=there)
    assert json.loads(unpacked.stdout)["problem"] is None


@pytest.mark.long
@pytest.mark.server
def test_a_recording_that_its_disk_cut_is_no_success_and_says_all_that_is_missing(
    nats_server: Broker, tmp_path: Path
) -> None:
    sessions = tmp_path / "sessions"
    child = recorder(
        sessions, "--duration", "8s", "--server", nats_server.url,
        environ={"NATSTUI_MONITOR_INTERVAL_S": "0.2"}, before=largest_file(6_000),
    )  # fmt: skip
    _, said = child.communicate()
    assert child.returncode == 6, said
    last = said.splitlines()[-1]
    assert last == "natstui: not everything was recorded: not recording: File too large"
    verdict = natstui("sessions", "verify", "last", sessions=sessions)
    assert verdict.returncode == 6
    assert "all that happened after that, up to 20" in verdict.stdout
    assert "at most a second" not in verdict.stdout
    assert "was cut off; everything that was written can be read" in verdict.stderr
    assert "cut off" in natstui("sessions", "ls", sessions=sessions).stdout


def test_a_folder_that_cannot_be_entered_hides_no_other_recording(tmp_path: Path) -> None:
    sessions = tmp_path / "sessions"
    folder = made(sessions, [Noted(START_US, "x")])
    for name in ("lost+found", "zzz of a colleague"):
        (sessions / name).mkdir()
        (sessions / name / "session.json").write_text("{}")
        (sessions / name).chmod(0)
    with NatstuiProcess(
        "sessions", "ls", "--json", "--sessions", str(sessions), before=bound_by_permissions
    ) as listing:
        output, errors = listing.communicate()
    assert (listing.returncode, errors) == (0, "")
    assert [json.loads(line)["folder"] for line in output.splitlines()] == [str(folder)]
    server = ("--server", "nats://127.0.0.1:1", "--duration", "1s")
    with recorder(sessions, *server, before=bound_by_permissions) as child:
        output, errors = child.communicate()
    assert Path(output.strip()).is_dir(), errors
    assert child.returncode == 3


@pytest.mark.server
@pytest.mark.parametrize("log", ["a pipe without a reader", "a file on a full disk"])
def test_a_recording_goes_on_without_its_log(
    nats_server: Broker, tmp_path: Path, log: str
) -> None:
    log_file, options = tmp_path / "log", list[str]()
    if log == "a file on a full disk":
        log_file.touch()
        os.truncate(log_file, 1_000_000)
        options = ["--log-file", str(log_file)]
    server, sessions = ("--server", nats_server.url), tmp_path / "sessions"
    with recorder(sessions, *server, *options, before=largest_file(1_000_000)) as child:
        folder = Path(child.stdout.readline().strip())
        child.stderr.close()
        wait_until(lambda: Recording(folder).spans[-1].index.records_count.get("snapshot"))
        child.send_signal(signal.SIGTERM)
        child.wait(timeout=30)
    assert child.returncode == 0
    assert natstui("sessions", "verify", "last", sessions=sessions).returncode == 0


def test_the_format_is_printed() -> None:
    assert "## kind `snapshot`" in natstui("sessions", "format").stdout
