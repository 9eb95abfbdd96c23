"""Small sessions, ways to damage them, and one that is damaged in each of these ways."""

from __future__ import annotations

import gzip
import itertools
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from benchmarks._bench_run import bench_records
from benchmarks._fleet import START_AT_US, Fault, Plan
from benchmarks._sessions import records, write_records, write_session
from natstui.analysis.bronze.build import read_lines
from natstui.analysis.bronze.files import current_segments, segment_files
from natstui.analysis.bronze.sources import find_sources
from natstui.model.live.snapshot import Snapshot
from natstui.model.records.benchmark import BenchmarkReport
from natstui.model.records.findings import FindingReport
from natstui.model.records.record import AckSample, Advisory
from natstui.session.files.segment import read_content

NO_CUTS = (
    "session string, from_position bigint, epoch bigint, set_us bigint, until_position bigint"
)
"""What `silver.index.epochs` returns."""
NAME = "20260921T141320Z-small"


def small(folder: Path, name: str = NAME, ticks: int = 40) -> Path:
    """Write a session of four streams and six consumers."""
    return write_session(folder / name, Plan(4, 6, ticks), records_per_segment=20)


def polls_only(
    sessions: Path, name: str, ticks: int, known: tuple[FindingReport, ...] = ()
) -> Path:
    """Write a session of polls of six consumers: what else may be in one takes time to plan.

    `known` is what was wrong already when it began.
    """
    plan = Plan(4, 6, ticks)
    polls = (record for record in records(plan) if isinstance(record, Snapshot))
    return write_records(sessions / name, polls, plan, records_per_segment=20, known=known)


def lines_of(spark: SparkSession, *folders: Path) -> DataFrame:
    """Return the lines of sessions, as bronze has them."""
    sources = find_sources(spark, [str(folder) for folder in folders])
    of_name = {source.session: source.folder for source in sources}
    files = current_segments(segment_files(spark, sources))
    return read_lines(spark, [f"{of_name[file.session]}/{file.segment}" for file in files])


def rewritten(path: Path, before: bytes, after: bytes, *, once: bool = False) -> None:
    """Replace bytes inside a segment, sealed or open."""
    sealed = path.suffix == ".gz"
    text = gzip.decompress(path.read_bytes()) if sealed else path.read_bytes()
    assert before in text
    text = text.replace(before, after, 1 if once else -1)
    path.write_bytes(gzip.compress(text) if sealed else text)


def content_polls(path: Path) -> int:
    """Return how many polls the recorder's own reader finds in a segment."""
    return sum(entry.is_poll for entry in read_content(path, sealed=True).entries)


OPEN = "records-000001.jsonl"
REPORTS_UNTIL_US = START_AT_US + 2_000_000
"""One line of a report is damaged: more of them would only be read."""
EVERYTHING = Plan(
    2, 3, 20, faults=(Fault("leader_change", 0, 10),), gaps=((12, 17),),
    extra=tuple(
        record for record in bench_records(START_AT_US, "run", 1)
        if not isinstance(record, BenchmarkReport) or record.at_us < REPORTS_UNTIL_US
    ),
)  # fmt: skip


def replaced(before: bytes, after: bytes, count: int = 1) -> Callable[[list[bytes]], None]:
    """Return what replaces text in the first lines, keyframe aside, that hold it."""

    def change(lines: list[bytes]) -> None:
        found = [n for n, line in enumerate(lines) if n and before in line][:count]
        assert len(found) == count, (before, len(found))
        for number in found:
            lines[number] = lines[number].replace(before, after, 1)

    return change


def appended(*more: bytes) -> Callable[[list[bytes]], None]:
    """Return what adds lines."""
    return lambda lines: lines.extend(more)


def glued(lines: list[bytes]) -> None:
    """Lose the end of one line."""
    lines[5:7] = [lines[5] + lines[6]]


def keyframe(lines: list[bytes]) -> None:
    """Break the line with which the segment begins."""
    lines[0] = lines[0].replace(b'"configured":{', b'"configured":{{')


