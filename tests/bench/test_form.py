"""The form of a benchmark: read from a scenario, written as one, and said as a command."""

import shlex

import pytest
from click.testing import CliRunner

from natstui.bench.plan.flags import with_changes
from natstui.bench.plan.scenario import built_in_scenarios, find_scenario, read_scenario
from natstui.model.bench.patterns import patterns_with
from natstui.model.bench.plan import BenchmarkPlan, RateSegment
from natstui.tui.bench.scenarios import scenario_row
from natstui.tui.bench.setup.document import parse_document, texts_of, to_toml, with_texts
from natstui.tui.bench.setup.fields import (
    BENCHMARK_FIELDS,
    RECEIVING_KIND_AND_METHOD,
    SENDING_KIND_AND_METHOD,
    find_errors,
    next_round_rate,
)
from natstui.tui.bench.setup.preview import command_text, drawing_lines, preview_lines
from natstui.values import replace

FAN_OUT = parse_document(built_in_scenarios()["fanout"])


def changed(document: dict[str, object], **texts: str) -> tuple[BenchmarkPlan, str]:
    """Return what a form means after changes, and its command."""
    meant = texts_of(document) | texts
    assert find_errors(meant) == {}
    assert set(meant) == {field.path for field in BENCHMARK_FIELDS}
    plan = read_scenario(to_toml(with_texts(document, meant)), "form")
    return plan, command_text(document, meant, None)


def test_every_pattern_is_in_the_form() -> None:
    assert set(SENDING_KIND_AND_METHOD) == patterns_with(lambda row: row.has_own_end)
    assert set(RECEIVING_KIND_AND_METHOD) == patterns_with(lambda row: row.receives or row.replies)


@pytest.mark.parametrize("name", built_in_scenarios())
def test_a_scenario_passes_through_the_form_unchanged(name: str) -> None:
    document = parse_document(built_in_scenarios()[name])
    again = read_scenario(to_toml(with_texts(document, texts_of(document))), name)
    before = find_scenario(name)
    assert {role.name: role for role in again.roles} == {r.name: r for r in before.roles}
    assert replace(again, roles=()) == replace(before, roles=())
    command = command_text(document, texts_of(document), (name, document))
    assert command == f"natstui bench {name}" or command.startswith("natstui bench pubsub bench")


def test_fields_change_what_they_say() -> None:
    plan, _ = changed(
        FAN_OUT, shape="stream", publish="sync", consume="push", publishers="2", consumers="4",
        size="64KB", rate="burst 50 every 100ms", msgs="", duration="5s", subject="a.b",
        stream="MINE", storage="file", replicas="3", acks="all",
        faults="kill subscribers 2s; add subscribers 3s", checks="lost == 0; e2e.p99 < 20ms",
    )  # fmt: skip
    subs, pubs = plan.roles
    assert (subs.pattern, subs.workers_count, subs.acks) == ("js-push", 4, "all")
    assert (pubs.pattern, pubs.workers_count, pubs.total_msgs) == ("js-publish-sync", 2, None)
    assert (pubs.schedule[0].burst_msgs, pubs.payload.size_bytes) == (50, 65536)
    assert {subs.subject, pubs.subject} == {"a.b"}
    assert plan.stream is not None
    assert (plan.stream.name, plan.stream.storage, plan.stream.replicas_count) == (
        "MINE",
        "file",
        3,
    )
    assert [(one.kind, one.at_s) for one in plan.faults] == [("kill", 2.0), ("add", 3.0)]
    assert (plan.duration_s, plan.assertions) == (5.0, ("lost == 0", "e2e.p99 < 20ms"))


@pytest.mark.parametrize(
    ("texts", "pattern"),
    [
        ({"shape": "request", "msgs": "10"}, "request"),
        ({"shape": "respond", "msgs": "10"}, "js-request"),
        ({"shape": "read", "read": "batch", "msgs": "10", "stream": "S"}, "js-get-batch"),
        ({"shape": "kv", "keys": "put", "msgs": "10", "stream": "B"}, "kv-put"),
        ({"shape": "stream", "consumers": "0"}, "js-publish-async"),
    ],
)
def test_every_kind_of_benchmark_is_a_plan_and_comes_back_to_core(
    texts: dict[str, str], pattern: str
) -> None:
    plan, _ = changed(FAN_OUT, **texts)
    assert pattern in {role.pattern for role in plan.roles}
    there = with_texts(FAN_OUT, texts_of(FAN_OUT) | texts)
    back, _ = changed(there, shape="core", consumers="3", publishers="1", msgs="15k", subject="x")
    assert {role.pattern for role in back.roles} == {"publish", "subscribe"}
    assert (back.stream, back.responses) == (None, None)


def test_the_form_keeps_the_rate_of_gets() -> None:
    document = with_texts(
        FAN_OUT,
        texts_of(FAN_OUT) | {"shape": "read", "read": "one", "msgs": "10", "stream": "S",
                             "rate": "100"},
    )  # fmt: skip
    plan, _ = changed(document)
    assert plan.roles[0].schedule == (RateSegment(None, 100, 100),)
    assert preview_lines(texts_of(document))[0] == "100/s read, 10 in all"


@pytest.mark.parametrize(
    ("path", "text", "sentence"),
    [
        ("publishers", "two", "Publishers: 'two' is not a number"),
        ("rate", "fast", "Rate: 'fast' is not a number"),
        ("rate", "burst 5 every apple", "is not a duration"),
        ("size", "big", "Size: "),
        ("duration", "5 apples", "is not a duration"),
        ("faults", "boom", "Faults: write 'boom' like this: kill consumers 4s"),
    ],
)
def test_a_wrong_field_is_one_sentence(path: str, text: str, sentence: str) -> None:
    (found,) = find_errors(texts_of(FAN_OUT) | {path: text}).values()
    assert sentence in found


