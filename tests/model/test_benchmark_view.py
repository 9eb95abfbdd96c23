"""The fold of benchmark records, through their lines as a recording holds them."""

from natstui.lines import decode_command, decode_record, encode_command, encode_record
from natstui.model.bench.counts import Counts, Latencies, total_counts
from natstui.model.bench.latency import from_latencies
from natstui.model.bench.plan import BenchmarkPlan, Role
from natstui.model.live.state import State
from natstui.model.records.benchmark import (
    BenchmarkLog,
    BenchmarkPhase,
    BenchmarkPlanned,
    BenchmarkReport,
    StartBenchmark,
)
from natstui.model.records.record import Record

PLAN = BenchmarkPlan("t", "", (Role("p", "publish"),), None, 5.0)


def report(sent_msgs: int, ack_ns: int) -> BenchmarkReport:
    latencies = Latencies(ack=from_latencies([ack_ns]))
    return BenchmarkReport(9, "r", "p", 0, 0.1, Counts(sent_msgs=sent_msgs), latencies, 0.5)


def fold(*records: Record) -> State:
    state = State()
    for record in records:
        state = state.after(decode_record(encode_record(record)))
    return state


def test_deltas_add_up_to_totals() -> None:
    planned, phase = BenchmarkPlanned(1, "r", PLAN), BenchmarkPhase(2, "r", "steady")
    view = fold(planned, phase, report(3, 100), report(4, 200)).benchmark
    assert view is not None
    assert (view.planned, view.phase) == (planned, "steady")
    assert view.totals["p", 0] == Counts(sent_msgs=7)
    assert [point.sent_msgs for point in view.series["p", 0]] == [3, 4]
    assert view.latencies.ack == from_latencies([100, 200])


def test_a_new_plan_begins_a_new_view() -> None:
    planned = BenchmarkPlanned(1, "r2", PLAN)
    view = fold(report(3, 1), BenchmarkLog(2, "r", "worker up"), planned).benchmark
    assert view is not None
    assert (view.run_id, view.log, view.totals) == ("r2", (), {})


def test_counts_of_many_add_up() -> None:
    counts = [Counts(sent_msgs=1)] * 3
    assert total_counts(counts) == Counts(sent_msgs=3)
    assert total_counts([]) == Counts()


def test_a_command_comes_back_from_its_line() -> None:
    command = StartBenchmark(7, "fanout", {"msgs": "1k"})
    assert decode_command(encode_command(command)) == command
