"""Polls, gaps, segments with their damage, and the records of a kind, from the lines of bronze."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from natstui.analysis.bronze import schema
from natstui.analysis.bronze.build import KEPT
from natstui.analysis.bronze.records import POLL as POLL_KIND
from natstui.analysis.silver.tables import POLL, SEGMENT

GAP_INTERVALS = 3
"""A pause longer than this many poll intervals (and the duration of the poll) is a gap."""
GAP_LEAST_US = 2_000_000
CLOCK_STEP_US = 500_000
"""A smaller difference between the clocks is a usual slow correction."""

_RECORD = ("session", "segment", "record_id")
_RECORD_KINDS = tuple(kind for kind in KEPT if kind != POLL_KIND)


def left_out_records(lines: DataFrame) -> DataFrame:
    """Return the records that are left out, by session, segment and record_id.

    An unreadable or missing line makes the entire poll of which it is a part unreadable.
    """
    return _records(lines).where("left_out").select(*_RECORD)


def exclude_records(rows: DataFrame, records: DataFrame) -> DataFrame:
    """Return the lines except those of `records`."""
    return rows.join(F.broadcast(records), list(_RECORD), "left_anti")


def _records(lines: DataFrame) -> DataFrame:
    """Return one row per record: the number of its lines, and whether it is left out."""
    kinds, part_number = ", ".join(map(repr, schema.KINDS)), "coalesce(part_number, 0)"
    records = lines.groupBy(*_RECORD).agg(
        F.expr("count(1) AS lines_count"),
        F.expr("sum(length_bytes) AS length_bytes"),
        F.expr("count_if(NOT readable) AS bad_lines_count"),
        F.expr(f"count_if(readable AND kind NOT IN ({kinds})) AS unknown_lines_count"),
        F.expr("max(line_number) AS line_number"),
        F.expr("coalesce(max(parts_count), 1) AS parts_count"),
        F.expr(f"count(DISTINCT {part_number}) AS parts_seen_count"),
        F.expr(f"max({part_number}) AS last_part_number"),
    )
    # Lines without a number stand for themselves.
    numbered = "line_number IS NOT NULL"
    in_order = "lines_count = parts_seen_count AND last_part_number < parts_seen_count"
    is_complete = f"({in_order} AND parts_seen_count = parts_count)"
    return records.selectExpr(
        "*",
        f"{numbered} AND {in_order} AND bad_lines_count = 0 AND NOT {is_complete} AS begun",
        f"bad_lines_count > 0 OR ({numbered} AND NOT {is_complete}) AS left_out",
    )


def other_records(lines: DataFrame) -> DataFrame:
    """Return the lines of all records except polls, without the column of polls."""
    return lines.where(F.col("kind").isin(*_RECORD_KINDS)).drop(POLL_KIND)


def clock_restarts(lines: DataFrame) -> DataFrame:
    """Return the sessions whose monotonic clock started again, each with its `restarts`.

    This happens to a continued recording after a restart of the machine. A restart is a segment,
    with the time by which the clock is then behind that of the first poll.
    """
    poll = F.col(POLL_KIND)
    moment = F.struct(poll["taken_mono_us"].alias("mono_us"), poll["taken_at_us"].alias("at_us"))
    ends = _first_parts(lines).groupBy("session", "segment")
    ends = ends.agg(F.min(moment).alias("first"), F.max(moment).alias("last"))
    order = Window.partitionBy("session").orderBy("segment")
    previous_last = F.lag("last").over(order)
    ends = ends.withColumns(
        {
            "back_us": previous_last["mono_us"] - F.col("first.mono_us"),
            "pause_us": F.greatest(F.col("first.at_us") - previous_last["at_us"], F.lit(0)),
        }
    )
    moved_us = F.sum(F.col("back_us") + F.col("pause_us")).over(order).alias("moved_us")
    restart = F.struct("segment", moved_us).alias("restart")
    restarts = ends.where("back_us > 0").select("session", restart).groupBy("session")
    return restarts.agg(F.sort_array(F.collect_list("restart")).alias("restarts"))


def with_clock_shift(lines: DataFrame, restarts: DataFrame) -> DataFrame:
    """Add `moved_us`, by which the monotonic clock of a poll is behind that of the first poll.

    Segments after a restart of the clock are placed by the wall clock.
    """
    rows = lines.join(F.broadcast(restarts), "session", "left")
    past_restarts = F.filter("restarts", lambda restart: restart["segment"] <= F.col("segment"))
    last = F.get(past_restarts, F.size(past_restarts) - 1)
    return rows.withColumn("moved_us", last["moved_us"]).drop("restarts")


def clock_moved_us(lines: DataFrame) -> Column:
    """Return the shift of the monotonic clock of polls; 0 without restarts."""
    has_moved = "moved_us" in lines.columns
    return F.coalesce("moved_us", F.lit(0)) if has_moved else F.lit(0)


def _first_parts(lines: DataFrame) -> DataFrame:
    """Return the first line of each poll, with the poll's own fields."""
    first_part = F.coalesce("part_number", F.lit(0)) == 0
    return lines.where((F.col("kind") == POLL_KIND) & F.col(POLL_KIND).isNotNull() & first_part)


