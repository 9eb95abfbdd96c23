"""Recorded findings, as the cause of findings of the gold tables, or reported separately.

If both are about the same consumer and time, the finding of the table has the duration, and the
recorded one the cause, with code and advice. Recorded findings about other subjects are reported
separately.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from natstui.analysis.gold.gold_table import (
    build_findings,
    consumer_text,
    duration_text,
    join_evidence,
)
from natstui.analysis.gold.shared.harm import LOSS_CODES, RECORDED_KIND, REPORTED_SEVERITIES
from natstui.analysis.tables import lookup_value
from natstui.model.findings.catalogue.consumers import (
    KINDS_OF_REDELIVERY,
    KINDS_OF_WAITING,
    LAGGING,
)
from natstui.model.findings.catalogue.kind import Kind
from natstui.model.findings.catalogue.servers import SERVER_DOWN
from natstui.model.findings.thresholds import (
    MOST_SAMPLES_OF_PERIOD_SHARE,
    STUCK_AFTER_SAME_ACK_FLOOR_S,
)

_STUCK_KIND = "stuck"
_EXPLAINING_KINDS: dict[str, tuple[Kind, ...]] = {
    _STUCK_KIND: KINDS_OF_WAITING,
    # The cause of a backlog is more precise than the backlog itself.
    "lag": (*KINDS_OF_WAITING, LAGGING),
    "redelivery": KINDS_OF_REDELIVERY,
}
"""Kind of a table's finding → recorded findings that explain it, in order of precedence."""
_ASSET_STATE_KINDS = (*_EXPLAINING_KINDS, "poison", "availability", "capacity")
"""Kinds of tables' findings about the state of a stream, consumer or the monitoring."""
_CAUSES_OF_MISSING_CONTACT = ("leader_absent", "unreachable", "replica_away")
"""Causes of findings about availability that a server that is down explains."""
_ADDED_WEIGHT_OF_LOSS = 15
_FULL_WEIGHT_AFTER_S = 3600
"""Minimum duration of a finding with the full weight."""


def _with_explaining_code(
    rows: DataFrame, recorded_periods: DataFrame, sessions: DataFrame
) -> DataFrame:
    """Add `explaining_code`, the code of the recorded finding that explains a row.

    That finding was open for most of the row's time, or at the end if the row is about the entire
    session. The columns from which the code is computed are added, too. `recorded_periods` are
    rows of `findings`.
    """
    findings_by_subject = recorded_periods.where(F.col("consumer").isNotNull()).groupBy(
        "session", consumer_text().alias("subject")
    )
    finding_fields = F.struct("code", "start_at_us", "end_at_us", "evidence", "open")
    findings_by_subject = findings_by_subject.agg(
        F.sort_array(F.collect_list(finding_fields)).alias("recorded_findings")
    )
    session_bounds = sessions.select(
        "session", F.col("start_at_us").alias("first_us"), F.col("end_at_us").alias("last_us")
    )
    rows = rows.join(findings_by_subject, ["session", "subject"], "left")
    return rows.join(F.broadcast(session_bounds), "session", "left").withColumn(
        "explaining_code", _explaining_code()
    )


def explain_findings(
    rows: DataFrame, recorded_periods: DataFrame, sessions: DataFrame
) -> DataFrame:
    """Return the findings of gold tables in `rows`, with causes from recorded findings.

    If a recorded finding explains a row, its code replaces the cause, and its evidence precedes
    that of the row. `recorded_periods` are rows of `findings`.
    """
    rows = _with_explaining_code(rows, recorded_periods, sessions)
    explaining_code = F.col("explaining_code")
    since_us, until_us = _row_start_us(), _row_end_us()

    def is_explanation(recorded_finding: Column) -> Column:
        end = F.coalesce(recorded_finding["end_at_us"], until_us)
        return (
            (recorded_finding["code"] == explaining_code)
            & (recorded_finding["start_at_us"] <= until_us)
            & (end >= since_us)
        )

    explanations = F.filter("recorded_findings", is_explanation)
    newest_explanation = F.element_at(explanations, F.when(explaining_code.isNotNull(), -1))
    newest_evidence = newest_explanation["evidence"]
    cause_text = F.coalesce(_finding_label(explaining_code), F.col("cause"))
    # The sentence about lag already says that the consumer fell behind.
    has_new_cause = (F.col("kind") == _STUCK_KIND) | (explaining_code != LAGGING.code)
    sentence = F.when(has_new_cause, F.concat_ws(": ", "sentence", cause_text))
    return rows.select(
        "session", "kind", "subject",
        F.coalesce(explaining_code, F.col("cause")).alias("cause"),
        F.coalesce(sentence, F.col("sentence")).alias("sentence"),
        join_evidence(newest_evidence, "evidence").alias("evidence"),
        "start_at_us", "end_at_us", "weight",
    )  # fmt: skip


