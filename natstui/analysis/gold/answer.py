"""The type of an answer: table, rows, findings, and its place in a report."""

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
"""Kind of a finding about the recording itself, which affects all other findings."""


@dataclass(frozen=True, slots=True)
class AnswerInputs:
    """The inputs of the computation of an answer."""

    systems: Mapping[str, tuple[str, str]]
    """Session → its server and account."""
    silver: Silver
    thresholds: Thresholds
    gold: Callable[[str], DataFrame]
    """Returns the rows of a finished answer, by the name of its table."""
    is_empty: Callable[[str], bool]
    """Returns whether a finished answer is known to have no rows, by the name of its table."""
    known_rows: Callable[[Table, Sequence[tuple[Any, ...]]], DataFrame]
    """Returns rows of the driver as a DataFrame with the columns of a table."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A table of the gold layer, with its computation and its place in a report."""

    table: Table
    rows: Callable[[AnswerInputs], DataFrame]
    needs: tuple[str, ...] = ()
    """Names of the tables whose rows this answer reads."""
    made_of: tuple[Table, ...] = ()
    """Tables from which its rows are made: if all are empty, it is not computed."""
    findings: tuple[Callable[[DataFrame], DataFrame], ...] = ()
    """Functions that return the findings in the rows of this table."""
    section: Section | None = None
    """Its section in a report; None for a table that only notebooks read."""
    sorted_by: tuple[str, ...] = ()
    """Columns by which the rows of a result are sorted; `-` before a name: largest first."""
    most_rows_count: int | None = None
    """Maximum of its rows in a result; None: the default of results."""
    least_rows_count: int = 0
    """Rows that a result must include, even with a smaller limit."""


def finding(
    rows: DataFrame,
    kind: str,
    subject: Column,
    weight: Column,
    texts: tuple[Column, Column],
    cause: Column | None = None,
) -> DataFrame:
    """Return one finding per row; `texts` are the sentence and its evidence.

    Findings of the same kind, subject and cause are reported as one.
    """
    sentence, evidence = texts
    names, null = rows.columns, F.expr("CAST(NULL AS bigint)")
    start, end = (F.col(n) if n in names else null for n in ("start_at_us", "end_at_us"))
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
    """Return the text `stream > consumer` of a row."""
    return F.expr("concat_ws(' > ', stream, consumer)")


def counted(count: Column, noun: str, plural: str = "") -> Column:
    """Return a count with its noun, as `1 line` or `3 lines`."""
    plural_text = F.lit(f" {plural or noun + 's'}")
    return F.concat(count.cast("string"), F.when(count == 1, f" {noun}").otherwise(plural_text))


def time_text(name: str) -> Column:
    """Return the text of a time in seconds, in a fitting unit."""
    return F.expr(
        f"""
        CASE
            WHEN {name} < 120 THEN format_string('%.0f s', {name})
            WHEN {name} < 7200 THEN format_string('%.0f min', {name} / 60)
            WHEN {name} < 172800 THEN format_string('%.1f h', {name} / 3600)
            ELSE format_string('%.1f days', {name} / 86400)
        END
        """
    )


def moment(name: str) -> Column:
    """Return the text of a UTC time in the format of `units.moment_text`, without seconds."""
    return F.date_format(F.timestamp_micros(name), "yyyy-MM-dd HH:mm 'UTC'")
