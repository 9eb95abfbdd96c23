"""Every form and flag of `nats bench` means the same here, or a sentence says how it is said.

Typed from the NATS CLI of July 2026: forms, their flags, and an example of each.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from natstui.bench.plan.flags import with_changes
from natstui.cli.bench import run
from natstui.cli.bench.command import bench
from natstui.cli.bench.options import RunOptions
from natstui.errors import UsageError
from natstui.model.bench.plan import BenchmarkPlan, RateSegment

COMMON = "clients msgs progress csv size"
PUB = "multisubject multisubjectmax multisubjectrandomize payload header"
PACE = "throughput duration sleep"
MADE = "create storage replicas maxbytes dedup dedupwindow purge persistasync"
READS = "consumer batch acks doubleack filter purge stream sleep"
FORMS = {
    "pub x": f"{COMMON} {PUB} {PACE}",
    "sub x": f"{COMMON} multisubject",
    "service request x": f"{COMMON} {PACE} payload header",
    "service serve x": f"{COMMON} sleep",
    "js pub sync x": f"{COMMON} {PUB} {PACE} {MADE} stream",
    "js pub async x": f"{COMMON} {PUB} {PACE} {MADE} stream batch",
    "js pub atomic x": f"{COMMON} {PUB} {PACE} {MADE} stream batch",
    "js pub batch x": f"{COMMON} {PUB} {PACE} {MADE} stream batch",
    "js pub fast x": f"{COMMON} {PUB} {PACE} {MADE} stream batch max-outstanding-acks",
    "js ordered": f"{COMMON} batch purge filter stream sleep",
    "js consume": f"{COMMON} {READS}",
    "js fetch": f"{COMMON} {READS}",
    "js get sync": f"{COMMON} stream sleep",
    "js get batch": f"{COMMON} batch filter stream sleep",
    "kv put": f"{COMMON} {PACE} bucket storage replicas maxbytes history purge randomize",
    "kv get": f"{COMMON} bucket sleep randomize",
}
EXAMPLES = {
    "clients": "3", "msgs": "50", "progress": None, "csv": "out.csv", "size": "1KB",
    "multisubject": None, "multisubjectmax": "70", "multisubjectrandomize": None,
    "payload": "FILE", "header": "A:b", "throughput": "900", "duration": "3s", "sleep": "10ms",
    "create": None, "storage": "memory", "replicas": "3", "maxbytes": "5MB", "dedup": None,
    "dedupwindow": "30s", "purge": None, "persistasync": None, "consumer": "C", "batch": "40",
    "acks": "none", "doubleack": None, "filter": "a.b", "stream": "S", "bucket": "B",
    "history": "4", "randomize": "9", "max-outstanding-acks": "2",
}  # fmt: skip
NEEDED = {
    "js ordered": "--stream S", "js consume": "--stream S", "js fetch": "--stream S",
    "js get sync": "--stream S", "js get batch": "--stream S", "kv get": "--bucket B",
}  # fmt: skip
REFUSED = {
    "js ordered --purge": "natstui stream purge S",
    "js consume --purge": "natstui stream purge S",
    "js fetch --purge": "natstui stream purge S",
    "js ordered --filter": "natstui consumer add S NAME --pull --filter a.b",
    "js consume --filter": "then use --consumer NAME",
    "js fetch --filter": "then use --consumer NAME",
    "js get batch --filter": "first create a consumer with this filter",
    "service serve x --sleep": "a service in a benchmark replies at once",
    "service serve x --msgs": "no role of this benchmark ends after a number of messages",
    "js get batch --sleep": "no role of this benchmark receives",
}
"""And `--persistasync` of every form."""


@pytest.fixture
def plan_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Return what a command line would run, and how."""
    (tmp_path / "body").write_text("hello")

    def planned(line: str) -> tuple[BenchmarkPlan, RunOptions]:
        seen: list[tuple[BenchmarkPlan, RunOptions]] = []

        def keep(plan: BenchmarkPlan, _connection: object, options: RunOptions) -> None:
            seen.append((with_changes(plan, options.plan_changes), options))

        monkeypatch.setattr(run, "run_benchmark", keep)
        words = shlex.split(line.replace("FILE", str(tmp_path / "body")))
        done = CliRunner().invoke(bench, words, catch_exceptions=True)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert (done.exit_code, len(seen)) == (0, 1), (line, done.output)
        return seen[0]

    return planned


def example(form: str, flag: str) -> str:
    value = EXAMPLES[flag]
    needed = NEEDED.get(form, "")
    needed = "" if needed.startswith(f"--{flag} ") else needed
    return f"{form} {needed} --{flag}{'' if value is None else f' {value}'}"


