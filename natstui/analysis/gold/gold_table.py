"""The type of a gold table: columns, computation, findings, and its section in a report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from natstui.analysis.defaults import Thresholds
from natstui.analysis.section import Section
from natstui.analysis.silver.layer import Silver
from natstui.analysis.tables import Table

RECORDING_KIND = "recording"
"""Kind of the findings about the recording itself, which affect all other findings."""
TIMELINE_ROWS_COUNT = 2_000
"""Minimum limit of the rows in a result of a table of whose rows the timelines are drawn."""


class GoldInputs(Struct, frozen=True):
    """The inputs for the computation of a gold table."""

    systems: Mapping[str, tuple[str, str]]
    """Session → its server and account (`SessionSource.system`)."""
    silver: Silver
    thresholds: Thresholds
    gold: Callable[[str], DataFrame]
    """Returns the rows of a gold table that is already computed, by its name."""
    is_empty: Callable[[str], bool]
    """Returns whether a computed gold table certainly has no rows, by its name."""
    create_rows: Callable[[Table, Sequence[tuple[Any, ...]]], DataFrame]
    """Returns Python rows as a DataFrame with the columns of a table."""


class GoldTable(Struct, frozen=True):
    """A table of the gold layer, with its computation, findings and section in a report."""

    table: Table
    rows: Callable[[GoldInputs], DataFrame]
    input_names: tuple[str, ...] = ()
    """Names of the gold tables that its computation reads."""
    source_tables: tuple[Table, ...] = ()
    """Tables from which its rows come: if all are empty, it is not computed."""
    findings: tuple[Callable[[DataFrame], DataFrame], ...] = ()
    """Functions that return findings from the rows of this table."""
    section: Section | None = None
    """Its section in a report; None for a table that only notebooks read."""
    sorted_by: tuple[str, ...] = ()
    """Columns by which the rows of a result are sorted; `-` before a name: largest first."""
    max_rows_count: int | None = None
    """Maximum number of its rows in a result; None: the limit of the analysis."""
    min_rows_count: int = 0
    """Minimum limit of its rows in a result, even if the limit of the analysis is smaller."""


def build_findings(
    rows: DataFrame,
    kind: str,
    subject: Column,
    weight: Column,
    texts: tuple[Column, Column],
    cause: Column | None = None,
) -> DataFrame:
    """Return one finding per row, with its period if the row has `start_at_us` and `end_at_us`.

    `texts` are the sentence and its evidence; a higher `weight` is more important. Findings of the
    same kind, subject and cause are reported as one; the default cause is the kind.
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


def join_evidence(*texts: Column | str) -> Column:
    """Return several evidences as one text, without the empty ones; `str` names a column."""
    return F.concat_ws("; ", *(F.nullif(text, F.lit("")) for text in texts))


def consumer_text() -> Column:
    """Return the text `stream > consumer` of a row; only the name that is not null."""
    return F.expr("concat_ws(' > ', stream, consumer)")


def count_text(count: Column, noun: str, plural: str = "") -> Column:
    """Return a count with its noun, as `1 line` or `3 lines`."""
    plural_text = F.lit(f" {plural or noun + 's'}")
    return F.concat(count.cast("string"), F.when(count == 1, f" {noun}").otherwise(plural_text))


def duration_text(name: str) -> Column:
    """Return the duration in column `name` (s) as text, in s, min, h or days."""
    return F.expr(
        f"""
        CASE
            WHEN {name} < 0.5 THEN 'less than 1 s'
            WHEN {name} < 120 THEN format_string('%.0f s', {name})
            WHEN {name} < 7200 THEN format_string('%.0f min', {name} / 60)
            WHEN {name} < 172800 THEN format_string('%.1f h', {name} / 3600)
            ELSE format_string('%.1f days', {name} / 86400)
        END
        """
    )


def moment_text(name: str) -> Column:
    """Return the UTC time in column `name` (µs) as text, to the minute."""
    return F.date_format(F.timestamp_micros(name), "yyyy-MM-dd HH:mm 'UTC'")
