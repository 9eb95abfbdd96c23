"""Names that the server tells without a row: never "fine", and over as soon as they have one."""

from __future__ import annotations

from typing import Any

from natstui.cli.health.formats import format_json, format_nagios, format_text
from natstui.cli.health.report import FindingSelection, Report, Verdict, create_report
from natstui.model.findings.evaluate import apply_and_evaluate
from natstui.model.live.snapshot import OfflineAsset, UnlistedConsumers
from natstui.model.live.state import State
from tests.model.builders import snapshot
from tests.model.findings.life import EPOCH_US, START_S, Life

_REASON = 'unsupported - config error: unknown field "allow_batched"'
_ALIVE: dict[str, Any] = {
    "name": "ALIVE", "created_at_us": EPOCH_US, "consumers_count": 0, "last_at_us": EPOCH_US,
}  # fmt: skip
_OF_ALL = FindingSelection()


def after(state: State, second: float, **rest: Any) -> State:
    """Return the state one poll later, judged."""
    return apply_and_evaluate(state, snapshot(second, [_ALIVE], [], **rest))


def open_codes(state: State) -> set[tuple[str, str]]:
    return {(one.kind.code, one.entity.text) for one in state.findings.list_open_findings()}


def test_a_stream_that_never_had_a_row_is_critical_by_its_name() -> None:
    state = after(State(), 1, unreachable_streams=("ONE1", "ONE2"))
    assert open_codes(state) == {("NT-S01", "ONE1"), ("NT-S01", "ONE2")}
    report = create_report(state, _OF_ALL)
    assert report.verdict is Verdict.CRITICAL
    assert (report.streams_count, report.consumers_count) == (3, 0)
    assert format_nagios(report).startswith("CRITICAL natstui: NT-S01 ONE")
    assert "ONE1" in format_text(report) and "ONE2" in format_text(report)


def test_it_is_over_when_the_stream_answers_or_is_deleted() -> None:
    state = after(State(), 1, unreachable_streams=("ONE1", "ONE2"))
    back = _ALIVE | {"name": "ONE1"}
    state = apply_and_evaluate(state, snapshot(2, [_ALIVE, back], []))
    assert open_codes(state) == set()
    assert {one.entity.text for one in state.findings.resolved} == {"ONE1", "ONE2"}


def test_a_stream_with_a_row_that_becomes_unreachable_is_told_once() -> None:
    state = after(State(), 1)
    state = apply_and_evaluate(state, snapshot(2, None, None, unreachable_streams=("ALIVE",)))
    told = [one for one in state.findings.list_open_findings() if one.entity.stream == "ALIVE"]
    assert [one.kind.code for one in told] == ["NT-S01"]


def test_what_a_server_refuses_to_run_is_told_with_its_reason_and_not_as_silent() -> None:
    refused = (OfflineAsset("FAST2", "", _REASON), OfflineAsset("ALIVE", "C", _REASON))
    state = after(
        State(), 1, unreachable_streams=("FAST2",), unreachable_consumers=(("ALIVE", "C"),),
        offline=refused,
    )  # fmt: skip
    assert open_codes(state) == {("NT-S09", "FAST2"), ("NT-C14", "ALIVE > C")}
    assert {one.text for one in state.findings.list_open_findings()} == {_REASON}
    assert all(
        "start the server again" not in one.act for one in state.findings.list_open_findings()
    )


def test_consumers_of_a_stream_that_its_server_refuses_to_run_are_not_without_a_leader() -> None:
    life = Life()
    life.polls(3)
    for second in range(4, 7):
        life.add(
            snapshot(
                START_S + second,
                unreachable_streams=("S",),
                unreachable_consumers=(("S", "C"),),
                offline=(OfflineAsset("S", "", _REASON),),
            )
        )
        assert life.open.keys() == {"NT-S09"}


def test_asked_by_name_the_truth_is_told_of_a_stream_without_a_row() -> None:
    state = after(
        State(),
        1,
        unreachable_streams=("FAST2", "ONE1"),
        offline=(OfflineAsset("FAST2", "", _REASON),),
    )
    for chosen, code in (
        (FindingSelection(stream="FAST2"), "NT-S09"),
        (FindingSelection(stream="ONE1"), "NT-S01"),
        (FindingSelection(consumer=("FAST2", "C")), "NT-S09"),
        (FindingSelection(consumer=("ONE1", "C")), "NT-S01"),
    ):
        report = create_report(state, chosen)
        assert report.verdict is Verdict.CRITICAL
        assert [one.kind.code for one in report.findings] == [code]
        assert report.unknown_reason is None
    nobody = create_report(state, FindingSelection(stream="NEVER"))
    assert nobody.unknown_reason == "there is no stream NEVER"


def test_a_consumer_without_a_row_is_critical_by_its_name() -> None:
    state = after(State(), 1, unreachable_consumers=(("ALIVE", "C"),))
    assert open_codes(state) == {("NT-C01", "ALIVE > C")}
    assert create_report(state, _OF_ALL).consumers_count == 1


def test_consumers_that_are_counted_and_not_listed_are_missed_after_ten_seconds() -> None:
    gone = (UnlistedConsumers("ALIVE", 2),)
    state = State()
    for second in range(1, 10):
        state = after(state, second, unlisted=gone)
    assert open_codes(state) == set()
    report = create_report(state, _OF_ALL, watched_s=9)
    first = report.unjudged_conditions[0]
    assert first.entity is not None
    assert (first.kind.code, first.entity.text) == ("NT-S10", "ALIVE")
    state = after(after(state, 10, unlisted=gone), 11, unlisted=gone)
    assert open_codes(state) == {("NT-S10", "ALIVE")}
    state = after(state, 12)
    assert open_codes(state) == set()


def _watched(watched_s: float) -> Report:
    return create_report(after(State(), 1), _OF_ALL, watched_s=watched_s)


def test_kinds_that_need_longer_than_was_watched_are_listed_as_not_judged() -> None:
    short, long = _watched(3), _watched(3_600)
    needed = {one.kind.code: one.kind.needs_s for one in short.unjudged_conditions}
    assert needed["NT-S10"] == 10 and min(needed.values()) > 3
    assert long.unjudged_conditions == ()
    assert "3 s are too short to judge: " in format_text(
        short
    ) and "not judged" not in format_text(long)
    assert f"watched=3.0s not_judged={len(needed)}" in format_nagios(short)
    assert '"code": "NT-S10"' in format_json(short)
    # Of a recording nobody knows better: it is judged as it is.
    assert create_report(after(State(), 1), _OF_ALL).unjudged_conditions == ()
