"""What is worth telling: one thing once, also what passed, and nothing that was chance."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from natstui.analysis.gold.delays import _strongest_delays
from natstui.analysis.gold.findings import FINDINGS, compute_findings
from natstui.analysis.gold.lag import LAG_PERIOD, find_recovered_consumers
from natstui.analysis.gold.session import SESSION_SUMMARY
from natstui.analysis.gold.shared.harm import ADVICE_BY_KIND_AND_CAUSE
from natstui.analysis.gold.shared.recorded_findings import (
    explain_findings,
    name_servers_down,
    recorded_findings,
    without_repeated_findings,
)
from natstui.analysis.gold.verdict import _advice_field, rank_findings
from natstui.analysis.report.axis import Axis, round_up_height
from natstui.analysis.report.page import page
from natstui.analysis.silver.layer import Silver
from natstui.analysis.silver.samples import _LIST_VALUE_BY_COLUMN, _list_values
from natstui.analysis.silver.tables import FINDING
from natstui.model.findings.catalogue.every import KINDS
from natstui.model.live.snapshot import Peer
from natstui.model.servers.replicas import has_lost_leader_contact
from tests.analysis.drawn import result
from tests.analysis.test_rule_cases import ordered
from tests.analysis.test_silver import plan

pytestmark = pytest.mark.spark

_SECOND_US = 1_000_000
_AT_US = 1_790_000_000 * _SECOND_US
FOUND = (
    "session string, kind string, subject string, cause string, sentence string, evidence string, "
    "start_at_us bigint, end_at_us bigint, weight double"
)


def found(
    subject: str, after_s: float, weight: float, kind: str = "availability", session: str = "A"
) -> tuple[Any, ...]:
    cause = "unreachable" if kind == "availability" else "redelivery"
    at_us = _AT_US + round(after_s * _SECOND_US)
    return (
        session,
        kind,
        subject,
        cause,
        f"{kind} of it",
        "so it was",
        at_us,
        at_us + 1,
        float(weight),
    )


def told(spark: SparkSession, *sessions: list[tuple[Any, ...]]) -> list[list[Any]]:
    """Return what is told of each of these sessions: all at once, as to rank takes a second."""
    frame = spark.createDataFrame([row for rows in sessions for row in rows], FOUND)
    ranked = rank_findings(frame).orderBy("rank").collect()
    return [[one for one in ranked if one["session"] == rows[0][0]] for rows in sessions]


def test_what_began_at_once_for_many_is_told_once_and_of_the_worst_and_two_or_later_ones_each(
    spark: SparkSession,
) -> None:
    at_once = [found(f"S > c{n}", after_s=20 * n, weight=70 + n) for n in range(9)]
    pair = [found("S > a", 0, 70, session="B"), found("S > b", 10, 71, session="B")]
    later = [found("S > c", 3600, 72, session="B"), found("S > d", 7200, 73, session="B")]
    # Of these no moment is known.
    whole = [found(f"S > r{n}", 0, 60 + n, "redelivery", "B") for n in range(3)]
    (one,), each = told(spark, at_once, [*pair, *later, *whole])
    assert one["subject"] == "S > c8"
    assert one["sentence"] == "availability of it (and 8 others at that time)"
    assert one["evidence"] == (
        "so it was; also S > c7, S > c6, S > c5, S > c4, S > c3, S > c2 and 2 more"
    )
    assert (one["times_count"], one["others_count"]) == (9, 8)
    assert len(each) == 7
    assert {row["others_count"] for row in each} == {0}
    assert {row["sentence"] for row in each} == {"availability of it", "redelivery of it"}


def test_of_what_a_server_took_along_no_row_has_a_list_of_all(
    spark: SparkSession, much: None
) -> None:
    rows = [found(f"S > c{n:04d}", after_s=n / 1000, weight=70) for n in range(3000)]
    ten = rank_findings(spark.createDataFrame(rows, FOUND))
    assert "collect_list" not in plan(ten)
    (row,) = ten.collect()
    assert row["evidence"].endswith("; also S > c0001, S > c0002, S > c0003, S > c0004, "
                                    "S > c0005, S > c0006 and 2993 more")  # fmt: skip


def test_a_consumer_that_was_behind_and_caught_up_is_told(spark: SparkSession) -> None:
    who = {"session": "A", "stream": "S", "created_at_us": 1}
    when = {"start_at_us": _AT_US, "end_at_us": _AT_US + 781 * _SECOND_US, "duration_s": 781.0}
    rows = [
        who | when | {"consumer": "slow", "pending_max_msgs": 9359, "behind_max_s": 234.0,
                      "open": False},
        # Always something, but nothing old: that is a busy consumer.
        who | when | {"consumer": "busy", "pending_max_msgs": 40, "behind_max_s": 0.9,
                      "open": False},
        who | when | {"consumer": "unknown", "pending_max_msgs": 40, "open": False},
        # Of this one it is told that it never caught up.
        who | when | {"consumer": "still", "pending_max_msgs": 9359, "behind_max_s": 234.0,
                      "open": True},
    ]  # fmt: skip
    periods = spark.createDataFrame(ordered(LAG_PERIOD, rows), LAG_PERIOD.ddl())
    (one,) = find_recovered_consumers(periods).collect()
    assert one["subject"] == "S > slow"
    assert one["sentence"] == "was behind for 13 min, by up to 9359 messages"
    assert one["evidence"] == "the next one waited for up to 4 min"


# Events, growths, seconds until the backlog grows, and whether that is a certain reason.
REASONS = ((3, 3, 5.0, True), (2, 3, 5.0, False), (3, 2, 5.0, False), (3, 3, 0.9, False))


def test_what_happened_once_or_delays_nobody_is_no_certain_reason(spark: SparkSession) -> None:
    names = ["session", "stream", "consumer"]
    ddl = "session string, stream string, consumer string, width_s bigint, wait_s double"
    ddl += ", growths_count bigint"
    rows: list[list[Any]] = [
        ["A", "S", f"c{number}", 30, wait_s, growths_count]
        for number, (_, growths_count, wait_s, _) in enumerate(REASONS)
    ]
    for driver in ("bursts", "repeats", "elections"):
        ddl += f", {driver}_events bigint"
        for row, (events_count, *_) in zip(rows, REASONS, strict=True):
            row.append(events_count)
        for later in range(6):
            ddl += f", {driver}_{later}_r double, {driver}_{later}_n bigint"
            for row in rows:
                row += [0.71 if (driver, later) == ("elections", 4) else None, 76]
    strongest = _strongest_delays(spark.createDataFrame([*map(tuple, rows)], ddl)).collect()
    assert sorted(tuple(row[name] for name in (*names, "certain")) for row in strongest) == [
        ("A", "S", f"c{number}", certain) for number, (*_, certain) in enumerate(REASONS)
    ]
    assert {(row["driver"], row["after_s"]) for row in strongest} == {("elections", 120.0)}


def test_a_replica_is_away_where_the_live_rule_says_so(spark: SparkSession) -> None:
    peers = [
        Peer("n2", current, offline, active_ns, 0)
        for current in (False, True)
        for offline in (False, True)
        for active_ns in (None, 0, 1, 5_000_000_000, 5_000_000_001)
    ]
    names = ", ".join(
        f"{one}: {'boolean' if one in ('current', 'offline') else 'bigint'}"
        for one in Peer.__struct_fields__
        if one != "name"
    )
    lists = [[(one.current, one.offline, one.active_ns, one.lag_msgs)] for one in peers]
    frame = spark.createDataFrame([(lists,)], f"all_peers array<array<struct<{names}>>>")
    away = frame.select(_list_values(_LIST_VALUE_BY_COLUMN["away_peers_count"])).collect()[0][0]
    assert away == [int(has_lost_leader_contact(one)) for one in peers]


@pytest.mark.parametrize(
    ("lasted_s", "written"),
    [
        (40, ["18:48:30", "18:48:40", "18:48:50", "18:49:00"]),
        (3600, ["18:50", "19:00", "19:10", "19:20", "19:30", "19:40"]),
        (
            20_000 * 86_400,
            ["2032-08-07", "2040-06-04", "2048-04-01", "2056-01-28", "2063-11-25", "2071-09-22"],
        ),
        (2 * 86_400, ["11-26", "12:00", "11-27", "12:00"]),
    ],
)
def test_moments_below_a_chart_are_round_and_stand_where_they_are(
    lasted_s: int, written: list[str]
) -> None:
    first_us = 1_795_632_509 * _SECOND_US  # 2026-11-25 18:48:29
    axis = Axis(first_us, first_us + lasted_s * _SECOND_US)
    ticks = re.findall(r'x="([\d.]+)%" y="1em">([^<]*)<', axis.ticks())
    assert [text for _, text in ticks] == written
    places = [float(left) for left, _ in ticks]
    steps = [after - before for before, after in pairwise(places)]
    assert max(steps) - min(steps) < 0.03
    assert 0 <= places[0] <= max(steps) and places[-1] < 97


@pytest.mark.parametrize(
    ("most", "top"),
    [(0.0, 1.0), (1.0, 1.0), (10.1, 12.0), (872.5, 1000.0), (9102, 10_000.0), (0.033, 0.04),
     (1000.0, 1000.0), (0.3, 0.3), (1.0e-9, 1.0e-9)],
)  # fmt: skip
def test_a_chart_ends_at_a_round_number(most: float, top: float) -> None:
    assert round_up_height([0.0, most]) == pytest.approx(top)


def span(stream: str | None, code: str, after_s: int, for_s: float, **more: Any) -> dict[str, Any]:
    """Return a recorded finding."""
    kind = KINDS[code]
    start_us = _AT_US + after_s * _SECOND_US
    return {
        "session": "A", "stream": stream, "created_at_us": 1, "code": code, "word": kind.word,
        "entity": kind.entity, "severity": kind.severity, "severity_id": kind.severity_level,
        "start_at_us": start_us, "end_at_us": start_us + round(for_s * _SECOND_US), "open": False,
        "duration_s": for_s, "evidence": f"{code} then",
    } | more  # fmt: skip


def spans_of(spark: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
    return spark.createDataFrame(ordered(FINDINGS, rows), FINDINGS.ddl())


def test_that_messages_were_refused_is_told_though_the_stream_was_unreachable_too(
    spark: SparkSession,
) -> None:
    spans = spans_of(
        spark,
        [span("S", "NT-S05", 100, 758.0), span("S", "NT-S01", 900, 3.0),
         span("T", "NT-S01", 900, 3.0)],
    )  # fmt: skip
    away = spark.createDataFrame([found("S", 900, 70), found("T", 900, 70)], FOUND)
    rows = away.unionByName(recorded_findings(spans))
    rows = without_repeated_findings(rows, _advice_field("code"), _advice_field("harm"))
    first, *others = rank_findings(rows).orderBy("rank").collect()
    assert (first["subject"], first["code"], first["harm"]) == ("S", "NT-S05", "lost")
    assert first["sentence"] == "stream full for 13 min"
    assert first["evidence"].endswith("; also: availability of it")
    assert [(row["kind"], row["subject"]) for row in others] == [("availability", "T")]


def test_what_began_and_ended_in_one_microsecond_is_not_open(spark: SparkSession) -> None:
    entity = {"session": "A", "part": "server n2", "code": "NT-V27", "created_at_us": 0}
    past_us, now_us, later_us = (_AT_US + second * _SECOND_US for second in (-5, 0, 60))

    def change(since_us: int, until_us: int | None, at_us: int = now_us) -> dict[str, Any]:
        return entity | {"at_us": at_us, "since_at_us": since_us, "until_at_us": until_us}

    # The end of a first period, a period without length, and one that is open.
    rows = [change(now_us, now_us), change(now_us, None), change(past_us, now_us),
            change(past_us, None, past_us), change(later_us, None, later_us)]  # fmt: skip
    poll = spark.createDataFrame([("A", later_us)], "session string, at_us bigint")
    changes = spark.createDataFrame(ordered(FINDING, rows), FINDING.ddl())
    silver = Silver(**dict.fromkeys(Silver.__struct_fields__, poll) | {"finding": changes})
    spans = compute_findings(silver).orderBy("start_at_us").collect()
    periods = [(row["start_at_us"], row["end_at_us"], row["open"]) for row in spans]
    assert periods == [
        (past_us, now_us, False), (now_us, now_us, False), (later_us, None, True),
    ]  # fmt: skip


def test_what_was_over_soon_weighs_less_than_what_lasted(spark: SparkSession) -> None:
    brief = [span("S", "NT-S01", 0, 25.0), span("T", "NT-S01", 0, 31.0)]
    rows = recorded_findings(spans_of(spark, [*brief, span("U", "NT-S01", 0, 25.0, open=True)]))
    weights = {row["subject"]: row["weight"] for row in rows.collect()}
    assert weights["S"] < 32 < 52 < weights["T"] and weights["U"] > 52


def test_a_reason_is_told_with_what_was_known_then_and_not_of_another_time(
    spark: SparkSession,
) -> None:
    spans = spans_of(
        spark,
        [span("S", "NT-C07", 0, 300.0, consumer="c", evidence="that time"),
         span("S", "NT-C07", 3000, 25.0, consumer="c", evidence="another time")],
    )  # fmt: skip
    session = {"session": "A", "start_at_us": _AT_US, "end_at_us": _AT_US + 3600 * _SECOND_US}
    sessions = spark.createDataFrame(ordered(SESSION_SUMMARY, [session]), SESSION_SUMMARY.ddl())
    stuck = ("A", "stuck", "S > c", "unexplained", "stuck for 5 min", "floor 0", _AT_US,
             _AT_US + 300 * _SECOND_US, 70.0)  # fmt: skip
    (row,) = explain_findings(spark.createDataFrame([stuck], FOUND), spans, sessions).collect()
    assert (row["sentence"], row["evidence"]) == (
        "stuck for 5 min: no open pulls", "that time; floor 0",
    )  # fmt: skip


def test_a_lost_contact_names_the_servers_that_were_down_then_and_no_other(
    spark: SparkSession,
) -> None:
    def down(name: str, start_s: int, lasted_s: float, **fields: Any) -> dict[str, Any]:
        return span(None, "NT-V01", start_s, lasted_s, part=f"server {name}", **fields)

    spans = spans_of(
        spark, [down("n1", 0, 60.0), down("n2", 30, 0.0, end_at_us=None), down("n3", 200, 5.0)]
    )
    rows = [
        ("A", "availability", "S", cause, "sentence", "evidence", _AT_US + start_s * _SECOND_US,
         _AT_US + (start_s + 10) * _SECOND_US, 70.0)
        for cause, start_s in (("unreachable", 40), ("leader_absent", 70), ("api_slow", 40))
    ]  # fmt: skip
    named = name_servers_down(spark.createDataFrame(rows, FOUND), spans).collect()
    assert [row["evidence"] for row in named] == [
        "evidence; server n1 and server n2 were down at that time",
        "evidence; server n2 was down at that time", "evidence",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["stuck", "lag"])
@pytest.mark.parametrize("code", ["NT-C07", "NT-C44"])
def test_the_advice_is_that_of_the_recorded_finding_though_another_has_its_label(
    spark: SparkSession, code: str, kind: str
) -> None:
    spans = spans_of(spark, [span("S", code, 0, 300.0, consumer="c", evidence="")])
    session = {"session": "A", "start_at_us": _AT_US, "end_at_us": _AT_US + 300 * _SECOND_US}
    sessions = spark.createDataFrame(ordered(SESSION_SUMMARY, [session]), SESSION_SUMMARY.ddl())
    row = ("A", kind, "S > c", kind, "sentence", "evidence", _AT_US, _AT_US + 300 * _SECOND_US,
           70.0)  # fmt: skip
    explained = explain_findings(spark.createDataFrame([row], FOUND), spans, sessions)
    (ranked,) = rank_findings(explained).collect()
    assert (ranked["code"], ranked["sentence"]) == (code, "sentence: no open pulls")


@pytest.mark.parametrize(("highest", "drawn"), [(140.0, False), (900.0, True)])
def test_latency_over_the_load_is_drawn_only_of_a_run_at_several_loads(
    highest: float, drawn: bool
) -> None:
    found = result()
    table = found["tables"]["bench_knee"]
    names = [column["name"] for column in table["columns"]]
    one = {"session": found["sessions"][0], "run_id": "r", "metric": "e2e", "knee": False}
    rows = [
        one | {"level": n, "p99_us": 10.0 * n, "load_per_s": 100 + (highest - 100) * n / 10}
        for n in range(1, 11)
    ]
    table["rows"] = [[row[name] for name in names] for row in rows]
    assert ("Latency over load" in page(found)) is drawn


def test_a_consumer_has_one_place_and_advice_names_stream_consumer_and_message(
    spark: SparkSession,
) -> None:
    several = [found("S > a", 0, 60), found("S > a", 0, 80, kind="redelivery"),
               found("account", 0, 50), found("account", 0, 40, kind="redelivery")]  # fmt: skip
    several.append(
        ("A", "poison", "S > a", "was dropped after max deliver",
         "message 7 was dropped after max deliver", "9 deliveries", None, None, 45.0)
    )  # fmt: skip
    gave_up, no_pulls, itself, near, *others = (
        ("poison", "was dropped after max deliver", "ORDERS > billing",
         "message 247 was dropped after max deliver"),
        ("stuck", "no open pulls", "ORDERS > a'b", "stuck for 39 s"),
        ("stuck", "no open pulls", "CONSUMER > STREAM", "stuck for 39 s"),
        ("capacity", "near", "ORDERS", "at this growth full in 1.4 h"),
        # Of the account and of monitoring no stream is known.
        ("capacity", "storage near", "account", ""),
        ("availability", "unavailable", "account", ""),
    )  # fmt: skip
    rows = [
        ("B", kind, subject, cause, sentence, "", None, None, 50.0)
        for kind, cause, subject, sentence in (gave_up, no_pulls, itself, near, *others)
    ]
    (first, *rest), with_advice = told(spark, several, rows)
    # What lost messages is told, with the weight of the heaviest, and the others beside it.
    assert (first["subject"], first["kind"], first["harm"]) == ("S > a", "poison", "lost")
    assert first["weight"] == 80
    assert first["evidence"] == ("9 deliveries; also: redelivery of it; availability of it")
    assert [row["subject"] for row in rest] == ["account", "account"]
    advised = {(row["kind"], row["subject"]): row["advice"] for row in with_advice}
    assert "`nats stream get ORDERS 247`" in advised["poison", "ORDERS > billing"]
    quoted = shlex.quote("a'b")
    assert f"`nats consumer next ORDERS {quoted}`" in advised["stuck", "ORDERS > a'b"]
    assert "`nats consumer next CONSUMER STREAM`" in advised["stuck", "CONSUMER > STREAM"]
    for kind, _, subject, _ in (gave_up, no_pulls, near):
        assert not re.search("STREAM|CONSUMER|SEQ", advised[kind, subject])
    for kind, cause, subject, _ in others:
        assert advised[kind, subject] == ADVICE_BY_KIND_AND_CAUSE[kind, cause].advice
