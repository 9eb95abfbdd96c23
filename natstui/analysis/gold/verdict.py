"""Answer 9: the ten things most worth looking at, each with its evidence and what to do.

It only ranks: every answer brings its own findings, and what was recorded at the time says why.
Chosen by weight, told by harm.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from natstui.analysis.gold.answer import RECORDING, Answer, Given, counted
from natstui.analysis.gold.ephemeral import EPHEMERAL, as_families, members
from natstui.analysis.gold.findings import FINDINGS
from natstui.analysis.gold.rates import CONSUMER_RATE
from natstui.analysis.gold.session import SESSION_SUMMARY
from natstui.analysis.gold.telling.harm import ADVISED, HARMS, OF_STREAMS, RECORDED
from natstui.analysis.gold.telling.recorded import explained, recorded, told_once
from natstui.analysis.section import Section
from natstui.analysis.tables import SESSION, Table, columns, looked_up

MOST_COUNT = 10
_NEXT_OF_A_KIND = 0.85
"""Each further finding of the same kind counts for this much of the one before."""
AT_ONCE_S = 30
"""What begins within so many seconds of each other has one reason."""
AT_ONCE_LEAST = 3
"""Fewer streams or consumers are told each by itself."""
_MOST_NAMED = 6
_AT_ONCE_KINDS = ("stuck", "lag", "poison", "availability", RECORDED)
"""Kinds of findings that begin at a moment."""
_OF_SUBJECTS = ("stuck", "lag", "redelivery", "poison", "delay", "capacity", "identity",
                "change", "availability", RECORDED)  # fmt: skip
"""Kinds of findings about a stream or consumer itself: each of these has one place."""
_SURE_COUNT = 3
"""So many findings about the recordings are always among the ten, however light they are."""

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
    """Return the answer that ranks the findings of all others."""
    judging = [other for other in others if other.findings]

    def rows(given: Given) -> DataFrame:
        # What has no rows has no findings, and is not planned for.
        filled = [other for other in judging if not given.is_empty(other.table.name)]
        parts = [
            find(given.gold(other.table.name))
            for other in filled or judging[:1]
            for find in other.findings
        ]
        rows = reduce(lambda rows, more: rows.unionAll(more), parts)
        spans, sessions = given.gold(FINDINGS.name), given.gold(SESSION_SUMMARY.name)
        rows = explained(rows, spans, sessions).unionByName(recorded(spans))
        rows = told_once(rows, _advised("code"), _advised("harm"))
        if not given.is_empty(EPHEMERAL.name):
            alike = members(given.silver, given.gold(CONSUMER_RATE.name))
            rows = as_families(rows, alike)
        return ranked(rows)

    return Answer(
        VERDICT,
        rows,
        needs=(*(other.table.name for other in judging), FINDINGS.name, EPHEMERAL.name,
               CONSUMER_RATE.name),
        section=Section(
            "Worth looking at",
            ("rank", "harm", "code", "session", "subject", "sentence", "evidence",
             "start_at_us", "advice"),
            "Nothing stands out.",
        ),
        sorted_by=("rank",),
    )  # fmt: skip


def ranked(findings: DataFrame) -> DataFrame:
    """Return `verdict`: ten rows, the heaviest findings; the first of a kind in full weight.

    They are told in the order of their harm, and each stream and consumer has one place.
    """
    rows = one_place(at_once(_causes(together(findings))))
    of_kind = Window.partitionBy("kind").orderBy(
        F.col("weight").desc(), "subject", "cause", "start_at_us"
    )
    rank = F.row_number().over(of_kind)
    weight = F.col("weight") * F.pow(F.lit(_NEXT_OF_A_KIND), rank - 1)
    sure = (F.col("kind") == RECORDING) & (rank <= _SURE_COUNT)
    rows = rows.withColumns({"weight": weight, "sure": sure})
    heaviest = (F.col("weight").desc(), "kind", "subject", "cause")
    top = rows.orderBy(F.col("sure").desc(), *heaviest).limit(MOST_COUNT)
    top = top.withColumns({name: _advised(name) for name in ("harm", "code", "advice")})
    top = top.withColumn("advice", named_advice())
    harms = F.array(*(F.lit(harm) for harm in HARMS))
    order = Window.orderBy(F.array_position(harms, F.col("harm")), *heaviest)
    return VERDICT.contract(top.withColumn("rank", F.row_number().over(order)))


def at_once(rows: DataFrame) -> DataFrame:
    """Tell once what began at the same time for several streams or consumers: of the worst."""
    at_us, weight = F.col("start_at_us"), F.col("weight")
    alike = ("session", "kind", "cause")
    in_order = Window.partitionBy(*alike).orderBy("start_at_us", "subject")
    apart = at_us - F.lag("start_at_us").over(in_order) > AT_ONCE_S * 1_000_000
    # Of some only what they came to is known, and not since when.
    begins = F.coalesce(apart, F.lit(True)) | ~F.col("kind").isin(*_AT_ONCE_KINDS)
    rows = rows.withColumn("begins", begins.cast("int"))
    rows = rows.withColumn("time", F.sum("begins").over(in_order))
    of_group = Window.partitionBy(*alike, "time")
    worst_first = of_group.orderBy(weight.desc(), "subject")
    rows = rows.withColumns(
        {
            "rank": F.row_number().over(worst_first),
            "named": F.concat_ws(", ", *_next(worst_first, "subject", _MOST_NAMED)),
            "others": F.count("*").over(of_group) - 1,
            "times": F.sum("times_count").over(of_group),
        }
    )
    others = F.col("others")
    one_of_many = others + 1 >= AT_ONCE_LEAST
    rows = rows.where((F.col("rank") == 1) | ~one_of_many)
    more = F.when(
        others > _MOST_NAMED, F.format_string(" and %d more", others - _MOST_NAMED)
    ).otherwise("")
    also = F.concat(F.lit("also "), "named", more)
    alike_text = F.format_string(" (and %d others at that time)", others)
    return rows.withColumns(
        {
            "sentence": F.when(one_of_many, F.concat("sentence", alike_text)).otherwise(
                F.col("sentence")
            ),
            "evidence": F.when(one_of_many, F.concat_ws("; ", "evidence", also)).otherwise(
                F.col("evidence")
            ),
            "times_count": F.when(one_of_many, F.col("times")).otherwise(F.col("times_count")),
            "others_count": F.when(one_of_many, others).otherwise(0),
        }
    ).drop("begins", "time", "rank", "named", "others", "times")


def _next(order: WindowSpec, name: str, count: int) -> list[Column]:
    """Return a value of the next rows, so many: all of them would be an array in each row."""
    return [F.lead(name, further).over(order) for further in range(1, count + 1)]


def one_place(rows: DataFrame) -> DataFrame:
    """Tell what was found of one stream or consumer in one place: what lost messages, the worst.

    The others are named in its evidence, and their weight is not lost.
    """
    own = F.col("kind").isin(*_OF_SUBJECTS) & ~F.col("subject").isin("account", "monitoring")
    lost = F.coalesce(_advised("harm") == "lost", F.lit(False))
    of_subject = Window.partitionBy("session", "subject")
    worst_first = of_subject.orderBy(
        lost.desc(), F.col("weight").desc(), "kind", "cause", "start_at_us"
    )
    others = F.concat_ws("; ", *_next(worst_first, "sentence", _MOST_NAMED))
    found = rows.where(own).withColumns(
        {
            "rank": F.row_number().over(worst_first),
            "others": F.nullif(others, F.lit("")),
            "heaviest": F.max("weight").over(of_subject),
        }
    )
    also = F.concat(F.lit("also: "), "others")
    found = found.where("rank = 1").withColumns(
        {"evidence": F.concat_ws("; ", "evidence", also), "weight": F.col("heaviest")}
    )
    return found.drop("rank", "others", "heaviest").unionByName(rows.where(~own))


def named_advice() -> Column:
    """Return the advice with the names of the stream, consumer and message in its commands."""
    subject, at = F.col("subject"), F.instr("subject", " > ")
    stream = F.substring_index(subject, " > ", 1)
    consumer = F.when(at > 0, F.substring(subject, at + 3, F.length(subject)))
    text = F.concat_ws("; ", "sentence", "evidence")
    sequence = F.nullif(F.regexp_extract(text, r"\bmessage (\d+) ", 1), F.lit(""))
    names = {"STREAM": stream, "CONSUMER": consumer, "SEQ": sequence}
    named: Column = F.col("advice")
    # First marks that are in no name: a stream may itself be called CONSUMER.
    for mark, placeholder in enumerate(names, 1):
        named = F.regexp_replace(named, rf"\b{placeholder}\b", chr(mark))
    for mark, (placeholder, name) in enumerate(names.items(), 1):
        known = F.coalesce(_quoted(name), F.lit(placeholder))
        named = F.replace(named, F.lit(chr(mark)), known)
    is_of_asset = (at > 0) | F.coalesce(F.startswith("code", F.lit(OF_STREAMS)), F.lit(False))
    return F.when(is_of_asset, named).otherwise(F.col("advice"))


def _quoted(name: Column) -> Column:
    """Return a name as it stands in a command for a shell, as `shlex.quote` does."""
    safe = F.regexp_like(name, F.lit(r"^[A-Za-z0-9_@%+=:,./-]+$"))
    escaped = F.replace(name, F.lit("'"), F.lit("'\"'\"'"))
    return F.when(safe, name).otherwise(F.concat(F.lit("'"), escaped, F.lit("'")))


def _causes(rows: DataFrame) -> DataFrame:
    """Leave out that a consumer fell behind where it is told why: it was stuck."""
    of_subject = Window.partitionBy("subject", "session")
    stuck = F.bool_or(F.col("kind") == "stuck").over(of_subject)
    rows = rows.withColumn("stuck", stuck)
    return rows.where(~((F.col("kind") == "lag") & F.col("stuck"))).drop("stuck")


def _advised(name: str) -> Column:
    """Return what is told beside a finding, by its kind and cause."""
    known = {f"{kind}/{cause}": getattr(one, name) for (kind, cause), one in ADVISED.items()}
    return F.nullif(looked_up(F.concat_ws("/", "kind", "cause"), known), F.lit(""))


def together(findings: DataFrame) -> DataFrame:
    """Return one row per kind, subject and cause: the heaviest finding, and how many there are."""
    one = ("kind", "subject", "cause")
    shown = F.struct("session", "sentence", "evidence", "start_at_us", "end_at_us", "weight")
    heavy = F.struct("weight", "session", "start_at_us", "sentence")
    rows = findings.groupBy(*one).agg(
        F.max_by(shown, heavy).alias("shown"),
        F.count("*").alias("times_count"),
        F.count_distinct("session").alias("sessions_count"),
    )
    sessions = F.when(
        F.col("sessions_count") > 1,
        F.concat(F.lit(" in "), counted(F.col("sessions_count"), "session")),
    ).otherwise("")
    more = F.format_string(", and %d more like this", F.col("times_count") - 1)
    sentence = F.when(F.col("times_count") == 1, F.col("sentence")).otherwise(
        F.concat("sentence", more, sessions)
    )
    rows = rows.select(*one, "shown.*", "times_count", "sessions_count")
    return rows.withColumn("sentence", sentence)
