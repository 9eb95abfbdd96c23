"""The findings: as they are recorded; a session that holds none is judged by the same rules."""

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
"""The kinds of lines that hold findings."""
NOT_JUDGED = "not_judged"
"""Kind of the row in the table `event` of a session whose findings are not known."""


def findings(lines: DataFrame) -> DataFrame:
    """Return `finding`: one row per change of a finding, of sessions that hold their findings."""
    changed = of_kind(lines, "findings_changed").select("session", "line.at_us", "line.findings")
    rows = changed.unionAll(_open_at_first(lines))
    rows = rows.select("session", "at_us", F.explode("findings").alias("one"))
    rows = rows.select("session", "at_us", "one.*")
    sequences = F.array_join(F.col("sequences").cast("array<string>"), " ")
    named = {name: F.nullif(F.col(name), F.lit("")) for name in ("stream", "consumer", "part")}
    return FINDING.contract(
        rows.withColumns({**named, "sequences": sequences, "numbers": F.to_json("numbers")})
    )


def _open_at_first(lines: DataFrame) -> DataFrame:
    """Return what was open when the recording began: it is told again only when it changes.

    Of a recording whose oldest segments were removed, when the first that is left began.
    """
    known = F.struct("line.at_us", F.col("line.findings.findings").alias("findings"))
    first = F.min_by(known, "segment").alias("first")
    rows = of_kind(lines, "keyframe").groupBy("session").agg(first)
    return rows.select("session", "first.at_us", "first.findings")


def without_findings(lines: DataFrame, sources: list[Source]) -> list[Source]:
    """Return the sessions that do not hold their findings."""
    known = F.col("keyframe")["findings"].isNotNull()
    rows = lines.where((F.col("kind") == "keyframe") & known)
    rows = rows.select("session").distinct().take(len(sources))
    held = {row["session"] for row in rows}
    return [source for source in sources if source.session not in held]


def judged_rows(source: Source) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a session that does not hold its findings, from the rules themselves.

    Here and not beside the JVM: executors have no Python of ours. Raises SessionError, also where
    the recording, or the reader of recordings, is not on this machine.
    """
    if source.path is None:
        raise SessionError("the recording is not on the machine that runs the analysis")
    # What is submitted to a cluster has no reader of recordings.
    if importlib.util.find_spec("natstui.session") is None:
        raise SessionError("the code that reads recordings is not installed on the Spark cluster")
    from natstui.session.read.judged import changes_of

    for change in changes_of(source.path):
        for one in change.findings:
            yield (
                source.session,
                one.stream or None,
                one.consumer or None,
                one.part or None,
                one.created_at_us,
                change.at_us,
                one.code,
                one.since_at_us,
                one.until_at_us,
                one.text,
                " ".join(map(str, one.sequences)),
                json.dumps(one.numbers) if one.numbers else None,
            )