def name_servers_down(rows: DataFrame, recorded_periods: DataFrame) -> DataFrame:
    """Return the findings; evidence of missing contact names the servers that were down then.

    `rows` are findings of gold tables, `recorded_periods` rows of `findings`.
    """
    names_of_columns = rows.columns
    server_period = F.struct("start_at_us", "end_at_us", "part")
    periods_by_session = (
        recorded_periods.where(F.col("code") == SERVER_DOWN.code)
        .groupBy("session")
        .agg(F.sort_array(F.collect_list(server_period)).alias("server_periods"))
    )
    until_us = F.coalesce("end_at_us", "start_at_us")

    def overlaps(period: Column) -> Column:
        has_begun = period["start_at_us"] <= until_us
        return has_begun & (F.coalesce(period["end_at_us"], until_us) >= F.col("start_at_us"))

    servers = F.array_distinct(
        F.transform(F.filter("server_periods", overlaps), lambda period: period["part"])
    )
    verb = F.when(F.size(servers) == 1, " was").otherwise(" were")
    text = F.concat(F.array_join(servers, " and "), verb, F.lit(" down at that time"))
    has_server = F.col("cause").isin(*_CAUSES_OF_MISSING_CONTACT) & (F.size(servers) > 0)
    rows = rows.join(F.broadcast(periods_by_session), "session", "left")
    evidence = join_evidence("evidence", F.when(has_server, text))
    return rows.withColumn("evidence", evidence).select(*names_of_columns)


def explain_stuck_periods(
    periods: DataFrame, recorded_periods: DataFrame, sessions: DataFrame
) -> DataFrame:
    """Return the rows of `stuck` with the recorded finding that explains them as cause."""
    names = periods.columns
    rows = periods.withColumns({"kind": F.lit(_STUCK_KIND), "subject": consumer_text()})
    rows = _with_explaining_code(rows, recorded_periods, sessions)
    cause = F.coalesce(_finding_label(F.col("explaining_code")), F.col("cause"))
    return rows.withColumn("cause", cause).select(*names)


def _row_start_us() -> Column:
    return F.coalesce("start_at_us", "first_us")


def _row_end_us() -> Column:
    return F.coalesce("end_at_us", "last_us")


def _explaining_code() -> Column:
    """Return the code of the recorded finding that explains a row; null if none does."""
    is_about_session, since_us, until_us = (
        F.col("start_at_us").isNull(),
        _row_start_us(),
        _row_end_us(),
    )

    def open_us(code: Column) -> Column:
        """Return the time (µs) for which findings of a code were open in the time of the row."""
        return F.aggregate(
            F.filter(
                "recorded_findings", lambda recorded_finding: recorded_finding["code"] == code
            ),
            F.struct(F.lit(0).cast("bigint").alias("us"), since_us.alias("counted_us")),
            lambda total, recorded_finding: _add_period(total, recorded_finding, until_us),
            lambda total: total["us"],
        )

    def is_explaining(code: Column) -> Column:
        is_open_at_end = F.exists(
            "recorded_findings",
            lambda recorded_finding: (recorded_finding["code"] == code) & recorded_finding["open"],
        )
        return (open_us(code) > (until_us - since_us) * MOST_SAMPLES_OF_PERIOD_SHARE) | (
            is_about_session & is_open_at_end
        )

    # Findings about a part, such as terminated messages, have their own cause.
    needs_cause = (F.col("kind") == _STUCK_KIND) | (F.col("cause") == F.col("kind"))
    parts = [
        F.when((F.col("kind") == kind) & needs_cause, F.lit([k.code for k in kinds]))
        for kind, kinds in _EXPLAINING_KINDS.items()
    ]
    return F.get(F.filter(F.coalesce(*parts), is_explaining), F.lit(0))


