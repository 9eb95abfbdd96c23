"""Recorded findings, joined to the findings of the answers as their cause, or reported separately.

If both are about the same consumer and time, the answer has the duration and the recorded finding
the cause, with code and advice. Recorded findings about other subjects are reported separately.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from natstui.analysis.gold.answer import consumer_text, finding, time_text
from natstui.analysis.gold.telling.harm import LOSS_CODES, RECORDED, REPORTED_SEVERITIES
from natstui.analysis.tables import look_up
from natstui.model.findings.catalogue.consumers import COMES_AGAIN, FALLING_BEHIND, HOLDS_BACK
from natstui.model.findings.catalogue.kind import Kind
from natstui.model.findings.thresholds import MOST_SAMPLES_SHARE, STUCK_AFTER_S

_STUCK = "stuck"
_EXPLAINED: dict[str, tuple[Kind, ...]] = {
    _STUCK: HOLDS_BACK,
    # What held it back says more than that something did.
    "lag": (*HOLDS_BACK, FALLING_BEHIND),
    "redelivery": COMES_AGAIN,
}
"""Kind of an answer's finding → recorded findings that explain it, in order of precedence."""
_OF_ASSETS = (*_EXPLAINED, "poison", "availability", "capacity")
"""Kinds of answers' findings about the state of a stream, consumer or the monitoring."""
_LOST_WEIGHS = 15
_LONG_S = 3600
"""Duration from which a finding has the full weight."""


def _with_reasons(rows: DataFrame, spans: DataFrame, sessions: DataFrame) -> DataFrame:
    """Add `why`, the code of the recorded finding that explains a row, and its inputs.

    The finding was open for most of the row's time, or at the end if the row is about the entire
    session.
    """
    by_subject = spans.where(F.col("consumer").isNotNull()).groupBy(
        "session", consumer_text().alias("subject")
    )
    finding_fields = F.struct("code", "start_at_us", "end_at_us", "evidence", "open")
    by_subject = by_subject.agg(F.sort_array(F.collect_list(finding_fields)).alias("known"))
    bounds = sessions.select(
        "session", F.col("start_at_us").alias("first_us"), F.col("end_at_us").alias("last_us")
    )
    rows = rows.join(by_subject, ["session", "subject"], "left")
    return rows.join(F.broadcast(bounds), "session", "left").withColumn("why", _explaining_code())


def with_explanations(rows: DataFrame, spans: DataFrame, sessions: DataFrame) -> DataFrame:
    """Return findings of the answers with the cause of the recorded finding that explains them."""
    rows = _with_reasons(rows, spans, sessions)
    why, word = F.col("why"), _word(F.col("why"))
    since, until = _start_of_row(), _end_of_row()

    def is_explanation(recorded_finding: Column) -> Column:
        end = F.coalesce(recorded_finding["end_at_us"], until)
        return (
            (recorded_finding["code"] == why)
            & (recorded_finding["start_at_us"] <= until)
            & (end >= since)
        )

    explanations = F.filter("known", is_explanation)
    newest = F.element_at(explanations, F.when(why.isNotNull(), -1))["evidence"]
    cause = F.coalesce(word, F.col("cause"))
    # That it fell behind is what the sentence says already.
    has_new_cause = (F.col("kind") == _STUCK) | (why != FALLING_BEHIND.code)
    sentence = F.when(has_new_cause, F.concat_ws(": ", "sentence", cause))
    return rows.select(
        "session", "kind", "subject",
        cause.alias("cause"),
        F.coalesce(sentence, F.col("sentence")).alias("sentence"),
        F.concat_ws("; ", newest, "evidence").alias("evidence"),
        "start_at_us", "end_at_us", "weight",
    )  # fmt: skip


def with_recorded_cause(stretches: DataFrame, spans: DataFrame, sessions: DataFrame) -> DataFrame:
    """Return the rows of the table `stuck` with the causes of the verdict."""
    names = stretches.columns
    rows = stretches.withColumns({"kind": F.lit(_STUCK), "subject": consumer_text()})
    rows = _with_reasons(rows, spans, sessions)
    cause = F.coalesce(_word(F.col("why")), F.col("cause"))
    return rows.withColumn("cause", cause).select(*names)


def _start_of_row() -> Column:
    return F.coalesce("start_at_us", "first_us")


def _end_of_row() -> Column:
    return F.coalesce("end_at_us", "last_us")


