"""Tables of the findings with their periods, with the texts and codes of the live catalogue.

The rules are not computed again: silver has their results. A row of `findings` is one period.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from natstui.analysis.gold.gold_table import TIMELINE_ROWS_COUNT, GoldTable, consumer_text
from natstui.analysis.section import Section
from natstui.analysis.silver.layer import Silver
from natstui.analysis.tables import SESSION_COLUMN, Table, columns, lookup_value
from natstui.model.findings.catalogue.every import KINDS, SUCCESSOR_BY_RETIRED_CODE

_ENTITY_COLUMNS = ("session", "code", "stream", "consumer", "created_at_us", "part")
FINDINGS = Table(
    "findings",
    "All findings as the screen showed them, one row per period; computed if none are recorded.",
    columns(
        SESSION_COLUMN,
        ("code", "string", "Code in the catalogue: natstui health --list"),
        ("severity", "string", "Severity: critical, warning or info"),
        ("word", "string", "Name of the finding in the catalogue"),
        ("entity", "string", "Subject of the finding: account, stream, consumer or monitoring"),
        ("stream", "string", "Name of the stream"),
        ("consumer", "string", "Name of the consumer"),
        (
            "part",
            "string",
            "Part of the stream concerned, such as a source, or the data that cannot be read",
        ),
        ("created_at_us", "bigint", "When the stream or consumer was created"),
        ("start_at_us", "bigint", "Start of the finding"),
        ("end_at_us", "bigint", "End of the finding; null while it is open"),
        ("open", "boolean", "Whether the finding lasted until the recording ended"),
        ("duration_s", "double", "Time from begin to end, or to the last poll"),
        ("evidence", "string", "Last text of the finding"),
        ("sequences", "string", "Sequences of the messages concerned, the worst first"),
        ("numbers", "string", "The evidence as numbers, a JSON object"),
        ("severity_id", "bigint", "Sort order: the worst finding has the highest value"),
    ),
    key=(*_ENTITY_COLUMNS, "start_at_us", "end_at_us"),
)
FINDING_GROUPS = Table(
    "finding_groups",
    "The findings by subject, one row per stream, consumer or account and code.",
    columns(
        SESSION_COLUMN,
        ("severity", "string", "Severity: critical, warning or info"),
        ("code", "string", "Code in the catalogue: natstui health --list"),
        ("subject", "string", "Subject"),
        ("word", "string", "Name of the finding in the catalogue"),
        ("times_count", "bigint", "Number of periods of the finding"),
        ("open", "boolean", "Whether the finding lasted until the recording ended"),
        ("start_at_us", "bigint", "Start of the first period"),
        ("end_at_us", "bigint", "End of the last period; null while it is open"),
        ("duration_s", "double", "Total time of all periods; overlaps count once"),
        ("evidence", "string", "Last text of the finding"),
        ("sequences", "string", "Sequences of the messages that the finding named last"),
        ("severity_id", "bigint", "Sort order: the worst finding has the highest value"),
    ),
    key=("session", "code", "subject"),
)


def compute_findings(silver: Silver) -> DataFrame:
    """Return `findings`: one row per stream, consumer or account, code and period."""
    last_values_sql = "struct(until_at_us, text AS evidence, sequences, numbers)"
    # A finding that returns may have the same start as before: each end starts another period.
    # At the same time first a period ends, then one starts, which may end at once.
    order_at_same_time_sql = (
        "CASE WHEN until_at_us IS NULL THEN 1 WHEN since_at_us < at_us THEN 0 ELSE 2 END"
    )
    entity_partition_sql = f"PARTITION BY {', '.join(_ENTITY_COLUMNS)}"
    earlier_rows_sql = (
        f"{entity_partition_sql} ORDER BY at_us, {order_at_same_time_sql} "
        "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
    )
    code = F.coalesce(lookup_value(F.col("code"), SUCCESSOR_BY_RETIRED_CODE, "string"), "code")
    changes = silver.finding.withColumn("code", code)
    changes = changes.withColumn("span", F.expr(f"count(until_at_us) OVER ({earlier_rows_sql})"))
    change_order_sql = "struct(at_us, until_at_us IS NOT NULL)"
    finding_periods = changes.withColumnRenamed("since_at_us", "start_at_us")
    finding_periods = finding_periods.groupBy(*_ENTITY_COLUMNS, "span", "start_at_us").agg(
        F.expr(f"max_by({last_values_sql}, {change_order_sql}) AS last")
    )
    # A period without an end, because the recorder was killed, ends with the next period.
    next_start_sql = f"lead(start_at_us) OVER ({entity_partition_sql} ORDER BY start_at_us, span)"
    finding_periods = finding_periods.selectExpr(
        "*", "last.*", f"coalesce(last.until_at_us, {next_start_sql}) AS end_at_us"
    )
    last_polls = silver.poll.groupBy("session").agg(F.expr("max(at_us) AS polled_at_us"))
    rows = finding_periods.join(F.broadcast(last_polls), "session", "left")
    until_at_us_sql = "coalesce(end_at_us, greatest(polled_at_us, start_at_us))"
    return FINDINGS.conform(
        rows.withColumns(
            {
                "open": F.expr("end_at_us IS NULL"),
                "duration_s": F.expr(f"({until_at_us_sql} - start_at_us) / 1e6"),
                "severity": _catalogue_value("severity"),
                "word": _catalogue_value("word"),
                "entity": _catalogue_value("entity"),
                "severity_id": _catalogue_value("severity_level"),
            }
        )
    )


def _catalogue_value(name: str) -> Column:
    """Return an attribute of the finding kind in the catalogue that has the code of a row.

    Null for an unknown code.
    """
    value_by_code = {kind.code: getattr(kind, name) for kind in KINDS.values()}
    return lookup_value(
        F.col("code"), value_by_code, "bigint" if name == "severity_level" else "string"
    )


def compute_finding_groups(finding_periods: DataFrame) -> DataFrame:
    """Return `finding_groups`: one row per session, subject and code, from `findings`."""
    subject = F.concat_ws(" ", F.nullif(consumer_text(), F.lit("")), "part")
    subject_or_entity = F.when(subject == "", F.col("entity")).otherwise(subject)
    group_columns = ("session", "severity", "severity_id", "code", "word", "subject")
    evidence_and_sequences = F.struct("evidence", "sequences")
    rows = (
        _with_time_apart(finding_periods.withColumn("subject", subject_or_entity), group_columns)
        .groupBy(*group_columns)
        .agg(
            F.count("*").alias("times_count"),
            F.bool_or("open").alias("open"),
            F.min("start_at_us").alias("start_at_us"),
            F.max("end_at_us").alias("over_at_us"),
            F.sum("apart_s").alias("duration_s"),
            F.max_by(evidence_and_sequences, "start_at_us").alias("last"),
        )
    )
    end = F.when(~F.col("open"), F.col("over_at_us"))
    return FINDING_GROUPS.conform(rows.select("*", "last.*").withColumn("end_at_us", end))


def _with_time_apart(finding_periods: DataFrame, group_columns: tuple[str, ...]) -> DataFrame:
    """Add `apart_s`, the seconds of a period that are in no earlier period of its group."""
    until_us = F.col("start_at_us") + F.round(F.col("duration_s") * 1e6).cast("bigint")
    group_order = Window.partitionBy(*group_columns).orderBy("start_at_us", "until_us")
    earlier_rows = group_order.rowsBetween(Window.unboundedPreceding, -1)
    rows = finding_periods.withColumn("until_us", until_us)
    since_us = F.greatest("start_at_us", F.max("until_us").over(earlier_rows))
    apart_s = F.greatest(F.col("until_us") - since_us, F.lit(0).cast("bigint")) / 1e6
    return rows.withColumn("apart_s", apart_s)


GOLD_TABLES = (
    GoldTable(
        FINDING_GROUPS,
        lambda inputs: compute_finding_groups(inputs.gold("findings")),
        input_names=("findings",),
        source_tables=(FINDINGS,),
        section=Section(
            "Findings",
            ("session", "severity", "code", "subject", "word", "times_count", "open",
             "start_at_us", "duration_s", "evidence"),
            "Nothing was found.",
        ),
        sorted_by=("-severity_id", "-duration_s"),
    ),
    GoldTable(
        FINDINGS,
        lambda inputs: compute_findings(inputs.silver),
        sorted_by=("-severity_id", "start_at_us"),
        min_rows_count=TIMELINE_ROWS_COUNT,
    ),
)  # fmt: skip
