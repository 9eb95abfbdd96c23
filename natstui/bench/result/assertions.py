"""`--assert 'e2e.p99 < 20ms'`: checks on a result. Pure."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from natstui.bench.result.metrics import Metrics, metrics_names
from natstui.errors import UsageError
from natstui.units import parse_count, parse_duration_ns

_CHECK = re.compile(r"\s*([a-z0-9_.]+)\s*(<=|>=|==|!=|<|>)\s*(\S.*?)\s*")
_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


@dataclass(frozen=True, slots=True)
class Check:
    """One assertion."""

    text: str
    metric: str
    comparison: str
    limit: float

    def failure(self, figures: Metrics) -> str | None:
        """Return the sentence of a failed check; None when it holds."""
        value = figures.get(self.metric)
        if value is None:
            return f"{self.text}: this benchmark has no {self.metric}"
        if _OPERATORS[self.comparison](value, self.limit):
            return None
        return f"{self.text}: it is {_shown(self.metric, value)}"


def parse_check(text: str, known: Metrics) -> Check:
    """Return an assertion from its words; raise UsageError for others.

    `known` has the names of all metrics.
    """
    match = _CHECK.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} is not a check: write it as 'e2e.p99 < 20ms' or 'lost == 0'")
    name, comparison, limit = match.groups()
    if name not in known:
        raise UsageError(f"{text!r}: there is no metric {name!r}; there are {', '.join(known)}")
    return Check(text.strip(), name, comparison, _limit(text, name, limit))


def parse_checks(texts: Iterable[str]) -> list[Check]:
    """Return assertions from their words; raise UsageError for what is none."""
    known: Metrics = dict.fromkeys(metrics_names())
    return [parse_check(text, known) for text in texts]


def is_latency(name: str) -> bool:
    """Tell whether a metric is a time in ns."""
    return "." in name


def _limit(text: str, name: str, limit: str) -> float:
    try:
        if is_latency(name):
            return float(parse_duration_ns(limit))
        return float(limit) if re.fullmatch(r"\d*\.\d+", limit) else float(parse_count(limit))
    except ValueError as error:
        raise UsageError(f"{text!r}: {error}") from error


def _shown(name: str, value: float) -> str:
    return f"{value / 1e6:g} ms" if is_latency(name) else f"{value:g}"