@pytest.mark.parametrize("form", FORMS)
def test_every_flag_of_every_form_is_taken_or_refused_with_how_to_say_it(
    form: str, plan_of: Any
) -> None:
    for flag in FORMS[form].split():
        line = example(form, flag)
        sentence = REFUSED.get(f"{form} --{flag}")
        if flag == "persistasync":
            sentence = "--persist-mode async, then use --stream"
        if sentence is None:
            plan_of(line)
            continue
        with pytest.raises(UsageError) as caught:
            plan_of(line)
        assert sentence in str(caught.value), line


def test_flags_mean_what_they_mean_there(plan_of: Any) -> None:
    plan, options = plan_of(
        "js pub async x --stream S --create --clients 2 --msgs 50 --size 1KB --throughput 900"
        " --storage file --replicas 3 --maxbytes 5MB --dedup --dedupwindow 30s --batch 40"
        " -H A:b -H 'C: d e' --multisubject --multisubjectmax 70 --multisubjectrandomize"
        " --no-progress --csv out.csv --purge"
    )
    (role,) = plan.roles
    assert (role.workers_count, role.total_msgs, role.batch_msgs) == (2, 50, 40)
    assert role.schedule == (RateSegment(None, 900, 900),)
    assert (role.subjects_count, role.subjects_random) == (70, True)
    assert role.payload.headers == (("A", "b"), ("C", "d e"))
    assert (role.payload.size_bytes, role.payload.msg_ids) == (1024, True)
    stream = plan.stream
    assert (stream.name, stream.create, stream.subjects) == ("S", True, ("x.*",))
    assert (stream.storage, stream.replicas_count) == ("file", 3)
    assert (stream.max_bytes, stream.duplicate_window_s) == (5 << 20, 30.0)
    assert (options.shows_progress, options.csv_file) == (False, Path("out.csv"))


def test_flags_of_readers_buckets_and_services(plan_of: Any) -> None:
    (role,) = plan_of("js consume --stream S --consumer C --doubleack --sleep 5ms")[0].roles
    assert (role.consumer, role.acks, role.think_s) == ("C", "double", 0.005)
    (role,) = plan_of("pub x --clients 4 --sleep 10ms")[0].roles
    assert role.schedule == (RateSegment(None, 400.0, 400.0),)
    (role,) = plan_of("js pub fast x --batch 100 --max-outstanding-acks 3")[0].roles
    assert role.window_msgs == 300
    for line in ("js get --stream S", "kv get --bucket B"):
        for flag in ("--rate 400", "--throughput 400", "--clients 4 --sleep 10ms"):
            (role,) = plan_of(f"{line} {flag}")[0].roles
            assert role.schedule == (RateSegment(None, 400.0, 400.0),), (line, flag)
    plan = plan_of("kv put --msgs 500 --history 4")[0]
    assert (plan.roles[0].subjects_count, plan.stream.history_count) == (500, 4)
    plan = plan_of("kv get --bucket B --randomize 9")[0]
    assert (plan.roles[0].subjects_count, plan.roles[0].subjects_random) == (9, True)
    assert plan.stream.create is False
    assert [one.pattern for one in plan_of("service request x")[0].roles] == ["request"]
    assert plan_of("js get batch --stream S")[0].roles[0].pattern == "js-get-batch"
    (role,) = plan_of("pub x --payload FILE")[0].roles
    assert role.payload.kind == "file"
    (role,) = plan_of("sub x --multisubject")[0].roles
    assert role.subjects_count == 100_000


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("oldjs push x --consumer C --maxacks 5 --no-ack", "use natstui bench js push --stream"),
        ("oldjs ordered x", "use natstui bench js ordered --stream"),
        ("oldjs pull x --batch 5", "use natstui bench js fetch --stream"),
        ("pub x --dedup", "only a stream detects duplicates"),
        ("pub x --replicas 3", "works without a stream"),
        ("pub x --header nonsense", "write 'nonsense' as NAME:VALUE"),
        ("pub x --multisubjectmax 0", "use 2 or more"),
        ("js pub async x --stream S --maxbytes 5MB", "this option works only with --create"),
        ("js pub async x --stream S --purge", "natstui stream purge S"),
        ("js push --stream S --consumer C", "a push consumer is always created for the run"),
        ("js get-batch --stream S --rate 100", "no role of this benchmark has a rate"),
        ("sub x --rate 100", "no role of this benchmark has a rate"),
        ("pub x --subs 3", "no role of this benchmark receives"),
        ("js consume --stream S --pubs 5", "no role of this benchmark sends or gets messages"),
        ("pub x --acks none", "no role of this benchmark acknowledges"),
        ("js consume --stream S --storage file", "this option works only with --create"),
        ("kv get", "name the bucket to read: --bucket NAME"),
    ],
)
def test_what_does_not_go_is_one_sentence(line: str, sentence: str, plan_of: Any) -> None:
    with pytest.raises(UsageError) as caught:
        plan_of(line)
    assert sentence in str(caught.value)
