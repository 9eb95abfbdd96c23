"""What an analysis found, drawn: the load of everything together, and the worst consumers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from natstui.clean import clean_line
from natstui.tui.analysis.text import DRAWN, AnalysisResult, Value
from natstui.tui.kit.chart.frame import MOST_SERIES, ChartData, Series
from natstui.tui.kit.chart.ticks import Unit

_MOST_LINES = MOST_SERIES - 1
"""Consumers in one chart: each has a colour of its own."""

Row = dict[str, Value]


@dataclass(frozen=True, slots=True)
class _Axis:
    """The buckets of a session: one time axis for all charts."""

    buckets_at_us: tuple[int, ...]
    end_us: int

    def chart(
        self, title: str, unit: Unit, lines: Sequence[tuple[str, list[Row], str]]
    ) -> ChartData:
        """Return a chart of columns of rows, by what each line is called."""
        return ChartData(
            title=title,
            unit=unit,
            at_s=[(at_us - self.end_us) / 1e6 for at_us in self.buckets_at_us],
            series=tuple(Series(label, self._values(rows, name)) for label, rows, name in lines),
            window_s=(self.end_us - self.buckets_at_us[0]) / 1e6,
            ends_at_s=self.end_us / 1e6,
        )

    def _values(self, rows: list[Row], name: str) -> list[float | None]:
        known = {row["bucket_at_us"]: row[name] for row in rows}
        values = [known.get(at_us) for at_us in self.buckets_at_us]
        return [float(value) if isinstance(value, int | float) else None for value in values]


def charts_of(result: AnalysisResult) -> tuple[ChartData, ...]:
    """Return the charts of the only session of a result; none where nothing was measured."""
    table = result.tables.get(DRAWN)
    names = [column.name for column in table.columns] if table else []
    by_rank: dict[int, list[Row]] = {}
    for values in table.rows if table else ():
        row = dict(zip(names, values, strict=True))
        by_rank.setdefault(_number(row["rank_count"]), []).append(row)
    rows = [row for many in by_rank.values() for row in many]
    axis = _axis(rows)
    if axis is None:
        return ()
    whole, worst = by_rank.pop(0, []), [by_rank[rank] for rank in sorted(by_rank)][:_MOST_LINES]
    rates = [(word, whole, f"{word}_per_s") for word in ("published", "delivered")]
    charts = [
        axis.chart("Load, all streams and consumers", "msgs/s", rates),
        axis.chart("Pending, all consumers", "msgs", [("pending", whole, "pending_msgs")]),
    ]
    for title, name in (("Pending", "pending_msgs"), ("Delivered again", "repeated_msgs")):
        lines = [(_called(many[0]), many, name) for many in worst if _has(many, name)]
        charts += [axis.chart(f"{title}, the worst consumers", "msgs", lines)] if lines else []
    return tuple(charts)


def _axis(rows: list[Row]) -> _Axis | None:
    ats = sorted({_number(row["bucket_at_us"]) for row in rows})
    widths = [_number(row["width_s"]) for row in rows]
    return _Axis(tuple(ats), ats[-1] + max(widths) * 1_000_000) if ats else None


def _has(rows: list[Row], name: str) -> bool:
    return any(row[name] for row in rows)


def _number(value: Value) -> int:
    assert isinstance(value, int)
    return value


def _called(row: Row) -> str:
    return clean_line(f"{row['stream']} › {row['consumer']}")
