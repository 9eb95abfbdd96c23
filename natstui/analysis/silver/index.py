"""Polls, gaps, segments with their damage, and the lines of a kind, from the lines of bronze."""

from __future__ import annotations

import math

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from natstui.analysis.bronze import schema
from natstui.analysis.bronze.build import SILVER_LINE_KINDS
from natstui.analysis.bronze.records import POLL as POLL_KIND
from natstui.analysis.silver.tables import POLL, SEGMENT

MIN_GAP_INTERVALS_COUNT = 3
"""A pause longer than this many poll intervals (and the duration of the poll) is a gap."""
MIN_GAP_US = 2_000_000
MIN_CLOCK_STEP_US = 500_000
"""Minimum step of the wall clock: smaller differences between the clocks are slow corrections."""

_RECORD_KEY = ("session", "segment", "record_id")
_RECORD_KINDS = tuple(kind for kind in SILVER_LINE_KINDS if kind != POLL_KIND)


def left_out_records(lines: DataFrame) -> DataFrame:
    """Return the key of each record that is left out: session, segment and record_id.

    A poll is left out if one of its lines is unreadable or missing.
    """
    return _summarize_records(lines).where("left_out").select(*_RECORD_KEY)


def exclude_records(rows: DataFrame, records: DataFrame) -> DataFrame:
    """Return `rows` without those of `records`, which are keys of records."""
    return rows.join(F.broadcast(records), list(_RECORD_KEY), "left_anti")


def _summarize_records(lines: DataFrame) -> DataFrame:
    """Return one row per record: counts of its lines, and whether it is left out or incomplete.

    `begun`: a poll of which only the first lines are there, as in an open segment.
    """
    kinds_sql = ", ".join(map(repr, schema.LINE_KINDS))
    part_number_sql = "coalesce(part_number, 0)"
    records = lines.groupBy(*_RECORD_KEY).agg(
        F.expr("count(1) AS lines_count"),
        F.expr("sum(length_bytes) AS length_bytes"),
        F.expr("count_if(NOT readable) AS bad_lines_count"),
        F.expr(f"count_if(readable AND kind NOT IN ({kinds_sql})) AS unknown_lines_count"),
        F.expr("max(line_number) AS line_number"),
        F.expr("coalesce(max(parts_count), 1) AS parts_count"),
        F.expr(f"count(DISTINCT {part_number_sql}) AS parts_seen_count"),
        F.expr(f"max({part_number_sql}) AS last_part_number"),
    )
    # A line without a number is a record.
    has_number_sql = "line_number IS NOT NULL"
    is_in_order_sql = "lines_count = parts_seen_count AND last_part_number < parts_seen_count"
    is_complete_sql = f"({is_in_order_sql} AND parts_seen_count = parts_count)"
    return records.selectExpr(
        "*",
        f"{has_number_sql} AND {is_in_order_sql} AND bad_lines_count = 0 "
        f"AND NOT {is_complete_sql} AS begun",
        f"bad_lines_count > 0 OR ({has_number_sql} AND NOT {is_complete_sql}) AS left_out",
    )


def records_except_polls(lines: DataFrame) -> DataFrame:
    """Return the lines of `SILVER_LINE_KINDS` except polls, without the column of polls."""
    return lines.where(F.col("kind").isin(*_RECORD_KINDS)).drop(POLL_KIND)


def spans(changes: DataFrame, *key: str) -> DataFrame:
    """Return `changes` with `until_position`, where the next change of the same key is.

    It is null for the last change. `changes` have the columns `key`, `from_position`, a value that
    can be sorted, and the values that are valid from there.
    """
    values = [name for name in changes.columns if name not in (*key, "from_position")]
    order = Window.partitionBy(*key).orderBy("from_position", *values)
    return changes.withColumn("until_position", F.lead("from_position").over(order))


def with_span_values(
    rows: DataFrame, value_spans: DataFrame, position: Column, *key: str
) -> DataFrame:
    """Add to each row the values that are valid at its position; null before the first change.

    `value_spans` are from `spans`, with the same key. They are sent to every executor.
    """
    key_names = {name: f"_span_{name}" for name in key}
    value_spans = value_spans.withColumnsRenamed(key_names)
    until_position = F.col("until_position")
    conditions = [
        *(F.col(name) == F.col(span_name) for name, span_name in key_names.items()),
        position >= F.col("from_position"),
        until_position.isNull() | (position < until_position),
    ]
    rows = rows.join(F.broadcast(value_spans), conditions, "left")
    return rows.drop(*key_names.values(), "from_position", "until_position")


