"""`natstui analyze` and its child: results on stdout, one sentence for whatever goes wrong."""

from __future__ import annotations

import gzip
import io
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from benchmarks._fleet import START_AT_US, Plan
from benchmarks._sessions import write_session
from natstui.analysis.folders import resolve_sessions
from natstui.analysis.job import create_parser, main
from natstui.analysis.launch import AnalysisRequest, child_command
from natstui.analysis.result_cache import read_cached_result, run_fingerprint
from natstui.cli.sessions.analyze import analyze, report_lines
from natstui.errors import NatstuiError
from natstui.model.records.findings import FindingReport
from tests.analysis.damaged import NAME, polls_only, rewritten, small
from tests.analysis.jobs import ENVIRONMENT, begun, left_behind, members, natstui, started, told
from tests.analysis.limited import bound_by_permissions, full_disk
from tests.analysis.test_recorded import table

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("analysis job")]

BAD = "records-000002.jsonl.gz"
"""The segment of the session with a line that cannot be read."""


RECORDED = FindingReport(
    "NT-C07", "ORDERS-000", "billing-0000", 1_789_913_610_000_000, "", START_AT_US, "0 pulls"
)
"""A finding that the recording has to its end, and that the analysis contradicts."""


@dataclass(frozen=True)
class TwoRuns:
    """A command on the last recording and, begun while it read, a child on its folder."""

    session: Path
    out: Path
    page: Path
    command: subprocess.CompletedProcess[str]
    child_steps: list[str]
    child_end: dict[str, Any]

    @cached_property
    def result(self) -> dict[str, Any]:
        """What the command printed."""
        assert self.command.returncode == 6, self.command.stderr
        found: dict[str, Any] = json.loads(self.command.stdout)
        return found


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> TwoRuns:
    folder = tmp_path_factory.mktemp("two_runs")
    session, out, page = folder / NAME, folder / "out", folder / "page.html"
    polls_only(folder, NAME, ticks=45, known=(RECORDED,))
    rewritten(session / BAD, b'"stored_msgs":', b'"messages":', once=True)
    # What a run left that was killed in the middle of putting its tables in place.
    (out / "gold.0123abcd").mkdir(parents=True)
    (out / "silver.backup").mkdir()
    (out / "gold.mine").mkdir()
    words = (str(session), "--out", str(out), "--master", "local[2]")
    printed, errors = folder / "printed", folder / "errors"
    with printed.open("wb") as stdout, errors.open("wb") as stderr:
        command = begun(
            "analyze", "last", *words[1:], "--json", "--html", str(page),
            stdout=stdout, stderr=stderr,
            env={**ENVIRONMENT, "NATSTUI_SESSION_FOLDER": str(folder)},
        )  # fmt: skip
        while "reading " not in errors.read_text():
            assert command.poll() is None, errors.read_text()
            time.sleep(0.05)
        child = started(*words)
        assert child.stdin is not None and child.stdout is not None
        *steps, end = map(json.loads, child.stdout)
        assert child.wait(60) == 0, end
        code = command.wait(60)
        child.stdin.close()
        child.stdout.close()
    ran = subprocess.CompletedProcess((), code, printed.read_text(), errors.read_text())
    return TwoRuns(session, out, page, ran, [step["text"] for step in steps], end)


def test_the_command_prints_tables_and_writes_a_page_and_keeps_the_tables(
    two_runs: TwoRuns,
) -> None:
    ran, result = two_runs.command, two_runs.result
    assert result["sessions"] == [NAME]
    assert result["read_sessions_count"] == 1
    assert len(result["tables"]["consumer_rate"]["rows"]) > 0
    # No benchmark was recorded: these tables are there, and empty.
    for name in ("bench_account", "bench_knee", "bench_throughput"):
        assert result["tables"][name]["rows"] == []
        assert (two_runs.out / "gold" / name / "_SUCCESS").is_file()
    assert "Spark" not in ran.stdout[:200]
    assert "WARN" not in ran.stderr
    assert two_runs.page.read_text().startswith("<!doctype html>")
    assert (two_runs.out / "gold" / "DICTIONARY.md").is_file()


def test_the_recorded_findings_come_on_stderr_before_the_tables_and_contradicted_ones_after(
    two_runs: TwoRuns,
) -> None:
    lines = two_runs.command.stderr.splitlines()
    heading = lines.index(f"From the recording {NAME}:")
    name = "no open pulls (NT-C07) of ORDERS-000 > billing-0000"
    assert lines[heading + 1].startswith(f"  critical {name}: 0 pulls · since ")
    first_step = next(n for n, line in enumerate(lines) if line.startswith("natstui: reading "))
    assert heading < first_step
    contradiction = lines.index(
        f"The analysis contradicts {name}: no message was pending at the end"
    )
    assert first_step < contradiction
    # Stdout is the result alone, and the exit code is that of the result.
    (printed,) = two_runs.command.stdout.splitlines()
    assert json.loads(printed)["sessions"] == [NAME]
    assert two_runs.command.returncode == 6


