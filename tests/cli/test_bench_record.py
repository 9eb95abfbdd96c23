"""`natstui bench … --record`: the whole benchmark is a session."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from natstui.engine import benchmark_recording
from natstui.jetstream.testbed.broker import Broker
from natstui.model.live.snapshot import Snapshot
from natstui.model.records.benchmark import BenchmarkFinished, BenchmarkPlanned, BenchmarkSummed
from natstui.session.read.recording import Recording
from tests.cli.test_manage import Done, run_here

pytestmark = pytest.mark.server

COUNTED = ("sent_msgs", "acked_msgs", "received_msgs", "sent_bytes", "acks_sent_msgs")


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {
        "NATSTUI_SESSION_FOLDER": str(tmp_path / "sessions"),
        "NATSTUI_BENCHMARK_FOLDER": str(tmp_path / "runs"),
    }


def natstui(*words: str, environ: dict[str, str]) -> Done:
    return run_here(*words, environment=environ)


def ok(*words: str, environ: dict[str, str]) -> str:
    done = natstui(*words, environ=environ)
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows(folder: Path, table: str) -> list[dict[str, str]]:
    with (folder / f"{table}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_recorded_benchmark_is_saved_exported_and_compared_with_another(
    nats_server: Broker, tmp_path: Path, environ: dict[str, str]
) -> None:
    words = ("bench", "js", "pubsub", "hello", "--msgs", "400", "--json")
    server = ("--server", nats_server.url)
    flags = ("--repeat", "2", "--assert", "lost == 0", "--assert", "e2e.p99 < 60s")
    done = natstui(*words, *flags, "--record", "load test", *server, environ=environ)
    assert done.returncode == 0, done.stderr
    saved = json.loads(done.stdout)
    assert saved["metrics"]["received"] == 400
    assert saved["environment"]["server_version"]
    results = saved["results"]
    assert [result["accounting"]["closes"] for result in results] == [True, True]
    the_library_has(saved, tmp_path / "runs", environ)
    words = ("bench", "pub", "hello", "--msgs", "400", "--json")
    another = natstui(*words, "--assert", "sent < 1", *server, environ=environ)
    assert another.returncode == 1
    (failure,) = [line for line in another.stderr.splitlines() if "it is" in line]
    assert json.loads(failure)["error"] == "sent < 1: it is 400"
    after = json.loads(another.stdout)
    assert after["results"][0]["verdict"] == "ok"
    they_are_compared(saved, after, environ)
    (folder,) = (tmp_path / "sessions").iterdir()
    assert f"recording into {folder}\n" in done.stderr
    verdict = natstui("sessions", "verify", "load test", environ=environ)
    assert verdict.returncode == 0, verdict.stdout
    records = list(Recording(folder).records())
    plan = next(n for n, record in enumerate(records) if isinstance(record, BenchmarkPlanned))
    assert any(isinstance(record, Snapshot) for record in records[:plan]), "a poll before it"
    assert len([r for r in records if isinstance(r, BenchmarkFinished)]) == 2
    assert any(isinstance(r, BenchmarkSummed) and "publish" in r.text for r in records)
    out = tmp_path / "out"
    exported = natstui("export", "load test", "--to", str(out), "--format", "csv", environ=environ)
    assert exported.returncode == 0, exported.stderr
    found = {row["run_id"]: row for row in rows(out, "bench_result")}
    assert len(found) == 2
    assert {int(row["sent_msgs"]) for row in found.values()} == {400}
    for run_id, result in found.items():
        reports = [row for row in rows(out, "bench_interval") if row["run_id"] == run_id]
        for name in COUNTED:
            assert sum(int(row[name]) for row in reports) == int(result[name]), name
    assert sorted(it["counts"]["received_msgs"] for it in results) == sorted(
        int(row["received_msgs"]) for row in found.values()
    )


def the_library_has(saved: dict[str, Any], runs: Path, environ: dict[str, str]) -> None:
    """It is listed, also beside one that is damaged, and shown."""
    assert ok("bench", "runs", environ=environ).strip() == saved["name"]
    (runs / "damaged.json").write_text("{")
    lines = ok("bench", "runs", "--json", environ=environ).splitlines()
    listed = [json.loads(line) for line in lines]
    first = [listed[0][key] for key in ("name", "at_us", "repetitions_count", "problem")]
    assert first == [saved["name"], saved["at_us"], 2, None]
    assert (listed[1]["name"], listed[1]["at_us"]) == ("damaged", None)
    assert "is not a saved benchmark" in listed[1]["problem"]
    (runs / "damaged.json").unlink()
    assert "every message accounted for" in ok("bench", "show", "-1", environ=environ)


def they_are_compared(
    before: dict[str, Any], after: dict[str, Any], environ: dict[str, str]
) -> None:
    both = [before["name"], after["name"]]
    assert ok("bench", "runs", environ=environ).split() == both
    assert "publish_rate" in ok("bench", "compare", *both, environ=environ)
    told = json.loads(ok("bench", "compare", *both, "--json", environ=environ))
    assert [told["before"], told["after"]] == both
    (rate,) = [row for row in told["differences"] if row["metric"] == "publish_rate"]
    shown = json.loads(ok("bench", "show", both[0], "--json", environ=environ))
    assert (rate["unit"], rate["before"]) == ("msgs_per_s", shown["metrics"]["publish_rate"])


def test_a_recording_that_cannot_begin_stops_the_benchmark_before_it_writes(
    nats_server: Broker, tmp_path: Path, environ: dict[str, str]
) -> None:
    (tmp_path / "sessions").touch()
    words = ("bench", "pub", "hello", "--msgs", "10", "--record", "--server", nats_server.url)
    done = natstui(*words, environ=environ)
    assert done.returncode == 6
    assert "natstui: " in done.stderr and "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_server_that_is_not_there_is_told_as_without_a_recording(
    tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmark_recording, "_FIRST_POLL_TIMEOUT_S", 0.2)
    words = ("bench", "pub", "x", "--msgs", "3", "--record", "--server", "nats://127.0.0.1:1")
    done = natstui(*words, environ=environ)
    assert done.returncode == 3
    assert "127.0.0.1:1" in done.stderr and "Traceback" not in done.stderr
    assert natstui("sessions", "verify", "last", environ=environ).returncode == 0
