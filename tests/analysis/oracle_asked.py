"""What the verdict must tell of the questions asked of other answers, in plain Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from tests.analysis.oracle_recorded import time_text

Row = dict[str, Any]
Gold = dict[str, list[Row]]
Tell = Callable[..., Row]


def asked(gold: Gold, told: Tell) -> Iterator[Row]:
    """Yield the findings of all sessions."""
    for part in (_full, _hours, _idle, _changes, _delays):
        yield from part(gold, told)


def _consumer(row: Row) -> str:
    return f"{row['stream']} > {row['consumer']}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _full(gold: Gold, told: Tell) -> Iterator[Row]:
    for row in gold["account_full"]:
        full, last, what = row["full_at_us"], row["latest_at_us"], row["what"]
        if full is None:
            continue
        left_s = (full - row["end_at_us"]) / 1e6
        used = f"{row['used_bytes']} of {row['limit_bytes']} bytes used"
        account = ({"session": row["session"]}, "capacity", "account")
        if left_s == 0:
            yield told(*account, 74, f"its {what} is full", used, f"{what} full")
        elif left_s <= 2_592_000 and last is not None:
            first = row["earliest_at_us"]
            yield told(
                *account, 74 if left_s < 3600 else 57 if left_s < 86_400 else 38,
                f"at this rate its {what} is full on {_moment(full)}",
                f"between {_moment(first)} and {_moment(last)} (95 % sure), "
                f"{row['growth_bytes_per_s']:.0f} bytes a second more, {used}",
                f"{what} near" if row["used_bytes"] >= 0.8 * row["limit_bytes"]
                else f"{what} full soon",
            )  # fmt: skip


def _hours(gold: Gold, told: Tell) -> Iterator[Row]:
    hours = Counter(row["session"] for row in gold["hour"])
    for row in gold["hour"]:
        harm = [row[n] for n in ("given_up_count", "stuck_s", "behind_s", "repeated_msgs")]
        if row["rank"] == 1 and hours[row["session"]] > 1 and any(harm):
            at_us = row["hour_at_us"]
            moments = {"start_at_us": at_us, "end_at_us": at_us + 3_600_000_000}
            yield told(
                row | moments, "hour", row["session"], 30,
                f"the worst hour began at {_moment(at_us)}",
                f"{_messages(harm[0])} dropped, consumers stuck for {time_text(harm[1])} and "
                f"behind for {time_text(harm[2])} in all, {_messages(harm[3])} repeated",
            )  # fmt: skip


def _messages(count: int) -> str:
    return f"{count} message" + ("" if count == 1 else "s")


def _idle(gold: Gold, told: Tell) -> Iterator[Row]:
    for session in {row["session"] for row in gold["idle"]}:
        rows = [r for r in gold["idle"] if r["session"] == session and r["idle_s"] >= 86_400]
        if rows:
            streams = [row for row in rows if row["consumer"] is None]
            yield told(
                {"session": session}, "idle", "account", 26,
                f"{_counted(len(streams), 'stream')} and "
                f"{_counted(len(rows) - len(streams), 'consumer')} did nothing for a day or "
                "longer",
                f"the longest for {max(r['idle_s'] for r in rows) / 86_400:.0f} days; the streams "
                f"keep {sum(row['stored_bytes'] for row in streams)} bytes",
            )  # fmt: skip


def _changes(gold: Gold, told: Tell) -> Iterator[Row]:
    for row in gold["change"]:
        of = "stream" if row["changed"] == "stream" else "configuration"
        yield told(
            row, "change", _consumer(row),
            {"stuck": 58, "lagging": 44, "redelivery": 42}[row["trouble"]],
            f"{row['trouble']} {time_text(row['after_s'])} after its {of} was changed: "
            f"{row['change']}",
            row["detail"], row["trouble"],
        )  # fmt: skip


def _delays(gold: Gold, told: Tell) -> Iterator[Row]:
    drivers = {"bursts": "bursts of its stream", "repeats": "its own redeliveries",
               "elections": "elections of a leader"}  # fmt: skip
    for row in gold["delay"]:
        if row["certain"]:
            later = f" {time_text(row['after_s'])} later" if row["after_s"] else ""
            yield told(
                row, "delay", _consumer(row), 24 + row["strength_ratio"] * 10,
                f"its backlog grows with {drivers[row['driver']]}{later}",
                f"correlation {row['strength_ratio']:.2f} over {row['buckets_count']} buckets of "
                f"{row['width_s']} s",
                row["driver"],
            )  # fmt: skip


def _moment(at_us: int) -> str:
    return f"{datetime.fromtimestamp(at_us // 1_000_000, UTC):%Y-%m-%d %H:%M} UTC"
