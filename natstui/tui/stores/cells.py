"""Views and columns of the tables of buckets, keys, revisions and objects."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Collection, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

from natstui.clean import clean_line
from natstui.model.columns.buckets import BUCKET_COLUMNS as COLUMNS
from natstui.model.columns.buckets import BucketRow
from natstui.model.columns.view import StreamView
from natstui.model.live.state import State
from natstui.model.records.stores import KeyRow, ObjectRow
from natstui.tui.frame.columns import ColumnSpec, ItemsView, column_spec
from natstui.tui.kit.raw.payload import compact_payload
from natstui.tui.kit.table.rows import Cell
from natstui.units import UNKNOWN, bytes_text, count_text, duration_text, local_text


class BucketView(StreamView):
    """A view of the streams that are buckets or object stores."""

    def __init__(self, state: State, poll_age_us: int = 0) -> None:
        super().__init__(state, poll_age_us)
        self._rows = [row for row in range(len(self)) if self._is_bucket(row)]
        self._bucket_by_row: dict[int, BucketRow] = {}

    def _is_bucket(self, row: int) -> bool:
        config = self.config(row)
        return config is not None and config.kind != "stream"

    def rows(self) -> Sequence[int]:
        """Return the rows that are buckets."""
        return self._rows

    def at(self, row: int) -> BucketRow:
        """Return the values of a bucket's row, computed once per view."""
        if row not in self._bucket_by_row:
            config, columns = self.config(row), self.columns
            self._bucket_by_row[row] = BucketRow(
                {"name": columns.name[row]} if config is None else json.loads(config.config_json),
                columns.stored_msgs[row],
                columns.stored_bytes[row],
                columns.subjects_count[row],
                self.age_s(columns.last_at_us[row]),
            )
        return self._bucket_by_row[row]


_COLUMNS = {column.key: column for column in COLUMNS}


def _spec(key: str, width: int, **layout: Any) -> ColumnSpec[BucketView]:
    return column_spec(_COLUMNS[key], BucketView.at, width, **layout)


BUCKET_COLUMNS: tuple[ColumnSpec[BucketView], ...] = (
    _spec("bucket", 18, flex=2, sort=attrgetter("columns.name")),
    _spec("kind", 5),
    _spec("keys", 6, sort=attrgetter("columns.subjects_count")),
    _spec("values", 6, sort=attrgetter("columns.stored_msgs")),
    _spec("bytes", 8, sort=attrgetter("columns.stored_bytes")),
    _spec("history", 7),
    _spec("ttl", 7),
    _spec("most", 8),
    _spec("replicas", 8),
    _spec("storage", 8),
    _spec("changed", 7, sort=attrgetter("columns.last_at_us")),
    _spec("description", 12, flex=3),
)


class KeyView(ItemsView[KeyRow]):
    """A view of the keys of a bucket with their newest revisions, or of one key's revisions."""

    def __init__(
        self,
        rows: Sequence[KeyRow],
        now_us: int,
        changed_keys: Collection[str],
        *,
        is_keyed_by_revision: bool,
    ) -> None:
        keys = [
            (row.revision_seq, row.key) if is_keyed_by_revision else (row.key,) for row in rows
        ]
        super().__init__(rows, keys, [row.key for row in rows])
        self.now_us, self.changed_keys = now_us, changed_keys

    def search_text(self, row: int) -> str:
        """Return the text that a filter searches: key and value."""
        return clean_line(f"{self.items[row].key} {_preview(self.items[row])}")


def value_of(row: KeyRow) -> bytes:
    """Return the value of a revision, or the beginning that was read."""
    return base64.b64decode(row.value_base64)


def _preview(row: KeyRow) -> str:
    return compact_payload(value_of(row))


def _key(view: KeyView, row: int) -> Cell:
    """Name of the key; ● in front when it changed a moment ago."""
    key_row = view.items[row]
    mark = "● " if key_row.key in view.changed_keys else ""
    return Cell(clean_line(mark + key_row.key), "warn" if mark else "strong")


def _value(view: KeyView, row: int) -> Cell:
    """Start of the value; … while it is not read yet."""
    key_row = view.items[row]
    if not key_row.operation:
        return Cell("…", "dim")
    if key_row.operation != "PUT":
        return Cell("", "dim")
    return Cell(clean_line(_preview(key_row)))


def _operation(view: KeyView, row: int) -> Cell:
    """Operation of the revision: PUT, DEL (deleted), PURGE (deleted with its history)."""
    operation = view.items[row].operation
    return Cell(clean_line(operation), "dim" if operation == "PUT" else "bad")


def _revision(view: KeyView, row: int) -> Cell:
    """Number of the revision: the sequence in the bucket's stream."""
    return Cell(str(view.items[row].revision_seq or "…"), "accent")


def _value_size(view: KeyView, row: int) -> Cell:
    """Bytes of the value."""
    key_row = view.items[row]
    return Cell(bytes_text(key_row.value_bytes) if key_row.operation == "PUT" else UNKNOWN, "dim")


def _age(view: KeyView, row: int) -> Cell:
    """Time since the value was written."""
    if not view.items[row].operation:
        return Cell("…", "dim")
    return Cell(duration_text(max(0, view.now_us - view.items[row].created_at_us) / 1e6), "dim")