def test_two_runs_into_one_folder_come_one_after_the_other(two_runs: TwoRuns) -> None:
    # The second has nothing left to compute, and starts no Spark.
    assert two_runs.child_steps == ["waiting for another analysis that writes the same tables"]
    assert two_runs.result["read_sessions_count"] == 1
    assert two_runs.child_end["read_sessions_count"] == 0
    assert two_runs.child_end["tables"] == two_runs.result["tables"]
    assert left_behind(two_runs.out) == ["gold.mine"]
    assert (two_runs.out / "silver.backup").is_dir()


@pytest.mark.long
def test_a_recording_that_completes_a_segment_meanwhile_is_analysed_all_the_same(
    tmp_path: Path,
) -> None:
    session, errors = small(tmp_path, ticks=60), tmp_path / "errors"
    *_, sealed = sorted(session.glob("records-*.jsonl.gz"))
    growing = sealed.with_suffix("")
    growing.write_bytes(gzip.decompress(sealed.read_bytes()))
    sealed.rename(tmp_path / "kept")
    with errors.open("wb") as stderr, (tmp_path / "printed").open("wb") as stdout:
        words = (str(session), "--out", str(tmp_path / "out"), "--json")
        command = begun("analyze", *words, stdout=stdout, stderr=stderr)
        while "reading " not in errors.read_text():
            assert command.poll() is None, errors.read_text()
            time.sleep(0.01)
        (tmp_path / "kept").rename(sealed)
        growing.unlink()
        assert command.wait(120) == 0, errors.read_text()
    assert "starting again: the recording completed another file meanwhile" in errors.read_text()
    (row,) = table(json.loads((tmp_path / "printed").read_text()), "session")
    assert (row["polls_count"], row["corrupt_segments_count"]) == (60, 0)


def test_while_nothing_has_changed_the_result_is_told_again_without_spark(
    two_runs: TwoRuns,
) -> None:
    nowhere = {**ENVIRONMENT, "JAVA_HOME": str(two_runs.out)}
    again = natstui(
        "analyze", str(two_runs.session), "--out", str(two_runs.out), "--json", env=nowhere
    )
    assert again.returncode == 6, again.stderr
    assert "reading" not in again.stderr
    assert json.loads(again.stdout) == {**two_runs.result, "read_sessions_count": 0}


def test_any_change_of_options_tables_or_recording_makes_the_result_unknown(
    two_runs: TwoRuns,
) -> None:
    session, out = str(two_runs.session), str(two_runs.out)

    def known(**changed: Any) -> dict[str, Any] | None:
        words = child_command(AnalysisRequest((session,), out, **changed))
        options = create_parser().parse_args(words[words.index(session) :])
        state = run_fingerprint(options, resolve_sessions(options.sessions))
        assert state is not None
        return read_cached_result(out, state)

    result = {name: value for name, value in two_runs.result.items() if name != "kind"}
    assert known(master="local[1]") == {**result, "read_sessions_count": 0}
    for change in ({"bucket_s": 3}, {"rows_count": 7}, {"baseline": (NAME,)}):
        assert known(**change) is None, change
    marks = two_runs.out / "gold" / "consumer_rate" / "_SUCCESS"
    marks.rename(two_runs.out / "aside")
    assert known() is None
    (two_runs.out / "aside").rename(marks)
    assert known() is not None
    segment = next(two_runs.session.glob("records-*"))
    was = segment.stat()
    os.utime(segment)
    assert known() is None
    os.utime(segment, ns=(was.st_atime_ns, was.st_mtime_ns))
    assert known() is not None


def test_closing_stdin_cancels_and_leaves_nothing_half_written(
    sessions: Path, tmp_path: Path
) -> None:
    folder, out = polls_only(sessions, NAME, ticks=20), tmp_path / "out"
    child = started(str(folder), "--out", str(out), "--master", "local[2]")
    while not told(child)["text"].startswith("reading "):
        pass
    assert child.stdin is not None and child.stdout is not None
    child.stdin.close()
    rest = child.stdout.read().splitlines()
    assert child.wait(60) == 130
    assert json.loads(rest[-1]) == {"kind": "failed", "text": "cancelled", "exit_code": 130}
    assert left_behind(out) == []
    assert not (out / "gold").exists()
    child.stdout.close()


