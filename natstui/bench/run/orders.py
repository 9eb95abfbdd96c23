"""Who does what: the orders of every worker, from the plan. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from natstui.bench.job.content import payload_place
from natstui.bench.job.protocol import Orders
from natstui.bench.run.assets import RunAssets
from natstui.model.bench.plan import BenchmarkPlan, Payload, RateSegment, Role


def all_orders(plan: BenchmarkPlan, assets: RunAssets, connection_line: str) -> Iterator[Orders]:
    """Yield the orders of all workers of a plan."""
    publisher_id = 0
    for role in plan.roles:
        for worker_id in range(role.workers_count):
            share = _share(role.total_msgs, worker_id, role.workers_count)
            yield orders_for(plan, assets, connection_line, role, worker_id, publisher_id, share)
            publisher_id += 1


def added_orders(
    plan: BenchmarkPlan,
    assets: RunAssets,
    connection_line: str,
    role: Role,
    worker_id: int,
    number: int,
) -> Orders:
    """Return the orders of a worker that joins later: at the rate of one of its colleagues."""
    slower = tuple(_scaled(segment, role.workers_count) for segment in role.schedule)
    share = None if role.total_msgs is None else role.total_msgs // role.workers_count
    alone = replace(role, schedule=slower, workers_count=1)
    return orders_for(plan, assets, connection_line, alone, worker_id, number, share)


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
    assets: RunAssets,
    connection_line: str,
    role: Role,
    worker_id: int,
    publisher_id: int,
    share: int | None,
) -> Orders:
    """Return the orders of one worker."""
    consumer = assets.consumers.get(role.name)
    if role.queue is not None and role.traits.receives:
        # In a group of its own a run gets all it should, whoever else has one by that name.
        role = replace(role, queue=f"{role.queue}-{assets.run_id}")
    return Orders(
        connection=connection_line,
        run_id=assets.run_id,
        role=role,
        worker_id=worker_id,
        publisher_id=publisher_id,
        which=worker_id % role.workers_count,
        of=role.workers_count,
        share_msgs=share if role.traits.has_end else None,
        stamp_of=_stamp_of(plan, assets, role),
        epoch_ns=assets.epoch_ns,
        stream=assets.stream,
        consumer=consumer,
        deliver_subject=f"_natstui.{consumer}" if role.traits.is_push else None,
        deliver_group=consumer if _shares(plan, role) else None,
        first_seq=assets.oldest_seq,
        last_seq=assets.first_seq - 1,
        stored_msgs=assets.waiting_msgs,
        responses=assets.responses,
        response_subject=_response_subject(plan) if role.traits.needs_responses else None,
        cleanup=assets.cleanup(),
    )


def _response_subject(plan: BenchmarkPlan) -> str | None:
    """Return the subject of responses without its last token."""
    if plan.responses is None:
        return None
    return plan.responses.subjects[0].rpartition(".")[0]


def _shares(plan: BenchmarkPlan, role: Role) -> bool:
    """Tell whether a push consumer was made for several receivers; one joins as one of them."""
    return role.traits.is_push and any(
        one.name == role.name and one.workers_count > 1 for one in plan.roles
    )


def _stamp_of(plan: BenchmarkPlan, assets: RunAssets, role: Role) -> Payload | None:
    """Return what everything is made of that this role should receive; None: of several things.

    Also None where messages wait that others sent before: they belong to a run that reads them.
    """
    if role.traits.consumes:
        feeding = [one for one in plan.roles if one.traits.sends and not one.traits.awaits_reply]
        if assets.owed_msgs(role, 0) != 0:
            return None
    else:
        feeding = [one for one in plan.roles if one.traits.sends and one.subject == role.subject]
    places = {payload_place(one.payload) for one in feeding}
    return feeding[0].payload if role.traits.receives and len(places) == 1 else None
