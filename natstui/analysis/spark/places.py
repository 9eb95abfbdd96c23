"""Where the rows of a large table lie: in a folder for each day and server.

A question about one of them, in a month of recordings of many servers, reads only its own files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from natstui.analysis.tables import DAY, SERVER, Table, looked_up

_ESCAPED = re.compile(r"[\x01-\x1f\x7f\"#%'*/:=?\\{\[\]^]")
_NOTHING = "__HIVE_DEFAULT_PARTITION__"
"""Spark's name for the folder of rows without a value."""
_END_US = 253_402_300_800_000_000
"""The year 10000: a day from then on, or before 1970, comes of a damaged recording."""


def part_folder(name: str, value: str | None) -> str:
    """Return the name that Spark gives to the folder of the rows with a value."""
    if not value:
        return f"{name}={_NOTHING}"
    return f"{name}=" + _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", value)


def with_places(table: Table, rows: DataFrame, servers: Mapping[str, str]) -> DataFrame:
    """Return stored rows with their day and server; `servers` are those of sessions."""
    at_us = F.col(table.day_of)
    day = F.when(at_us.between(0, _END_US - 1), F.to_date(F.timestamp_micros(at_us)))
    server = looked_up(F.col("session"), servers)
    return rows.withColumns({DAY: day.cast("string"), SERVER: server})
