"""Plans that spread leaders evenly."""

from __future__ import annotations

import random

from natstui.model.servers.balance import ReplicaGroup, plan_moves

NODES = ("n1", "n2", "n3")


def group(name: str, leader: str | None, *, ready: tuple[str, ...] | None = None) -> ReplicaGroup:
    others = tuple(node for node in NODES if node != leader)
    members = NODES if leader else others
    return ReplicaGroup(name, None, 1, leader, others if ready is None else ready, members)


def test_a_server_that_leads_everything_gives_away_two_thirds() -> None:
    plan = plan_moves([group(f"S{at}", "n1") for at in range(30)])
    assert plan.after_count == {"n1": 10, "n2": 10, "n3": 10}
    assert len(plan.moves) == 20
    assert plan.moves[0].text.startswith("S0: n1 → n2, because n1 leads 30 streams and n2 leads 0")


def test_what_is_even_is_left_alone_and_so_is_one_too_many() -> None:
    leaders = [*("n1",) * 4, *("n2",) * 3, *("n3",) * 3]
    assert plan_moves([group(f"S{at}", name) for at, name in enumerate(leaders)]).moves == ()
    assert plan_moves([]).moves == ()


def test_nobody_leads_who_is_not_up_to_date_and_the_leaderless_are_left_alone() -> None:
    plan = plan_moves(
        [group(f"S{at}", "n1", ready=("n3",)) for at in range(4)] + [group("X", None)]
    )
    assert {move.to for move in plan.moves} == {"n3"} and plan.after_count["n1"] == 2
    assert plan.leaderless_count == 1
    assert plan_moves([group(f"S{at}", "n1", ready=()) for at in range(4)]).moves == ()


def test_no_server_leads_two_more_than_another_that_could_lead_instead() -> None:
    chance = random.Random(7)
    for _ in range(200):
        groups = []
        for at in range(chance.randint(1, 40)):
            leader = chance.choice(("n1", "n1", "n1", *NODES))
            others = [node for node in NODES if node != leader]
            ready = tuple(node for node in others if chance.random() < 0.8)
            groups.append(group(f"S{at}", leader, ready=ready))
        plan = plan_moves(groups)
        leads = {one.stream: one.leader for one in groups}
        leads |= {move.group.stream: move.to for move in plan.moves}
        for move in plan.moves:
            assert move.to in move.group.ready
        for one in groups:
            now = leads[one.stream] or ""
            for other in one.ready:
                assert plan.after_count[now] - plan.after_count[other] < 2
        assert sum(plan.after_count.values()) == len(groups)