def clock_restarts(lines: DataFrame) -> DataFrame:
    """Return `spans` of segments, each from a restart of the monotonic clock to the next one.

    The clock restarts if the machine restarts and the recording is continued. `moved_us`: by which
    the clock is behind that of the first poll.
    """
    poll = F.col(POLL_KIND)
    poll_times = F.struct(
        poll["taken_mono_us"].alias("mono_us"), poll["taken_at_us"].alias("at_us")
    )
    segment_ends = _first_poll_lines(lines).groupBy("session", "segment")
    segment_ends = segment_ends.agg(
        F.min(poll_times).alias("first"), F.max(poll_times).alias("last")
    )
    order = Window.partitionBy("session").orderBy("segment")
    previous_end_times = F.lag("last").over(order)
    segment_ends = segment_ends.withColumns(
        {
            "back_us": previous_end_times["mono_us"] - F.col("first.mono_us"),
            "pause_us": F.greatest(F.col("first.at_us") - previous_end_times["at_us"], F.lit(0)),
        }
    )
    moved_us = F.sum(F.col("back_us") + F.col("pause_us")).over(order).alias("moved_us")
    restarts = segment_ends.where("back_us > 0")
    return spans(
        restarts.select("session", F.col("segment").alias("from_position"), moved_us), "session"
    )


def with_clock_shift(lines: DataFrame, restarts: DataFrame) -> DataFrame:
    """Add `moved_us`, by which the monotonic clock of a line is behind that of the first poll.

    `restarts` are from `clock_restarts`, which measures the pause at a restart by the wall clock.
    """
    return with_span_values(lines, restarts, F.col("segment"), "session")


def clock_shift_us(lines: DataFrame) -> Column:
    """Return the column with the shift of the monotonic clock in µs; 0 if it never restarted."""
    has_clock_shift = "moved_us" in lines.columns
    return F.coalesce("moved_us", F.lit(0)) if has_clock_shift else F.lit(0)


def _first_poll_lines(lines: DataFrame) -> DataFrame:
    """Return the first line of each poll, which has the fields of the poll itself."""
    is_first_part = F.coalesce("part_number", F.lit(0)) == 0
    return lines.where((F.col("kind") == POLL_KIND) & F.col(POLL_KIND).isNotNull() & is_first_part)


def polls(lines: DataFrame, steps: DataFrame | None, *, has_all_lines: bool = True) -> DataFrame:
    """Return `poll`: one row per poll, with times as if the wall clock had never been set.

    `steps` are from `clock_steps`; None if no step was recorded. `has_all_lines`: no line was left
    out.
    """
    poll, rows = F.col(POLL_KIND), _first_poll_lines(lines)
    lost_count = F.lit(None) if has_all_lines else F.col("lost_count")
    rows = (
        rows
        if has_all_lines
        else rows.join(_count_missing_before(lines), list(_RECORD_KEY), "left")
    )
    rows = rows.select(
        "session",
        lost_count.alias("lost_count"),
        poll["taken_at_us"].alias("at_us"),
        (poll["taken_mono_us"] + clock_shift_us(lines)).alias("mono_us"),
        poll["unreachable_streams"].alias("unreachable_streams"),
        poll["unreachable_consumers"].alias("unreachable_consumers"),
        f"{POLL_KIND}.cost.*",
        f"{POLL_KIND}.account.*",
    )
    poll_order = Window.partitionBy("session").orderBy("mono_us")
    pause_us = F.try_subtract("mono_us", F.lag("mono_us").over(poll_order))
    wall_clock_lead_us = F.try_subtract("at_us", "mono_us")
    rows = rows.withColumns(
        {
            "pause": pause_us,
            "jump": F.try_subtract(wall_clock_lead_us, F.lag(wall_clock_lead_us).over(poll_order)),
        }
    )
    rows = _with_clock_steps(rows, steps)
    longest_interval_us = F.greatest("interval_us", F.lag("interval_us").over(poll_order))
    # Damaged numbers may be too large to add: then no pause is a gap.
    max_normal_pause_us = F.try_add(
        F.try_multiply(longest_interval_us, F.lit(MIN_GAP_INTERVALS_COUNT)), F.col("elapsed_us")
    )
    max_pause_us = F.when(
        max_normal_pause_us.isNotNull(),
        F.greatest(max_normal_pause_us, F.lit(MIN_GAP_US).cast("bigint")),
    )
    pause_us = F.try_add("pause", F.coalesce("slept_us", F.lit(0)))
    set_us = F.coalesce(F.try_sum("clock_step_us").over(poll_order), F.lit(0))
    rows = rows.withColumns(
        {
            "gap_before_us": F.when(pause_us > max_pause_us, pause_us),
            "lost_before_count": F.col("lost_count") - F.lag("lost_count").over(poll_order),
            "at_us": F.coalesce(F.try_subtract("at_us", set_us), "at_us"),
        }
    )
    return POLL.conform(rows)


