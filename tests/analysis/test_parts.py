"""What is read again, and what lies together: small sessions that one run has read."""

from __future__ import annotations

from natstui.analysis.bronze import parts
from natstui.analysis.bronze.files import SegmentFile, session_fingerprints
from natstui.analysis.bronze.parts import CompleteSession, SessionPlan, plan_sessions

SMALL, LARGE = 1000, parts.MAX_SMALL_SESSION_BYTES + 1


def files(*sessions: str, size_bytes: int = SMALL) -> list[SegmentFile]:
    return [SegmentFile(one, "records-000001.jsonl", size_bytes) for one in sessions]


def many(count: int) -> str:
    return f"run/{count}"


def kept(plan: SessionPlan) -> dict[str, CompleteSession]:
    """Return what is known after a run."""
    return {
        one: CompleteSession(mark, plan.part_by_session[one])
        for one, mark in plan.fingerprint_by_session_to_read.items()
    }


def test_small_sessions_that_are_read_together_lie_together() -> None:
    plan = plan_sessions(files("a", "b", "c") + files("long", size_bytes=LARGE), {}, many)
    assert plan.part_by_session == {"a": "run/3", "b": "run/3", "c": "run/3", "long": "long"}
    assert (
        plan.fingerprint_by_session_to_read.keys() == plan.part_by_session.keys()
        and not plan.kept_parts
    )
    assert plan_sessions(files("a"), {}, many).part_by_session == {"a": "a"}


def test_what_has_not_changed_is_not_read_again() -> None:
    before = kept(plan_sessions(files("a", "b"), {}, many))
    plan = plan_sessions(files("a", "b", "new"), before, many)
    assert plan.fingerprint_by_session_to_read == session_fingerprints(
        files("new")
    ) and plan.kept_parts == {"run/2"}
    assert plan.part_by_session == {"a": "run/2", "b": "run/2", "new": "new"}
    # A part that nobody asks for stays, too.
    assert plan_sessions(files("new"), before, many).kept_parts == {"run/2"}
    assert not plan_sessions(files("a", "b"), before, many).fingerprint_by_session_to_read


def test_with_one_that_has_changed_all_of_its_part_are_read_and_it_is_alone_from_then_on() -> None:
    before = kept(plan_sessions(files("a", "b", "c"), {}, many))
    grown = files("a", "b") + files("c", size_bytes=SMALL + 1)
    plan = plan_sessions(grown, before, lambda count: f"next/{count}")
    assert plan.part_by_session == {"a": "next/2", "b": "next/2", "c": "c"}
    assert (
        plan.fingerprint_by_session_to_read == session_fingerprints(grown) and not plan.kept_parts
    )
    after = kept(plan)
    again = files("a", "b") + files("c", size_bytes=SMALL + 2)
    plan = plan_sessions(again, after, many)
    assert (
        plan.fingerprint_by_session_to_read.keys() == {"c"}
        and plan.part_by_session["c"] == "c"
        and plan.kept_parts == {"next/2"}
    )


def test_those_of_a_part_that_are_not_asked_for_are_forgotten_with_it() -> None:
    before = kept(plan_sessions(files("a", "b"), {}, many))
    plan = plan_sessions(files("a", size_bytes=SMALL + 1), before, many)
    assert (
        plan.fingerprint_by_session_to_read.keys() == plan.part_by_session.keys() == {"a"}
        and not plan.kept_parts
    )


def test_when_many_lie_alone_they_are_read_again_with_the_next() -> None:
    names = [f"{number:02d}" for number in range(parts.MIN_SESSIONS_TO_MERGE_COUNT)]
    marks = session_fingerprints(files(*names))
    alone = {name: CompleteSession(mark, name) for name, mark in marks.items()}
    plan = plan_sessions(files(*names[1:], "new"), alone, many)
    assert plan.fingerprint_by_session_to_read.keys() == {"new"} and plan.kept_parts == set(names)
    plan = plan_sessions(files(*names, "new"), alone, many)
    assert set(plan.part_by_session.values()) == {many(len(names) + 1)} and not plan.kept_parts
    # Without a new one, nothing is to be done.
    assert not plan_sessions(files(*names), alone, many).fingerprint_by_session_to_read
