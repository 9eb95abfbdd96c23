"""Reads and writes the folder of a session, as the document says. Records are plain objects."""

from __future__ import annotations

import gzip
import json
import re
from bisect import bisect_right
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.session.by_document.tables import Tables, fault_of_fields

Object = dict[str, Any]
SIGNED_MAX = 2**63 - 1
BUCKETS_COUNT = 8192
NEAR_BELOW_US = 1_000_000_000
BEHIND = {
    "delivered_stream_seq": ("delivered_stream_ahead_seq", "delivered_consumer_seq", 1),
    "ack_floor_consumer_seq": ("ack_floor_consumer_behind_seq", "delivered_consumer_seq", -1),
    "ack_floor_stream_seq": ("ack_floor_stream_behind_seq", "delivered_stream_seq", -1),
}
"""Column → the recorded difference, the column it refers to, and its sign."""
KNOWN = {"engine_started": "started", "link_changed": "link", "permitted": "permitted"}


def lowest_ns(bucket: int) -> int:
    """Return the smallest time in a bucket of a histogram."""
    return bucket if bucket < 256 else (128 + bucket % 128) * 2 ** (bucket // 128 - 1)


def middle_ns(bucket: int) -> int:
    """Return what a time in a bucket is taken for: halfway from the smallest to the largest."""
    return (lowest_ns(bucket) + lowest_ns(bucket + 1) - 1) // 2


def bucket_of(ns: int) -> int:
    """Return the bucket that a time lies in."""
    return bisect_right(range(BUCKETS_COUNT), ns, key=lowest_ns) - 1


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _without_huge(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_huge(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_without_huge(one) for one in value]
    huge = isinstance(value, int) and not -SIGNED_MAX - 1 <= value <= SIGNED_MAX
    return str(value) if huge else value


def packed(poll: Object) -> Object:
    """Return a poll with differences; unchanged where a sequence is too large for that."""
    rows = poll["consumers"]
    names = (*BEHIND, "delivered_consumer_seq")
    if any(one > SIGNED_MAX for name in names for one in rows[name]):
        return poll
    taken_us, beside = poll["taken_at_us"], rows["delivered_at_us"]
    columns = {}
    for name, column in rows.items():
        if name in BEHIND:
            written, to, sign = BEHIND[name]
            columns[written] = [sign * (a - b) for a, b in zip(column, rows[to], strict=True)]
        elif name == "delivered_at_us":
            columns["delivered_near_us"] = [_near(us, taken_us) for us in column]
        elif name == "acked_at_us":
            pairs = zip(column, beside, strict=True)
            columns["acked_near_us"] = [
                _near(us, taken_us if of is None else of) for us, of in pairs
            ]
        else:
            columns[name] = column
    return {**poll, "consumers": columns}


def _near(at_us: int | None, to_us: int) -> int | None:
    if at_us is None or abs(at_us - to_us) >= NEAR_BELOW_US:
        return at_us
    return at_us - to_us


def _far(us: int | None, to_us: int) -> int | None:
    return us if us is None or us >= NEAR_BELOW_US else us + to_us


def unpacked(poll: Object) -> Object:
    """Return a poll with its times and sequences themselves."""
    rows = dict(poll["consumers"])
    if "delivered_near_us" not in rows:
        return poll
    taken_us = poll["taken_at_us"]
    for name, (written, to, sign) in BEHIND.items():
        rows[name] = [b + sign * a for a, b in zip(rows.pop(written), rows[to], strict=True)]
    delivered = [_far(us, taken_us) for us in rows.pop("delivered_near_us")]
    acked = zip(rows.pop("acked_near_us"), delivered, strict=True)
    rows["acked_at_us"] = [_far(us, taken_us if of is None else of) for us, of in acked]
    return {**poll, "consumers": rows | {"delivered_at_us": delivered}}


def _line(kind: str, fields: Object, **place: int) -> str:
    first = [name for name in ("taken_mono_us", "taken_at_us", "at_us") if name in fields]
    ordered = {name: fields[name] for name in (*first, *(fields.keys() - {*first}))}
    return _json({"kind": kind, **_without_huge(ordered), **place}) + "\n"


def _poll_lines(poll: Object, number: int, rows_per_part: int) -> list[str]:
    """Return a poll as one line, or cut into parts."""
    poll = packed(poll)
    tables = ("streams", "consumers")
    parts_count = max(-(-len(poll[table]["name"]) // rows_per_part) for table in tables)
    if parts_count < 2:
        return [_line("snapshot", poll, line=number)]
    nothing = {"swept_streams": [], "unreachable_streams": [], "unreachable_consumers": [],
               "account": None}  # fmt: skip
    lines = []
    for part in range(parts_count):
        start, end = part * rows_per_part, (part + 1) * rows_per_part
        rows = {
            table: {name: column[start:end] for name, column in poll[table].items()}
            for table in tables
        }
        one = {**poll, **(nothing if part else {}), **rows}
        lines.append(_line("snapshot", one, line=number, part=part, parts_count=parts_count))
    return lines


class Writer:
    """Writes a session: sealed segments, and an open one at the end."""

    def __init__(self, folder: Path, info: Object, rows_per_part: int) -> None:
        folder.mkdir()
        self.folder = folder
        self._rows_per_part = rows_per_part
        self._number = self._line_number = 0
        self._lines: list[str] = []
        self._known: Object = {"started": None, "link": None, "permitted": None}
        (folder / "session.json").write_text(json.dumps(info, indent=4), encoding="utf-8")

    def write(self, records: Iterable[Object], records_per_segment: int) -> None:
        """Write records, each an object with its kind; the last segment stays open."""
        for record in records:
            stepped = record["kind"] == "clock_stepped"
            if not self._lines or stepped or self._line_number >= records_per_segment:
                self._begin(record.get("at_us", record.get("taken_at_us")))
            self._line_number += 1
            fields = {name: value for name, value in record.items() if name != "kind"}
            if record["kind"] == "snapshot":
                lines = _poll_lines(fields, self._line_number, self._rows_per_part)
            else:
                lines = [_line(record["kind"], fields, line=self._line_number)]
            self._lines += lines
            if record["kind"] in KNOWN:
                self._known[KNOWN[record["kind"]]] = fields
        if self._lines:
            path = self.folder / f"records-{self._number:06d}.jsonl"
            path.write_text("".join(self._lines), encoding="utf-8", newline="\n")

    def _begin(self, at_us: int) -> None:
        if self._lines:
            path = self.folder / f"records-{self._number:06d}.jsonl.gz"
            # In any order: the numbers of the lines tell how they happened.
            text = "".join(self._lines[:1] + self._lines[:0:-1])
            path.write_bytes(gzip.compress(text.encode()))
        self._number += 1
        self._line_number = 0
        keyframe = {
            "at_us": at_us,
            "schema_version": 2,
            **_without_huge(self._known),
            "configured": {"at_us": at_us, "streams": [], "consumers": []},
            "unavailable": [],
            "snapshot": None,
            "benchmark": None,
            "evidence": None,
            "findings": None,
        }
        self._lines = [_line("keyframe", keyframe, line=0)]


class Reader:
    """Reads a session, and holds every line to the tables of the document."""

    def __init__(self, folder: Path, tables: Tables) -> None:
        self.tables = tables
        self.info: Object = json.loads((folder / "session.json").read_text(encoding="utf-8"))
        self.faults = [fault_of_fields(tables, self.info, tables["session.json"])]
        self.keyframes: list[Object] = []
        self.records: list[Object] = []
        self.starts: list[int] = []
        """Of each keyframe, how many records are before it."""
        numbered = {path.name[8:14]: path for path in sorted(folder.glob("records-*.jsonl"))}
        numbered |= {path.name[8:14]: path for path in sorted(folder.glob("records-*.jsonl.gz"))}
        for _, path in sorted(numbered.items()):
            raw = path.read_bytes()
            text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
            self._segment(text[: text.rfind("\n") + 1].split("\n")[:-1])

    def _segment(self, lines: list[str]) -> None:
        by_number: dict[int, list[Object]] = {}
        for line in lines:
            if not re.match(r'\{"kind":"\w+","(at_us|taken_mono_us)":-?\d+[,}]', line):
                self.faults.append(f"begins otherwise: {line[:60]}")
            read = json.loads(line)
            by_number.setdefault(read.pop("line"), []).append(read)
        if by_number:
            (keyframe,) = by_number.pop(0)
            self.keyframes.append(self._checked(keyframe))
            self.starts.append(len(self.records))
        for number in sorted(by_number):
            self._record(sorted(by_number[number], key=lambda part: part.get("part", 0)))

    def _record(self, parts: list[Object]) -> None:
        whole = parts[0]
        if "parts_count" in whole:
            if len(parts) != whole["parts_count"]:
                return
            for table in ("streams", "consumers"):
                for name, column in whole[table].items():
                    column += [one for part in parts[1:] for one in part[table][name]]
            whole = {k: v for k, v in whole.items() if k not in ("part", "parts_count")}
        self.records.append(self._checked(unpacked(whole) if "consumers" in whole and
                            whole["kind"] == "snapshot" else whole))  # fmt: skip

    def _checked(self, record: Object) -> Object:
        fields = {name: value for name, value in record.items() if name != "kind"}
        wrong = fault_of_fields(self.tables, fields, self.tables[f"kind {record['kind']}"])
        self.faults.append(wrong and f"{record['kind']}: {wrong}")
        return record
