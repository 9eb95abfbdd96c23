"""Machines that join a benchmark over NATS: found, their clocks compared, missed when they go."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from natstui.bench.job.joining import Lines, ended, pieces
from natstui.bench.job.protocol import Log, encode
from natstui.bench.result.environment import environment
from natstui.bench.result.library import saved_run
from natstui.bench.result.text import summary_text
from natstui.bench.run import joined
from natstui.bench.run.assets import stream_config
from natstui.bench.run.controller import Benchmark
from natstui.bench.worker.agent import remove_own
from natstui.children import own_program
from natstui.config.connection import Connection
from natstui.errors import NotFound, Refused
from natstui.jetstream.connection.client import connect
from natstui.jetstream.testbed.broker import Broker
from natstui.jetstream.testbed.ports import HeldPorts
from natstui.model.bench.plan import (
    BenchmarkPlan,
    ClientKind,
    Payload,
    RateSegment,
    Role,
    StreamPlan,
)
from natstui.model.bench.result import BenchmarkResult
from natstui.model.records.benchmark import BenchmarkReport
from natstui.model.records.record import Record
from tests.bench.running import Records, check_sums

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("machines")]

AHEAD_MS = 50.0
STREAM = StreamPlan("FAR", subjects=("far",))


@pytest.fixture(scope="module")
def second_url() -> Iterator[str]:
    """Where the server is for a second machine: at another loopback address."""
    with HeldPorts(1) as ports:
        yield f"ws://127.0.0.2:{ports.numbers[0]}"


@pytest.fixture(scope="module")
def broker(second_url: str) -> Iterator[Broker]:
    """One server for the tests of this file, at two addresses."""
    place = second_url.removeprefix("ws://")
    with Broker(config_text=f'websocket {{ listen: "{place}", no_tls: true }}') as broker:
        yield broker


@contextmanager
def machine(url: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Run a machine that has joined."""
    command = own_program("natstui", "bench", "worker", "--join", url, *words)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "joined" in process.stderr.readline()
        try:
            yield process
        finally:
            process.terminate()
            process.communicate(timeout=30)


async def ran(
    broker: Broker, what: BenchmarkPlan, count: int, records: Records | None = None
) -> BenchmarkResult:
    records = records or Records()
    connection = Connection(servers=(broker.url,))
    result = await Benchmark(what, connection, records, count).run()
    check_sums(result, records)
    return result


def far(*roles: Role, stream: StreamPlan | None = None, duration_s: float = 2.0) -> BenchmarkPlan:
    return BenchmarkPlan("far", "", roles, stream, duration_s, drain_s=4.0)


@pytest.mark.parametrize(
    ("client", "payload"),
    [("wire", Payload()), ("nats-py", Payload("json", 200))],
)
async def test_latencies_between_clocks_50_ms_apart_are_right_within_the_stated_error(
    broker: Broker, second_url: str, client: ClientKind, payload: Payload
) -> None:
    rate = (RateSegment(None, 500, 500),)
    subs = Role("subs", "subscribe", 1, client, subject="far", payload=payload)
    pubs = Role("pubs", "publish", 1, client, subject="far", payload=payload, schedule=rate)
    asks = Role("asks", "request", 1, subject="far.ask", payload=payload, schedule=rate)
    answers = Role("answers", "serve", 1, subject="far.ask", payload=payload)
    with machine(broker.url), machine(second_url, "--clock-ahead", f"{AHEAD_MS:g}ms"):
        # In turns: subs and asks go to one machine, pubs and answers to the other.
        result = await ran(broker, far(subs, pubs, asks, answers), 2)
    offsets = re.findall(r"([+-][\d.]+) ms ± ([\d.]+) ms", result.clock)
    away = sorted((float(offset), float(error)) for offset, error in offsets)
    for (offset, error), truth in zip(away, (0.0, AHEAD_MS), strict=True):
        assert abs(offset - truth) <= error
    error_ms = sum(error for _, error in away)
    assert error_ms < AHEAD_MS / 2, result.clock
    times = result.latencies
    assert times.e2e_uncorrected.total_count > 500
    # One way and the whole way over the same connection are alike, 50 ms would stand out.
    one_way_ms = (times.e2e_uncorrected.percentile_ns(50) or 0) / 1e6
    whole_ms = (times.rtt_uncorrected.percentile_ns(50) or 0) / 1e6
    assert 0 <= one_way_ms <= whole_ms + error_ms + 10
    assert result.verdict == "ok", result.notes
    saved = saved_run(far(), (result,), environment(None))
    assert "clock      CLOCK_MONOTONIC of each machine" in summary_text(saved)


