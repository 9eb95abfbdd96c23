"""Who does what: the orders of every worker, from the plan. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from natstui.bench.protocol import Orders
from natstui.bench.stage import Stage
from natstui.model.benchmark_role import (
    READERS,
    SENDERS,
    BenchmarkPlan,
    RateSegment,
    Role,
)


def cast(plan: BenchmarkPlan, stage: Stage, connection_line: str) -> Iterator[Orders]:
    """Yield the orders of all workers of a plan."""
    publisher_id = 0
    for role in plan.roles:
        for worker_id in range(role.workers_count):
            share = _share(role.total_msgs, worker_id, role.workers_count)
            yield orders_for(plan, stage, connection_line, role, worker_id, publisher_id, share)
            publisher_id += 1


def extra(
    plan: BenchmarkPlan,
    stage: Stage,
    connection_line: str,
    role: Role,
    worker_id: int,
    number: int,
) -> Orders:
    """Return the orders of a worker that joins later: at the rate of one of its colleagues."""
    slower = tuple(_scaled(segment, role.workers_count) for segment in role.schedule)
    share = None if role.total_msgs is None else role.total_msgs // role.workers_count
    alone = replace(role, schedule=slower, workers_count=1)
    return orders_for(plan, stage, connection_line, alone, worker_id, number, share)


def _scaled(segment: RateSegment, parts: int) -> RateSegment:
    return replace(
        segment,
        start_per_s=segment.start_per_s / parts,
        end_per_s=segment.end_per_s / parts,
    )


def _share(total: int | None, which: int, of: int) -> int | None:
    """Return one worker's part of a number of messages; the parts add up."""
    return None if total is None else total // of + (which < total % of)


def orders_for(
    plan: BenchmarkPlan,
    stage: Stage,
    connection_line: str,
    role: Role,
    worker_id: int,
    publisher_id: int,
    share: int | None,
) -> Orders:
    """Return the orders of one worker."""
    consumer = stage.consumers.get(role.name)
    return Orders(
        connection=connection_line,
        run_id=stage.run_id,
        role=role,
        worker_id=worker_id,
        publisher_id=publisher_id,
        which=worker_id % role.workers_count,
        of=role.workers_count,
        share_msgs=share if role.pattern in SENDERS | READERS else None,
        stamped=_stamped(plan, stage, role),
        stream=stage.stream,
        consumer=consumer,
        deliver_subject=f"_natstui.{consumer}" if role.pattern == "js-push" else None,
        first_seq=stage.oldest_seq,
        last_seq=stage.first_seq - 1,
        stored_msgs=stage.waiting_msgs,
        cleanup=stage.cleanup(),
    )


def _stamped(plan: BenchmarkPlan, stage: Stage, role: Role) -> bool:
    """Tell whether everything this role receives was sent by this run."""
    if role.pattern == "subscribe":
        feeds = [one for one in plan.roles if one.pattern in SENDERS]
        return any(one.subject == role.subject for one in feeds)
    sends = any(one.pattern in SENDERS for one in plan.roles)
    return sends and stage.owed_msgs(role, 0) == 0