def _explaining_code() -> Column:
    """Return the code of the recorded finding that explains a row; null without one."""
    is_about_session, since, until = F.col("start_at_us").isNull(), _start_of_row(), _end_of_row()

    def open_us(code: Column) -> Column:
        """Return how long findings of a code were open in the row's time; spans may overlap."""
        return F.aggregate(
            F.filter("known", lambda recorded_finding: recorded_finding["code"] == code),
            F.struct(F.lit(0).cast("bigint").alias("us"), since.alias("told_us")),
            lambda total, recorded_finding: _with_span(total, recorded_finding, until),
            lambda total: total["us"],
        )

    def explains(code: Column) -> Column:
        at_end = F.exists(
            "known",
            lambda recorded_finding: (recorded_finding["code"] == code) & recorded_finding["open"],
        )
        return (open_us(code) > (until - since) * MOST_SAMPLES_SHARE) | (is_about_session & at_end)

    # What is only some of it has a cause of its own: messages that the client terminated.
    is_about_all = (F.col("kind") == _STUCK) | (F.col("cause") == F.col("kind"))
    parts = [
        F.when((F.col("kind") == kind) & is_about_all, F.lit([k.code for k in kinds]))
        for kind, kinds in _EXPLAINED.items()
    ]
    return F.get(F.filter(F.coalesce(*parts), explains), F.lit(0))


def _with_span(total: Column, span: Column, until: Column) -> Column:
    """Return a sum of time with that of another span added; spans are sorted by start."""
    end, counted_until_us = F.least(F.coalesce(span["end_at_us"], until), until), total["told_us"]
    more_us = end - F.greatest(span["start_at_us"], counted_until_us)
    added_us = F.greatest(more_us, F.lit(0).cast("bigint"))
    return F.struct(
        (total["us"] + added_us).alias("us"), F.greatest(counted_until_us, end).alias("told_us")
    )


def _word(code: Column) -> Column:
    kinds = {kind.code: kind.word for kinds_of_row in _EXPLAINED.values() for kind in kinds_of_row}
    return look_up(code, kinds)


def recorded_findings(spans: DataFrame) -> DataFrame:
    """Return the worst recorded finding of each entity, for the verdict.

    Lost messages are worse than a higher severity; a short finding has little weight.
    """
    subject = F.coalesce(F.nullif(consumer_text(), F.lit("")), F.col("entity"))
    rows = spans.where(F.col("severity").isin(*REPORTED_SEVERITIES)).withColumn("subject", subject)
    is_loss = F.col("code").isin(*LOSS_CODES)
    worst_first = Window.partitionBy("session", "subject").orderBy(
        is_loss.desc(),
        F.col("severity_id").desc(),
        F.col("duration_s").desc(),
        "start_at_us",
        "part",
    )
    rows = rows.withColumn("rank", F.row_number().over(worst_first)).where("rank = 1")
    is_short = ~F.col("open") & (F.col("duration_s") < STUCK_AFTER_S)
    weight = F.when((F.col("severity") == "critical") & ~is_short, 52).otherwise(31)
    weight += F.when(is_loss & ~is_short, _LOST_WEIGHS).otherwise(0)
    duration_weight = F.least(F.col("duration_s") / _LONG_S, F.lit(1.0)) * 10
    part_text = F.concat(F.lit(" ("), "part", F.lit(")"))
    duration_text = F.concat(F.lit(" for "), time_text("duration_s"))
    sentence = F.concat("word", F.coalesce(part_text, F.lit("")), duration_text)
    texts = (sentence, F.coalesce("evidence", F.lit("")))
    return finding(
        rows, RECORDED, F.col("subject"), weight + duration_weight, texts, F.col("code")
    )


def without_repeated(rows: DataFrame, code: Column, harm: Column) -> DataFrame:
    """Leave out recorded findings that an answer reports too, or with the same weight.

    `code` is the code of a row in the catalogue, `harm` its harm. A finding about lost messages is
    left out only if an answer reports lost messages.
    """
    of_subject, is_of_answer = Window.partitionBy("session", "subject"), F.col("kind") != RECORDED
    codes = F.collect_set(F.when(is_of_answer, code)).over(of_subject)
    is_of_asset, is_loss = F.col("kind").isin(*_OF_ASSETS), harm == "lost"
    heaviest = F.max(F.when(is_of_asset, F.col("weight"))).over(of_subject)
    heaviest_lost = F.max(F.when(is_of_asset & is_loss, F.col("weight"))).over(of_subject)
    is_outweighed = F.when(is_loss, heaviest_lost).otherwise(heaviest) >= F.col("weight")
    is_repeated = F.array_contains(codes, F.col("cause")) | F.coalesce(is_outweighed, F.lit(False))
    rows = rows.withColumn("again", F.coalesce(is_repeated, F.lit(False)))
    return rows.where(is_of_answer | ~F.col("again")).drop("again")
