"""Makes the orders of every worker from the plan. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from natstui.bench.job.content import payload_stamp_layout
from natstui.bench.job.protocol import Orders
from natstui.bench.run.assets import RunAssets, subscribed_queue
from natstui.model.bench.plan import BenchmarkPlan, Payload, RateSegment, Role
from natstui.values import replace


def all_orders(plan: BenchmarkPlan, assets: RunAssets, connection_line: str) -> Iterator[Orders]:
    """Yield the orders of all workers of a plan; `connection_line` is their connection as JSON."""
    publisher_id = 0
    for role in plan.roles:
        for worker_id in range(role.workers_count):
            share_msgs = _worker_share(role.total_msgs, worker_id, role.workers_count)
            yield orders_for(
                plan, assets, connection_line, role, worker_id, publisher_id, share_msgs
            )
            publisher_id += 1


def added_orders(
    plan: BenchmarkPlan,
    assets: RunAssets,
    connection_line: str,
    role: Role,
    worker_id: int,
    publisher_id: int,
) -> Orders:
    """Return the orders of a worker that joins a role later, with the rate of one planned worker.

    `worker_id` is its number in the role, `publisher_id` its number in the run.
    """
    own_schedule = tuple(
        _scale_to_worker(segment, role.workers_count) for segment in role.schedule
    )
    share_msgs = None if role.total_msgs is None else role.total_msgs // role.workers_count
    single_role = replace(role, schedule=own_schedule, workers_count=1)
    return orders_for(
        plan, assets, connection_line, single_role, worker_id, publisher_id, share_msgs
    )


def _scale_to_worker(segment: RateSegment, workers_count: int) -> RateSegment:
    return replace(
        segment,
        start_per_s=segment.start_per_s / workers_count,
        end_per_s=segment.end_per_s / workers_count,
    )


def _worker_share(total_msgs: int | None, worker_index: int, workers_count: int) -> int | None:
    """Return the number of messages of one worker, whose sum over the workers is `total_msgs`."""
    return (
        None
        if total_msgs is None
        else total_msgs // workers_count + (worker_index < total_msgs % workers_count)
    )


def orders_for(
    plan: BenchmarkPlan,
    assets: RunAssets,
    connection_line: str,
    role: Role,
    worker_id: int,
    publisher_id: int,
    share_msgs: int | None,
) -> Orders:
    """Return the orders of one worker; `share_msgs` is its number of messages, None: no limit.

    `connection_line` is its connection as JSON, `worker_id` its number in the role, `publisher_id`
    its number in the run.
    """
    consumer = assets.consumers.get(role.name)
    if role.queue is not None and role.traits.receives:
        # In a queue group of its own, a run receives all its messages.
        role = replace(role, queue=subscribed_queue(role, assets.run_id))
    return Orders(
        connection=connection_line,
        run_id=assets.run_id,
        role=role,
        worker_id=worker_id,
        publisher_id=publisher_id,
        worker_index=worker_id % role.workers_count,
        workers_count=role.workers_count,
        share_msgs=share_msgs if role.traits.has_own_end else None,
        received_payload=_common_payload(plan, assets, role),
        epoch_ns=assets.epoch_ns,
        stream=assets.stream,
        consumer=consumer,
        deliver_subject=f"_natstui.{consumer}" if role.traits.is_push else None,
        deliver_group=consumer if _has_deliver_group(plan, role) else None,
        first_seq=assets.oldest_seq,
        last_seq=assets.first_seq - 1,
        stored_msgs=assets.waiting_msgs,
        responses=assets.response_stream,
        response_subject=_response_subject(plan) if role.traits.needs_responses else None,
        delete_verbs=assets.delete_verbs(),
        created_streams=assets.created_streams,
    )


def _response_subject(plan: BenchmarkPlan) -> str | None:
    """Return the subject of responses without its last token; None without responses."""
    if plan.responses is None:
        return None
    return plan.responses.subjects[0].rpartition(".")[0]


def _has_deliver_group(plan: BenchmarkPlan, role: Role) -> bool:
    """Return whether the push consumer of a role has a deliver group: it has several receivers."""
    return role.traits.is_push and any(
        plan_role.name == role.name and plan_role.workers_count > 1 for plan_role in plan.roles
    )


def _common_payload(plan: BenchmarkPlan, assets: RunAssets, role: Role) -> Payload | None:
    """Return the payload of all messages that this role receives; None if their stamps differ.

    None also for a consumer that has pending messages of others.
    """
    if role.traits.consumes:
        senders = [
            sender
            for sender in plan.roles
            if sender.traits.sends and not sender.traits.awaits_reply
        ]
        if assets.deliverable_msgs(role, 0) != 0:
            return None
    else:
        senders = [
            sender
            for sender in plan.roles
            if sender.traits.sends and sender.subject == role.subject
        ]
    stamp_layouts = {payload_stamp_layout(sender.payload) for sender in senders}
    return senders[0].payload if role.traits.receives and len(stamp_layouts) == 1 else None
