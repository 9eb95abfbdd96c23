"""Checks the figures of a result by assertions such as `--assert 'e2e.p99 < 20ms'`. Pure."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable

from msgspec import Struct

from natstui.bench.result.named_figures import Metrics, metric_names
from natstui.errors import UsageError
from natstui.units import parse_count, parse_duration_ns

_CHECK_PATTERN = re.compile(r"\s*([a-z0-9_.]+)\s*(<=|>=|==|!=|<|>)\s*(\S.*?)\s*")
_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


class FigureCheck(Struct, frozen=True):
    """A parsed assertion on a figure, such as `e2e.p99 < 20ms`."""

    text: str
    metric: str
    comparison: str
    limit: float

    def failure(self, figures: Metrics) -> str | None:
        """Return the reason why the figures of a run fail the check; None if they pass."""
        value = figures.get(self.metric)
        if value is None:
            return f"{self.text}: this benchmark has no {self.metric}"
        if _OPERATORS[self.comparison](value, self.limit):
            return None
        return f"{self.text}: it is {_value_text(self.metric, value)}"


def parse_check(text: str, valid_metrics: Metrics) -> FigureCheck:
    """Return the check of a text such as `e2e.p99 < 20ms`; raises UsageError for an invalid one.

    The keys of `valid_metrics` are the names of all figures.
    """
    match = _CHECK_PATTERN.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} is not a check: write it as 'e2e.p99 < 20ms' or 'lost == 0'")
    name, comparison, limit = match.groups()
    if name not in valid_metrics:
        raise UsageError(
            f"{text!r}: there is no metric {name!r}; there are {', '.join(valid_metrics)}"
        )
    return FigureCheck(text.strip(), name, comparison, _parse_limit(text, name, limit))


def parse_checks(texts: Iterable[str]) -> list[FigureCheck]:
    """Return the checks of texts such as `lost == 0`; raises UsageError for an invalid one."""
    valid_metrics: Metrics = dict.fromkeys(metric_names())
    return [parse_check(text, valid_metrics) for text in texts]


def is_latency(name: str) -> bool:
    """Return whether the figure of this name is a latency, in ns."""
    return "." in name


def _parse_limit(text: str, name: str, limit: str) -> float:
    try:
        if is_latency(name):
            return float(parse_duration_ns(limit))
        return float(limit) if re.fullmatch(r"\d*\.\d+", limit) else float(parse_count(limit))
    except ValueError as error:
        raise UsageError(f"{text!r}: {error}") from error


def _value_text(name: str, value: float) -> str:
    return f"{value / 1e6:g} ms" if is_latency(name) else f"{value:g}"