def _add_period(counted_time: Column, period: Column, until_us: Column) -> Column:
    """Return `counted_time` plus the time (µs) of a period that is in no earlier period.

    Periods are added in the order of their start, and cut at `until_us`.
    """
    end = F.least(F.coalesce(period["end_at_us"], until_us), until_us)
    counted_until_us = counted_time["counted_us"]
    uncounted_us = end - F.greatest(period["start_at_us"], counted_until_us)
    added_us = F.greatest(uncounted_us, F.lit(0).cast("bigint"))
    return F.struct(
        (counted_time["us"] + added_us).alias("us"),
        F.greatest(counted_until_us, end).alias("counted_us"),
    )


def _finding_label(code: Column) -> Column:
    kinds = {
        kind.code: kind.word
        for kinds_of_row in _EXPLAINING_KINDS.values()
        for kind in kinds_of_row
    }
    return lookup_value(code, kinds)


def recorded_findings(recorded_periods: DataFrame) -> DataFrame:
    """Return the worst recorded finding of each stream, consumer or account, for the verdict.

    Lost messages are worse than a higher severity; a short finding has little weight.
    """
    subject = F.coalesce(F.nullif(consumer_text(), F.lit("")), F.col("entity"))
    rows = recorded_periods.where(F.col("severity").isin(*REPORTED_SEVERITIES)).withColumn(
        "subject", subject
    )
    is_loss = F.col("code").isin(*LOSS_CODES)
    worst_first = Window.partitionBy("session", "subject").orderBy(
        is_loss.desc(),
        F.col("severity_id").desc(),
        F.col("duration_s").desc(),
        "start_at_us",
        "part",
    )
    rows = rows.withColumn("rank", F.row_number().over(worst_first)).where("rank = 1")
    is_short = ~F.col("open") & (F.col("duration_s") < STUCK_AFTER_SAME_ACK_FLOOR_S)
    weight = F.when((F.col("severity") == "critical") & ~is_short, 52).otherwise(31)
    weight += F.when(is_loss & ~is_short, _ADDED_WEIGHT_OF_LOSS).otherwise(0)
    duration_weight = F.least(F.col("duration_s") / _FULL_WEIGHT_AFTER_S, F.lit(1.0)) * 10
    part_text = F.concat(F.lit(" ("), "part", F.lit(")"))
    duration_clause = F.concat(F.lit(" for "), duration_text("duration_s"))
    sentence = F.concat("word", F.coalesce(part_text, F.lit("")), duration_clause)
    texts = (sentence, F.coalesce("evidence", F.lit("")))
    return build_findings(
        rows, RECORDED_KIND, F.col("subject"), weight + duration_weight, texts, F.col("code")
    )


def without_repeated_findings(rows: DataFrame, code: Column, harm: Column) -> DataFrame:
    """Leave out recorded findings that a finding of a gold table repeats or outweighs.

    `code` is the code of a row in the catalogue, `harm` its harm. A finding about lost messages is
    outweighed only by another one about lost messages.
    """
    subject_window = Window.partitionBy("session", "subject")
    is_of_gold_table = F.col("kind") != RECORDED_KIND
    table_finding_codes = F.collect_set(F.when(is_of_gold_table, code)).over(subject_window)
    is_of_asset, is_loss = F.col("kind").isin(*_ASSET_STATE_KINDS), harm == "lost"
    max_table_weight = F.max(F.when(is_of_asset, F.col("weight"))).over(subject_window)
    max_table_loss_weight = F.max(F.when(is_of_asset & is_loss, F.col("weight"))).over(
        subject_window
    )
    is_outweighed = F.when(is_loss, max_table_loss_weight).otherwise(max_table_weight) >= F.col(
        "weight"
    )
    is_repeated = F.array_contains(table_finding_codes, F.col("cause")) | F.coalesce(
        is_outweighed, F.lit(False)
    )
    rows = rows.withColumn("again", F.coalesce(is_repeated, F.lit(False)))
    return rows.where(is_of_gold_table | ~F.col("again")).drop("again")