@pytest.mark.long
def test_an_interrupt_while_spark_starts_cancels_too(sessions: Path, tmp_path: Path) -> None:
    child = started(str(small(sessions)), "--out", str(tmp_path / "out"))
    assert told(child)["text"] == "starting Spark"
    # Java is looked for first; then its JVM begins, and has not told its port yet.
    give_up_at = time.monotonic() + 60
    while not members(child.pid).keys() - {child.pid}:
        assert time.monotonic() < give_up_at, "no Java begins"
        time.sleep(0.05)
    os.kill(child.pid, signal.SIGINT)
    assert child.wait(60) == 130
    while left := members(child.pid):
        assert time.monotonic() < give_up_at, left
        time.sleep(0.1)
    assert child.stdin is not None and child.stdout is not None
    child.stdin.close()
    child.stdout.close()


def test_bad_lines_are_left_out_and_told_and_the_command_ends_as_for_any_damaged_session(
    two_runs: TwoRuns,
) -> None:
    errors = two_runs.command.stderr
    sentence = f"{NAME} is damaged: only the readable part was analysed"
    assert json.loads(errors.splitlines()[-1]) == {"error": sentence, "code": 6}
    printed = "\n".join(report_lines(two_runs.result, 140))
    assert "1 line could not be read and is left out" in printed
    assert f"{BAD}: 1 line" in printed


def refused(*words: str) -> str:
    """Return the sentence of an analysis that cannot begin; Spark is not started for it."""
    printed, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(printed), redirect_stderr(errors):
        assert main([*words]) == 7, errors.getvalue()
    assert printed.getvalue() == ""
    (line,) = errors.getvalue().splitlines()
    return line


def refused_command(*words: str, first: Callable[[], None]) -> str:
    """Return the sentence that the command ends with; Spark is never started for it."""
    ran = natstui("analyze", *words, first=first)
    assert ran.returncode == 7, ran.stderr
    assert ran.stdout == ""
    lines = [line for line in ran.stderr.splitlines() if line != "natstui: starting Spark"]
    assert len(lines) == 1, lines
    return lines[0]


def broken_off(*words: str, first: Callable[[], None]) -> str:
    """Return the sentence a run ends with that fails on its way."""
    ran = natstui("analyze", *words, "--master", "local[2]", first=first)
    assert ran.returncode == 7, ran.stderr
    assert ran.stdout == ""
    return ran.stderr.splitlines()[-1]


def test_what_is_no_session_is_said_at_once(sessions: Path, tmp_path: Path) -> None:
    out = ("--out", str(tmp_path / "out"))
    assert "no recorded session matches" in refused(str(sessions / "*"), *out)
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "is not a recorded session" in refused(str(empty), *out)
    folder = small(sessions)
    for path in folder.glob("records-*"):
        path.unlink()
    assert "is empty: it has no records" in refused(str(folder), *out)
    (folder / "records-000001.jsonl").touch()
    assert "is empty: it has no records" in refused(str(folder), *out)


def refused_by_command(*words: str, exit_code: int = 7) -> str:
    """Return the sentence of `natstui analyze`, run in this process."""
    with pytest.raises(NatstuiError) as refusal:
        analyze.main([*words], standalone_mode=False)
    assert refusal.value.exit_code == exit_code
    return str(refusal.value)