def _count_missing_before(lines: DataFrame) -> DataFrame:
    """Return each record's key and `lost_count`, the missing records before it in its session."""
    rows = lines.where(F.col("line_number").isNotNull()).select(*_RECORD_KEY).distinct()
    previous_record_id = F.lag("record_id").over(
        Window.partitionBy("session", "segment").orderBy("record_id")
    )
    rows = rows.withColumn(
        "missing", F.coalesce(F.col("record_id") - previous_record_id - 1, F.lit(0))
    )
    order = Window.partitionBy("session").orderBy("segment", "record_id")
    return rows.select(*_RECORD_KEY, F.sum("missing").over(order).alias("lost_count"))


def clock_steps(records: DataFrame) -> DataFrame:
    """Return `spans` of jumps of the wall clock (µs), with `step_us`, the nearest recorded step.

    A span begins in the middle between two steps of a session.
    """
    steps = lines_of_kind(records, "clock_stepped").select("session", "line.step_us")
    smaller_step_us = F.lag("step_us").over(Window.partitionBy("session").orderBy("step_us"))
    middle_us = F.coalesce(smaller_step_us / 2 + F.col("step_us") / 2, F.lit(-math.inf))
    return spans(steps.withColumn("from_position", middle_us), "session")


def _with_clock_steps(rows: DataFrame, steps: DataFrame | None) -> DataFrame:
    """Add `clock_step_us`, the step of the wall clock since the last poll, and `slept_us`.

    The monotonic clock of older recorders stopped while the machine slept. Afterwards the wall
    clock is ahead as if it was set, but without a recorded step.
    """
    # As fractions, because the difference of absurd numbers is no integer any more.
    jump_us = F.col("jump").cast("double")
    # The slow correction of a clock is at most 0.05 %.
    is_large_jump = F.abs(jump_us) > MIN_CLOCK_STEP_US + F.coalesce("pause", F.lit(0)) / 1000
    is_clock_set = jump_us < 0
    if steps is not None:
        rows = with_span_values(rows, steps, jump_us, "session")
        tolerance_us = MIN_CLOCK_STEP_US + F.abs(jump_us) / 50
        is_near_step = F.abs(F.col("step_us") - jump_us) < tolerance_us
        is_clock_set = is_clock_set | F.coalesce(is_near_step, F.lit(False))
    return rows.withColumns(
        {
            "clock_step_us": F.when(is_large_jump & is_clock_set, F.col("jump")),
            "slept_us": F.when(is_large_jump & ~is_clock_set, F.col("jump")),
        }
    )


def epochs(poll: DataFrame) -> DataFrame:
    """Return `spans` of monotonic times, from each gap's end or clock step to the next one.

    `epoch` is the number of gaps before, `set_us` the sum of the steps of the wall clock before.
    """
    poll_order = Window.partitionBy("session").orderBy("mono_us")
    rows = poll.withColumns(
        {
            "epoch": F.count("gap_before_us").over(poll_order),
            "set_us": F.try_sum("clock_step_us").over(poll_order),
        }
    )
    rows = rows.where(F.col("gap_before_us").isNotNull() | F.col("clock_step_us").isNotNull())
    return spans(
        rows.select("session", F.col("mono_us").alias("from_position"), "epoch", "set_us"),
        "session",
    )


def with_clock_offsets(lines: DataFrame) -> DataFrame:
    """Add `set_us`, the sum of the wall clock steps before a line, and `set_at_us`.

    `set_at_us` is the time of the last step, on the clock after the step.
    """
    steps = lines_of_kind(lines, "clock_stepped").select(
        "session", "segment", "record_id", "line.*"
    )
    order = Window.partitionBy("session").orderBy("segment", "record_id")
    set_us = F.try_sum("step_us").over(order).alias("set_us")
    position = F.struct("segment", "record_id")
    steps = steps.select(
        "session", position.alias("from_position"), set_us, F.col("at_us").alias("set_at_us")
    )
    rows = with_span_values(lines, spans(steps, "session"), position, "session")
    return rows.withColumn("set_us", F.coalesce("set_us", F.lit(0)))