DAMAGE: dict[str, tuple[int, Callable[[list[bytes]], None]]] = {
    "nothing": (0, appended()),
    "column-renamed": (3, replaced(b'"pending_msgs":', b'"pending_messages":', 3)),
    "column-longer": (1, replaced(b'"redelivered_msgs":[', b'"redelivered_msgs":[7,')),
    "difference-longer": (
        1, replaced(b'"ack_floor_stream_behind_seq":[', b'"ack_floor_stream_behind_seq":[7,')
    ),
    "time-renamed": (1, replaced(b'"acked_near_us":', b'"acked":')),
    "null-in-a-column": (2, replaced(b'"stored_msgs":[', b'"stored_msgs":[null,', 2)),
    "text-in-a-column": (1, replaced(b'"stored_msgs":[', b'"stored_msgs":["many",')),
    "poll-without-a-comma": (1, replaced(b',"waiting_pulls_count"', b'"waiting_pulls_count"')),
    "poll-without-cost": (1, replaced(b'"cost":', b'"price":')),
    "poll-without-time": (1, replaced(b'"taken_mono_us":', b'"taken_mono":')),
    "later-column-absent": (0, replaced(b'"paused":', b'"was_paused":', 2)),
    "report": (1, replaced(b'"cpu_ratio":', b'"cpu":')),
    "report-null": (1, replaced(b'"worker_id":0', b'"worker_id":null')),
    "report-bucket": (1, replaced(b'"buckets":[', b'"buckets":[9999,')),
    "result": (1, replaced(b'"verdict":', b'"judgement":')),
    "phase": (1, replaced(b'"phase":"steady"', b'"phase":"nonsense"')),
    "configuration": (1, replaced(b'"discard":', b'"discards":')),
    "advisory": (1, replaced(b'"body_json":', b'"body":')),
    "advisory-no-json": (1, replaced(b'"body_json":', b'"body_json"')),
    "ack-sample": (4, replaced(b'"ack_ns":2000000', b'"ack_ns":null', 4)),
    "event": (1, replaced(b'"reason":"no answer', b'"why":"no answer')),
    "never-parsed": (
        2, appended(b'{"kind":"benchmark_log","at_us":1,"run_id":[,"line":991}',
                    b'{"kind":"permitted","at_us":1,"line":992}'),
    ),
    "noise": (3, appended(b"noise", b"more \xff noise", b'{"kind":"noted"}')),
    "not-text": (1, replaced(b"end of the simulation", b"end of \xff\xfe simulation")),
    "of-tomorrow": (1, appended(b'{"kind":"of_tomorrow","at_us":1,"line":991}')),
    "huge": (1, replaced(b'"stream_seq":', b'"stream_seq":99999999999999')),
    "glued": (1, glued),
    "keyframe": (1, keyframe),
    "same-number-twice": (2, appended(b'{"kind":"noted","at_us":1,"text":"x","line":7}')),
}  # fmt: skip
"""What is done to the lines of an open segment, and how many of them cannot be read then."""


def damaged_session(sessions: Path, what: str) -> Path:
    """Write a session with one kind of damage."""
    folder = write_session(sessions / what, EVERYTHING, records_per_segment=10_000)
    lines = (folder / OPEN).read_bytes().splitlines()
    DAMAGE[what][1](lines)
    (folder / OPEN).write_bytes(b"\n".join(lines) + b"\n")
    return folder


def without_polls(folder: Path) -> int:
    """Rename a column in every poll; return how many there are."""
    polls_count = 0
    for path in folder.glob("records-*"):
        sealed = path.suffix == ".gz"
        text = gzip.decompress(path.read_bytes()) if sealed else path.read_bytes()
        text, here_count = re.subn(rb'"delivered_consumer_seq":', b'"delivered":', text)
        polls_count += here_count
        path.write_bytes(gzip.compress(text) if sealed else text)
    return polls_count


def without_a_part(sessions: Path) -> tuple[Path, int]:
    """Write a session whose first poll lacks a part, and one whose last was being written.

    Returns the first one, and of how many parts a poll consists.
    """
    folder = write_session(sessions / WITHOUT_A_PART, Plan(60, 600, 3), records_per_segment=10_000)
    path = folder / OPEN
    lines = path.read_bytes().splitlines(keepends=True)
    numbers = [re.search(rb'"line":(\d+),"part":(\d+)', line[-60:]) for line in lines]
    parts = [n for n, found in enumerate(numbers) if found]
    polls = [[n for n in parts if numbers[n][1] == one] for one in {numbers[n][1] for n in parts}]  # type: ignore[index]
    first, *_, last = sorted(polls)
    assert len(first) > 2
    shutil.copytree(folder, sessions / UNFINISHED)
    path.write_bytes(b"".join(line for n, line in enumerate(lines) if n != first[1]))
    # Its first parts are left out too, and are no damage.
    (sessions / UNFINISHED / OPEN).write_bytes(b"".join(lines[: last[-1]]))
    return folder, len(first)


WITHOUT_POLLS, WITHOUT_A_PART, UNFINISHED = "without-polls", "lost", "unfinished"
SEALED, LAST = "records-000001.jsonl.gz", "records-000005.jsonl"
"""The first segment of a small session, and the last one, which is open."""


