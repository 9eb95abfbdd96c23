"""The silver tables of the analysed sessions, from which the gold tables are computed."""

from __future__ import annotations

from msgspec import Struct
from pyspark.sql import DataFrame

from natstui.analysis.silver.tables import TABLES
from natstui.analysis.spark.store import TableStore


class Silver(Struct, frozen=True):
    """The rows of the analysed sessions, one DataFrame per table."""

    stream_sample: DataFrame
    consumer_sample: DataFrame
    poll: DataFrame
    segment: DataFrame
    advisory: DataFrame
    ack_sample: DataFrame
    ack_time: DataFrame
    finding: DataFrame
    event: DataFrame
    configuration: DataFrame
    server_sample: DataFrame
    bench_interval: DataFrame
    bench_latency: DataFrame
    bench_result: DataFrame


def read_silver(store: TableStore, sessions: list[str]) -> Silver:
    """Return the silver tables with only the rows of these sessions."""
    return Silver(**{table.name: store.silver(table, sessions) for table in TABLES})
