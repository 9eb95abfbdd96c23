"""A number's name says its unit."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from typing import get_args

from msgspec import Struct

from natstui.cli.watch.lines import Row
from tests.architecture.source import modules

SUFFIXES = (
    "_s", "_ms", "_us", "_ns", "_bytes", "_msgs", "_per_s", "_seq", "_count", "_ratio",
    "_percent", "_msgs_per_subject", "_level", "_id", "_version",
)  # fmt: skip

EXCEPTIONS: dict[str, str] = {
    "Sample.columns": "the name of each column carries the unit",
    "LatencyCounts.buckets": "indexes, not amounts",
    "LatencyCounts.counts": "one count per bucket: the column's name is its unit",
    "MessageCounts.recent": "pairs of a second and a count",
    "Finding.sequences": "which messages, not how many",
    "FindingReport.sequences": "which messages, not how many",
    "Symptom.sequences": "which messages, not how many",
    "DroppedMessages.sequences": "which messages, not how many",
    "PreviewResend.sequences": "which messages, not how many",
    "ResendMessages.sequences": "which messages, not how many",
    "DroppedMessages.newest": "a sequence and a moment",
    "PreviewResend.newest": "a sequence and a moment",
    "ResendMessages.newest": "a sequence and a moment",
    "FindDroppedMessages.heard": "pairs of a moment and a sequence",
    "ResendPreview.subjects": "a subject, its count, and a stream",
    "Evaluation.postponed_rows": "indexes, not amounts",
    "Finding.numbers": "the name of each number carries the unit",
    "FindingReport.numbers": "the name of each number carries the unit",
    "Symptom.numbers": "the name of each number carries the unit",
    "SubjectsCounted.msgs_by_subject": "the name begins with its unit",
    "Threshold.value": "its unit stands beside it",
    "Point.value": "the unit is that of the column it was read from",
    "ConnectionWatch.traffic": "the number in its key names a connection",
    "SystemRow.exit_code": "a code, not an amount",
    "Column.priority": "an order, not an amount",
    "StreamRow.index": "a row of a view, not an amount",
    "ConsumerRow.index": "a row of a view, not an amount",
    "AuditedRequests.err_code": "a code, not an amount",
}


def values_with_numbers() -> Iterator[type[Struct]]:
    """Yield every value of the model, and of the lines others read."""
    for module in (*modules("natstui.model"), *modules("natstui.cli.watch")):
        for thing in vars(importlib.import_module(module.name)).values():
            defined_here = getattr(thing, "__module__", None) == module.name
            if defined_here and isinstance(thing, type) and issubclass(thing, Struct):
                yield thing


def bare_numbers() -> Iterator[str]:
    """Yield `Class.field` for each number whose name has no unit."""
    for cls in values_with_numbers():
        for field in cls.__struct_fields__:
            is_number = re.search(r"\b(int|float)\b", cls.__annotations__[field])
            if is_number and not field.endswith(SUFFIXES):
                yield f"{cls.__name__}.{field}"


def test_the_lines_that_others_read_are_among_them() -> None:
    assert {*get_args(Row)} <= {*values_with_numbers()}


def test_every_number_in_the_model_carries_its_unit_in_its_name() -> None:
    assert set(bare_numbers()) - set(EXCEPTIONS) == set()


def test_no_exception_has_outlived_its_field() -> None:
    assert set(EXCEPTIONS) - set(bare_numbers()) == set()


def test_every_value_of_the_model_is_frozen() -> None:
    for cls in values_with_numbers():
        assert cls.__struct_config__.frozen, cls