async def test_a_machine_that_is_killed_is_told_and_the_others_go_on(
    broker: Broker, second_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joined, "GONE_AFTER_S", 4.0)
    rate = (RateSegment(None, 300, 300),)
    # In turns: the first machine has subs 0 and 2, the second sub 1 and the publisher.
    subs = Role("subs", "js-consume", 3, subject="far", ack_wait_s=1.0)
    pubs = Role("pubs", "js-publish-async", 1, subject="far", schedule=rate)
    with machine(broker.url), machine(second_url, "--clock-ahead", "50ms"):
        seen: list[int] = []

        def look(record: Record) -> None:
            if isinstance(record, BenchmarkReport) and record.role == "subs":
                seen.append(record.counts.received_msgs)
                if sum(seen) > 100 and not killed:
                    killed.append(_kill_machine_of(benchmark.worker_pids()[0]))

        killed: list[int] = []
        records = Records(on_add=look)
        what = far(subs, pubs, stream=STREAM, duration_s=6.0)
        benchmark = Benchmark(what, Connection(servers=(broker.url,)), records, 2)
        result = await benchmark.run()
    assert killed
    ways = [(worker.role, worker.ended) for worker in result.workers]
    assert ways == [("subs", "died"), ("subs", "done"), ("subs", "died"), ("pubs", "done")]
    assert result.partial
    assert sum("ended without its last word" in note for note in result.notes) == 2
    assert "vanished: nothing was heard of" in str(records.all)
    # What the dead held came again to who was left.
    assert result.accounting.lost_msgs in (None, 0)
    assert result.accounting.acked_msgs == result.accounting.sent_msgs


def _kill_machine_of(worker_pid: int) -> int:
    """Kill the process that started a worker, as when a machine breaks."""
    stat = Path(f"/proc/{worker_pid}/stat").read_text(encoding="ascii")
    parent = int(stat.rsplit(")", 1)[1].split()[1])
    os.kill(parent, signal.SIGKILL)
    return parent


async def test_too_few_machines_and_a_file_of_another_machine_are_refused(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joined, "_FIND_S", 2.0)
    pubs = Role("pubs", "publish", total_msgs=10)
    with machine(broker.url):
        with pytest.raises(NotFound, match="1 of 2 machines joined"):
            await ran(broker, far(pubs), 2)
        filed = Role("pubs", "publish", total_msgs=10, payload=Payload("file", file=__file__))
        with pytest.raises(Refused, match="payload file is on another machine"):
            await ran(broker, far(filed), 1)


async def test_a_machine_deletes_in_nobodys_name_what_no_benchmark_made(broker: Broker) -> None:
    own = await connect(Connection(servers=(broker.url,)))
    for name, made in (
        ("MINE", stream_config(StreamPlan("MINE"))),
        ("THEIRS", {"name": "THEIRS"}),
    ):
        await own.request(f"STREAM.CREATE.{name}", {**made, "subjects": [name]})
    for name in ("natstui-r1-subs", "worker"):
        body = {"stream_name": "THEIRS", "config": {"durable_name": name, "name": name}}
        await own.request(f"CONSUMER.CREATE.THEIRS.{name}", body)
    verbs = ["STREAM.DELETE.MINE", "STREAM.DELETE.THEIRS", "STREAM.PURGE.THEIRS"]
    verbs += ["CONSUMER.DELETE.THEIRS.worker", "CONSUMER.DELETE.THEIRS.natstui-r1-subs"]
    await remove_own(own, verbs, "r1")
    assert json.loads(await own.request("STREAM.NAMES"))["streams"] == ["THEIRS"]
    assert json.loads(await own.request("CONSUMER.NAMES.THEIRS"))["consumers"] == ["worker"]
    await own.request("STREAM.DELETE.THEIRS")
    await own.close()


def test_a_line_longer_than_a_message_goes_in_pieces() -> None:
    line = encode(Log(text="x" * 1_000_000))
    lines, messages = Lines(), [*pieces(line)]
    assert max(map(len, messages)) <= (1 << 18) + 1
    assert [lines.take(one) for one in messages] == [None] * (len(messages) - 1) + [line]
    assert lines.take(b"") is None
    assert lines.take(ended("exit code 1")) is None
    assert lines.ended == "exit code 1"
