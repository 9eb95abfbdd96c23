"""Every column of every answer against plain Python or NumPy, on sessions with planted truths."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins

from natstui.analysis.gold import build as gold
from natstui.analysis.gold.session import SESSION_SUMMARY, find_damaged_recordings
from natstui.analysis.silver.tables import TABLES as SILVER_TABLES
from natstui.model.findings.evaluate import apply_and_evaluate
from natstui.model.findings.recorded import make_report
from natstui.model.live.state import State
from natstui.session.read.recording import Recording
from tests.analysis import (
    by_format,
    oracle_bench,
    oracle_comparison,
    oracle_consumers,
    oracle_events,
    oracle_findings,
    oracle_picture,
    oracle_questions,
    oracle_rates,
    oracle_recorded,
    oracle_rest,
    oracle_verdict,
)
from tests.analysis.alike import assert_alike, assert_keyed
from tests.analysis.by_format import Record, polls_of, read_segments
from tests.analysis.clocks import KNOWN
from tests.analysis.happened import SHORT
from tests.analysis.locally import Answers
from tests.analysis.planted import FIRST, SECOND, THIRD, Analysed
from tests.analysis.troubled import (
    AGED,
    CHANGED,
    CHANGED_TICK,
    CORRUPT_SEGMENTS_COUNT,
    FROZEN,
    TORN_LINES_COUNT,
    UNKNOWN_LINES_COUNT,
)
from tests.session.lost import LOST

pytestmark = pytest.mark.spark

Row = dict[str, Any]
OF_A_SESSION: dict[str, Callable[[str, list[Record]], list[Row]]] = {
    "stream_rate": oracle_rates.stream_rate,
    "consumer_rate": oracle_rates.consumer_rate,
    "lag": oracle_consumers.lag,
    "lag_period": oracle_consumers.lag_period,
    "stuck": oracle_consumers.stuck,
    "redelivery": oracle_consumers.redelivery,
    "redelivery_hot_spot": oracle_consumers.hot_spot,
    "poison": oracle_consumers.poison,
    "ack_time_summary": oracle_consumers.ack_time,
    "availability": oracle_rest.availability,
    "capacity": oracle_rates.capacity,
    "account_capacity": oracle_rates.account_capacity,
    "load": oracle_rates.load,
    "busiest": oracle_rates.busiest,
    "bench_steady": oracle_bench.bench_steady,
    "bench_throughput": oracle_bench.bench_throughput,
    "bench_latency_summary": oracle_bench.bench_latency_summary,
    "bench_account": oracle_bench.bench_account,
    "bench_knee": oracle_bench.bench_knee,
    "picture": oracle_picture.picture,
    "message_size": oracle_rest.message_size,
    "note": oracle_rest.notes,
    "lag_share": oracle_rest.lag_share,
    "api_use": oracle_rest.api_use,
    "server_role": oracle_rest.server_role,
    **oracle_questions.OF_A_SESSION,
}
OF_ALL = {"session", "comparison", "verdict", "findings", "finding_groups", "ephemeral",
          "timeline_event"}  # fmt: skip
"""Tables with tests of their own, below and in `test_ephemeral`."""


def found(analysed: Analysed, table: str) -> list[Row]:
    """Return the rows of a table without the hash of the identity, which stands beside it."""
    rows = analysed.gold[table]
    assert rows, f"{table} is empty: it would be compared with nothing"
    return [{k: v for k, v in row.items() if k != "series_id"} for row in rows]


@pytest.mark.server
def test_every_table_has_an_independent_computation() -> None:
    assert OF_A_SESSION.keys() | OF_ALL == {table.name for table in gold.TABLES}


def test_oracles_know_nothing_of_natstui() -> None:
    for path in [*Path(__file__).parent.glob("oracle_*.py"), Path(by_format.__file__)]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            known = ("tests.analysis.oracle_", "tests.analysis.by_format", "tests.session.by_doc")
            foreign = [name for name in names if name.startswith(("natstui", "benchmarks"))]
            foreign += [n for n in names if n.startswith("tests.") and not n.startswith(known)]
            assert foreign == [], path


NEVER_KNOWN = {
    "comparison.sample",  # null unless a sample was drawn: test_compare.py
    "session.not_judged",  # null unless something was not: test_not_judged.py
}
"""Columns, as `table.column`, that are null in every row of these sessions."""
NO_ROWS = {"ephemeral"}
"""Tables of which these sessions have no rows: test_ephemeral.py."""


def test_every_column_has_values_that_are_compared(analysed: Analysed) -> None:
    assert {table.name for table in gold.TABLES if not analysed.gold[table.name]} == NO_ROWS
    never = {
        f"{table.name}.{column.name}"
        for table in gold.TABLES
        for column in table.columns
        if table.name not in NO_ROWS
        and all(row[column.name] is None for row in analysed.gold[table.name])
    }
    assert never == NEVER_KNOWN, ", ".join(sorted(never))


@pytest.mark.server
@pytest.mark.parametrize("table", OF_A_SESSION)
def test_a_table_is_what_plain_python_finds_in_the_records(analysed: Analysed, table: str) -> None:
    expected = [
        row
        for session, records in analysed.records.items()
        for row in OF_A_SESSION[table](session, records)
    ]
    if table == "stuck":
        expected = [oracle_recorded.with_recorded_cause(analysed.gold, row) for row in expected]
    assert_alike(table, found(analysed, table), expected)


def test_no_two_rows_of_a_table_have_the_same_key(analysed: Analysed) -> None:
    for table in gold.TABLES:
        assert_keyed(table, analysed.gold[table.name])
    for table in filter(lambda table: table.key, SILVER_TABLES):
        rows = getattr(analysed.silver, table.name).select(*table.key).collect()
        assert_keyed(table, [row.asDict() for row in rows])


def test_the_sessions_are_what_their_folders_hold(analysed: Analysed) -> None:
    expected = []
    for folder in analysed.folders:
        damage = planted_damage(folder) if folder.name == THIRD else (0, 0, 0, 0, None)
        records = analysed.records[folder.name]
        expected += oracle_rates.session_summary(folder.name, records, folder, damage)
    assert_alike("session", found(analysed, "session"), expected)


def planted_damage(folder: Path) -> tuple[int, int, int, int, str]:
    (last,) = folder.glob("records-*.jsonl")
    where = f"{last.name}: 2 lines; records-000099.jsonl.gz is damaged"
    return CORRUPT_SEGMENTS_COUNT, TORN_LINES_COUNT, 1, UNKNOWN_LINES_COUNT, where


def test_a_damaged_recording_is_a_finding(analysed: Analysed) -> None:
    (row,) = find_damaged_recordings(analysed.answers.frame(SESSION_SUMMARY.name)).collect()
    told = "1 segment is damaged, 2 lines could not be read and are left out"
    assert (row["session"], row["sentence"]) == (THIRD, told)
    assert row["evidence"] == planted_damage(analysed.folders[2])[-1]


def test_comparisons_are_those_of_welch_and_holm(analysed: Analysed) -> None:
    values = {
        name: oracle_comparison.blocks(name, many) for name, many in analysed.records.items()
    }
    expected = [
        row
        for other in (SECOND, THIRD)
        for row in oracle_comparison.comparison(FIRST, other, values)
    ]
    rows = found(analysed, "comparison")
    assert {row.pop("sample") for row in rows} == {None}
    assert_alike("comparison", rows, expected)


def with_parsed_numbers(rows: list[Row]) -> list[Row]:
    """Return rows of `findings` with their numbers as an object: as a text it has many forms."""
    return [row | {"numbers": row["numbers"] and json.loads(row["numbers"])} for row in rows]


RECORDED = (FIRST, SECOND, KNOWN, LOST, SHORT)
"""Sessions with findings: judged ones, and planted ones that began before or ended in a loss."""


def test_findings_are_those_that_were_recorded(answers: Answers) -> None:
    recorded = answers.of(*RECORDED)
    expected = [
        row
        for session in RECORDED
        for segments in [read_segments(answers.folder(session))]
        for polled_us in [polls_of([one for _, many in segments for one in many])[-1].taken_at_us]
        for row in oracle_findings.findings(session, oracle_findings.reports(segments), polled_us)
    ]
    columns = expected[0].keys()
    assert {column for column in columns if all(row[column] is None for row in expected)} == set()
    assert_alike("findings", with_parsed_numbers(recorded.rows("findings")), expected)
    groups = oracle_findings.finding_groups(expected)
    assert_alike("finding_groups", recorded.rows("finding_groups"), groups)


def judged(folder: Path) -> list[Record]:
    """Return the reports of all findings, by the rules of the screen at every poll."""
    found, state = list[Record](), State()
    for record in Recording(folder, skips_unreadable_parts=True).records():
        before, state = state, apply_and_evaluate(state, record)
        if state.findings is not before.findings:
            now = (*state.findings.ended, *state.findings.list_open_findings())
            found += [Record(**to_builtins(make_report(finding))) for finding in now]
    return found


def test_sessions_without_findings_are_judged_by_the_rules_of_the_screen(
    analysed: Analysed,
) -> None:
    many = judged(analysed.folders[2])
    polled_us = polls_of(analysed.records[THIRD])[-1].taken_at_us
    expected = oracle_findings.findings(THIRD, many, polled_us)
    assert any(row["consumer"] for row in expected)
    rows = with_parsed_numbers(analysed.rows("findings", THIRD))
    # The text of an open finding is recorded every ten seconds at most: it may be an earlier one.
    texts = ("evidence", "sequences", "numbers")
    said = {(one.code, one.since_at_us, one.text) for one in many}
    for row in rows:
        assert (row["code"], row["start_at_us"], row["evidence"]) in said
    for of in (rows, expected):
        of[:] = [row | dict.fromkeys(texts) if row["open"] else row for row in of]
    assert_alike("findings", rows, expected)
    groups = oracle_findings.finding_groups(with_parsed_numbers(analysed.gold["findings"]))
    assert_alike("finding_groups", analysed.gold["finding_groups"], groups)


def test_the_table_and_the_verdict_give_the_same_cause_of_what_was_stuck(
    analysed: Analysed,
) -> None:
    causes = {
        (row["session"], f"{row['stream']} > {row['consumer']}", row["start_at_us"]): row["cause"]
        for row in analysed.gold["stuck"]
    }
    told = [row for row in analysed.gold["verdict"] if row["kind"] == "stuck"]
    assert told
    for row in told:
        cause = causes[row["session"], row["subject"], row["start_at_us"]]
        assert f": {cause}" in row["sentence"]


@pytest.mark.server
def test_the_verdict_is_the_ten_heaviest_findings_of_the_other_tables(analysed: Analysed) -> None:
    assert_alike("verdict", found(analysed, "verdict"), oracle_verdict.verdict(analysed.gold))


def test_events_are_those_of_the_records_and_of_the_other_tables(analysed: Analysed) -> None:
    expected = [
        row
        for session, records in analysed.records.items()
        for row in oracle_events.timeline_event(session, records, analysed.gold)
    ]
    assert_alike("timeline_event", found(analysed, "timeline_event"), expected)
    kinds = {row["kind"] for row in analysed.gold["timeline_event"]}
    assert kinds == {*oracle_events.KINDS}


@pytest.mark.server
def test_the_troubles_planted_in_the_third_session_are_told(analysed: Analysed) -> None:
    kinds = [row["kind"] for row in analysed.rows("availability", THIRD)]
    assert sorted(kinds) == [
        "api_slow", *["disconnected"] * 2, *["unavailable"] * 2, *["unreachable"] * 4
    ]  # fmt: skip
    causes = {row["consumer"]: row["cause"] for row in analysed.rows("stuck", THIRD)}
    assert sorted(causes.values()) == ["no subscriber", "not acked within ack wait", "unknown"]
    assert {int(name[-4:]) for name in causes} == FROZEN.keys()
    spots = analysed.rows("redelivery_hot_spot", THIRD)
    named = {int(row["consumer"][-4:]) for row in spots if row["configured_at_us"]}
    assert named == {CHANGED}
    start_us = min(row["start_at_us"] for row in analysed.rows("session", THIRD))
    changed_us = start_us + CHANGED_TICK * 1_000_000
    assert {r["configured_at_us"] for r in spots if r["configured_at_us"]} == {changed_us}
    rows = sorted(analysed.rows("capacity", THIRD), key=lambda row: row["stream"][-3:])
    limits = {row["msgs_full_in_s"] for row in rows}
    assert {0.0, None} < limits
    # Of some the limit is known, and too far ahead to be told.
    assert any(
        row["max_msgs"] and (row["growth_msgs_per_s"] or 0) > 0 and row["msgs_full_in_s"] is None
        for row in rows
    )
    # Of two that grow alike, one loses its oldest messages before it is full.
    full_in_s = [row["msgs_full_in_s"] for row in rows if int(row["stream"][-3:]) in AGED]
    assert full_in_s == [None, pytest.approx(900, rel=0.05)]
    acked = {row["stream_seq"]: row["acked"] for row in analysed.rows("poison", THIRD)}
    assert acked == {77: True, 80: None}
    (account,) = analysed.rows("account_capacity", THIRD)
    assert account["api_errors_count"] == 6
    assert any(row["behind_max_s"] for row in analysed.rows("lag", THIRD))