def polls(lines: DataFrame, steps: DataFrame | None, *, all_read: bool = True) -> DataFrame:
    """Return `poll`: one row per poll, with times as if the wall clock had never been set.

    `steps` are the recorded steps of the clock, if there are any. `all_read`: whether no line was
    left out.
    """
    poll, rows = F.col(POLL_KIND), _first_parts(lines)
    lost = F.lit(None) if all_read else F.col("lost_count")
    rows = rows if all_read else rows.join(_missing_before(lines), list(_RECORD), "left")
    rows = rows.select(
        "session",
        lost.alias("lost_count"),
        poll["taken_at_us"].alias("at_us"),
        (poll["taken_mono_us"] + clock_moved_us(lines)).alias("mono_us"),
        poll["unreachable_streams"].alias("unreachable_streams"),
        poll["unreachable_consumers"].alias("unreachable_consumers"),
        f"{POLL_KIND}.cost.*",
        f"{POLL_KIND}.account.*",
    )
    before = Window.partitionBy("session").orderBy("mono_us")
    pause = F.try_subtract("mono_us", F.lag("mono_us").over(before))
    ahead = F.try_subtract("at_us", "mono_us")
    rows = rows.withColumns(
        {"pause": pause, "jump": F.try_subtract(ahead, F.lag(ahead).over(before))}
    )
    rows = _with_steps(rows, steps)
    longest = F.greatest("interval_us", F.lag("interval_us").over(before))
    # Numbers that nobody measured may be too large to add: no pause is longer than those.
    normal = F.try_add(F.try_multiply(longest, F.lit(GAP_INTERVALS)), F.col("elapsed_us"))
    limit_us = F.when(normal.isNotNull(), F.greatest(normal, F.lit(GAP_LEAST_US).cast("bigint")))
    pause = F.try_add("pause", F.coalesce("slept_us", F.lit(0)))
    set_us = F.coalesce(F.try_sum("clock_step_us").over(before), F.lit(0))
    rows = rows.withColumns(
        {
            "gap_before_us": F.when(pause > limit_us, pause),
            "lost_before_count": F.col("lost_count") - F.lag("lost_count").over(before),
            "at_us": F.coalesce(F.try_subtract("at_us", set_us), "at_us"),
        }
    )
    return POLL.contract(rows)


