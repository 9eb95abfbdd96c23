"""The recorded findings, told with what the other answers found: why it was, or beside it.

Of the same consumer and time both speak: an answer says how long nothing went on, the recorded
finding why. It gives the cause then, and with it code and advice. What was recorded of something
that no answer speaks of is told by itself.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from natstui.analysis.gold.answer import consumer_text, finding, time_text
from natstui.analysis.gold.telling.harm import LOSING, RECORDED, TOLD_SEVERITIES
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
"""Kind of what an answer found → what explains it: the first that was found at the time."""
_OF_ASSETS = (*_EXPLAINED, "poison", "availability", "capacity")
"""What answers find of a stream, a consumer or the monitoring as it was at the time."""
_LOST_WEIGHS = 15
_LONG_S = 3600
"""A finding that held for so long weighs most."""


def _with_reasons(rows: DataFrame, spans: DataFrame, sessions: DataFrame) -> DataFrame:
    """Add `why`, the code of the recorded finding that explains a row, and what it is found by.

    It was open for most of the time that the row is about; for one that is about the whole
    session, it may also have been open at the end.
    """
    known = spans.where(F.col("consumer").isNotNull()).groupBy(
        "session", consumer_text().alias("subject")
    )
    one = F.struct("code", "start_at_us", "end_at_us", "evidence", "open")
    known = known.agg(F.sort_array(F.collect_list(one)).alias("known"))
    bounds = sessions.select(
        "session", F.col("start_at_us").alias("first_us"), F.col("end_at_us").alias("last_us")
    )
    rows = rows.join(known, ["session", "subject"], "left")
    return rows.join(F.broadcast(bounds), "session", "left").withColumn("why", _why())


def explained(rows: DataFrame, spans: DataFrame, sessions: DataFrame) -> DataFrame:
    """Return findings of the answers, with the cause that a recorded finding gives."""
    rows = _with_reasons(rows, spans, sessions)
    why, word = F.col("why"), _word(F.col("why"))
    since, until = _since(), _until()

    def then(one: Column) -> Column:
        end = F.coalesce(one["end_at_us"], until)
        return (one["code"] == why) & (one["start_at_us"] <= until) & (end >= since)

    at_that_time = F.filter("known", then)
    newest = F.element_at(at_that_time, F.when(why.isNotNull(), -1))["evidence"]
    cause = F.coalesce(word, F.col("cause"))
    # That it fell behind is what the sentence says already.
    because = (F.col("kind") == _STUCK) | (why != FALLING_BEHIND.code)
    sentence = F.when(because, F.concat_ws(": ", "sentence", cause))
    return rows.select(
        "session", "kind", "subject",
        cause.alias("cause"),
        F.coalesce(sentence, F.col("sentence")).alias("sentence"),
        F.concat_ws("; ", newest, "evidence").alias("evidence"),
        "start_at_us", "end_at_us", "weight",
    )  # fmt: skip


def with_recorded_cause(stretches: DataFrame, spans: DataFrame, sessions: DataFrame) -> DataFrame:
    """Return the stretches of the table `stuck` with the causes that the verdict has."""
    names = stretches.columns
    rows = stretches.withColumns({"kind": F.lit(_STUCK), "subject": consumer_text()})
    rows = _with_reasons(rows, spans, sessions)
    cause = F.coalesce(_word(F.col("why")), F.col("cause"))
    return rows.withColumn("cause", cause).select(*names)


def _since() -> Column:
    return F.coalesce("start_at_us", "first_us")


def _until() -> Column:
    return F.coalesce("end_at_us", "last_us")


def _why() -> Column:
    """Return the code of the recorded finding that explains a row; null where none does."""
    whole, since, until = F.col("start_at_us").isNull(), _since(), _until()

    def held_us(code: Column) -> Column:
        """Return how long findings of a code were open meanwhile; their spans may overlap."""
        return F.aggregate(
            F.filter("known", lambda one: one["code"] == code),
            F.struct(F.lit(0).cast("bigint").alias("us"), since.alias("told_us")),
            lambda sum, one: _with_span(sum, one, until),
            lambda sum: sum["us"],
        )

    def holds(code: Column) -> Column:
        at_end = F.exists("known", lambda one: (one["code"] == code) & one["open"])
        return (held_us(code) > (until - since) * MOST_SAMPLES_SHARE) | (whole & at_end)

    # What is only some of it has a cause of its own: messages that the client terminated.
    is_about_all = (F.col("kind") == _STUCK) | (F.col("cause") == F.col("kind"))
    parts = [
        F.when((F.col("kind") == kind) & is_about_all, F.array(*(F.lit(k.code) for k in kinds)))
        for kind, kinds in _EXPLAINED.items()
    ]
    return F.get(F.filter(F.coalesce(*parts), holds), F.lit(0))


def _with_span(sum: Column, one: Column, until: Column) -> Column:
    """Return a sum of time with what a span adds; spans come in order of their beginning."""
    end, told_us = F.least(F.coalesce(one["end_at_us"], until), until), sum["told_us"]
    more_us = end - F.greatest(one["start_at_us"], told_us)
    added_us = F.greatest(more_us, F.lit(0).cast("bigint"))
    return F.struct((sum["us"] + added_us).alias("us"), F.greatest(told_us, end).alias("told_us"))


def _word(code: Column) -> Column:
    kinds = {kind.code: kind.word for many in _EXPLAINED.values() for kind in many}
    return F.create_map(*(F.lit(text) for pair in kinds.items() for text in pair))[code]


def recorded(spans: DataFrame) -> DataFrame:
    """Return the worst recorded finding of each entity, as one of the verdict.

    What loses messages is worse than what is more severe; what was over soon weighs little.
    """
    subject = F.coalesce(F.nullif(consumer_text(), F.lit("")), F.col("entity"))
    rows = spans.where(F.col("severity").isin(*TOLD_SEVERITIES)).withColumn("subject", subject)
    loses = F.col("code").isin(*LOSING)
    worst_first = Window.partitionBy("session", "subject").orderBy(
        loses.desc(),
        F.col("severity_id").desc(),
        F.col("duration_s").desc(),
        "start_at_us",
        "part",
    )
    rows = rows.withColumn("rank", F.row_number().over(worst_first)).where("rank = 1")
    brief = ~F.col("open") & (F.col("duration_s") < STUCK_AFTER_S)
    weight = F.when((F.col("severity") == "critical") & ~brief, 52).otherwise(31)
    weight += F.when(loses & ~brief, _LOST_WEIGHS).otherwise(0)
    long = F.least(F.col("duration_s") / _LONG_S, F.lit(1.0)) * 10
    of = F.concat(F.lit(" ("), "part", F.lit(")"))
    lasted = F.concat(F.lit(" for "), time_text("duration_s"))
    sentence = F.concat("word", F.coalesce(of, F.lit("")), lasted)
    words = (sentence, F.coalesce("evidence", F.lit("")))
    return finding(rows, RECORDED, F.col("subject"), weight + long, words, F.col("code"))


def told_once(rows: DataFrame, code: Column, harm: Column) -> DataFrame:
    """Leave out a recorded finding where an answer tells the same, or what weighs as much.

    `code` is that of the catalogue which a row is told with, `harm` what it does. That messages
    were lost is left out only where an answer tells that some were.
    """
    of_subject, other = Window.partitionBy("session", "subject"), F.col("kind") != RECORDED
    codes = F.collect_set(F.when(other, code)).over(of_subject)
    of_asset, lost = F.col("kind").isin(*_OF_ASSETS), harm == "lost"
    heaviest = F.max(F.when(of_asset, F.col("weight"))).over(of_subject)
    heaviest_lost = F.max(F.when(of_asset & lost, F.col("weight"))).over(of_subject)
    as_bad = F.when(lost, heaviest_lost).otherwise(heaviest) >= F.col("weight")
    again = F.array_contains(codes, F.col("cause")) | F.coalesce(as_bad, F.lit(False))
    rows = rows.withColumn("again", F.coalesce(again, F.lit(False)))
    return rows.where(other | ~F.col("again")).drop("again")
