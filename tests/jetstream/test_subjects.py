"""Messages are counted by subject where only that shows what is wrong, and nowhere else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from natstui.jetstream.polling.subjects import (
    MIN_UNCONSUMED_POLLS_COUNT,
    SMALL_STREAM_RECOUNT_S,
    CountPlanner,
    CountRequest,
    find_next_due,
)
from natstui.model.live.snapshot import Snapshot
from natstui.model.records.evidence import SubjectsCounted
from natstui.model.records.record import Configured
from natstui.values import replace
from tests.accounts import Account
from tests.jetstream.polling import Polled, api, polling
from tests.model.builders import snapshot
from tests.model.findings.life import EPOCH_US
from tests.session.scenario import consumer, stream

pytestmark = pytest.mark.server


async def _consumer(polled: Polled, stream_name: str, name: str, **config: Any) -> None:
    config = {"durable_name": name, "ack_policy": "explicit"} | config
    body = {"stream_name": stream_name, "config": config}
    await api(polled.client, f"CONSUMER.CREATE.{stream_name}.{name}", body)


async def test_messages_of_no_consumer_are_counted_by_subject(account: Account) -> None:
    async with polling(account.url) as polled:
        config = {"name": "WQ", "subjects": ["wq.>"], "retention": "workqueue"}
        await api(polled.client, "STREAM.CREATE.WQ", config)
        await _consumer(polled, "WQ", "C", filter_subject="wq.a")
        for subject in ("wq.a", "wq.b", "wq.b", "wq.c"):
            await polled.client.nc.request(subject, b"x", timeout=5)
        counted = await polled.until(SubjectsCounted)
        assert (counted.stream, counted.filter_subject) == ("WQ", ">")
        assert counted.msgs_by_subject == {"wq.a": 1, "wq.b": 2, "wq.c": 1}
        assert (counted.subjects_count, counted.stored_msgs) == (3, 4)
        assert counted.scheduled_subjects == ()
        assert polled.state.subject_counts["WQ", ">"] == counted
        await api(polled.client, "STREAM.DELETE.WQ")
        await polled.until(Snapshot, lambda s: s.streams_complete and not s.streams.name)
        assert not polled.state.subject_counts


async def test_schedules_among_them_are_named(account: Account) -> None:
    async with polling(account.url) as polled:
        config = {
            "name": "PLAN", "subjects": ["plan.>", "do.>"], "retention": "workqueue",
            "allow_msg_schedules": True, "allow_msg_ttl": True,
        }  # fmt: skip
        await api(polled.client, "STREAM.CREATE.PLAN", config)
        await _consumer(polled, "PLAN", "C", filter_subject="do.>")
        headers = {"Nats-Schedule": "@at 2030-01-01T00:00:00Z", "Nats-Schedule-Target": "do.it"}
        reply = await polled.client.nc.request("plan.one", b"x", timeout=5, headers=headers)
        assert "error" not in json.loads(reply.data)
        await polled.client.nc.request("plan.two", b"x", timeout=5)
        counted = await polled.until(SubjectsCounted)
        assert counted.msgs_by_subject == {"plan.one": 1, "plan.two": 1}
        assert counted.scheduled_subjects == ("plan.one",)


_STREAM: dict[str, Any] = {
    "name": "S", "created_at_us": EPOCH_US, "stored_msgs": 5, "last_seq": 5, "consumers_count": 1,
    "subjects_count": 2, "last_at_us": EPOCH_US + 9_000_000,
}  # fmt: skip
_CONSUMER: dict[str, Any] = {"stream": "S", "name": "C", "created_at_us": EPOCH_US}


def _configured(
    settings: Mapping[str, Any] | None = None, filters: tuple[str, ...] = (), **config: Any
) -> Configured:
    of_stream = replace(stream("S", EPOCH_US), config_json=json.dumps(settings or {}), **config)
    return Configured(1, (of_stream,), (replace(consumer("S", "C", 1), filter_subjects=filters),))


def _wanted(configured: Configured, polls: list[tuple[dict[str, Any], dict[str, Any]]]) -> Any:
    """Return what is wanted after each poll: a stream and a consumer that differ from above."""
    known, found = CountPlanner(), []
    for number, (of_stream, of_consumer) in enumerate(polls):
        poll = snapshot(100 + number, [_STREAM | of_stream], [_CONSUMER | of_consumer])
        found.append(list(known.find_requests(poll, configured)))
    return found


_ALL = CountRequest("S", EPOCH_US, ">", False)


def test_a_work_queue_is_counted_after_three_polls_with_messages_of_no_consumer() -> None:
    work_queue = _configured(retention="workqueue")
    left = ({"stored_msgs": 5}, {"pending_msgs": 3})
    assert _wanted(work_queue, [left] * (MIN_UNCONSUMED_POLLS_COUNT + 1)) == [[], [], [], [_ALL]]
    owned = ({"stored_msgs": 5}, {"pending_msgs": 3, "ack_pending_msgs": 2})
    assert _wanted(work_queue, [owned] * 6) == [[]] * 6
    # What was stored between the polls may be what is missing in the older reply.
    busy = [({"stored_msgs": 500, "last_seq": 1000 * n}, {"pending_msgs": 100}) for n in range(6)]
    assert _wanted(work_queue, busy) == [[]] * 6
    some_listed = [left[0] | {"consumers_count": 2}, left[1]]
    assert _wanted(work_queue, [tuple(some_listed)] * 6) == [[]] * 6  # type: ignore[list-item]


def test_a_filter_that_never_delivered_is_counted_where_something_was_stored_since() -> None:
    limits = _configured(filters=("a.*", "b"))
    found = _wanted(limits, [({}, {})])
    assert [one.filter_subject for one in found[0]] == ["a.*", "b"]
    for of_stream, of_consumer in (
        ({"last_at_us": EPOCH_US - 1}, {}),
        ({}, {"created_at_us": EPOCH_US + 99_000_000}),
        ({}, {"delivered_consumer_seq": 1}),
        ({}, {"pending_msgs": 1}),
    ):
        assert _wanted(limits, [(of_stream, of_consumer)]) == [[]]
    assert _wanted(_configured(filters=("a",), retention="interest"), [({}, {})]) == [[]]


def test_limits_per_subject_and_objects_are_counted_and_very_many_subjects_are_not() -> None:
    per_subject = _configured(
        {"discard_new_per_subject": True}, max_msgs_per_subject=1, discard="new"
    )
    assert _wanted(per_subject, [({}, {})]) == [[_ALL]]
    assert _wanted(per_subject, [({"subjects_count": 10_001}, {})]) == [[]]
    assert _wanted(_configured(max_msgs_per_subject=1), [({}, {})]) == [[]]
    objects = Configured(1, (replace(stream("OBJ_B", EPOCH_US), kind="object"),), ())
    found = _wanted(objects, [({"name": "OBJ_B"}, {})])
    assert [one.filter_subject for one in found[0]] == ["$O.B.>"]


def test_a_stream_with_few_subjects_is_counted_again_sooner_and_the_oldest_count_first() -> None:
    few, many = (CountRequest(name, EPOCH_US, ">", False) for name in ("FEW", "MANY"))
    assert find_next_due([many, few], {}, {"FEW"}, 100.0) == many
    assert find_next_due([many, few], {many: 100.0}, {"FEW"}, 101.0) == few
    counted_at_s = {many: 100.0, few: 101.0}
    assert find_next_due([many, few], counted_at_s, {"FEW"}, 110.0) is None
    assert (
        find_next_due([many, few], counted_at_s, {"FEW"}, 101.0 + SMALL_STREAM_RECOUNT_S + 1)
        == few
    )


@pytest.mark.parametrize("is_complete", [True, False])
def test_consumers_that_come_and_go_are_forgotten(is_complete: bool) -> None:
    known, other = CountPlanner(), consumer("T", "OTHER", 1)
    listed = [_STREAM, _STREAM | {"name": "T"}]
    list(known.find_requests(snapshot(1, listed), Configured(1, (), (other,))))
    for number in range(50):
        seen = [_CONSUMER | {"name": f"E{number}"}]
        seen += [_CONSUMER | {"stream": "T", "name": "OTHER"}] if is_complete else []
        swept = () if is_complete else ("S",)
        poll = snapshot(
            2 + number, listed, seen, consumers_complete=is_complete, swept_streams=swept,
            unreachable_consumers=(("S", "E0"),),
        )  # fmt: skip
        configured = Configured(1, (), (consumer("S", f"E{number}", 1),))
        list(known.find_requests(poll, configured))
    assert {name: set(each) for name, each in known._consumers_by_stream.items()} == {
        "S": {"E0", "E49"}, "T": {"OTHER"},
    }  # fmt: skip
