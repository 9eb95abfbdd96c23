"""Rates are those of the time in which there was something to measure, without a server."""

from natstui.bench.job.tally import Tally
from natstui.bench.result.accounting import WorkerCounts
from natstui.bench.result.run_result import RunOutcome, WorkerEnd, make_result
from natstui.model.bench.counts import Latencies
from natstui.model.bench.plan import Pattern, Role
from natstui.model.bench.result import BenchmarkResult
from natstui.values import replace
from tests.bench.running import plan

SECOND = 1_000_000_000


def received(worker_id: int, reads: dict[float, int], pattern: Pattern = "subscribe") -> WorkerEnd:
    """A receiver that started at 0 and read so many messages at each time in s."""
    tally = Tally()
    tally.steady_ns = 0
    for at_s, msgs in reads.items():
        tally.count_unstamped(msgs, 16, round(at_s * SECOND))
    counts, latencies = tally.pop_new()
    book = WorkerCounts(
        f"subs/{worker_id}", Role("subs", pattern), worker_id, counts, tally.totals(), {}
    )
    return WorkerEnd(book, tally.times(), None, "done", latencies)


def result_of(*ends: WorkerEnd, beside: tuple[Role, ...] = ()) -> BenchmarkResult:
    what = plan(ends[0].counts.role, *beside)
    return make_result(
        RunOutcome(what, 1, 0, 30 * SECOND, ends, Latencies(), None, None, False, None)
    )


def test_the_time_before_the_first_message_of_others_is_in_no_rate() -> None:
    result = result_of(received(0, {20.0: 10, 20.5: 500, 21.0: 490}), received(1, {20.5: 1000}))
    assert result.duration_s == 1.0
    # What was read with the first message came before the time that is measured.
    assert result.receive_per_s == 1990
    assert [worker.rate_per_s for worker in result.workers] == [990, 2000]


def test_a_service_that_waits_for_requests_measures_from_the_first_one() -> None:
    result = result_of(received(0, {20.0: 1, 22.0: 100}, "serve"))
    assert (result.duration_s, result.workers[0].rate_per_s) == (2.0, 50)


def test_messages_that_were_all_read_at_once_have_no_rate() -> None:
    result = result_of(received(0, {20.0: 100}))
    assert (result.receive_per_s, result.workers[0].rate_per_s) == (None, None)
    assert result.counts.received_msgs == 100


def test_a_run_that_sends_is_measured_from_its_start() -> None:
    result = result_of(received(0, {1.0: 10, 2.0: 90}), beside=(Role("pubs", "publish"),))
    assert (result.duration_s, result.receive_per_s) == (2.0, 50)


def test_an_added_worker_is_measured_from_its_own_start() -> None:
    added = replace(received(1, {6.0: 100, 10.0: 400}), start_ns=5 * SECOND)
    result = result_of(
        received(0, {1.0: 500, 10.0: 500}), added, beside=(Role("pubs", "publish"),)
    )
    assert [worker.rate_per_s for worker in result.workers] == [100, 100]
    assert result.receive_per_s == 150