def _written_time(view: KeyView, row: int) -> Cell:
    """Local time at which the revision was written."""
    return Cell(local_text(view.items[row].created_at_us, "%Y-%m-%d %H:%M:%S"), "dim")


def _sort_read_values(
    get_value: Callable[[KeyRow], object],
) -> Callable[[KeyView], Sequence[object]]:
    """Return a function that returns the sort values of keys; None for keys that were not read."""
    return lambda view: [
        get_value(key_row) if key_row.operation else None for key_row in view.items
    ]


def _key_names(view: KeyView) -> Sequence[object]:
    return [key_row.key for key_row in view.items]


_key_text_column: Callable[..., ColumnSpec[KeyView]] = partial(
    ColumnSpec, align="left", descends=False
)
_VALUE_COLUMN = _key_text_column(
    "value", "VALUE", 20, 1, _value, _sort_read_values(_preview), flex=3, max_width=400
)
_OPERATION_COLUMN = _key_text_column(
    "operation", "DID", 5, 4, _operation, _sort_read_values(lambda key_row: key_row.operation)
)
_REVISION_COLUMN = ColumnSpec(
    "revision",
    "REVISION",
    9,
    2,
    _revision,
    _sort_read_values(lambda key_row: key_row.revision_seq),
)
_SIZE_COLUMN = ColumnSpec(
    "size", "SIZE", 8, 5, _value_size, _sort_read_values(lambda key_row: key_row.value_bytes)
)

KEY_COLUMNS: tuple[ColumnSpec[KeyView], ...] = (
    _key_text_column("key", "KEY", 20, 0, _key, _key_names, flex=2, max_width=100),
    _VALUE_COLUMN,
    _OPERATION_COLUMN,
    _REVISION_COLUMN,
    ColumnSpec(
        "age", "AGE", 7, 3, _age, _sort_read_values(lambda key_row: -key_row.created_at_us)
    ),
    _SIZE_COLUMN,
)
REVISION_COLUMNS: tuple[ColumnSpec[KeyView], ...] = (
    _REVISION_COLUMN,
    _OPERATION_COLUMN,
    _key_text_column(
        "at",
        "WRITTEN",
        19,
        3,
        _written_time,
        _sort_read_values(lambda key_row: key_row.created_at_us),
    ),
    _SIZE_COLUMN,
    _VALUE_COLUMN,
)


class ObjectView(ItemsView[ObjectRow]):
    """A view of the objects of an object store."""

    def __init__(self, rows: Sequence[ObjectRow]) -> None:
        texts = [f"{row.name} {row.description} {row.link}" for row in rows]
        super().__init__(rows, [(row.name,) for row in rows], texts)


def _name(view: ObjectView, row: int) -> Cell:
    """Name of the file."""
    return Cell(clean_line(view.items[row].name), "strong")


def _object_size(view: ObjectView, row: int) -> Cell:
    """Bytes of the file; a link has none of its own."""
    stored_object = view.items[row]
    return Cell(UNKNOWN if stored_object.link else bytes_text(stored_object.size_bytes))


def _chunks_count(view: ObjectView, row: int) -> Cell:
    """Number of parts in which the file is stored."""
    return Cell(count_text(view.items[row].chunks_count), "dim")


def _stored_time(view: ObjectView, row: int) -> Cell:
    """Local time at which the file was stored."""
    return Cell(local_text(view.items[row].stored_at_us, "%Y-%m-%d %H:%M:%S"), "dim")


def _digest(view: ObjectView, row: int) -> Cell:
    """Checksum stored with the file; `natstui object get` checks it."""
    return Cell(clean_line(view.items[row].digest or UNKNOWN), "dim")


def _target_and_description(view: ObjectView, row: int) -> Cell:
    """Target of a link, and the description of the file or link."""
    stored_object = view.items[row]
    link = f"→ {stored_object.link}  " if stored_object.link else ""
    return Cell(clean_line(f"{link}{stored_object.description}".strip()), "dim")


_sort_by = ObjectView.sort_by
_object_text_column: Callable[..., ColumnSpec[ObjectView]] = partial(
    ColumnSpec, align="left", descends=False
)

OBJECT_COLUMNS: tuple[ColumnSpec[ObjectView], ...] = (
    _object_text_column(
        "name",
        "NAME",
        20,
        0,
        _name,
        _sort_by(lambda stored_object: stored_object.name),
        flex=2,
        max_width=100,
    ),
    ColumnSpec(
        "size",
        "SIZE",
        9,
        1,
        _object_size,
        _sort_by(lambda stored_object: stored_object.size_bytes),
    ),
    ColumnSpec(
        "chunks",
        "CHUNKS",
        6,
        3,
        _chunks_count,
        _sort_by(lambda stored_object: stored_object.chunks_count),
    ),
    _object_text_column(
        "stored",
        "STORED",
        19,
        2,
        _stored_time,
        _sort_by(lambda stored_object: stored_object.stored_at_us),
    ),
    _object_text_column(
        "about",
        "ABOUT",
        12,
        4,
        _target_and_description,
        _sort_by(lambda stored_object: stored_object.description),
        flex=2,
    ),
    _object_text_column(
        "digest",
        "DIGEST",
        20,
        5,
        _digest,
        _sort_by(lambda stored_object: stored_object.digest),
        flex=1,
    ),
)