def _missing_before(lines: DataFrame) -> DataFrame:
    """Return, for each record, how many record numbers are missing before it in its session."""
    rows = lines.where(F.col("line_number").isNotNull()).select(*_RECORD).distinct()
    previous_id = F.lag("record_id").over(
        Window.partitionBy("session", "segment").orderBy("record_id")
    )
    rows = rows.withColumn("missing", F.coalesce(F.col("record_id") - previous_id - 1, F.lit(0)))
    order = Window.partitionBy("session").orderBy("segment", "record_id")
    return rows.select(*_RECORD, F.sum("missing").over(order).alias("lost_count"))


def clock_steps(records: DataFrame) -> DataFrame:
    """Return the sessions whose wall clock was set, each with the recorded `steps` in µs."""
    steps = of_kind(records, "clock_stepped").groupBy("session")
    return steps.agg(F.collect_list("line.step_us").alias("steps"))


def _with_steps(rows: DataFrame, steps: DataFrame | None) -> DataFrame:
    """Add the step of the wall clock since the previous poll, and how long the machine slept.

    The monotonic clock of older recorders stopped in sleep. The wall clock is then ahead of it as
    if it was set, but without a record of a step.
    """
    # As fractions, because the difference of absurd numbers is no integer any more.
    jump = F.col("jump").cast("double")
    # The slow correction of a clock is at most 0.05 %.
    large = F.abs(jump) > CLOCK_STEP_US + F.coalesce("pause", F.lit(0)) / 1000
    is_set = jump < 0
    if steps is not None:
        rows = rows.join(F.broadcast(steps), "session", "left")
        near = F.exists(
            "steps", lambda step: F.abs(step - jump) < CLOCK_STEP_US + F.abs(jump) / 50
        )
        is_set = is_set | F.coalesce(near, F.lit(False))
    return rows.withColumns(
        {
            "clock_step_us": F.when(large & is_set, F.col("jump")),
            "slept_us": F.when(large & ~is_set, F.col("jump")),
        }
    )


def gap_ends(poll: DataFrame) -> DataFrame:
    """Return the gaps and clock steps of sessions that have any.

    `gap_ends` are the times (mono_us) at which polling resumed, `steps` those at which the wall
    clock was set, with its total offset from an unset clock.
    """
    before = Window.partitionBy("session").orderBy("mono_us")
    set_us = F.try_sum("clock_step_us").over(before)
    step = F.when(F.col("clock_step_us").isNotNull(), F.struct("mono_us", "set_us"))
    end = F.when(F.col("gap_before_us").isNotNull(), F.col("mono_us"))
    rows = poll.withColumn("set_us", set_us).where(step.isNotNull() | end.isNotNull())
    return rows.groupBy("session").agg(
        F.collect_list(end).alias("gap_ends"),
        F.sort_array(F.collect_list(step)).alias("steps"),
    )


def with_clock_offsets(lines: DataFrame) -> DataFrame:
    """Add `set_us`, the sum of wall clock steps before each line, and `set_at_us`, the last step.

    `set_at_us` is the time on the clock after that step.
    """
    steps = of_kind(lines, "clock_stepped").select("session", "segment", "record_id", "line.*")
    order = Window.partitionBy("session").orderBy("segment", "record_id")
    steps = steps.withColumn("set_us", F.try_sum("step_us").over(order))
    step_with_position = F.struct(F.struct("segment", "record_id").alias("at"), "set_us", "at_us")
    steps = steps.groupBy("session").agg(
        F.sort_array(F.collect_list(step_with_position)).alias("steps")
    )
    rows = lines.join(F.broadcast(steps), "session", "left")
    position = F.struct("segment", "record_id")
    past_steps = F.filter("steps", lambda step: step["at"] <= position)
    last = F.get(past_steps, F.size(past_steps) - 1)
    set_us = F.coalesce(last["set_us"], F.lit(0))
    return rows.withColumns({"set_us": set_us, "set_at_us": last["at_us"]}).drop("steps")


