"""The table of findings: recorded, or computed by the same rules if none were recorded."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from natstui.analysis.bronze.sources import SessionSource
from natstui.analysis.silver.index import lines_of_kind
from natstui.analysis.silver.tables import FINDING
from natstui.analysis.spark.store import TableStore
from natstui.errors import SessionError

FINDING_LINE_KINDS = ("findings_changed", "keyframe")
"""The kinds of lines with findings."""
NOT_JUDGED_KIND = "not_judged"
"""Kind of the row in the table `event` for a session whose findings are unknown."""


def findings(lines: DataFrame, keyframes: DataFrame) -> DataFrame:
    """Return `finding`: one row per recorded change of a finding.

    A finding that is open before a loss of records, but not in the keyframe after the loss, ends
    at the start of the loss.
    """
    changes = lines_of_kind(lines, "findings_changed").select(
        "session", "segment", "record_id", "line.at_us", "line.findings"
    )
    keyframe_findings = keyframes.select("session", "segment", F.lit(0), "at_us", "findings")
    rows = changes.unionAll(keyframe_findings)
    names = ("session", "segment", "record_id", "at_us")
    rows = rows.select(*names, F.posexplode("findings").alias("position", "finding"))
    rows = rows.select(*names, "position", "finding.*")
    if keyframes.where("lost_from_at_us IS NOT NULL").take(1):
        rows = rows.unionByName(_ends_at_losses(rows, keyframes))
    sequences_text = F.array_join(F.col("sequences").cast("array<string>"), " ")
    name_columns = {
        name: F.nullif(F.col(name), F.lit("")) for name in ("stream", "consumer", "part")
    }
    return FINDING.conform(
        rows.withColumns(
            {**name_columns, "sequences": sequences_text, "numbers": F.to_json("numbers")}
        )
    )


def _ends_at_losses(rows: DataFrame, keyframes: DataFrame) -> DataFrame:
    """Return a row for the end of each finding that is open before a loss, and not after it.

    `rows` are the changes of findings, with their position in the recording.
    """
    losses = keyframes.where(F.col("lost_from_at_us").isNotNull()).select(
        "session", "segment", "lost_from_at_us", F.col("at_us").alias("known_at_us")
    )
    key = ("session", "code", "stream", "consumer", "created_at_us", "part", "since_at_us")
    findings_at_losses = rows.select(*key).distinct().join(F.broadcast(losses), "session")
    keyframe_findings = rows.where(F.col("record_id") == 0)
    lost_findings = findings_at_losses.join(keyframe_findings, [*key, "segment"], "left_anti")
    # A loss has no record_id, and a null is before all numbers of its segment.
    order = Window.partitionBy(*key).orderBy("segment", "record_id", "position")
    last_change = F.struct("record_id", "until_at_us", "text", "sequences", "numbers")
    finding_changes = rows.unionByName(lost_findings, allowMissingColumns=True)
    finding_changes = finding_changes.withColumn("last", F.lag(last_change).over(order))
    is_open = F.col("last.record_id").isNotNull() & F.col("last.until_at_us").isNull()
    return finding_changes.where(F.col("record_id").isNull() & is_open).select(
        *key,
        "segment",
        "record_id",
        "position",
        F.col("known_at_us").alias("at_us"),
        F.greatest("lost_from_at_us", "since_at_us").alias("until_at_us"),
        "last.text",
        "last.sequences",
        "last.numbers",
    )


def sources_without_findings(
    keyframes: DataFrame, sources: list[SessionSource]
) -> list[SessionSource]:
    """Return the sources of which no recorded keyframe has findings."""
    # A session with losses has several keyframes.
    rows = keyframes.where("has_findings").select("session").distinct().take(len(sources))
    sessions_with_findings = {row["session"] for row in rows}
    return [source for source in sources if source.session not in sessions_with_findings]


_COMPUTED_FOLDER = "computed_finding"
"""Name of the temporary folder with the computed findings, a file per session."""


def write_finding_rows(store: TableStore, source: SessionSource, file_name: str) -> int:
    """Write the computed findings of a session to a temporary file; return their count.

    They are written one by one: an old recording may have more than fit in memory. Raises
    SessionError if they cannot be computed.
    """
    if not store.can_write_rows:
        # A path of the server may be another recording on this machine.
        raise SessionError("the recording is on the Spark Connect server, not on this machine")
    return store.write_rows(FINDING, _COMPUTED_FOLDER, file_name, compute_finding_rows(source))


def read_finding_rows(store: TableStore) -> DataFrame:
    """Return the rows of `finding` that `write_finding_rows` has written."""
    return store.read_rows(FINDING, _COMPUTED_FOLDER)


def compute_finding_rows(source: SessionSource) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of `finding` for a session without recorded findings, computed by the rules.

    They are computed in the driver, because executors have no natstui. Raises SessionError if the
    recording cannot be read, or if this machine lacks the recording or natstui's reader.
    """
    if source.path is None:
        raise SessionError("the recording is not on the machine that runs the analysis")
    # The zip for spark-submit does not include the reader of recordings.
    if importlib.util.find_spec("natstui.session") is None:
        raise SessionError("the code that reads recordings is not installed on the Spark cluster")
    from natstui.session.read.findings import compute_changes

    for change in compute_changes(source.path):
        for finding in change.findings:
            yield (
                source.session,
                finding.stream or None,
                finding.consumer or None,
                finding.part or None,
                finding.created_at_us,
                change.at_us,
                finding.code,
                finding.since_at_us,
                finding.until_at_us,
                finding.text,
                " ".join(map(str, finding.sequences)),
                json.dumps(finding.numbers) if finding.numbers else None,
            )
