"""The live rules answer the cases that the queries of the analysis answer too."""

from __future__ import annotations

import pytest

from natstui.model.findings.catalogue.consumers import STUCK_CAUSES
from natstui.model.findings.evaluate import apply_and_evaluate
from natstui.model.findings.verdict import consumer_statuses, consumer_verdict
from natstui.model.live.limits import (
    StreamFill,
    bytes_are_full,
    time_to_drain_s,
    time_to_full_s,
)
from natstui.model.live.state import State
from natstui.model.records.record import Configured
from natstui.values import replace
from tests.model.builders import snapshot
from tests.model.rule_cases import (
    BYTES_CASES,
    DRAIN_CASES,
    FULL_CASES,
    SECONDS,
    START_S,
    STUCK_CASES,
    StuckCase,
    at_us,
)
from tests.session.scenario import consumer


@pytest.mark.parametrize("case", STUCK_CASES, ids=lambda case: case.name)
def test_the_live_rule_names_the_status_of_each_case(case: StuckCase) -> None:
    configured = replace(consumer("S", case.name, 1), **case.config)
    state = State().after(Configured(at_us(0), (), (configured,)))
    for second in SECONDS:
        poll = snapshot(START_S + second, None, [case.columns(second)])
        state = apply_and_evaluate(state, poll)
    assert consumer_statuses(state) == [case.live]
    assert consumer_verdict(state, 0).word == case.live.word


def test_the_cases_have_every_cause_of_a_stuck_consumer() -> None:
    assert {case.recorded for case in STUCK_CASES} == set(STUCK_CAUSES)


@pytest.mark.parametrize(("pending_msgs", "trend", "expected"), DRAIN_CASES)
def test_the_time_to_drain_of_each_case(
    pending_msgs: int, trend: float | None, expected: float | None
) -> None:
    assert time_to_drain_s(pending_msgs, trend) == expected


@pytest.mark.parametrize(("level", "limit", "trend", "expected"), FULL_CASES)
def test_the_time_until_full_of_each_case(
    level: int, limit: int | None, trend: float | None, expected: float | None
) -> None:
    assert time_to_full_s(level, limit, trend) == expected


@pytest.mark.parametrize(("fill", "is_deleting", "full"), BYTES_CASES)
def test_whether_the_bytes_of_each_case_are_full(
    fill: StreamFill, is_deleting: bool, full: bool
) -> None:
    assert bytes_are_full(fill, is_deleting=is_deleting) is full
