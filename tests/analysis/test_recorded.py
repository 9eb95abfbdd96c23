"""What the engine really records of the demo, of a real benchmark and of a gap: every table."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from natstui.analysis.defaults import Thresholds
from natstui.analysis.gold import build as gold
from natstui.cli.demo import run_shop
from natstui.model.live.snapshot import Snapshot
from natstui.model.records.benchmark import BenchmarkFinished, StartBenchmark
from natstui.model.records.record import WriteNote
from natstui.model.records.recording import RecordingChanged, StartRecording, StopRecording
from tests.analysis.jobs import natstui
from tests.engine.engine_process import EngineProcess

pytestmark = [pytest.mark.server, pytest.mark.spark]

AWAY_S = 7.0
"""The engine is stopped for this long: polls are missing, and that is a gap."""
NOTE = "the benchmark begins"
BROKEN = frozenset({"settlement", "risk-score"})
"""The demo's consumers to whom some payments come again and again."""
REPEATED_S = 200.0
"""How long a busy machine may need until they came back often enough for a hot spot."""


def limit(url: str) -> None:
    """Let few messages wait for their acknowledgement, so that consumers fall behind."""
    for name in sorted(BROKEN):
        words = ("consumer", "edit", "PAYMENTS", name, "--max-ack-pending", "3", "--yes")
        ran = natstui(*words, "--server", url)
        assert ran.returncode == 0, ran.stderr


def recorded(
    engine: EngineProcess,
    name: str,
    number: int,
    with_gap: bool,
    change: Callable[[], None] = lambda: None,
) -> Recorded:
    """Record a note, a change, a benchmark of four seconds, and perhaps a gap and what follows."""
    engine.send(StartRecording(10 * number, name))
    begun = engine.next(RecordingChanged, lambda change: change.folder is not None)
    change()
    engine.send(WriteNote(10 * number + 3, f"{NOTE} {number}"))
    engine.send(StartBenchmark(10 * number + 1, "work-queue", {"duration": "4s"}))
    finished = engine.next(BenchmarkFinished, s=120)
    if with_gap:
        os.kill(engine.process.pid, signal.SIGSTOP)
        time.sleep(AWAY_S)
        os.kill(engine.process.pid, signal.SIGCONT)
        wait_for_repeated(engine)
    engine.send(StopRecording(10 * number + 2))
    engine.next(RecordingChanged, lambda change: not change.on, s=60)
    assert begun.folder is not None
    return Path(begun.folder), finished


def wait_for_repeated(engine: EngineProcess) -> None:
    """Return when payments came back so often within one bucket that it is a hot spot."""
    many_msgs = Thresholds().hot_msgs + 1
    bucket_us = Thresholds().bucket_s * 1_000_000
    repeated_msgs: Counter[tuple[str, int]] = Counter()
    before: dict[str, int] = {}
    give_up_s = time.monotonic() + REPEATED_S
    while max(repeated_msgs.values(), default=0) < many_msgs:
        assert time.monotonic() < give_up_s, repeated_msgs
        snapshot = engine.next(Snapshot)
        rows = snapshot.consumers
        ahead = zip(rows.name, rows.delivered_consumer_seq, rows.delivered_stream_seq, strict=True)
        for name, consumer_seq, stream_seq in ahead:
            if name not in BROKEN:
                continue
            now_msgs = consumer_seq - stream_seq
            more_msgs = max(0, now_msgs - before.get(name, now_msgs))
            repeated_msgs[name, snapshot.taken_at_us // bucket_us] += more_msgs
            before[name] = now_msgs


Recorded = tuple[Path, BenchmarkFinished]


def table(result: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return a table of a result as rows by column."""
    found = result["tables"][name]
    names = [column["name"] for column in found["columns"]]
    return [dict(zip(names, row, strict=True)) for row in found["rows"]]


@pytest.mark.long
def test_a_recording_of_the_demo_with_a_benchmark_fills_every_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATSTUI_SESSION_FOLDER", str(tmp_path / "sessions"))
    with run_shop(None) as shop, EngineProcess("--server", shop.url) as engine:
        engine.next(Snapshot)
        first, finished = recorded(engine, "with a gap", 1, True, lambda: limit(shop.url))
        second, _ = recorded(engine, "the same again", 2, False)
    folders = (str(first), str(second))
    words = ("--out", str(tmp_path / "out"), "--master", "local[2]", "--stuck-after", "5")
    ran = natstui("analyze", *folders, *words, "--json")
    assert ran.returncode == 0, ran.stderr
    result = json.loads(ran.stdout)
    assert result["tables"].keys() == {one.name for one in gold.TABLES}
    assert [name for name, found in result["tables"].items() if not found["rows"]] == []
    session, _ = table(result, "session")
    assert (session["corrupt_segments_count"], session["torn_lines_count"]) == (0, 0)
    assert session["unknown_lines_count"] == 0
    account_closes(result, first.name, finished)
    assert [row["text"] for row in table(result, "note")] == [f"{NOTE} 1", f"{NOTE} 2"]
    changed = table(result, "change")
    assert {row["change"] for row in changed} == {"max_ack_pending_msgs 1000 → 3"}
    assert {row["consumer"] for row in changed} <= {"settlement", "risk-score"}
    of_first = {name: [row for row in table(result, name) if row.get("session") == first.name]
                for name in result["tables"]}  # fmt: skip
    (gap,) = (row for row in of_first["availability"] if row["kind"] == "gap")
    assert gap["duration_s"] > AWAY_S - 1
    # Configurations were told before the recording began: these causes follow from them.
    causes = {row["consumer"]: row["cause"] for row in of_first["stuck"]}
    assert causes["newsletter"] == "paused"
    assert causes["legacy-erp"] == "no subscriber"
    assert causes["fraud-check"] == "max ack pending reached"
    limits = {row["stream"]: row["max_bytes"] for row in of_first["capacity"]}
    assert limits["INVOICES"] == 2 * 1024 * 1024
    assert {row["consumer"] for row in of_first["poison"]} == BROKEN
    assert {row["consumer"] for row in of_first["redelivery_hot_spot"]} <= BROKEN


def account_closes(result: dict[str, Any], session: str, finished: BenchmarkFinished) -> None:
    """Hold the analysis to what the benchmark said of itself."""
    (account,) = (row for row in table(result, "bench_account") if row["session"] == session)
    told = finished.result.accounting
    assert account["sent_msgs"] == told.sent_msgs > 0
    assert account["acked_msgs"] == told.acked_msgs
    assert account["received_msgs"] == told.received_msgs
    assert account["lost_msgs"] == told.lost_msgs
    assert account["closes"] is True
    rows = [r for r in table(result, "bench_latency_summary") if r["session"] == session]
    latencies = {(row["metric"], row["corrected"]): row for row in rows}
    assert 0 < latencies["e2e", True]["p50_us"] <= latencies["e2e", True]["p99_us"]
