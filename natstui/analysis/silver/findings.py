"""The findings: recorded, or computed by the same rules for a session without recorded ones."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from natstui.analysis.bronze.sources import Source
from natstui.analysis.silver.index import of_kind
from natstui.analysis.silver.tables import FINDING
from natstui.errors import SessionError

MADE_OF = ("findings_changed", "keyframe")
"""The kinds of lines with findings."""
NOT_JUDGED = "not_judged"
"""Kind of the row in the table `event` for a session whose findings are unknown."""


def findings(lines: DataFrame, first_keyframes: DataFrame) -> DataFrame:
    """Return `finding`: one row per change of a finding, of sessions with recorded findings."""
    changed = of_kind(lines, "findings_changed").select("session", "line.at_us", "line.findings")
    open_at_first = first_keyframes.select("session", "findings.at_us", "findings.findings")
    rows = changed.unionAll(open_at_first)
    rows = rows.select("session", "at_us", F.explode("findings").alias("one"))
    rows = rows.select("session", "at_us", "one.*")
    sequences = F.array_join(F.col("sequences").cast("array<string>"), " ")
    named = {name: F.nullif(F.col(name), F.lit("")) for name in ("stream", "consumer", "part")}
    return FINDING.contract(
        rows.withColumns({**named, "sequences": sequences, "numbers": F.to_json("numbers")})
    )


def without_findings(first_keyframes: DataFrame, sources: list[Source]) -> list[Source]:
    """Return the sessions without recorded findings."""
    rows = first_keyframes.where("has_findings").select("session").take(len(sources))
    recorded = {row["session"] for row in rows}
    return [source for source in sources if source.session not in recorded]


def computed_rows(source: Source) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of `finding` for a session without recorded findings, computed by the rules.

    This runs in the driver: executors have no natstui. Raises SessionError, also if the recording
    or the reader of recordings is not on this machine.
    """
    if source.path is None:
        raise SessionError("the recording is not on the machine that runs the analysis")
    # What is submitted to a cluster has no reader of recordings.
    if importlib.util.find_spec("natstui.session") is None:
        raise SessionError("the code that reads recordings is not installed on the Spark cluster")
    from natstui.session.read.judged import changes_of

    for change in changes_of(source.path):
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
