"""The table of findings: recorded, or computed by the same rules if none were recorded."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from natstui.analysis.bronze.sources import Source
from natstui.analysis.silver.index import lines_of_kind
from natstui.analysis.silver.tables import FINDING
from natstui.errors import SessionError

FINDING_LINE_KINDS = ("findings_changed", "keyframe")
"""The kinds of lines with findings."""
NOT_JUDGED = "not_judged"
"""Kind of the row in the table `event` for a session whose findings are unknown."""


def findings(lines: DataFrame, first_keyframes: DataFrame) -> DataFrame:
    """Return `finding`: one row per recorded change of a finding."""
    changed_findings = lines_of_kind(lines, "findings_changed").select(
        "session", "line.at_us", "line.findings"
    )
    first_findings = first_keyframes.select("session", "findings.at_us", "findings.findings")
    rows = changed_findings.unionAll(first_findings)
    rows = rows.select("session", "at_us", F.explode("findings").alias("finding"))
    rows = rows.select("session", "at_us", "finding.*")
    sequences_text = F.array_join(F.col("sequences").cast("array<string>"), " ")
    name_columns = {
        name: F.nullif(F.col(name), F.lit("")) for name in ("stream", "consumer", "part")
    }
    return FINDING.conform(
        rows.withColumns(
            {**name_columns, "sequences": sequences_text, "numbers": F.to_json("numbers")}
        )
    )


def sources_without_findings(first_keyframes: DataFrame, sources: list[Source]) -> list[Source]:
    """Return the sources of which no recorded keyframe has findings."""
    rows = first_keyframes.where("has_findings").select("session").take(len(sources))
    sessions_with_findings = {row["session"] for row in rows}
    return [source for source in sources if source.session not in sessions_with_findings]


def computed_rows(source: Source) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of `finding` for a session without recorded findings, computed by the rules.

    They are computed in the driver, because executors have no natstui. Raises SessionError if the
    recording cannot be read, or it or the reader of recordings is not on this machine.
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
