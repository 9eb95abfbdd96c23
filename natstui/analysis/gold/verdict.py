"""Answer 9: the ten most important findings, each with its evidence and advice.

It only ranks the findings of all answers, with the causes of recorded findings. They are selected
by weight and listed by harm.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from natstui.analysis.gold.answer import RECORDING, Answer, AnswerInputs, counted
from natstui.analysis.gold.ephemeral import EPHEMERAL, as_families, members
from natstui.analysis.gold.findings import FINDINGS
from natstui.analysis.gold.rates import CONSUMER_RATE
from natstui.analysis.gold.session import SESSION_SUMMARY
from natstui.analysis.gold.telling.harm import ADVICE, HARMS, OF_STREAMS, RECORDED
from natstui.analysis.gold.telling.recorded import (
    recorded_findings,
    with_explanations,
    without_repeated,
)
from natstui.analysis.section import Section
from natstui.analysis.tables import SESSION, Table, columns, look_up

MOST_COUNT = 10
_NEXT_OF_A_KIND = 0.85
"""Factor of the weight for each further finding of the same kind."""
AT_ONCE_S = 30
"""Maximum seconds between the starts of findings that have one reason."""
AT_ONCE_LEAST = 3
"""Minimum of streams or consumers that are reported as one finding."""
_MOST_NAMED = 6
_AT_ONCE_KINDS = ("stuck", "lag", "poison", "availability", RECORDED)
"""Kinds of findings with a start time."""
_OF_SUBJECTS = ("stuck", "lag", "redelivery", "poison", "delay", "capacity", "identity",
                "change", "availability", RECORDED)  # fmt: skip
"""Kinds of findings about a stream or consumer, which is listed once with all of them."""
_SURE_COUNT = 3
"""Number of findings about the recordings that are always among the ten, whatever their weight."""

VERDICT = Table(
    "verdict",
    "The ten most important findings.",
    columns(
        ("rank", "bigint", "1 for the most important"),
        SESSION,
        ("kind", "string", "Table with the details of the finding"),
        ("subject", "string", "Subject"),
        ("sentence", "string", "What was found"),
        ("evidence", "string", "Evidence: the numbers of the finding"),
        ("harm", "string", f"Harm: {', '.join(HARMS)}, the worst first"),
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


def answer(others: Sequence[Answer]) -> Answer:
    """Return the answer that ranks the findings of all other answers."""
    answers_with_findings = [other for other in others if other.findings]

    def rows(inputs: AnswerInputs) -> DataFrame:
        # What has no rows has no findings, and is not planned for.
        non_empty = [
            other for other in answers_with_findings if not inputs.is_empty(other.table.name)
        ]
        parts = [
            find(inputs.gold(other.table.name))
            for other in non_empty or answers_with_findings[:1]
            for find in other.findings
        ]
        rows = reduce(lambda rows, part: rows.unionAll(part), parts)
        spans, sessions = inputs.gold(FINDINGS.name), inputs.gold(SESSION_SUMMARY.name)
        rows = with_explanations(rows, spans, sessions)
        if not inputs.is_empty(FINDINGS.name):
            rows = rows.unionAll(recorded_findings(spans))
            rows = without_repeated(rows, _advice_field("code"), _advice_field("harm"))
        if not inputs.is_empty(EPHEMERAL.name):
            group_members = members(inputs.silver, inputs.gold(CONSUMER_RATE.name))
            rows = as_families(rows, group_members)
        return rank_findings(rows)

    return Answer(
        VERDICT,
        rows,
        needs=(*(other.table.name for other in answers_with_findings), FINDINGS.name,
               EPHEMERAL.name, CONSUMER_RATE.name),
        section=Section(
            "Worth looking at",
            ("rank", "harm", "code", "session", "subject", "sentence", "evidence",
             "start_at_us", "advice"),
            "Nothing stands out.",
        ),
        sorted_by=("rank",),
    )  # fmt: skip


def rank_findings(findings: DataFrame) -> DataFrame:
    """Return `verdict`: the ten findings of the largest weight, which is reduced within a kind.

    They are sorted by harm, and each stream and consumer is listed once.
    """
    rows = merge_by_subject(merge_simultaneous(_without_explained_lag(merge_equal(findings))))
    of_kind = Window.partitionBy("kind").orderBy(
        F.col("weight").desc(), "subject", "cause", "start_at_us"
    )
    rank = F.row_number().over(of_kind)
    weight = F.col("weight") * F.pow(F.lit(_NEXT_OF_A_KIND), rank - 1)
    is_certain = (F.col("kind") == RECORDING) & (rank <= _SURE_COUNT)
    rows = rows.withColumns({"weight": weight, "sure": is_certain})
    worst_first = (F.col("weight").desc(), "kind", "subject", "cause")
    selected = rows.orderBy(F.col("sure").desc(), *worst_first).limit(MOST_COUNT)
    selected = selected.withColumns(
        {name: _advice_field(name) for name in ("harm", "code", "advice")}
    )
    selected = selected.withColumn("advice", named_advice())
    harms = F.array(*(F.lit(harm) for harm in HARMS))
    order = Window.orderBy(F.array_position(harms, F.col("harm")), *worst_first)
    return VERDICT.contract(selected.withColumn("rank", F.row_number().over(order)))


def merge_simultaneous(rows: DataFrame) -> DataFrame:
    """Return findings with those that started at the same time merged into the worst."""
    at_us, weight = F.col("start_at_us"), F.col("weight")
    group_columns = ("session", "kind", "cause")
    in_order = Window.partitionBy(*group_columns).orderBy("start_at_us", "subject")
    is_apart = at_us - F.lag("start_at_us").over(in_order) > AT_ONCE_S * 1_000_000
    # Of some only what they came to is known, and not since when.
    is_start = F.coalesce(is_apart, F.lit(True)) | ~F.col("kind").isin(*_AT_ONCE_KINDS)
    rows = rows.withColumn("begins", is_start.cast("int"))
    rows = rows.withColumn("time", F.sum("begins").over(in_order))
    of_group = Window.partitionBy(*group_columns, "time")
    worst_first = of_group.orderBy(weight.desc(), "subject")
    rows = rows.withColumns(
        {
            "rank": F.row_number().over(worst_first),
            "named": F.concat_ws(", ", *_next_values(worst_first, "subject", _MOST_NAMED)),
            "others": F.count("*").over(of_group) - 1,
            "times": F.sum("times_count").over(of_group),
        }
    )
    others = F.col("others")
    is_merged = others + 1 >= AT_ONCE_LEAST
    rows = rows.where((F.col("rank") == 1) | ~is_merged)
    more_text = F.when(
        others > _MOST_NAMED, F.format_string(" and %d more", others - _MOST_NAMED)
    ).otherwise("")
    others_text = F.concat(F.lit("also "), "named", more_text)
    count_text = F.format_string(" (and %d others at that time)", others)
    return rows.withColumns(
        {
            "sentence": F.when(is_merged, F.concat("sentence", count_text)).otherwise(
                F.col("sentence")
            ),
            "evidence": F.when(is_merged, F.concat_ws("; ", "evidence", others_text)).otherwise(
                F.col("evidence")
            ),
            "times_count": F.when(is_merged, F.col("times")).otherwise(F.col("times_count")),
            "others_count": F.when(is_merged, others).otherwise(0),
        }
    ).drop("begins", "time", "rank", "named", "others", "times")


def _next_values(order: WindowSpec, name: str, count: int) -> list[Column]:
    """Return a column of each of the next `count` rows, instead of an array of all."""
    return [F.lead(name, further).over(order) for further in range(1, count + 1)]


def merge_by_subject(rows: DataFrame) -> DataFrame:
    """Return findings with those of one stream or consumer merged into the worst.

    Lost messages are the worst. The others are named in its evidence, and their weight counts.
    """
    is_of_subject = F.col("kind").isin(*_OF_SUBJECTS) & ~F.col("subject").isin(
        "account", "monitoring"
    )
    is_lost = F.coalesce(_advice_field("harm") == "lost", F.lit(False))
    of_subject = Window.partitionBy("session", "subject", "is_of_subject")
    worst_first = of_subject.orderBy(
        is_lost.desc(), F.col("weight").desc(), "kind", "cause", "start_at_us"
    )
    others = F.concat_ws("; ", *_next_values(worst_first, "sentence", _MOST_NAMED))
    rows = rows.withColumn("is_of_subject", is_of_subject).withColumns(
        {
            "rank": F.row_number().over(worst_first),
            "others": F.nullif(others, F.lit("")),
            "heaviest": F.max("weight").over(of_subject),
        }
    )
    others_text = F.concat(F.lit("also: "), "others")
    merged = {
        "evidence": F.concat_ws("; ", "evidence", others_text),
        "weight": F.col("heaviest"),
    }
    rows = rows.where(~F.col("is_of_subject") | (F.col("rank") == 1)).withColumns(
        {
            name: F.when(F.col("is_of_subject"), value).otherwise(F.col(name))
            for name, value in merged.items()
        }
    )
    return rows.drop("is_of_subject", "rank", "others", "heaviest")


def named_advice() -> Column:
    """Return the advice with the names of the stream, consumer and message in its commands."""
    subject, position = F.col("subject"), F.instr("subject", " > ")
    stream = F.substring_index(subject, " > ", 1)
    consumer = F.when(position > 0, F.substring(subject, position + 3, F.length(subject)))
    text = F.concat_ws("; ", "sentence", "evidence")
    sequence = F.nullif(F.regexp_extract(text, r"\bmessage (\d+) ", 1), F.lit(""))
    names = {"STREAM": stream, "CONSUMER": consumer, "SEQ": sequence}
    text_with_names: Column = F.col("advice")
    # First marks that are in no name: a stream may itself be called CONSUMER.
    for mark, placeholder in enumerate(names, 1):
        text_with_names = F.regexp_replace(text_with_names, rf"\b{placeholder}\b", chr(mark))
    for mark, (placeholder, name) in enumerate(names.items(), 1):
        replacement = F.coalesce(_quote(name), F.lit(placeholder))
        text_with_names = F.replace(text_with_names, F.lit(chr(mark)), replacement)
    is_of_asset = (position > 0) | F.coalesce(
        F.startswith("code", F.lit(OF_STREAMS)), F.lit(False)
    )
    return F.when(is_of_asset, text_with_names).otherwise(F.col("advice"))


def _quote(name: Column) -> Column:
    """Return a name quoted for a shell, like `shlex.quote`."""
    is_safe = F.regexp_like(name, F.lit(r"^[A-Za-z0-9_@%+=:,./-]+$"))
    escaped = F.replace(name, F.lit("'"), F.lit("'\"'\"'"))
    return F.when(is_safe, name).otherwise(F.concat(F.lit("'"), escaped, F.lit("'")))


def _without_explained_lag(rows: DataFrame) -> DataFrame:
    """Leave out findings about lag of consumers that have one about being stuck."""
    of_subject = Window.partitionBy("subject", "session")
    has_stuck = F.bool_or(F.col("kind") == "stuck").over(of_subject)
    rows = rows.withColumn("stuck", has_stuck)
    return rows.where(~((F.col("kind") == "lag") & F.col("stuck"))).drop("stuck")


def _advice_field(name: str) -> Column:
    """Return a field of the advice for a finding, by its kind and cause; null without one."""
    values = {f"{kind}/{cause}": getattr(advice, name) for (kind, cause), advice in ADVICE.items()}
    return F.nullif(look_up(F.concat_ws("/", "kind", "cause"), values), F.lit(""))


def merge_equal(findings: DataFrame) -> DataFrame:
    """Return one row per kind, subject and cause: the worst finding, and their number."""
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
    sessions = F.when(
        F.col("sessions_count") > 1,
        F.concat(F.lit(" in "), counted(F.col("sessions_count"), "session")),
    ).otherwise("")
    more_text = F.format_string(", and %d more like this", F.col("times_count") - 1)
    sentence = F.when(F.col("times_count") == 1, F.col("sentence")).otherwise(
        F.concat("sentence", more_text, sessions)
    )
    rows = rows.select(*group_columns, "shown.*", "times_count", "sessions_count")
    return rows.withColumn("sentence", sentence)
