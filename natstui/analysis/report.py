"""What a report shows of the answers: which tables, under which title, with which columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from natstui.analysis.phrase import cell_text
from natstui.units import title_text

Result = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Section:
    """One table of a report."""

    title: str
    table: str
    columns: tuple[str, ...]
    empty: str
    """What is said when the table has no rows."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A section filled: texts only, every one of them harmless."""

    section: Section
    titles: tuple[str, ...]
    numeric: tuple[bool, ...]
    rows: tuple[tuple[str, ...], ...]
    cut: bool
    """There are more rows in the table."""


SECTIONS = (
    Section(
        "Worth looking at", "verdict",
        ("rank_count", "session", "subject", "sentence", "evidence", "start_at_us"),
        "Nothing stands out.",
    ),
    Section(
        "Sessions", "session",
        ("session", "start_at_us", "duration_s", "polls_count", "gaps_count", "streams_count",
         "consumers_count", "consumer_samples_count", "corrupt_segments_count",
         "torn_lines_count", "size_bytes"),
        "No session.",
    ),
    Section(
        "Comparison", "comparison",
        ("compared", "baseline", "metric", "baseline_mean", "compared_mean", "mean_change",
         "low_change", "high_change", "verdict"),
        "One session alone: nothing to compare with.",
    ),
    Section(
        "Stuck consumers", "stuck",
        ("session", "stream", "consumer", "cause", "start_at_us", "duration_s",
         "ack_floor_stream_seq", "pending_max_msgs", "ack_pending_max_msgs"),
        "No consumer was stuck.",
    ),
    Section(
        "Lag", "lag",
        ("session", "stream", "consumer", "pending_last_msgs", "pending_max_msgs",
         "growth_per_min", "drain_s", "behind_max_s", "never_caught_up"),
        "No consumers.",
    ),
    Section(
        "Worst periods of lag", "lag_period",
        ("session", "stream", "consumer", "start_at_us", "duration_s", "pending_max_msgs", "open"),
        "No consumer was behind for long.",
    ),
    Section(
        "Redelivery", "redelivery",
        ("session", "stream", "consumer", "delivered_msgs", "repeated_msgs", "repeated_share",
         "naks_count", "given_up_count"),
        "No consumers.",
    ),
    Section(
        "Redelivery hot spots", "redelivery_hot_spot",
        ("session", "stream", "consumer", "bucket_at_us", "repeated_msgs", "naks_count",
         "given_up_count", "leader_changes_count", "configured_at_us"),
        "No hot spots.",
    ),
    Section(
        "Poison messages", "poison",
        ("session", "stream", "consumer", "stream_seq", "deliveries_count", "naks_count",
         "given_up", "acked", "first_at_us"),
        "No poison messages were announced.",
    ),
    Section(
        "Availability", "availability",
        ("session", "kind", "stream", "start_at_us", "duration_s", "detail"),
        "No gaps, no elections, nothing slow.",
    ),
    Section(
        "Capacity", "capacity",
        ("session", "stream", "stored_msgs", "stored_bytes", "message_bytes",
         "growth_bytes_per_s", "msgs_full_in_s", "bytes_full_in_s", "discard"),
        "No streams.",
    ),
    Section(
        "Account", "account_capacity",
        ("session", "storage_bytes", "growth_bytes_per_s", "max_storage_bytes", "full_in_s",
         "api_errors_count"),
        "The account's use was not recorded.",
    ),
    Section(
        "Busiest moments", "busiest",
        ("session", "busiest_count", "bucket_at_us", "published_per_s", "delivered_per_s",
         "pending_mean_msgs"),
        "Nothing was measured.",
    ),
    Section(
        "Benchmark throughput", "bench_throughput",
        ("session", "run_id", "role", "worker_id", "counter", "mean_per_s", "p5_per_s",
         "p50_per_s", "p95_per_s", "fairness_ratio"),
        "No benchmark was recorded.",
    ),
    Section(
        "Benchmark latency", "bench_latency_summary",
        ("session", "run_id", "metric", "corrected", "latencies_count", "p50_us", "p90_us",
         "p99_us", "p999_us", "max_us"),
        "No benchmark was recorded.",
    ),
    Section(
        "Benchmark account", "bench_account",
        ("session", "run_id", "title", "verdict", "sent_msgs", "acked_msgs", "received_msgs",
         "lost_msgs", "duplicate_msgs", "unaccounted_msgs", "closes"),
        "No benchmark was recorded.",
    ),
    Section(
        "Knee of the load", "bench_knee",
        ("session", "run_id", "metric", "level_count", "load_per_s", "p99_us", "knee"),
        "No benchmark was recorded.",
    ),
)  # fmt: skip


def shown(result: Result, section: Section) -> Shown:
    """Return a section with its texts; a session that is the same in every row is left out."""
    table = result["tables"][section.table]
    names = [column["name"] for column in table["columns"]]
    types = {column["name"]: column["type"] for column in table["columns"]}
    alone = len(result["sessions"]) == 1 and section.table != "session"
    kept = tuple(name for name in section.columns if not (alone and name == "session"))
    places = [names.index(name) for name in kept]
    rows = tuple(
        tuple(cell_text(names[place], row[place]) for place in places) for row in table["rows"]
    )
    return Shown(
        section,
        tuple(title_text(name) for name in kept),
        tuple(types[name] in ("bigint", "double") for name in kept),
        rows,
        bool(table["cut"]),
    )


def sections(result: Result) -> list[Shown]:
    """Return every section worth showing: those of benchmarks only when there was one."""
    filled = [shown(result, section) for section in SECTIONS]
    return [s for s in filled if s.rows or not s.section.table.startswith("bench_")]


def series(result: Result, session: str, column: str) -> tuple[list[int], list[float | None]]:
    """Return (moments, values) of a column of the table `load` for one session."""
    table = result["tables"]["load"]
    names = [c["name"] for c in table["columns"]]
    place, at, who = names.index(column), names.index("bucket_at_us"), names.index("session")
    rows = [row for row in table["rows"] if row[who] == session]
    return [row[at] for row in rows], [row[place] for row in rows]
