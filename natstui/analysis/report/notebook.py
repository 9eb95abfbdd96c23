"""A notebook whose cells load the gold tables and draw the main charts."""

from __future__ import annotations

import json
from typing import Any

from natstui.clean import clean_line

_CELL_KINDS_AND_TEXTS = (
    (
        "markdown",
        "# natstui: {sessions}\n\n"
        "The tables of an analysis (`DICTIONARY.md` beside them explains every column), and its "
        "main pictures.\nNeeds `pip install pyspark matplotlib` and Java 17. All times are UTC.",
    ),
    (
        "code",
        """import matplotlib.pyplot as plt
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

GOLD, FORMAT = {gold}, {format}
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.ui.enabled", "false")
    .getOrCreate()
)


def gold(name):
    return spark.read.format(FORMAT).load(f"{{GOLD}}/{{name}}")


def rows(table, *names):
    return [row.asDict() for row in table.select(*names).collect()]


def minutes(values, first_us):
    return [(value - first_us) / 60e6 for value in values]""",
    ),
    ("markdown", "## Needs attention\n\nBy harm: lost, stuck, soon, late, wasteful."),
    (
        "code",
        """verdict = gold("verdict").orderBy("rank")
fields = ("rank", "harm", "code", "subject", "sentence", "evidence", "advice")
for row in rows(verdict, *fields):
    print(f"{{row['rank']}}. [{{row['harm']}} {{row['code'] or ''}}]", end=" ")
    print(f"{{row['subject']}}: {{row['sentence']}}")
    print(f"   {{row['evidence']}}")
    print(f"   -> {{row['advice']}}")""",
    ),
    (
        "markdown",
        "## Load\n\nAll streams and consumers together, in intervals that fit the "
        "length of the session.",
    ),
    (
        "code",
        """picture = gold("picture").orderBy("session", "rank", "bucket_at_us")
load = rows(
    picture.where("rank = 0"),
    "session", "bucket_at_us", "published_per_s", "delivered_per_s", "pending_msgs",
)
for session in sorted({{row["session"] for row in load}}):
    own = [row for row in load if row["session"] == session]
    at = minutes([row["bucket_at_us"] for row in own], own[0]["bucket_at_us"])
    figure, (above, below) = plt.subplots(2, 1, sharex=True, figsize=(10, 5))
    for name in ("published_per_s", "delivered_per_s"):
        above.plot(at, [row[name] for row in own], label=name)
    below.plot(at, [row["pending_msgs"] for row in own], label="pending_msgs")
    above.legend()
    below.legend()
    above.set_title(session)
    below.set_xlabel("minutes since the first poll")
plt.show()""",
    ),
    ("markdown", "## The worst consumers\n\nMessages pending, worst first."),
    (
        "code",
        """worst = rows(
    picture.where("rank between 1 and 6"),
    "session", "rank", "stream", "consumer", "bucket_at_us", "pending_msgs",
)
for session in sorted({{row["session"] for row in worst}}):
    figure, axes = plt.subplots(figsize=(10, 4))
    own = [row for row in worst if row["session"] == session]
    first_us = min(row["bucket_at_us"] for row in own)
    for rank in sorted({{row["rank"] for row in own}}):
        one = [row for row in own if row["rank"] == rank]
        at = minutes([row["bucket_at_us"] for row in one], first_us)
        name = f"{{one[0]['stream']}} > {{one[0]['consumer']}}"
        axes.plot(at, [row["pending_msgs"] for row in one], label=name)
    axes.set_title(session)
    axes.set_xlabel("minutes since the first poll")
    axes.legend()
plt.show()""",
    ),
    ("markdown", "## What was stuck, and why"),
    (
        "code",
        """stuck = rows(
    gold("stuck").orderBy(F.desc("duration_s")).limit(30),
    "stream", "consumer", "cause", "start_at_us", "duration_s",
)
if stuck:
    first_us = min(row["start_at_us"] for row in stuck)
    figure, axes = plt.subplots(figsize=(10, 0.4 * len(stuck) + 1))
    names = [f"{{row['stream']}} > {{row['consumer']}}: {{row['cause']}}" for row in stuck]
    axes.barh(
        names,
        [row["duration_s"] / 60 for row in stuck],
        left=minutes([row["start_at_us"] for row in stuck], first_us),
    )
    axes.set_xlabel("minutes since the first of them")
    plt.show()""",
    ),
    ("markdown", "## What changed against the baseline"),
    (
        "code",
        """differs = F.col("verdict").isin("slower", "faster", "more", "less")
changed = gold("comparison").where(differs)
changed = changed.select("compared", "stream", "consumer", "verdict", "words", "interval")
changed.show(50, truncate=False)""",
    ),
)


def notebook_text(result: dict[str, Any]) -> str:
    """Return the notebook of a result, as JSON of nbformat 4.5."""
    session_names = clean_line(", ".join(result["sessions"]))
    gold = json.dumps(f"{result['out']}/gold")
    tables_format = json.dumps(result.get("tables_format", "parquet"))
    cells = [
        _notebook_cell(n, kind, text, session_names, gold, tables_format)
        for n, (kind, text) in enumerate(_CELL_KINDS_AND_TEXTS)
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook = {
        "cells": cells,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(notebook, indent=1) + "\n"


def _notebook_cell(
    number: int, kind: str, text: str, sessions: str, gold: str, tables_format: str
) -> dict[str, Any]:
    source_lines = (
        text.format(gold=gold, format=tables_format)
        if kind == "code"
        else text.replace("{sessions}", sessions.replace("<", "&lt;"))
    ).splitlines(keepends=True)
    cell: dict[str, Any] = {
        "cell_type": kind, "id": f"natstui-{number}", "metadata": {}, "source": source_lines
    }  # fmt: skip
    return cell | {"execution_count": None, "outputs": []} if kind == "code" else cell
