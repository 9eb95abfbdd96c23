"""Table of the ten most important findings, each with its evidence and advice.

It only ranks the findings of the other gold tables, with the causes of recorded findings. Findings
are selected by weight and listed by harm.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from natstui.analysis.gold.ephemeral import EPHEMERAL, family_members, replace_by_families
from natstui.analysis.gold.findings import FINDINGS
from natstui.analysis.gold.gold_table import (
    RECORDING_KIND,
    GoldInputs,
    GoldTable,
    count_text,
    join_evidence,
)
from natstui.analysis.gold.rates import CONSUMER_RATE
from natstui.analysis.gold.session import SESSION_SUMMARY
from natstui.analysis.gold.shared.harm import (
    ADVICE_BY_KIND_AND_CAUSE,
    MEANING_BY_HARM,
    RECORDED_KIND,
    STREAM_CODE_PREFIX,
)
from natstui.analysis.gold.shared.recorded_findings import (
    explain_findings,
    name_servers_down,
    recorded_findings,
    without_repeated_findings,
)
from natstui.analysis.section import Section
from natstui.analysis.tables import SESSION_COLUMN, Table, columns, lookup_value

MAX_FINDINGS_COUNT = 10
_FURTHER_FINDING_WEIGHT_FACTOR = 0.85
"""Factor by which each further finding of a kind has less weight."""
MAX_SIMULTANEOUS_S = 30
"""Maximum seconds between the starts of findings that are reported as one."""
MIN_SIMULTANEOUS_COUNT = 3
"""Minimum number of simultaneous findings that are reported as one."""
_MAX_NAMED_FINDINGS_COUNT = 6
_TIMED_KINDS = ("stuck", "lag", "poison", "availability", RECORDED_KIND)
"""Kinds of findings with a start time."""
_KINDS_ABOUT_ASSETS = ("stuck", "lag", "redelivery", "poison", "delay", "capacity", "identity",
                        "change", "availability", RECORDED_KIND)  # fmt: skip
"""Kinds of findings that are merged if they are about the same stream or consumer."""
_RECORDING_FINDINGS_COUNT = 3
"""Number of findings about recordings that are always in the verdict, whatever their weight."""
_SOON_FINDINGS_COUNT = 2
"""Number of findings about harm that comes soon, always in the verdict: other harm was done."""

VERDICT = Table(
    "verdict",
    "The ten most important findings.",
    columns(
        ("rank", "bigint", "1 for the most important"),
        SESSION_COLUMN,
        ("kind", "string", "Kind of finding; of most kinds a table of this name has the details"),
        ("subject", "string", "Subject"),
        ("sentence", "string", "What was found"),
        ("evidence", "string", "Evidence: the numbers of the finding"),
        ("harm", "string", f"Harm: {', '.join(MEANING_BY_HARM)}, the worst first"),
        ("code", "string", "Code in the catalogue (natstui health --list); null for others"),
        ("advice", "string", "What to check, and what to do"),
        ("start_at_us", "bigint", "When it began"),
        ("end_at_us", "bigint", "End, as far as recorded"),
        ("weight", "double", "0 to 100"),
        (
            "times_count",
            "bigint",
            "Number of findings of this kind, subject and cause; the worst one is shown",
        ),
        ("sessions_count", "bigint", "Sessions with these findings"),
        ("others_count", "bigint", "Streams and consumers with the same finding at that time"),
    ),
    key=("rank",),
)


def verdict_table(other_tables: Sequence[GoldTable]) -> GoldTable:
    """Return the gold table `verdict`, which ranks the findings of all other gold tables."""
    tables_with_findings = [table for table in other_tables if table.findings]

    def rows(inputs: GoldInputs) -> DataFrame:
        # A table without rows has no findings, and would only make the plan longer.
        non_empty_tables = [
            gold_table
            for gold_table in tables_with_findings
            if not inputs.is_empty(gold_table.table.name)
        ]
        finding_tables = [
            create_findings(inputs.gold(gold_table.table.name))
            for gold_table in non_empty_tables or tables_with_findings[:1]
            for create_findings in gold_table.findings
        ]
        rows = reduce(lambda rows, part: rows.unionAll(part), finding_tables)
        finding_periods, sessions = inputs.gold(FINDINGS.name), inputs.gold(SESSION_SUMMARY.name)
        rows = explain_findings(rows, finding_periods, sessions)
        if not inputs.is_empty(FINDINGS.name):
            rows = rows.transform(name_servers_down, finding_periods)
            rows = rows.unionAll(recorded_findings(finding_periods))
            rows = without_repeated_findings(rows, _advice_field("code"), _advice_field("harm"))
        if not inputs.is_empty(EPHEMERAL.name):
            members_of_families = family_members(inputs.silver, inputs.gold(CONSUMER_RATE.name))
            rows = replace_by_families(rows, members_of_families)
        return rank_findings(rows)

    return GoldTable(
        VERDICT,
        rows,
        input_names=(*(gold_table.table.name for gold_table in tables_with_findings),
                     FINDINGS.name, EPHEMERAL.name, CONSUMER_RATE.name),
        section=Section(
            "Needs attention",
            ("rank", "harm", "code", "session", "subject", "sentence", "evidence",
             "start_at_us", "advice"),
            "Nothing stands out.",
        ),
        sorted_by=("rank",),
    )  # fmt: skip


def rank_findings(findings: DataFrame) -> DataFrame:
    """Return `verdict`: the ten findings with the largest weight, sorted by harm.

    The weight of each further finding of a kind is reduced. Each stream and consumer is listed
    once. The worst findings about recordings and about harm that comes soon are always selected.
    """
    rows = (
        findings.transform(merge_equal_findings)
        .transform(_without_explained_lag)
        .transform(merge_simultaneous)
        .transform(merge_by_subject)
    )
    kind_order = Window.partitionBy("kind").orderBy(
        F.col("weight").desc(), "subject", "cause", "start_at_us"
    )
    rank = F.row_number().over(kind_order)
    weight = F.col("weight") * F.pow(F.lit(_FURTHER_FINDING_WEIGHT_FACTOR), rank - 1)
    rows = rows.withColumns({"rank": rank, "weight": weight, "harm": _advice_field("harm")})
    worst_first_order = (F.col("weight").desc(), "kind", "subject", "cause")
    harm_order = Window.partitionBy("harm").orderBy(*worst_first_order)
    is_about_recording = F.col("kind") == RECORDING_KIND
    is_soon = F.coalesce(F.col("harm") == "soon", F.lit(False))
    is_near_limit = is_soon & (F.row_number().over(harm_order) <= _SOON_FINDINGS_COUNT)
    is_always_selected = is_near_limit | (
        is_about_recording & (F.col("rank") <= _RECORDING_FINDINGS_COUNT)
    )
    rows = rows.withColumn("is_always_selected", is_always_selected)
    selected_findings = rows.orderBy(F.col("is_always_selected").desc(), *worst_first_order).limit(
        MAX_FINDINGS_COUNT
    )
    selected_findings = selected_findings.withColumns(
        {name: _advice_field(name) for name in ("code", "advice")}
    )
    selected_findings = selected_findings.withColumn("advice", advice_with_names())
    harms = F.array(*(F.lit(harm) for harm in MEANING_BY_HARM))
    order = Window.orderBy(F.array_position(harms, F.col("harm")), *worst_first_order)
    return VERDICT.conform(selected_findings.withColumn("rank", F.row_number().over(order)))


def merge_simultaneous(rows: DataFrame) -> DataFrame:
    """Return the findings; of several with one cause that start together, only the worst."""
    at_us, weight = F.col("start_at_us"), F.col("weight")
    group_columns = ("session", "kind", "cause")
    start_order = Window.partitionBy(*group_columns).orderBy("start_at_us", "subject")
    is_much_later = at_us - F.lag("start_at_us").over(start_order) > MAX_SIMULTANEOUS_S * 1_000_000
    # Findings of other kinds have no start time.
    is_start = F.coalesce(is_much_later, F.lit(True)) | ~F.col("kind").isin(*_TIMED_KINDS)
    rows = rows.withColumn("begins", is_start.cast("int"))
    rows = rows.withColumn("time", F.sum("begins").over(start_order))
    group_window = Window.partitionBy(*group_columns, "time")
    worst_first_order = group_window.orderBy(weight.desc(), "subject")
    rows = rows.withColumns(
        {
            "rank": F.row_number().over(worst_first_order),
            "named": F.concat_ws(
                ", ", *_next_values(worst_first_order, "subject", _MAX_NAMED_FINDINGS_COUNT)
            ),
            "others": F.count("*").over(group_window) - 1,
            "times": F.sum("times_count").over(group_window),
        }
    )
    others_count = F.col("others")
    is_merged = others_count + 1 >= MIN_SIMULTANEOUS_COUNT
    rows = rows.where((F.col("rank") == 1) | ~is_merged)
    more_text = F.when(
        others_count > _MAX_NAMED_FINDINGS_COUNT,
        F.format_string(" and %d more", others_count - _MAX_NAMED_FINDINGS_COUNT),
    ).otherwise("")
    others_text = F.concat(F.lit("also "), "named", more_text)
    others_count_text = F.format_string(" (and %d others at that time)", others_count)
    return rows.withColumns(
        {
            "sentence": F.when(is_merged, F.concat("sentence", others_count_text)).otherwise(
                F.col("sentence")
            ),
            "evidence": F.when(is_merged, join_evidence("evidence", others_text)).otherwise(
                F.col("evidence")
            ),
            "times_count": F.when(is_merged, F.col("times")).otherwise(F.col("times_count")),
            "others_count": F.when(is_merged, others_count).otherwise(0),
        }
    ).drop("begins", "time", "rank", "named", "others", "times")


def _next_values(order: WindowSpec, name: str, count: int) -> list[Column]:
    """Return columns with the value of `name` in each of the next `count` rows."""
    return [F.lead(name, rows_ahead).over(order) for rows_ahead in range(1, count + 1)]


def merge_by_subject(rows: DataFrame) -> DataFrame:
    """Return the findings; of several about the same stream or consumer, only the worst.

    Lost messages are the worst. The evidence names the others, and the largest weight counts.
    """
    is_about_asset = F.col("kind").isin(*_KINDS_ABOUT_ASSETS) & ~F.col("subject").isin(
        "account", "monitoring"
    )
    is_loss = F.coalesce(_advice_field("harm") == "lost", F.lit(False))
    subject_window = Window.partitionBy("session", "subject", "is_of_subject")
    worst_first_order = subject_window.orderBy(
        is_loss.desc(), F.col("weight").desc(), "kind", "cause", "start_at_us"
    )
    other_sentences = F.concat_ws(
        "; ", *_next_values(worst_first_order, "sentence", _MAX_NAMED_FINDINGS_COUNT)
    )
    rows = rows.withColumn("is_of_subject", is_about_asset).withColumns(
        {
            "rank": F.row_number().over(worst_first_order),
            "others": F.nullif(other_sentences, F.lit("")),
            "heaviest": F.max("weight").over(subject_window),
        }
    )
    others_text = F.concat(F.lit("also: "), "others")
    merged_columns = {
        "evidence": join_evidence("evidence", others_text),
        "weight": F.col("heaviest"),
    }
    rows = rows.where(~F.col("is_of_subject") | (F.col("rank") == 1)).withColumns(
        {
            name: F.when(F.col("is_of_subject"), value).otherwise(F.col(name))
            for name, value in merged_columns.items()
        }
    )
    return rows.drop("is_of_subject", "rank", "others", "heaviest")


def advice_with_names() -> Column:
    """Return the advice; its commands have the names of stream and consumer, and the sequence."""
    subject, separator_position = F.col("subject"), F.instr("subject", " > ")
    stream = F.substring_index(subject, " > ", 1)
    consumer = F.when(
        separator_position > 0, F.substring(subject, separator_position + 3, F.length(subject))
    )
    text = F.concat_ws("; ", "sentence", "evidence")
    sequence = F.nullif(F.regexp_extract(text, r"\bmessage (\d+) ", 1), F.lit(""))
    names = {"STREAM": stream, "CONSUMER": consumer, "SEQ": sequence}
    text_with_names: Column = F.col("advice")
    # Placeholders first become control characters: a stream may be called CONSUMER.
    for code_point, placeholder in enumerate(names, 1):
        text_with_names = F.regexp_replace(text_with_names, rf"\b{placeholder}\b", chr(code_point))
    for code_point, (placeholder, name) in enumerate(names.items(), 1):
        replacement = F.coalesce(_quote(name), F.lit(placeholder))
        text_with_names = F.replace(text_with_names, F.lit(chr(code_point)), replacement)
    is_of_asset = (separator_position > 0) | F.coalesce(
        F.startswith("code", F.lit(STREAM_CODE_PREFIX)), F.lit(False)
    )
    return F.when(is_of_asset, text_with_names).otherwise(F.col("advice"))


def _quote(name: Column) -> Column:
    """Return a name quoted for a shell, as `shlex.quote` does."""
    needs_no_quotes = F.regexp_like(name, F.lit(r"^[A-Za-z0-9_@%+=:,./-]+$"))
    escaped_name = F.replace(name, F.lit("'"), F.lit("'\"'\"'"))
    return F.when(needs_no_quotes, name).otherwise(F.concat(F.lit("'"), escaped_name, F.lit("'")))


def _without_explained_lag(rows: DataFrame) -> DataFrame:
    """Leave out findings about the lag of consumers that are stuck."""
    subject_window = Window.partitionBy("subject", "session")
    is_consumer_stuck = F.bool_or(F.col("kind") == "stuck").over(subject_window)
    rows = rows.withColumn("stuck", is_consumer_stuck)
    return rows.where(~((F.col("kind") == "lag") & F.col("stuck"))).drop("stuck")


def _advice_field(name: str) -> Column:
    """Return field `name` of the advice for a finding, by its kind and cause; null if empty."""
    values = {
        f"{kind}/{cause}": getattr(advice, name)
        for (kind, cause), advice in ADVICE_BY_KIND_AND_CAUSE.items()
    }
    return F.nullif(lookup_value(F.concat_ws("/", "kind", "cause"), values), F.lit(""))


def merge_equal_findings(findings: DataFrame) -> DataFrame:
    """Return one finding per kind, subject and cause: that with the largest weight.

    `times_count` is the number of findings that it represents.
    """
    group_columns = ("kind", "subject", "cause")
    shown_fields = F.struct(
        "session", "sentence", "evidence", "start_at_us", "end_at_us", "weight"
    )
    order = F.struct("weight", "session", "start_at_us", "sentence")
    rows = findings.groupBy(*group_columns).agg(
        F.max_by(shown_fields, order).alias("shown"),
        F.count("*").alias("times_count"),
        F.count_distinct("session").alias("sessions_count"),
    )
    sessions_text = F.when(
        F.col("sessions_count") > 1,
        F.concat(F.lit(" in "), count_text(F.col("sessions_count"), "session")),
    ).otherwise("")
    more_text = F.format_string(", and %d more like this", F.col("times_count") - 1)
    sentence = F.when(F.col("times_count") == 1, F.col("sentence")).otherwise(
        F.concat("sentence", more_text, sessions_text)
    )
    rows = rows.select(*group_columns, "shown.*", "times_count", "sessions_count")
    return rows.withColumn("sentence", sentence)
