"""What changed between two moments: assets, configurations, lag and counters."""

from __future__ import annotations

from types import MappingProxyType

from natstui.model.live.compare import Difference, differences
from natstui.model.live.state import State
from natstui.values import replace
from tests.session.making import fold
from tests.session.scenario import Scenario


def moment(seconds: int) -> State:
    scenario = Scenario(streams=2, consumers=4)
    return fold([*scenario.beginning(), *scenario.records(0, seconds)])


def test_nothing_changed_in_a_moment_compared_with_itself() -> None:
    state = moment(5)
    assert differences(state, state) == []


def test_counters_and_lag_tell_how_much_they_grew() -> None:
    before, after = moment(3), moment(20)
    found = differences(before, after)
    was, now = before.streams.columns.last_seq[0], after.streams.columns.last_seq[0]
    name = after.streams.columns.name[0]
    grown = Difference(name, None, "counter", "last seq", str(was), str(now), now - was)
    assert grown in found
    assert {it.what for it in found} >= {"counter", "lag"}


def test_a_changed_configuration_is_told_field_by_field() -> None:
    state = moment(3)
    name, config = next(iter(state.stream_configurations.items()))

    def configured(text: str) -> State:
        known = {name: replace(config, config_json=text)}
        return replace(state, stream_configurations=MappingProxyType(known))

    before, after = configured('{"max_msgs":-1,"name":"x"}'), configured('{"max_msgs":5,"ttl":1}')
    assert differences(before, after) == [
        Difference(name, None, "configuration", "max_msgs", "-1", "5"),
        Difference(name, None, "configuration", "name", '"x"', None),
        Difference(name, None, "configuration", "ttl", None, "1"),
    ]


def test_what_came_and_went_is_told_once() -> None:
    found = differences(State(), moment(2))
    assert {it.what for it in found} == {"asset"}
    assert {it.after_text for it in found} == {"exists"}
    assert {it.after_text for it in differences(moment(2), State())} == {"deleted"}
