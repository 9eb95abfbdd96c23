"""What the engine really records of a real server and a real benchmark, through the pipeline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from natstui.jetstream.broker import Broker
from natstui.model.benchmark import BenchmarkFinished
from natstui.model.benchmark_command import StartBenchmark
from natstui.model.recording import RecordingChanged, StartRecording, StopRecording
from natstui.model.snapshot import Snapshot
from tests.analysis.jobs import natstui
from tests.engine.engine_process import EngineProcess

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def recorded(url: str) -> tuple[Path, BenchmarkFinished]:
    """Record a benchmark on a server; return the folder and what the benchmark said."""
    with EngineProcess("--server", url) as engine:
        engine.next(Snapshot)
        engine.send(StartRecording(1, "with a benchmark"))
        change = engine.next(RecordingChanged, lambda change: change.folder is not None)
        engine.send(StartBenchmark(2, "work-queue", {"duration": "4s"}))
        finished = engine.next(BenchmarkFinished, s=120)
        engine.send(StopRecording(3))
        engine.next(RecordingChanged, lambda change: not change.on, s=60)
        assert change.folder is not None
        return Path(change.folder), finished


def table(result: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return a table of a result as rows by column."""
    found = result["tables"][name]
    names = [column["name"] for column in found["columns"]]
    return [dict(zip(names, row, strict=True)) for row in found["rows"]]


def test_a_recorded_benchmark_of_a_real_server_is_answered_in_every_table(
    nats_server: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATSTUI_SESSION_FOLDER", str(tmp_path / "sessions"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    folder, finished = recorded(nats_server.url)
    assert tmp_path in folder.parents
    words = ("--out", str(tmp_path / "out"), "--master", "local[2]", "--bucket", "5", "--json")
    ran = natstui("analyze", str(folder), *words)
    assert ran.returncode == 0, ran.stderr
    result = json.loads(ran.stdout)
    (session,) = table(result, "session")
    assert (session["corrupt_segments_count"], session["torn_lines_count"]) == (0, 0)
    assert session["unknown_lines_count"] == 0
    (account,) = table(result, "bench_account")
    told = finished.result.accounting
    assert account["sent_msgs"] == told.sent_msgs > 0
    assert account["acked_msgs"] == told.acked_msgs
    assert account["received_msgs"] == told.received_msgs
    assert account["lost_msgs"] == told.lost_msgs
    rates = table(result, "stream_rate")
    assert {row["stream"] for row in rates} == {"NATSTUI_BENCH_WORK"}
    assert any(row["published_per_s"] for row in rates)
    assert table(result, "lag")
    assert table(result, "bench_throughput")
    latencies = {(r["metric"], r["corrected"]): r for r in table(result, "bench_latency_summary")}
    assert latencies["e2e", True]["p50_us"] > 0
    assert latencies["e2e", True]["p99_us"] >= latencies["e2e", True]["p50_us"]