@pytest.mark.parametrize("word", ["last", NAME, NAME[:8]])
def test_a_session_of_the_library_is_found_by_any_of_its_names(
    sessions: Path, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    folder = small(sessions)
    for path in folder.glob("records-*"):
        path.unlink()
    monkeypatch.setenv("NATSTUI_SESSION_FOLDER", str(sessions))
    assert f"the session {folder} is empty" in refused_by_command(word)
    assert "no session 'elsewhen'" in refused_by_command("elsewhen", exit_code=2)


def test_tables_that_cannot_be_written_are_said_at_once(sessions: Path, tmp_path: Path) -> None:
    folder = small(sessions)
    file = tmp_path / "file"
    file.write_text("")
    assert "cannot write the tables" in refused(str(folder), "--out", str(file / "out"))
    page = ("--html", str(tmp_path / "no" / "page.html"))
    assert "its folder does not exist" in refused_by_command(str(folder), *page)
    file.write_text("<!doctype html>\n<html><body>the page of somebody else</body></html>")
    kept = file.read_bytes()
    for option in ("--html", "--notebook"):
        words = (str(folder), option, str(file))
        assert "is no report page of natstui: use --force" in refused_by_command(*words)
    assert file.read_bytes() == kept


def test_only_a_report_page_is_replaced_unasked(
    two_runs: TwoRuns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = two_runs.page.read_bytes()
    own, foreign = tmp_path / "own.html", tmp_path / "foreign.html"
    own.write_bytes(page + b"old")
    foreign.write_bytes(page[:20] + b"somebody else")
    # Their result is known: no Spark is started, and none could be.
    monkeypatch.setenv("JAVA_HOME", str(two_runs.out))
    words = (str(two_runs.session), "--out", str(two_runs.out), "--master", "local[2]", "--html")
    assert "use --force" in refused_by_command(*words, str(foreign))
    assert foreign.read_bytes() == page[:20] + b"somebody else"
    for file, *flags in ((own,), (foreign, "--force")):
        refused_by_command(*words, str(file), *map(str, flags), exit_code=6)
        assert file.read_bytes() == page


@pytest.mark.parametrize("name", ["gold", "silver", "bronze", "result.json"])
def test_what_no_analysis_has_written_is_not_replaced(
    sessions: Path, tmp_path: Path, name: str
) -> None:
    folder, out = small(sessions), tmp_path / "lake"
    precious = out / name if name.endswith("json") else out / name / "orders" / "day=1"
    precious.parent.mkdir(parents=True)
    precious.write_text("precious")
    words = (str(folder), "--out", str(out))
    assert f"it has {name} already, which natstui did not write" in refused(*words)
    # The lock of another program is no sign of ours.
    (out / ".lock").write_text("4711")
    assert f"it has {name} already" in refused(*words)
    assert precious.read_text() == "precious"
    elsewhere = tmp_path / "own"
    elsewhere.mkdir()
    (elsewhere / ".lock").touch()
    (elsewhere / name).symlink_to(out / name)
    assert f"{name} in it is a link" in refused(str(folder), "--out", str(elsewhere))
    assert precious.read_text() == "precious"


def test_a_scratch_folder_that_cannot_be_written_is_said_at_once(
    sessions: Path, tmp_path: Path
) -> None:
    folder, out = small(sessions), tmp_path / "out"
    for scratch in (tmp_path / "absent", folder / "session.json", Path("/dev/full")):
        words = (str(folder), "--out", str(out), "--scratch", str(scratch))
        assert f"cannot write to the scratch folder {scratch}" in refused(*words)
        assert f"scratch folder {scratch}" in refused_by_command(*words)
    assert not out.exists()


def test_a_scratch_folder_with_a_comma_is_refused_and_none_is_made(
    sessions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder, scratch = small(sessions), tmp_path / "a,b"
    scratch.mkdir()
    words = (str(folder), "--out", str(tmp_path / "out"), "--scratch", str(scratch))
    assert f"the scratch folder {scratch} has a comma in its path" in refused(*words)
    assert [path.name for path in tmp_path.iterdir() if path != sessions] == ["a,b"]


def test_a_full_disk_is_said_at_once(sessions: Path) -> None:
    # /dev/full is a disk that is always full; a folder under it cannot be made.
    assert "cannot write the tables" in refused(str(small(sessions)), "--out", "/dev/full/x")


@pytest.mark.long
def test_a_disk_that_is_full_on_the_way_leaves_the_old_tables_and_nothing_else(
    sessions: Path, tmp_path: Path
) -> None:
    out, gold = tmp_path / "out", tmp_path / "out" / "gold"
    folder = write_session(sessions / NAME, Plan(30, 150, 60), records_per_segment=30)
    out.mkdir()
    with full_disk(out) as (first, says):
        gold.mkdir()
        (gold / "DICTIONARY.md").write_text("of an earlier run")
        (out / ".lock").touch()
        assert says in broken_off(str(folder), "--out", str(out), first=first)
        assert left_behind(out) == []
        assert [path.name for path in gold.iterdir()] == ["DICTIONARY.md"]
        assert (gold / "DICTIONARY.md").read_text() == "of an earlier run"


def test_a_permission_that_is_missing_is_said_at_once(sessions: Path, tmp_path: Path) -> None:
    folder, out = small(sessions), tmp_path / "out"
    segment = folder / "records-000002.jsonl.gz"
    segment.chmod(0)
    words = (str(folder), "--out", str(out))
    assert "no permission to read" in refused_command(*words, first=bound_by_permissions)
    segment.chmod(0o600)
    out.mkdir(mode=0o500)
    assert "cannot write the tables to" in refused_command(*words, first=bound_by_permissions)
    out.chmod(0o700)


@pytest.mark.long
def test_a_permission_that_is_missing_on_the_way_leaves_nothing_half_written(
    sessions: Path, tmp_path: Path
) -> None:
    folder, out = small(sessions), tmp_path / "out"
    (out / "silver").mkdir(parents=True)
    (out / ".lock").touch()
    (out / "silver").chmod(0o500)
    sentence = broken_off(str(folder), "--out", str(out), first=bound_by_permissions)
    (out / "silver").chmod(0o700)
    assert "a folder of the tables cannot be made" in sentence
    assert "no permission, or the disk is full" in sentence
    assert str(out) in sentence
    assert left_behind(out) == []
    assert not (out / "gold").exists()
