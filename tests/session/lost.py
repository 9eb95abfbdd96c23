"""A recording that lost records: a finding ended and another began meanwhile, and all changed."""

from __future__ import annotations

from pathlib import Path

from natstui.model.records.findings import FindingReport, FindingsChanged
from natstui.model.records.record import Configured, Record
from natstui.model.records.recording import Gap
from natstui.session.files.folder import folder_name
from natstui.session.files.keyframe import KeyframeBuilder
from natstui.values import replace
from tests.session.making import Maker
from tests.session.scenario import START_US, Scenario, consumer, stream

LOST = folder_name(START_US, "lost")
"""Name of the recording."""
STREAM, NEW = "ORDERS-000", "billing"
MAX_BYTES = 10**12


def at_us(second: float) -> int:
    return START_US + round(second * 1e6)


WRITTEN_US, KNOWN_US = at_us(19), at_us(60)
"""When the last record before the loss was written, and the first one after it."""
STAYS = FindingReport("NT-S26", STREAM, "", START_US, "", at_us(5), "full in 1 h")
ENDS = FindingReport("NT-S09", STREAM, "", START_US, "", at_us(9), "64 of 64 wait")
RETURNS = FindingReport("NT-S30", STREAM, "", START_US, "", at_us(10), "once")
BEGINS = FindingReport("NT-C07", STREAM, NEW, START_US, "", at_us(40), "nobody pulls")


def lost() -> list[Record]:
    """Return what was lost."""
    over = (replace(ENDS, until_at_us=at_us(30)), replace(RETURNS, until_at_us=at_us(31)))
    again = replace(RETURNS, since_at_us=at_us(45), text="twice")
    limited = replace(stream(STREAM, START_US, MAX_BYTES), discard="new", config_json='{"v":2}')
    filtered = replace(consumer(STREAM, NEW, START_US), filter_subjects=("a.b",))
    return [FindingsChanged(at_us(50), (*over, again, BEGINS)),
            Configured(at_us(51), (limited,), (filtered,))]  # fmt: skip


def write(sessions: Path) -> Path:
    """Write the recording; return its folder."""
    scenario, keyframes = Scenario(streams=2, consumers=4), KeyframeBuilder()
    maker = Maker(sessions, 1_000, "lost", keyframes)
    known = FindingsChanged(at_us(11), (STAYS, ENDS, RETURNS))
    for record in (*scenario.beginning(), *scenario.records(0, 20), known):
        maker.add(record)
    for record in lost():
        keyframes.add(record)
    maker.rotate(KNOWN_US)
    maker.add(Gap(KNOWN_US, WRITTEN_US, 40, "the disk was full"))
    for record in scenario.records(61, 81):
        maker.add(record)
    maker.disk.finish(at_us(81))
    return maker.disk.folder
