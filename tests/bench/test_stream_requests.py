"""Requests that wait in a work queue, and their responses over a second stream."""

import asyncio
import json

import pytest

from natstui.bench.job.protocol import Report
from natstui.bench.plan.scenario import find_scenario
from natstui.bench.result.environment import read_environment
from natstui.bench.result.library import make_saved_run
from natstui.bench.result.text import summary_text
from natstui.bench.run.controller import Benchmark
from natstui.bench.run.state import RunState
from natstui.bench.run.worker_processes import WorkerProcess
from natstui.config.connection import Connection
from natstui.errors import UsageError
from natstui.jetstream.connection.client import connect
from natstui.model.bench.counts import Counts, Latencies
from natstui.model.bench.plan import (
    BenchmarkPlan,
    Fault,
    Payload,
    Role,
    StreamPlan,
)
from natstui.model.bench.result import BenchmarkResult
from tests.accounts import Account
from tests.bench.here import run_here
from tests.bench.running import Records, check_sums, plan
from tests.bench.test_content import orders

REQUESTS = StreamPlan("ASKED", subjects=("ask",), retention="workqueue")
RESPONSES = StreamPlan("SAID", subjects=("ask-responses.*",))


def conversation(
    total: int,
    payload: Payload,
    *faults: Fault,
    think_s: float = 0.0,
    ack_wait_s: float = 30.0,
) -> BenchmarkPlan:
    workers = Role("workers", "js-respond", 2, subject="ask", payload=payload, batch_msgs=20,
                   ack_wait_s=ack_wait_s, think_s=think_s)  # fmt: skip
    askers = Role("askers", "js-request", 2, subject="ask", payload=payload, total_msgs=total)
    return BenchmarkPlan(
        "asking", "", (workers, askers), REQUESTS, None, faults=faults, responses=RESPONSES
    )


async def ran(account: Account, plan: BenchmarkPlan) -> BenchmarkResult:
    result = await run_here(Connection(servers=(account.url,)), plan)
    own = await connect(Connection(servers=(account.url,)))
    assert json.loads(await own.request("STREAM.NAMES"))["total"] == 0
    await own.close()
    return result


@pytest.mark.server
@pytest.mark.parametrize(
    "payload",
    [Payload("json", 200), Payload("fixed", 24)],
)
async def test_every_request_has_its_response_and_both_legs_are_timed(
    account: Account, payload: Payload
) -> None:
    result = await ran(account, conversation(501, payload))
    books, times = result.accounting, result.latencies
    assert (books.sent_msgs, books.acked_msgs, books.received_msgs) == (501,) * 3
    assert (books.responses_msgs, books.unresponded_msgs, books.lost_msgs) == (501, 0, 0)
    counted = (times.e2e.total_count, times.response.total_count, times.rtt.total_count)
    assert counted == (501,) * 3
    # The whole way is no shorter than its first leg, and no shorter than its second.
    assert (times.rtt.max_ns or 0) >= max(times.e2e.max_ns or 0, times.response.max_ns or 0)
    assert result.verdict == "ok", result.notes
    for worker in result.workers:
        assert worker.counts.received_msgs == worker.counts.sent_msgs > 0
    saved = make_saved_run(conversation(1, payload), (result,), read_environment(None))
    assert "responses 501" in summary_text(saved)


@pytest.mark.long
@pytest.mark.server
async def test_requests_of_a_killed_worker_are_answered_by_another(account: Account) -> None:
    killed = Fault(0.5, "kill", "workers")
    plan = conversation(800, Payload(), killed, think_s=0.003, ack_wait_s=1.0)
    records = Records()
    result = await Benchmark(plan, Connection(servers=(account.url,)), records).run()
    check_sums(result, records)
    books, times = result.accounting, result.latencies
    assert [one.ended for one in result.workers].count("killed") == 1
    assert books.redelivered_msgs > 0
    assert (books.unresponded_msgs, books.lost_msgs) == (0, 0)
    assert books.responses_msgs is not None
    # What it had answered and not acknowledged, another answers once more.
    assert 800 <= books.responses_msgs <= 800 + books.redelivered_msgs
    # Those waited for the ack wait of a second, in the queue and so on the whole way.
    assert (times.e2e.max_ns or 0) > 1e9
    assert (times.rtt.max_ns or 0) > 1e9
    assert result.verdict == "ok", result.notes