def test_a_field_the_pattern_does_not_have_is_never_wrong() -> None:
    assert find_errors(texts_of(FAN_OUT) | {"replicas": "many"}) == {}


def test_the_rate_slides_over_round_numbers() -> None:
    rates = ["1500"]
    for _ in range(3):
        rates.append(next_round_rate(rates[-1], 1))
    assert rates == ["1500", "2000", "5000", "10000"]
    assert (next_round_rate("2000", -1), next_round_rate("1", -1), next_round_rate("", 1)) == (
        "1000",
        "",
        "1",
    )
    assert next_round_rate("burst 5 every 1s", 1) == "burst 5 every 1s"


def test_the_preview_says_what_goes_over_the_wire_and_onto_the_disk() -> None:
    texts = texts_of(FAN_OUT) | {"rate": "1000", "msgs": "", "duration": "10s"}
    assert preview_lines(texts) == [
        "1000/s sent, 3000/s received (500 KiB/s), 10.0k in all", "nothing is stored",
    ]  # fmt: skip
    stored = texts | {"shape": "stream", "storage": "file", "replicas": "3", "subject": "bench"}
    # 10,000 messages of 30 bytes of frame, 5 of subject and 128 of payload.
    assert preview_lines(stored)[1] == "1.55 MiB on disk, on 3 servers each"
    assert (
        preview_lines(stored | {"rate": ""})[1]
        == "163 B on disk for each message, on 3 servers each"
    )


COMMANDS: list[dict[str, str]] = [
    {},
    {"publishers": "2", "consumers": "1", "rate": "5k", "size": "1KB"},
    {"consumers": "0", "duration": "2s", "msgs": ""},
    {"publishers": "0", "consumers": "2", "msgs": "50"},
    {"shape": "request", "consumers": "2", "msgs": "100"},
    {"shape": "stream", "storage": "file", "stream": "MINE", "acks": "none"},
    {"shape": "stream", "publish": "fast", "consumers": "0", "checks": "lost == 0"},
    {"shape": "read", "read": "batch", "stream": "S", "publishers": "3"},
]


@pytest.mark.parametrize("texts", COMMANDS)
def test_the_command_does_what_the_form_does(
    texts: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from natstui.cli.bench import run
    from natstui.cli.bench.command import bench

    plan, command = changed(FAN_OUT, **texts)
    assert command.startswith("natstui bench ")
    assert "FILE" not in command
    seen: list[BenchmarkPlan] = []

    def keep(planned: BenchmarkPlan, _connection: object, options: object) -> None:
        seen.append(with_changes(planned, options.plan_changes))  # type: ignore[attr-defined]
        assert options.check_texts == plan.assertions  # type: ignore[attr-defined]

    monkeypatch.setattr(run, "run_benchmark", keep)
    done = CliRunner().invoke(bench, shlex.split(command)[2:], catch_exceptions=False)
    assert (done.exit_code, len(seen)) == (0, 1), done.output

    def meant(of: BenchmarkPlan) -> object:
        # A flag is for every role; only who consumes acknowledges.
        roles = {
            replace(role, name="", acks=role.acks if role.traits.consumes else "explicit")
            for role in of.roles
        }
        stream = (
            None if of.stream is None else replace(of.stream, subjects=(), allow_batches=False)
        )
        return roles, stream, of.duration_s, of.faults

    assert meant(seen[0]) == meant(plan)


def test_what_no_short_form_says_is_a_change_of_the_scenario_or_a_file() -> None:
    knee = parse_document(built_in_scenarios()["soak"])
    texts = texts_of(knee)
    assert command_text(knee, texts | {"duration": "5m"}, ("soak", knee)) == (
        "natstui bench soak --duration 5m"
    )
    assert "FILE" in command_text(knee, texts | {"replicas": "3"}, ("soak", knee))
    assert "FILE" in command_text(knee, texts | {"duration": "5m"}, None)


@pytest.mark.parametrize(("changes", "line"), [
    ({}, "1 publisher → bench → 3 subscribers"),
    ({"publishers": "0"}, "bench → 3 subscribers"),
    ({"shape": "request"}, "1 requester ⇄ bench ⇄ 3 responders"),
    ({"shape": "stream", "stream": "S", "publishers": "2"}, "2 publishers → S → 3 consumers"),
    ({"shape": "read", "stream": "MINE"}, "MINE → 1 reader"),
    ({"shape": "kv", "stream": "MINE"}, "1 client → MINE"),
])  # fmt: skip
def test_who_sends_through_what_to_whom_is_drawn(changes: dict[str, str], line: str) -> None:
    texts = texts_of(FAN_OUT) | changes
    assert drawing_lines(texts, 20) == [line]
    boxes = drawing_lines(texts, 90)
    assert len(boxes) == 3
    assert [box.strip() for box in boxes[1].split("│")[1::2]] == line.replace("⇄", "→").split(
        " → "
    )


def test_the_rate_stands_on_the_arrow() -> None:
    texts = texts_of(FAN_OUT) | {"rate": "2000"}
    assert "── 2000/s ─▶" in drawing_lines(texts, 90)[1]


def test_a_scenario_is_a_row_of_a_table() -> None:
    row = scenario_row("fanout", "Fan-out: 1 publisher", built_in_scenarios()["fanout"])
    assert row.split()[:7] == ["fanout", "core", "1", "→", "3", "15k", "max"]
    knee = scenario_row("knee", "Find the knee", built_in_scenarios()["knee"])
    assert knee.index("stream") == row.index("core") and knee.index("Find") == row.index("Fan-out")
