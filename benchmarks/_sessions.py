"""Synthetic sessions: a fleet simulated second by second, with faults planted where asked.

Written through the product's own codec, so a change of the records reaches them too. Everything
follows from the seed. `python -m benchmarks._sessions DIR --hours 1` makes the big ones.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from benchmarks._fleet import Fleet, Plan
from natstui.lines import SCHEMA_VERSION
from natstui.model.live.snapshot import Snapshot
from natstui.model.records.findings import FindingReport, FindingsChanged, FindingsSoFar
from natstui.model.records.record import (
    Configured,
    EngineStarted,
    LinkChanged,
    Noted,
    Record,
    Restored,
    Unavailable,
)
from natstui.session.files.entry import RecordSplitter, encode_keyframe
from natstui.session.files.folder import segment_path
from natstui.session.files.info import create_info, write_info
from natstui.session.files.keyframe import Keyframe
from natstui.session.write.recorder import FindingsEvaluator
from natstui.session.write.seal import seal
from natstui.values import replace

MONO_US = 5_000_000_000


def records(plan: Plan) -> Iterator[Record]:
    """Yield every record of the session in the order of time."""
    start = plan.started_at_us
    fleet = Fleet(plan)
    yield EngineStarted(start, "0.1.0", SCHEMA_VERSION, "synthetic", True, False,
                        plan.interval_s, "", False, True, {})  # fmt: skip
    yield LinkChanged(start, "connected", None, server_name="n1", server_version="2.15.1")
    yield Configured(start, *fleet.configurations())
    for tick in range(plan.ticks_count):
        at_us = start + round(tick * plan.interval_s * 1e6)
        mono_us = MONO_US + at_us - start
        yield from fleet.step(tick, at_us)
        gap = next((g for g in plan.gaps if g[0] <= tick < g[1]), None)
        if gap is None:
            yield fleet.snapshot(at_us, mono_us)
        elif tick == gap[0]:
            yield Unavailable(at_us, "STREAM.LIST", "no answer within 5 s")
        elif tick == gap[1] - 1:
            yield Restored(at_us, "STREAM.LIST")
        yield from fleet.events(tick, at_us)
    yield from plan.extra
    yield Noted(start + round(plan.ticks_count * plan.interval_s * 1e6), "end of the simulation")


def judged(many: Iterable[Record]) -> Iterator[Record]:
    """Yield the records with the findings that the recorder would write among them."""
    judge = FindingsEvaluator(())
    for record in many:
        yield record
        judge.add(record)
        changed = judge.find_changes()
        if changed is not None:
            yield changed


def write_session(
    folder: Path, plan: Plan, *, records_per_segment: int = 120, findings: bool = False
) -> Path:
    """Write a session as the recorder does: sealed segments, and the last one open.

    With its `findings`, as recordings are now; without, as older ones are, and quicker.
    """
    many = judged(records(plan)) if findings else records(plan)
    return write_records(folder, many, plan, records_per_segment=records_per_segment)


def write_records(
    folder: Path,
    many: Iterator[Record],
    plan: Plan,
    *,
    records_per_segment: int = 120,
    known: tuple[FindingReport, ...] = (),
) -> Path:
    """Write a session of these records; the plan tells when it began and ended.

    `known` is what was wrong already when it began.
    """
    folder.mkdir(parents=True)
    # One segment in memory at a time: ten hours of polls would not fit.
    for number, chunk in enumerate(_chunks(many, records_per_segment), 1):
        if number > 1:
            seal(folder, number - 1)
        _write_segment(folder, number, chunk, known if number == 1 else ())
    last_at_us = plan.started_at_us + round(plan.ticks_count * plan.interval_s * 1e6)
    started = replace(create_info(folder.name, plan.started_at_us), server_name="n1")
    write_info(folder, replace(started, ended_at_us=last_at_us, interval_s=plan.interval_s))
    return folder


def _write_segment(
    folder: Path, number: int, chunk: list[Record], known: tuple[FindingReport, ...]
) -> None:
    at_us = _at_us(chunk[0])
    nothing = Configured(at_us, (), ())
    held = bool(known) or any(isinstance(record, FindingsChanged) for record in chunk)
    findings = FindingsSoFar(at_us, known) if held else None
    keyframe = Keyframe(at_us, SCHEMA_VERSION, None, None, None, nothing, (), None, None, None,
                        findings)  # fmt: skip
    splitter, lines = RecordSplitter(), [encode_keyframe(keyframe)]
    for line_number, record in enumerate(chunk, 1):
        lines += splitter.lines(record, line_number)
    segment_path(folder, number, sealed=False).write_bytes(b"".join(lines))


def _at_us(record: Record) -> int:
    return record.taken_at_us if isinstance(record, Snapshot) else record.at_us


def _chunks(many: Iterator[Record], size: int) -> Iterator[list[Record]]:
    while chunk := list(islice(many, size)):
        yield chunk


def main() -> None:
    """Write sessions of the given length."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--consumers", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    words = parser.parse_args()
    plan = Plan(words.streams, words.consumers, round(words.hours * 3600), seed=words.seed)
    started = datetime.fromtimestamp(plan.started_at_us / 1e6, UTC)
    name = f"{started:%Y%m%dT%H%M%SZ}-synthetic-{words.seed}"
    print(write_session(words.folder / name, plan))


if __name__ == "__main__":
    main()
