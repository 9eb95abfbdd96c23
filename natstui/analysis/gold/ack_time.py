"""Table of the times from delivery to ack, from the acks that the server samples."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from natstui.analysis.gold.bench import merge_histograms
from natstui.analysis.gold.gold_table import GoldTable
from natstui.analysis.section import Section
from natstui.analysis.silver.layer import Silver
from natstui.analysis.silver.tables import ACK_TIME as SILVER
from natstui.analysis.tables import SESSION_COLUMN, Table, columns
from natstui.model.bench.latency import PERCENTILES, SAMPLED_PERCENTILES

_KEY_COLUMNS = ["session", "stream", "consumer"]
ACK_TIME = Table(
    "ack_time_summary",
    "Times from delivery to acknowledgement of each consumer with a sample frequency.",
    columns(
        SESSION_COLUMN,
        ("stream", "string", "Name of the stream"),
        ("consumer", "string", "Name of the consumer"),
        ("samples_count", "bigint", "Sampled acknowledgements"),
        ("repeated_count", "bigint", "Samples of redelivered messages"),
        ("left_out_count", "bigint", "Samples not read because they arrived too fast"),
        *((f"{name}_us", "double", f"{percent:g} % are not above") for name, percent
          in PERCENTILES.items()),
        ("max_us", "double", "Largest"),
    ),
    key=("session", "stream", "consumer"),
)  # fmt: skip


def compute_ack_time(silver: Silver) -> DataFrame:
    """Return `ack_time_summary`: one row per consumer name, from its sampled acks."""
    percentile_rows = merge_histograms(
        silver.ack_time.where(F.col("latencies_count") > 0), _KEY_COLUMNS
    )
    ack_counts = silver.ack_time.groupBy(*_KEY_COLUMNS).agg(
        *(F.sum(name).alias(name) for name in ("repeated_count", "left_out_count"))
    )
    rows = percentile_rows.join(ack_counts, _KEY_COLUMNS)
    return ACK_TIME.conform(rows.withColumnRenamed("latencies_count", "samples_count"))


REPORT_POSITION = 110
GOLD_TABLES = (
    GoldTable(
        ACK_TIME,
        lambda inputs: compute_ack_time(inputs.silver),
        section=Section(
            "Time to acknowledge",
            ("session", "stream", "consumer", "samples_count",
             *(f"{name}_us" for name in SAMPLED_PERCENTILES), "max_us", "repeated_count",
             "left_out_count"),
            "No consumer has a sample frequency.",
            optional=True,
        ),
        sorted_by=("-p99_us",),
        source_tables=(SILVER,),
    ),
)  # fmt: skip
