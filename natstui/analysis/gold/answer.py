"""What an answer consists of: table, rows, findings, and its place in a report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from natstui.analysis.defaults import Thresholds
from natstui.analysis.section import Section
from natstui.analysis.silver.layer import Silver
from natstui.analysis.tables import Table

RECORDING = "recording"
"""Kind of a finding about the recording itself: what it says bears on all the others."""


@dataclass(frozen=True, slots=True)
class Given:
    """What an answer is computed from."""

    systems: Mapping[str, tuple[str, str]]
    """The server and the account of each session."""
    silver: Silver
    thresholds: Thresholds
    gold: Callable[[str], DataFrame]
    """The rows of a finished answer, by the name of its table."""
    is_empty: Callable[[str], bool]
    """Whether a finished answer is known to have none, by the name of its table."""
    known_rows: Callable[[Table, Sequence[tuple[Any, ...]]], DataFrame]
    """Rows that are known in the driver, as a table."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One table of the gold layer, whole."""

    table: Table
    rows: Callable[[Given], DataFrame]
    needs: tuple[str, ...] = ()
    """Tables that must be finished first, because this one reads their rows."""
    made_of: tuple[Table, ...] = ()
    """Tables of which one must have rows: without any there is no row, and nothing to plan."""
    findings: tuple[Callable[[DataFrame], DataFrame], ...] = ()
    """Each returns what is worth looking at in the rows of this table."""
    section: Section | None = None
    """Its place in a report; None for a table that only notebooks read."""
    sorted_by: tuple[str, ...] = ()
    """Columns that sort the rows of a result; `-` in front sorts the largest first."""
    most_rows_count: int | None = None
    """A result holds at most so many rows of it."""
    least_rows_count: int = 0
    """A result holds at least so many rows of it, where there are so many."""


def finding(
    rows: DataFrame,
    kind: str,
    subject: Column,
    weight: Column,
    words: tuple[Column, Column],
    cause: Column | None = None,
) -> DataFrame:
    """Return one finding per row; `words` are the sentence and its evidence.

    Those of the same kind, subject and cause are told as one.
    """
    sentence, evidence = words
    nothing = F.lit(None).cast("bigint")
    start = F.col("start_at_us") if "start_at_us" in rows.columns else nothing
    end = F.col("end_at_us") if "end_at_us" in rows.columns else nothing
    return rows.select(
        F.col("session").alias("session"),
        F.lit(kind).alias("kind"),
        subject.alias("subject"),
        (F.lit(kind) if cause is None else cause).alias("cause"),
        sentence.alias("sentence"),
        evidence.alias("evidence"),
        start.alias("start_at_us"),
        end.alias("end_at_us"),
        weight.cast("double").alias("weight"),
    )


def consumer_text() -> Column:
    """Return `stream > consumer`."""
    return F.concat_ws(" > ", "stream", "consumer")


def counted(count: Column, noun: str, plural: str = "") -> Column:
    """Return `1 line`, `3 lines`."""
    many = F.lit(f" {plural or noun + 's'}")
    return F.concat(count.cast("string"), F.when(count == 1, f" {noun}").otherwise(many))


def time_text(name: str) -> Column:
    """Return a time in seconds as text, in the unit that fits it."""
    time_s = F.col(name)
    return (
        F.when(time_s < 120, F.format_string("%.0f s", time_s))
        .when(time_s < 7200, F.format_string("%.0f min", time_s / 60))
        .when(time_s < 172_800, F.format_string("%.1f h", time_s / 3600))
        .otherwise(F.format_string("%.1f days", time_s / 86_400))
    )
