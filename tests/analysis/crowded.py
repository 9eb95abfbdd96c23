"""A session in which much is wrong, and one stream is nearly full besides."""

from __future__ import annotations

from pathlib import Path

from benchmarks._fleet import START_AT_US, Fleet, Plan
from benchmarks._sessions import records, write_records
from natstui.model.records.findings import FindingReport

CROWDED = "crowded"
PLAN = Plan(14, 14, 40, replicas_share=0.0)
NEARLY_FULL, NEAR_CODE = "BILLING-007", "NT-S26"
WORSE_CODES = ("NT-C01", "NT-C02", "NT-C03", "NT-C04", "NT-C05", "NT-C06", "NT-C07", "NT-C08",
               "NT-C09", "NT-C11", "NT-C15", "NT-C42")  # fmt: skip
"""Critical findings of the catalogue, each open for a consumer of its own."""


def known() -> tuple[FindingReport, ...]:
    """Return what was wrong when the recording began, each since another minute."""
    fleet = Fleet(PLAN)
    owners = [fleet.stream_names[index] for index in fleet.owner]
    places = zip(owners, fleet.consumer_names, strict=True)
    others = [place for place in places if place[0] != NEARLY_FULL]
    created_at_us = START_AT_US - 3_600_000_000
    worse = tuple(
        FindingReport(code, *place, created_at_us, "", START_AT_US - minute * 60_000_000, "again")
        for minute, (code, place) in enumerate(zip(WORSE_CODES, others, strict=False), 1)
    )
    near = FindingReport(NEAR_CODE, NEARLY_FULL, "", created_at_us, "",
                         START_AT_US - 3_000_000_000, "95 % of max bytes")  # fmt: skip
    return (*worse, near)


def write(folder: Path) -> None:
    """Write the session."""
    write_records(folder / CROWDED, records(PLAN), PLAN, known=known())
