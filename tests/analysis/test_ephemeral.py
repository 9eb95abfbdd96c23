"""Ephemeral consumers with names that differ only by chance are told and shown as one."""

from __future__ import annotations

import statistics
from typing import Any

import pytest
from pyspark.sql import SparkSession

from natstui.analysis.gold.ephemeral import (
    EPHEMERAL,
    compute_ephemeral,
    family_members,
    replace_by_families,
)
from natstui.analysis.gold.rates import CONSUMER_RATE
from natstui.analysis.gold.shared.family import family_of
from natstui.analysis.gold.verdict import rank_findings
from natstui.analysis.report.axis import Axis
from natstui.analysis.report.sections import section_text
from natstui.analysis.report.timeline import lanes_of
from natstui.analysis.silver.layer import Silver
from natstui.analysis.silver.tables import CONFIGURATION, TABLES
from natstui.analysis.tables import Table
from tests.analysis.test_judgement import FOUND

Row = dict[str, Any]
FAMILIES = {
    "dashboard-3f09ac": "dashboard-*",
    "orders_view_X7sQ": "orders_view_*",
    "Jx82kLmP": "*",
    "billing": None,
    "orders-consumer": None,
    "a-b1": None,
}


def test_a_family_is_how_names_begin_that_end_by_chance() -> None:
    assert {name: family_of(name) for name in FAMILIES} == FAMILIES


CONSUMERS = (
    # Stream, name, durable, and of two minutes: watched, delivered, repeated, most pending.
    ("S", "dashboard-3f09ac", False, (60.0, 30.0), 100, 3, 7),
    ("S", "dashboard-99aab0", False, (60.0, 60.0), 20, 0, 90),
    ("S", "dashboard-0a1b2c", False, (15.0, 0.0), 5, 1, 2),
    ("S", "Jx82kLmP", False, (60.0, 60.0), 1, 0, 0),
    ("T", "worker-0001", False, (60.0, 60.0), 1, 0, 0),
    ("T", "worker-0002", True, (60.0, 60.0), 1, 0, 0),
    ("T", "billing", True, (60.0, 60.0), 1, 0, 0),
)


def frames(spark: SparkSession) -> tuple[Silver, Any]:
    """Return silver with the configurations of the consumers, and their rates."""

    def frame(table: Table, rows: list[Row]) -> Any:
        names = [column.name for column in table.columns]
        return spark.createDataFrame([tuple(r.get(n) for n in names) for r in rows], table.ddl())

    configured, rates = [], []
    for stream, name, durable, watched_s, delivered, repeated, pending in CONSUMERS:
        who = {"session": "A", "stream": stream, "consumer": name, "created_at_us": 1}
        configured.append(who | {"at_us": 1, "change_count": 0, "durable": durable})
        for minute, covered_s in enumerate(watched_s):
            # What was delivered is in the first minute, and half of the backlog in the second.
            first = minute == 0
            rates.append(
                who
                | {"bucket_at_us": minute * 60_000_000, "covered_s": covered_s}
                | {"delivered_msgs": delivered * first, "repeated_msgs": repeated * first}
                | {"pending_max_msgs": pending if first else pending // 2}
            )
    empty = {table.name: table.empty_dataframe(spark) for table in TABLES}
    silver = Silver(**{**empty, CONFIGURATION.name: frame(CONFIGURATION, configured)})
    return silver, frame(CONSUMER_RATE, rates)


@pytest.mark.spark
def test_ephemeral_consumers_are_summed_up_by_how_their_names_begin(spark: SparkSession) -> None:
    mine = [one for one in CONSUMERS if one[1].startswith("dashboard-")]
    rows = [row.asDict() for row in compute_ephemeral(*frames(spark)).collect()]
    assert rows == [
        {
            "session": "A", "stream": "S", "name": "dashboard-*", "consumers_count": len(mine),
            "watched_s": statistics.median(sum(one[3]) for one in mine),
            "delivered_msgs": sum(one[4] for one in mine),
            "repeated_msgs": sum(one[5] for one in mine),
            "pending_max_msgs": max(one[6] for one in mine),
        }
    ]  # fmt: skip


@pytest.mark.spark
def test_what_was_found_of_several_of_them_is_told_once(spark: SparkSession) -> None:
    found = [
        ("A", "lag", f"S > {name}", "lag", f"{name} never caught up", "7 pending", None, None, w)
        for name, w in (("dashboard-3f09ac", 50.0), ("dashboard-99aab0", 60.0), ("billing", 55.0))
    ]
    rows = replace_by_families(spark.createDataFrame(found, FOUND), family_members(*frames(spark)))
    told = {row["subject"]: row for row in rank_findings(rows.select(*FOUND_NAMES)).collect()}
    assert told.keys() == {"S > dashboard-*", "S > billing"}
    one = told["S > dashboard-*"]
    assert one["sentence"] == "dashboard-99aab0 never caught up, and 1 more like this"
    assert one["evidence"] == "7 pending; for example dashboard-99aab0"
    assert one["times_count"] == 2 and told["S > billing"]["evidence"] == "7 pending"


FOUND_NAMES = [part.split()[0] for part in FOUND.split(", ")]


def result() -> Row:
    """Return a result with the waits of four consumers, three of them of one family."""

    def table(rows: list[Row], title: str | None = None) -> Row:
        section = title and {"title": title, "columns": [*rows[0]], "empty": "", "optional": False}
        columns = [{"name": name, "type": "string"} for name in rows[0]]
        return {"columns": columns, "rows": [[*row.values()] for row in rows],
                "section": section, "cut": False}  # fmt: skip

    names = ("dashboard-99aab0", "billing", "dashboard-3f09ac", "dashboard-0a1b2c")
    who = [{"session": "A", "stream": "S", "consumer": name, "created_at_us": 1} for name in names]
    spans = [
        row | {"cause": "paused", "start_at_us": 1_000_000 * at, "end_at_us": 1_000_000 * at + 9}
        for at, row in enumerate(who)
    ]
    alike = {"session": "A", "stream": "S", "name": "dashboard-*", "consumers_count": 3}
    tables = {"lag": table(who, "Lag"), "stuck": table(spans, "Stuck"),
              EPHEMERAL.name: table([alike], "Ephemeral")}  # fmt: skip
    return {"sessions": ["A", "B"], "tables": tables}


def test_a_report_shows_the_first_of_a_family_and_how_many_there_are() -> None:
    assert [row[2] for row in section_text(result(), "lag").rows] == [
        "dashboard-99aab0 (1 of 3 dashboard-*)",
        "billing",
    ]
    # Of a table with several rows of one consumer, each row is its own.
    assert len(section_text(result(), "stuck").rows) == 4


def test_a_timeline_has_one_lane_for_a_family() -> None:
    lanes = lanes_of(result(), "A", Axis(0, 10_000_000))
    assert lanes.keys() == {"S > dashboard-*", "S > billing"}
    words = [span.text for span in lanes["S > dashboard-*"]]
    assert words[0] == "dashboard-99aab0: stuck, paused" and len(words) == 3
