"""An analysis beside plain scripts, on Spark and on polars, of the same lines.

Each script computes three tables per consumer: its lag, its rates by minute, when it was stuck.
An analysis computes those and some thirty more, checks every line, and writes all of them; what is
printed are ratios of wall clock and of CPU. `NATSTUI_BENCH_SESSION` may name a session; otherwise
the hour of `benchmarks.analysis` is written. Polars is left out where it is not installed.
"""

from __future__ import annotations

import gzip
import importlib
import importlib.util
import io
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks._fleet import Plan
from benchmarks._sessions import write_session
from benchmarks.analysis import measured

STUCK_AFTER_SAME_ACK_FLOOR_S = 30
_BIGINTS = (
    "created_at_us", "sampled_mono_us", "delivered_consumer_seq", "delivered_stream_ahead_seq",
    "ack_floor_stream_behind_seq", "pending_msgs", "ack_pending_msgs",
)  # fmt: skip
_TEXTS = ("stream", "name")


def with_spark(session: Path) -> dict[str, int]:
    """Return the rows of each table, computed by Spark as it is started by default."""
    from pyspark.sql import SparkSession, Window
    from pyspark.sql import functions as F

    spark = SparkSession.builder.master("local[2]").appName("plain").getOrCreate()
    columns = [f"{name}: array<bigint>" for name in _BIGINTS]
    columns += [f"{name}: array<string>" for name in _TEXTS]
    schema = f"kind string, taken_at_us bigint, consumers struct<{', '.join(columns)}>"
    polls = spark.read.schema(schema).json(f"{session}/records-*").where("kind = 'snapshot'")
    zipped = F.arrays_zip(*(f"consumers.{name}" for name in (*_TEXTS, *_BIGINTS)))
    rows = polls.select("taken_at_us", F.inline(zipped)).cache()
    key = ["stream", "name", "created_at_us"]
    before = Window.partitionBy(*key).orderBy("sampled_mono_us")
    rows = rows.withColumns(
        {
            "elapsed_us": F.col("sampled_mono_us") - F.lag("sampled_mono_us").over(before),
            "delivered": F.col("delivered_consumer_seq")
            - F.lag("delivered_consumer_seq").over(before),
            "floor": F.col("delivered_consumer_seq")
            + F.col("delivered_stream_ahead_seq")
            - F.col("ack_floor_stream_behind_seq"),
            "minute": F.floor(F.col("taken_at_us") / 60_000_000),
        }
    )
    minutes = rows.groupBy(*key, "minute").agg(
        (F.sum("delivered") / F.sum("elapsed_us") * 1e6).alias("delivered_per_s"),
        F.avg("pending_msgs").alias("pending"),
    )
    lag = minutes.groupBy(*key).agg(
        F.regr_slope("pending", "minute"), F.max("pending"), F.max_by("pending", "minute")
    )
    waits = (F.col("pending_msgs") > 0) | (F.col("ack_pending_msgs") > 0)
    moved = F.coalesce(F.col("floor") != F.lag("floor").over(before), F.lit(True)) | ~waits
    runs = rows.withColumn("moved", moved.cast("int"))
    runs = runs.withColumn("run", F.sum("moved").over(before)).where(waits)
    lasted = (F.max("taken_at_us") - F.min("taken_at_us")) / 1e6
    stuck = (
        runs.groupBy(*key, "run")
        .agg(lasted.alias("s"))
        .where(F.col("s") >= STUCK_AFTER_SAME_ACK_FLOOR_S)
    )
    counts = {"rates": minutes.count(), "lag": lag.count(), "stuck": stuck.count()}
    spark.stop()
    return counts