def last_line_torn(folder: Path) -> None:
    """Add a line that was cut off."""
    _append(folder, b'{"kind":"snapshot","taken_mono_us":12,"taken_at')


def sealed_cut_off(folder: Path) -> None:
    """Cut off the end of three sealed segments, and put something else in place of the fourth."""
    paths = sorted(folder.glob("*.gz"))
    for path, share in zip(paths, (0.2, 0.6, 0.97), strict=False):
        content = path.read_bytes()
        path.write_bytes(content[: int(len(content) * share)])
    paths[3].write_bytes(b"this is no gzip file at all, but long enough to be one")


def noise_added(folder: Path) -> None:
    """Add two lines that nobody can read, and one of a kind that is not known yet."""
    noise = b'{"kind":"snapshot","taken_mono_us":[}\n{"kind":"of_tomorrow","at_us":1}\nnoise\n'
    _append(folder, noise)


def segment_twice(folder: Path) -> None:
    """Have a segment open beside the sealed one, as after a crash."""
    plain = gzip.decompress((folder / SEALED).read_bytes())
    (folder / SEALED.removesuffix(".gz")).write_bytes(plain)


def null_in_optional(folder: Path) -> None:
    """Have a null in a column that may have one."""
    _substitute(folder, rb'"acked_near_us":\[-?\d+', b'"acked_near_us":[null')


def huge_sequence(folder: Path) -> None:
    """Have a sequence that no signed number of 64 bits can be."""
    huge = b'"delivered_consumer_seq":["18446744073709551615"'
    _substitute(folder, rb'"delivered_consumer_seq":\[\d+', huge)


def absurd_interval(folder: Path) -> None:
    """Have an interval that nobody can have measured."""
    _substitute(folder, rb'"interval_us":\d+', b'"interval_us":9223372036854775807')


def _append(folder: Path, text: bytes) -> None:
    path = folder / LAST
    path.write_bytes(path.read_bytes() + text)


def _substitute(folder: Path, pattern: bytes, text: bytes) -> None:
    path = folder / LAST
    changed, count = re.subn(pattern, text, path.read_bytes())
    assert count
    path.write_bytes(changed)


WAYS: tuple[Callable[[Path], None], ...] = (
    last_line_torn, sealed_cut_off, noise_added, segment_twice, null_in_optional, huge_sequence,
    absurd_interval,
)  # fmt: skip
WHOLE, ABSURD = "whole", "absurd"
IN_ORDER, REORDERED = "in-order", "reordered"


def reordered(folder: Path) -> None:
    """Have the fields of each poll stand in another order."""
    orders = itertools.cycle(itertools.permutations(range(4)))
    (path,) = folder.glob("records-*.jsonl")
    lines = []
    for line in path.read_bytes().splitlines():
        fields = json.loads(line)
        if fields["kind"] == "snapshot":
            others = {"streams", "consumers", "streams_complete", "account"}
            first = [name for name in fields if name.endswith("_us") or name == "kind"]
            moved = [sorted(others)[place] for place in next(orders)]
            last = [name for name in fields if name not in others and name not in first]
            fields = {name: fields[name] for name in (*first, *moved, *last)}
            line = json.dumps(fields, separators=(",", ":")).encode()
        lines.append(line + b"\n")
    path.write_bytes(b"".join(lines))


def write(folder: Path) -> None:
    """Write a small session for each kind of damage, called as it is, and one without any."""
    small(folder, WHOLE)
    small(folder, IN_ORDER, ticks=8)
    reordered(small(folder, REORDERED, ticks=8))
    for way in WAYS:
        way(small(folder, way.__name__))
    for what in DAMAGE:
        damaged_session(folder, what)
    without_polls(small(folder, WITHOUT_POLLS))
    without_a_part(folder)
    bodies = (f'{{"deliveries":{10**30}}}', '{"deliveries":"many"}', '{"deliveries":3}', "no json")
    forged = [
        Advisory(START_AT_US + n, "max_deliver", "S", "C", "said", body)
        for n, body in enumerate(bodies)
    ]
    samples = [AckSample(START_AT_US, "S", "C", 1, 1, n, 5) for n in (10**30, 2**63, 2)]
    plan = Plan(4, 6, 20, extra=(*forged, *samples))
    write_session(folder / ABSURD, plan, records_per_segment=10_000)


UNDESCRIBED = "undescribed"


def write_undescribed(folder: Path) -> None:
    """Write a session with a description that the recorder's own reader refuses."""
    header = small(folder, UNDESCRIBED, ticks=5) / "session.json"
    text = header.read_text()
    changed = re.sub(r'"started_at_us": \d+', '"started_at_us": -1e99', text)
    assert changed != text
    header.write_text(changed)
