"""Scenario files: what they mean, and what is wrong with them in one sentence."""

import pytest

from natstui.bench.plan.flags import core_plan, with_changes
from natstui.bench.plan.scenario import built_in_scenarios, find_scenario, read_scenario
from natstui.errors import UsageError
from natstui.model.bench.plan import RateSegment

GOOD = """
title = "t"
duration = "5s"
ramp = "2s"
[stream]
name = "S"
[[role]]
name = "pubs"
pattern = "js-publish-async"
rate = 1000
"""


@pytest.mark.parametrize("name", built_in_scenarios())
def test_every_ready_scenario_is_a_plan(name: str) -> None:
    plan = find_scenario(name)
    assert plan.roles
    assert plan.description


def test_a_ramp_comes_before_the_rate() -> None:
    plan = read_scenario(GOOD, "x")
    expected = (RateSegment(2.0, 0.0, 1000), RateSegment(None, 1000, 1000))
    assert plan.roles[0].schedule == expected
    assert plan.stream is not None
    assert plan.stream.subjects == ("bench",)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("pattern", "patern"), "role 1 has no `patern`; did you mean `pattern`?"),
        (("rate = 1000", 'duration = "5s"'), "role 1 has no `duration`: it belongs to the top"),
        (("rate = 1000", "rate = { rmp = [1, 2] }"), "role 1 › rate has no `rmp`; did you mean"),
        (("rate = 1000", 'workers = "three"'), "role 1 › workers: expected `int`, got `str`"),
        (
            ("rate = 1000", "zzz = 1"),
            "role 1 has no `zzz`; valid names are name, pattern, workers",
        ),
        (('title = "t"', ""), "the top of the file: object missing required field `title`"),
        (("js-publish-async", "shout"), "role 1 › pattern: invalid enum value 'shout'"),
        (('duration = "5s"', ""), "the run has no end: set msgs or a duration"),
        (('duration = "5s"', 'duration = "5 apples"'), "is not a duration"),
        (("rate = 1000", "rate = -1"), "a rate must not be negative"),
        (("rate = 1000", "workers = 0"), "the number of workers must be between 1 and 256, not 0"),
        (("rate = 1000", 'subject = "a.*"'), "must be a subject without wildcards"),
        (('[stream]\nname = "S"', ""), "needs a [stream]"),
        (('name = "pubs"', 'name = "p u b s"'), "is not valid: use letters"),
        (("rate = 1000", "rate = {}"), "has one of: ramp, steps, burst"),
        (('title = "t"', 'title = "t'), "not TOML"),
        (("rate = 1000", "payload = { duplicates = 0.5 }"), "duplicates need msg-ids"),
        (("rate = 1000", 'payload = { kind = "file", file = "/no" }'), "does not exist"),
        (('"js-publish-async"', '"js-get-batch"'), "pattern js-get-batch works without a rate"),
        (
            ("rate = 1000", 'rate = 1000\nclient = "nats-py"'),
            "role 1 has no `client`: natstui measures with its own client only",
        ),
    ],
)
def test_a_wrong_file_is_refused_with_a_sentence(change: tuple[str, str], sentence: str) -> None:
    text = GOOD.replace(*change)
    assert text != GOOD
    with pytest.raises(UsageError) as caught:
        read_scenario(text, "mine.toml")
    assert "scenario mine.toml: " in str(caught.value)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_name_that_is_nothing_lists_what_there_is() -> None:
    with pytest.raises(UsageError, match="built-in are core-request-reply"):
        find_scenario("nothing")


def test_overrides_change_the_roles_they_are_about() -> None:
    plan = core_plan("s", pubs=1, subs=1)
    words = {"msgs": "1M", "subs": "4", "size": "1KB", "rate": "10k"}
    changed = with_changes(plan, words)
    subs, pubs = changed.roles
    assert (pubs.total_msgs, subs.total_msgs) == (1_000_000, None)
    assert (pubs.workers_count, subs.workers_count) == (1, 4)
    assert pubs.payload.size_bytes == 1024
    assert (pubs.schedule, subs.schedule) == ((RateSegment(None, 10_000, 10_000),), ())
    assert with_changes(plan, {"duration": "5s"}).roles[1].total_msgs is None
    for words in ({"duration": "5s", "msgs": "7"}, {"msgs": "7", "duration": "5s"}):
        both = with_changes(plan, words)
        assert (both.roles[1].total_msgs, both.duration_s) == (7, 5.0)
    with pytest.raises(UsageError, match="no override 'nope'"):
        with_changes(plan, {"nope": "1"})
    with pytest.raises(UsageError, match="--msgs"):
        with_changes(plan, {"msgs": "many"})