@pytest.mark.server
async def test_requests_that_nobody_answers_are_told(account: Account) -> None:
    plan = conversation(50, Payload())
    silent = Role("workers", "js-consume", subject="ask")
    asking = Role("askers", "js-request", subject="ask", total_msgs=50, timeout_s=0.3)
    result = await ran(account, BenchmarkPlan("t", "", (silent, asking), plan.stream, None,
                                             responses=RESPONSES))  # fmt: skip
    assert (result.accounting.responses_msgs, result.accounting.unresponded_msgs) == (0, 50)
    assert result.verdict == "incomplete"
    assert "50 requests got no response" in result.notes


def test_the_ready_scenario_is_what_its_title_says() -> None:
    plan = find_scenario("request-reply")
    assert {one.pattern for one in plan.roles} == {"js-request", "js-respond"}
    assert plan.stream is not None
    assert plan.stream.retention == "workqueue"
    assert plan.responses is not None
    assert plan.responses.subjects == ("bench.requests-responses.*",)
    assert [one.kind for one in plan.faults] == ["kill"]
    assert find_scenario("core-request-reply").responses is None


def test_the_slow_demonstration_takes_a_hundred_steps_of_80_ms() -> None:
    slow, fast = find_scenario("fanout-slow").roles, find_scenario("fanout").roles
    assert [(one.pattern, one.workers_count, one.total_msgs) for one in slow] == [
        (one.pattern, one.workers_count, one.total_msgs) for one in fast
    ]
    (segment,) = slow[1].schedule
    assert (segment.burst_msgs, 15_000 / segment.start_per_s) == (150, pytest.approx(8.0))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("[responses]\n", "[stream2]\n"), "stream2"),
        (('[responses]\nname = "R"\n', ""), "needs a table [responses]"),
        (('name = "R"', 'create = false'), "is created for the run"),
        (("window = 10", "payload = { size = 8 }"), "a request contains its sender and time"),
        (("batch = 5", 'acks = "none"'), "responders need acks"),
        (("batch = 5", "naks = 0.1"), "every request gets a response"),
    ],
)  # fmt: skip
def test_a_wrong_conversation_is_refused(change: tuple[str, str], sentence: str) -> None:
    from natstui.bench.plan.scenario import read_scenario

    text = """
title = "t"
[stream]
name = "Q"
[responses]
name = "R"
[[role]]
name = "w"
pattern = "js-respond"
batch = 5
[[role]]
name = "a"
pattern = "js-request"
msgs = 5
window = 10
"""
    assert read_scenario(text, "x").responses is not None
    with pytest.raises(UsageError) as caught:
        read_scenario(text.replace(*change), "x")
    assert sentence in str(caught.value)


async def test_requests_count_as_sent_and_responses_as_received_by_whoever_answers() -> None:
    state = RunState(plan(), "r", Records())
    process = await asyncio.create_subprocess_exec("true")
    await process.wait()
    counts = Counts(sent_msgs=3, sent_bytes=30, received_msgs=2, received_bytes=20)
    summed = Counts()
    for pattern, sent, received in (
        ("js-request", (3, 30), (0, 0)),
        ("js-respond", (0, 0), (2, 20)),
        ("request", (3, 30), (2, 20)),
    ):
        member = WorkerProcess(orders(Role("r", pattern, subject="ask")), process)  # type: ignore[arg-type]
        state._on_line(member, Report(1, 1.0, counts, Latencies(), 0.1))
        state.release_reports(is_final=True)
        summed = summed.plus(
            Counts(
                sent_msgs=sent[0], sent_bytes=sent[1],
                received_msgs=received[0], received_bytes=received[1],
            )
        )  # fmt: skip
        assert state.counts() == summed, pattern