def with_polars(session: Path) -> dict[str, int]:
    """Return the rows of each table, computed by polars."""
    pl: Any = importlib.import_module("polars")
    columns = {name: pl.List(pl.Int64) for name in _BIGINTS}
    columns |= {name: pl.List(pl.String) for name in _TEXTS}
    schema = {"taken_at_us": pl.Int64, "consumers": pl.Struct(columns)}
    frames = []
    for path in sorted(session.glob("records-*")):
        content = path.read_bytes()
        text = gzip.decompress(content) if path.suffix == ".gz" else content
        lines = [line for line in text.splitlines() if line.startswith(b'{"kind":"snapshot"')]
        if lines:
            polls = pl.read_ndjson(io.BytesIO(b"\n".join(lines)), schema=schema)
            frames.append(polls.unnest("consumers").explode(*_TEXTS, *_BIGINTS))
    key = ["stream", "name", "created_at_us"]
    rows = pl.concat(frames).sort([*key, "sampled_mono_us"])
    rows = rows.with_columns(
        elapsed_us=pl.col("sampled_mono_us").diff().over(key),
        delivered=pl.col("delivered_consumer_seq").diff().over(key),
        floor=pl.col("delivered_consumer_seq")
        + pl.col("delivered_stream_ahead_seq")
        - pl.col("ack_floor_stream_behind_seq"),
        minute=pl.col("taken_at_us") // 60_000_000,
        waits=(pl.col("pending_msgs") > 0) | (pl.col("ack_pending_msgs") > 0),
    )
    minutes = rows.group_by([*key, "minute"]).agg(
        delivered_per_s=pl.col("delivered").sum() / pl.col("elapsed_us").sum() * 1e6,
        pending=pl.col("pending_msgs").mean(),
    )
    slope = pl.cov("pending", "minute") / pl.col("minute").var()
    lag = minutes.group_by(key).agg(slope.alias("slope"), pl.col("pending").max())
    moved = (pl.col("floor").diff().over(key) != 0).fill_null(value=True) | ~pl.col("waits")
    runs = rows.with_columns(run=moved.cast(pl.Int32).cum_sum().over(key)).filter("waits")
    at_us = pl.col("taken_at_us")
    lasted = runs.group_by([*key, "run"]).agg(s=(at_us.max() - at_us.min()) / 1e6)
    stuck = lasted.filter(pl.col("s") >= STUCK_AFTER_SAME_ACK_FLOOR_S)
    return {"rates": minutes.height, "lag": lag.height, "stuck": stuck.height}


SCRIPTS: dict[str, Callable[[Path], dict[str, int]]] = {
    "spark": with_spark,
    "polars": with_polars,
}


def script(name: str, session: Path) -> tuple[float, float]:
    """Run a script in a process of its own; return its wall clock and its CPU, in seconds."""
    before, start_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks.plain", name, str(session)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    )
    wall_s, after = time.monotonic() - start_s, resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"  plain {name:<9} {ran.stdout.strip()}", flush=True)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall_s, cpu_s


def main() -> None:
    """Measure all of them, one after the other."""
    if len(sys.argv) == 3 and sys.argv[1] in SCRIPTS:
        print(SCRIPTS[sys.argv[1]](Path(sys.argv[2])))
        return
    with tempfile.TemporaryDirectory(prefix="natstui-bench-") as place:
        given = os.environ.get("NATSTUI_BENCH_SESSION")
        session = Path(given) if given else Path(place, "hour")
        if not given:
            write_session(session, Plan(), findings=True)
        cost = measured(session, Path(place, "out"))
        print(f"  analysis        {cost.wall_s:6.1f} s wall  {cost.cpu_s:6.1f} s CPU", flush=True)
        for name in SCRIPTS:
            if name == "polars" and importlib.util.find_spec("polars") is None:
                print("  plain polars    is not installed: pip install polars")
                continue
            wall_s, cpu_s = script(name, session)
            times = f"{cost.wall_s / wall_s:.1f} times its wall, {cost.cpu_s / cpu_s:.1f} its CPU"
            print(f"  plain {name:<9} {wall_s:6.1f} s wall  {cpu_s:6.1f} s CPU: an analysis takes "
                  f"{times}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