def of_kind(lines: DataFrame, kind: str) -> DataFrame:
    """Return the readable lines of a kind other than polls: session, segment and struct `line`.

    Their times are as if the wall clock had never been set, if `with_clock_offsets` has added the
    offsets.
    """
    rows = lines.where((F.col("kind") == kind) & F.col(kind).isNotNull())
    line = _without_steps(lines, kind) if "set_us" in lines.columns else F.col(kind)
    return rows.select("session", "segment", "record_id", line.alias("line"))


def without_steps(lines: DataFrame, at_us: Column) -> Column:
    """Return a time of a line as if the wall clock had never been set, as in `of_kind`."""
    if "set_us" not in lines.columns:
        return at_us
    return F.coalesce(F.try_subtract(at_us, F.col("set_us")), at_us)


def _without_steps(lines: DataFrame, kind: str) -> Column:
    line = F.col(kind)

    def shifted(struct: Column, name: str) -> Column:
        return struct.withField(name, without_steps(lines, struct[name]))

    if kind == "findings_changed":
        # What holds since before the clock was set is told with the time that it then was.
        def with_shifted_start(finding: Column) -> Column:
            is_after_step = finding["since_at_us"].between(F.col("set_at_us"), line["at_us"])
            return F.when(is_after_step, shifted(finding, "since_at_us")).otherwise(finding)

        findings = F.transform(
            line["findings"], lambda finding: shifted(with_shifted_start(finding), "until_at_us")
        )
        line = line.withField("findings", findings)
    return shifted(line, "at_us")


def segments(lines: DataFrame, files: DataFrame) -> DataFrame:
    """Return `segment`: one row per file.

    A sealed segment is damaged if lines are missing between readable ones, or if the length at
    its end differs from the bytes read. The open one may end with an incomplete line, or with the
    first parts of a poll.
    """
    read = _segments_read(_records(lines))
    rows = files.join(read, ["session", "segment"], "left")
    rows = rows.na.fill(0, [name for name in read.columns if name.endswith(("_bytes", "_count"))])
    sealed = F.col("promised_bytes").isNotNull()
    no_end = (F.col("read_bytes") > F.col("size_bytes")) & (F.col("stray_lines_count") > 0)
    unfinished = F.col("begun_lines_count") + F.when(no_end, 1).otherwise(0)
    numbered = F.col("last_line_number").isNotNull()
    missing = F.when(
        numbered & sealed, F.col("last_line_number") + 1 - F.col("numbered_count")
    ).otherwise(0)
    too_long = F.col("promised_bytes") > F.col("read_bytes")
    differs = F.col("promised_bytes") != F.col("read_bytes") % 2**32
    wrong_length = F.when(numbered, too_long).otherwise(differs)
    corrupt = (missing > 0) | F.coalesce(wrong_length, F.lit(False))
    return SEGMENT.contract(
        rows.withColumns(
            {
                "missing_lines_count": missing,
                "unfinished_lines_count": F.when(sealed, 0).otherwise(unfinished),
                "corrupt": corrupt,
            }
        )
    )


def _segments_read(records: DataFrame) -> DataFrame:
    """Return the counts of readable lines and bytes of each segment, from its records."""
    left_out_records, lines = F.col("left_out"), F.col("lines_count")
    unknown = F.when(~left_out_records, F.col("unknown_lines_count")).otherwise(0)
    begun_lines = F.max_by(F.when(F.col("begun"), lines), "line_number")
    return records.groupBy("session", "segment").agg(
        F.sum("length_bytes").alias("read_bytes"),
        F.sum("lines_count").alias("lines_count"),
        F.sum(F.when(left_out_records, lines).otherwise(0)).alias("torn_lines_count"),
        F.sum(unknown).alias("unknown_lines_count"),
        F.max("line_number").alias("last_line_number"),
        F.count("line_number").alias("numbered_count"),
        begun_lines.alias("begun_lines_count"),
        F.count_if(F.col("line_number").isNull() & left_out_records).alias("stray_lines_count"),
    )