def lines_of_kind(lines: DataFrame, kind: str) -> DataFrame:
    """Return the readable lines of a kind, with session, segment, record_id and the struct `line`.

    If `lines` have the columns of `with_clock_offsets`, times are as if the wall clock had never
    been set, except `recorded_at_us`, the time as it was recorded. Not for polls.
    """
    rows = lines.where((F.col("kind") == kind) & F.col(kind).isNotNull())
    line = _line_without_clock_steps(lines, kind) if "set_us" in lines.columns else F.col(kind)
    return rows.select(
        "session",
        "segment",
        "record_id",
        F.col(kind)["at_us"].alias("recorded_at_us"),
        line.alias("line"),
    )


def without_clock_steps(lines: DataFrame, at_us: Column) -> Column:
    """Return the time `at_us` of a line as if the wall clock had never been set.

    It is unchanged if `lines` do not have the columns of `with_clock_offsets`.
    """
    if "set_us" not in lines.columns:
        return at_us
    return F.coalesce(F.try_subtract(at_us, F.col("set_us")), at_us)


def _line_without_clock_steps(lines: DataFrame, kind: str) -> Column:
    line = F.col(kind)

    def correct_time(struct: Column, name: str) -> Column:
        return struct.withField(name, without_clock_steps(lines, struct[name]))

    # The start of a finding from before the step was recorded on the clock before the step.
    def correct_start(finding: Column) -> Column:
        is_after_step = finding["since_at_us"].between(F.col("set_at_us"), line["at_us"])
        return F.when(is_after_step, correct_time(finding, "since_at_us")).otherwise(finding)

    def correct_findings(findings: Column) -> Column:
        return F.transform(
            findings, lambda finding: correct_time(correct_start(finding), "until_at_us")
        )

    corrected_line = correct_time(line, "at_us")
    if kind == "findings_changed":
        return corrected_line.withField("findings", correct_findings(line["findings"]))
    if kind == "keyframe":
        findings = correct_findings(line["findings"]["findings"])
        return corrected_line.withField("findings.findings", findings)
    if kind == "gap":
        return correct_time(corrected_line, "from_at_us")
    return corrected_line


def segments(lines: DataFrame, files: DataFrame) -> DataFrame:
    """Return `segment`: one row per file, with counts of its lines and whether it is damaged.

    A sealed segment is damaged if numbered lines are missing, or if the length at its end differs
    from the bytes read. An open segment may end with an incomplete line or poll.
    """
    segment_counts = _count_segment_lines(_summarize_records(lines))
    rows = files.join(segment_counts, ["session", "segment"], "left")
    rows = rows.na.fill(
        0, [name for name in segment_counts.columns if name.endswith(("_bytes", "_count"))]
    )
    is_sealed = F.col("promised_bytes").isNotNull()
    ends_without_line_feed = (F.col("read_bytes") > F.col("size_bytes")) & (
        F.col("stray_lines_count") > 0
    )
    unfinished_lines_count = F.col("incomplete_poll_lines_count") + F.when(
        ends_without_line_feed, 1
    ).otherwise(0)
    has_number = F.col("last_line_number").isNotNull()
    missing_lines_count = F.when(
        has_number & is_sealed, F.col("last_line_number") + 1 - F.col("numbered_count")
    ).otherwise(0)
    is_truncated = F.col("promised_bytes") > F.col("read_bytes")
    length_differs = F.col("promised_bytes") != F.col("read_bytes") % 2**32
    has_wrong_length = F.when(has_number, is_truncated).otherwise(length_differs)
    is_corrupt = (missing_lines_count > 0) | F.coalesce(has_wrong_length, F.lit(False))
    return SEGMENT.conform(
        rows.withColumns(
            {
                "missing_lines_count": missing_lines_count,
                "unfinished_lines_count": F.when(is_sealed, 0).otherwise(unfinished_lines_count),
                "corrupt": is_corrupt,
            }
        )
    )


def _count_segment_lines(records: DataFrame) -> DataFrame:
    """Return the numbers of lines and bytes of each segment, from its records."""
    left_out_records, lines = F.col("left_out"), F.col("lines_count")
    unknown_lines_count = F.when(~left_out_records, F.col("unknown_lines_count")).otherwise(0)
    incomplete_last_poll_lines = F.max_by(F.when(F.col("begun"), lines), "line_number")
    return records.groupBy("session", "segment").agg(
        F.sum("length_bytes").alias("read_bytes"),
        F.sum("lines_count").alias("lines_count"),
        F.sum(F.when(left_out_records, lines).otherwise(0)).alias("torn_lines_count"),
        F.sum(unknown_lines_count).alias("unknown_lines_count"),
        F.max("line_number").alias("last_line_number"),
        F.count("line_number").alias("numbered_count"),
        incomplete_last_poll_lines.alias("incomplete_poll_lines_count"),
        F.count_if(F.col("line_number").isNull() & left_out_records).alias("stray_lines_count"),
    )
