"""Saved runs, metrics, checks and comparisons by values."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from natstui.bench.job.sequences import ReceivedSequences
from natstui.bench.job.tally import WorkerTimes
from natstui.bench.result import library
from natstui.bench.result.accounting import WorkerCounts
from natstui.bench.result.assertions import parse_check
from natstui.bench.result.compare import compare, compute_difference
from natstui.bench.result.environment import read_environment
from natstui.bench.result.named_figures import metric_names, metrics
from natstui.bench.result.run_result import RunOutcome, WorkerEnd, make_result
from natstui.bench.result.text import comparison_text
from natstui.cli.root import root
from natstui.errors import NotFound, SessionError, UsageError
from natstui.model.bench.counts import LATENCY_FIELDS, Counts, Latencies
from natstui.model.bench.latency import from_latencies
from natstui.model.bench.plan import BenchmarkPlan, Role
from natstui.model.bench.result import BenchmarkResult
from natstui.model.bench.timeline import Timeline
from natstui.values import replace

PLAN = BenchmarkPlan("Some title", "", (Role("p", "publish"),), None, 5.0)


def result(sent: int = 1000, *, totals: int | None = None, cpu: float = 0.5) -> BenchmarkResult:
    counts = Counts(sent_msgs=sent, steady_sent_msgs=sent)
    own = counts if totals is None else replace(counts, sent_msgs=totals)
    book = WorkerCounts("p/0", PLAN.roles[0], 0, counts, own, {})
    worker = WorkerEnd(book, WorkerTimes(2_000_000_000), cpu, "done")
    latencies = Latencies(ack=from_latencies([1_000_000, 2_000_000]))
    return make_result(RunOutcome(PLAN, 1, 0, 9, [worker], latencies, None, None, False, None))


def test_figures_have_the_names_the_assertions_use() -> None:
    figures = metrics(result())
    assert set(figures) == set(metric_names())
    assert (figures["sent"], figures["publish_rate"], figures["lost"]) == (1000, 500, None)
    assert figures["ack.p50"] == pytest.approx(1e6, rel=0.01)
    assert figures["ack.uncorrected.p99"] is None


def test_every_figure_can_be_asserted_of_a_run_that_has_it() -> None:
    measured = Latencies(**dict.fromkeys(LATENCY_FIELDS, from_latencies([1_000_000])))
    whole = replace(result(), latencies=measured, receive_per_s=1.0, fairness_ratio=1.0)
    books = replace(
        whole.accounting, stored_msgs=0, lost_msgs=0, responses_msgs=0, unresponded_msgs=0
    )
    figures = metrics(replace(whole, accounting=books))
    for name in metric_names():
        check = parse_check(f"{name} >= 0{'ms' if '.' in name else ''}", figures)
        assert check.failure(figures) is None, name


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("sent == 1k", True),
        ("sent < 1000", False),
        ("ack.p50 < 1.5ms", True),
        ("ack.max <= 1ms", False),
        ("publish_rate >= 0.5k", True),
        ("lost == 0", False),
    ],
)
def test_a_check_says_what_fails(text: str, holds: bool) -> None:
    figures = metrics(result())
    failure = parse_check(text, figures).failure(figures)
    assert (failure is None) is holds
    assert holds or (failure or "").startswith(text)


@pytest.mark.parametrize("text", ["p99 < 3", "sent", "sent < fast", "ack.p50 < 5", "x == 1"])
def test_a_check_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_check(text, metrics(result()))


def test_reports_that_do_not_add_up_make_the_run_incomplete() -> None:
    wrong = result(totals=1001)
    assert wrong.verdict == "incomplete"
    assert "do not add up" in wrong.notes[0]


def test_a_busy_client_is_not_sold_as_a_slow_server() -> None:
    assert any("client-bound" in note for note in result(cpu=0.95).notes)
    assert result().notes == ()


@pytest.mark.server
def test_a_run_comes_back_from_its_file(tmp_path: Path) -> None:
    run = library.make_saved_run(PLAN, (result(), result(1200)), read_environment(None))
    path = library.save(run, tmp_path)
    assert library.load(path.stem, tmp_path) == run
    assert library.load("some-title", tmp_path) == library.load("-1", tmp_path) == run
    assert library.load(str(path), Path("/nowhere")) == run
    assert run.metrics["sent"] == 1100
    assert "Tag=ack," in path.with_suffix(".hlog").read_text()
    with pytest.raises(NotFound):
        library.load("other", tmp_path)
    told = path.read_text()
    assert '"buckets":[' in told
    for damaged in (
        "{}",
        re.sub(r'"buckets":\[\d+', '"buckets":[999999999999', told),
        told.replace(f'"at_us":{run.at_us}', f'"at_us":{10**17}'),
    ):
        assert damaged != told
        path.write_text(damaged)
        with pytest.raises(SessionError, match="is not a saved benchmark"):
            library.load("some-title", tmp_path)


def received_result() -> BenchmarkResult:
    """Return the result of a publisher and of a subscriber that received everything."""
    sent = Counts(sent_msgs=3, steady_sent_msgs=2)
    received = Counts(received_msgs=3, received_bytes=30, steady_received_msgs=2)
    sequences = ReceivedSequences()
    sequences.add(np.zeros(3, np.int64), np.arange(3))
    books = (
        WorkerCounts("p/0", Role("p", "publish"), 0, sent, sent, {}),
        WorkerCounts("s/0", Role("s", "subscribe"), 0, received, received, sequences.dump()),
    )
    workers = [WorkerEnd(book, WorkerTimes(2_000_000_000), 0.5, "done") for book in books]
    latencies = Latencies(e2e=from_latencies([1_000_000]))
    return make_result(RunOutcome(PLAN, 1, 0, 9, workers, latencies, None, None, False, None))


TIMELINE = Timeline(1_000_000, 3_000_000, 100_000, 1_000_000, (1, 1), (1, 1))
ACCOUNTING = "results[0].accounting"


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        (f"{ACCOUNTING}.acked_msgs", -1, f"{ACCOUNTING}.acked_msgs is -1, which is negative"),
        (f"{ACCOUNTING}.distinct_msgs", -1, f"{ACCOUNTING}.distinct_msgs is -1"),
        (f"{ACCOUNTING}.distinct_msgs", 4, "more than received_msgs, which is 3"),
        (f"{ACCOUNTING}.lost_msgs", 4, "more than expected_msgs, which is 3"),
        (f"{ACCOUNTING}.lost_msgs", 1, "results[0].verdict is ok, but 1 message was lost"),
        (f"{ACCOUNTING}.acked_msgs", 1, "is 1, but that of all workers is 0"),
        (f"{ACCOUNTING}.received_msgs", 2.5, "`$.results[0].accounting.received_msgs`"),
        (f"{ACCOUNTING}.closes", False, "closes is false, which its missing contradicts"),
        ("results[0].workers[1].cpu_ratio", -1, "results[0].workers[1].cpu_ratio is -1"),
        ("results[0].workers[1].counts.steady_received_msgs", 4, "more than received_msgs"),
        ("results[0].workers[0].counts.sent_msgs", 9, "counts is not the sum of the workers"),
        ("results[0].latencies.e2e.counts[0]", -1, "latencies.e2e is no histogram"),
        ("results[0].fairness_ratio", 2, "fairness_ratio is 2.0, which is above 1"),
        ("results", [], "results is empty"),
        ("repetitions", [], "repetitions has 0 entries, and results 1"),
        ("repetitions[0].sent", 1.5, "repetitions[0].sent is 1.5, and 3 by its results"),
        ("metrics.received", 4, "metrics.received is 4"),
        ("timelines[0].published_msgs[1]", -1, "timelines[0].published_msgs[1] is -1"),
        ("timelines[0].slice_us", 0, "timelines[0].slice_us is 0"),
        ("timelines[0].ended_at_us", 1, "timelines[0] has times that are not possible"),
    ],
)
def test_a_saved_run_with_impossible_numbers_is_refused_with_file_and_field(
    tmp_path: Path, field: str, value: Any, sentence: str
) -> None:
    run = library.make_saved_run(PLAN, (received_result(),), read_environment(None), (TIMELINE,))
    sound = library.save(replace(run, name="sound"), tmp_path)
    forged = tmp_path / "forged.json"
    saved = json.loads(sound.read_text())
    *way, last = re.findall(r"\w+", field)
    parent: Any = saved
    for step in way:
        parent = parent[int(step) if step.isdigit() else step]
    parent[int(last) if last.isdigit() else last] = value
    forged.write_text(json.dumps(saved))
    for words in (["show", forged], ["merge", sound, forged], ["compare", sound, forged]):
        answer = CliRunner().invoke(root, ["bench", *map(str, words)])
        assert isinstance(answer.exception, SessionError), answer.output
        assert str(answer.exception).startswith(f"{forged} is not a saved benchmark: ")
        assert sentence in str(answer.exception)


def test_a_run_is_compared_with_the_last_complete_one_of_the_same_plan(tmp_path: Path) -> None:
    def at(second: int, plan: BenchmarkPlan = PLAN, *, partial: bool = False) -> library.SavedRun:
        one = replace(result(), started_at_us=second * 1_000_000)
        run = library.make_saved_run(plan, (one,), read_environment(None))
        return replace(run, partial=partial)

    now = at(50)
    assert library.previous_run(now, tmp_path) is None
    others = (at(10), at(20), at(30, partial=True), at(40, replace(PLAN, duration_s=9.0)), at(60))
    for run in (*others, now):
        library.save(run, tmp_path)
    (tmp_path / f"19700101-000045-000{now.name[len('19700101-000050-000') :]}.json").write_text(
        "{"
    )
    found = library.previous_run(now, tmp_path)
    assert found is not None
    assert (found.at_us, found.latency) == (20_000_000, "ack")
    assert found.publish_per_s == result().publish_per_s


def test_a_long_title_ends_with_a_whole_word_in_the_name() -> None:
    title = "Fan-out to watch: 15,000 to 3, a step every 80 ms"
    saved = library.make_saved_run(replace(PLAN, title=title), (result(),), read_environment(None))
    assert saved.name.endswith("-fan-out-to-watch-15-000-to-3-a-step")


def test_noise_is_no_change_and_a_change_has_an_interval() -> None:
    random = np.random.default_rng(1)
    base = random.normal(1000, 20, 9)
    same = compute_difference("publish_rate", base, random.normal(1000, 20, 9))
    assert same.verdict == "no significant change"
    slower = compute_difference("publish_rate", base, random.normal(800, 20, 9))
    assert slower.verdict.startswith("slower by ")
    assert slower.low_ratio is not None
    assert slower.high_ratio is not None
    assert slower.low_ratio < -0.2 < slower.high_ratio + 0.05
    assert compute_difference("e2e.p99", base, base * 2).verdict.startswith("slower by 100.0%")
    assert "--repeat" in compute_difference("e2e.p99", base[:1], base[:1]).verdict


@pytest.mark.server
def test_only_figures_both_runs_have_are_compared() -> None:
    run = library.make_saved_run(PLAN, (result(), result()), read_environment(None))
    names = {one.metric for one in compare(run, run)}
    assert {"publish_rate", "ack.p50", "ack.p99"} <= names
    assert not any(name.startswith("e2e") for name in names)


def test_a_comparison_has_rates_a_second_and_latencies_in_milliseconds() -> None:
    run = library.make_saved_run(PLAN, (result(),), read_environment(None))
    differences = [
        compute_difference(name, np.array([before]), np.array([after]))
        for name, before, after in (("publish_rate", 1000.0, 1500.0), ("ack.p99", 1.5e6, 3e6))
    ]
    rate, latency = comparison_text(run, run, differences).splitlines()[2:4]
    assert rate.split()[:5] == ["publish_rate", "1000/s", "→", "1500/s", "+50.0%"]
    assert latency.split()[:7] == ["ack.p99", "1.5", "ms", "→", "3", "ms", "+100.0%"]
