"""A silenced finding is not told, for as long as it is silenced; every other one is."""

from __future__ import annotations

import json

from natstui.cli.alerts.notices import Notices
from natstui.config.settings import Alert
from natstui.model.findings.finding import Entity
from natstui.model.findings.verdict import consumer_findings, consumer_verdict
from natstui.model.records.journal import (
    entry_command,
    entry_text,
    find_last_undoable,
    find_newest_not_undoable,
)
from natstui.model.records.managing import JournalEntry, SilenceFinding
from natstui.model.records.silences import Silence, Silenced, silence_json, silences_of
from natstui.tui.findings.keys import silence_command, silence_meaning, silence_refusal
from natstui.values import replace
from tests.model.findings.life import Life, at_us


def silence(life: Life, for_s: float = 30.0, **changes: object) -> Silence:
    created_at_us = life.consumer["created_at_us"]
    until_us = at_us(life.second + for_s)
    one = Silence("NT-C27", "S", "C", created_at_us, "", "meant", "u@A (me)", until_us)
    return replace(one, **changes)  # type: ignore[arg-type]


def tell(life: Life, *silences: Silence) -> None:
    life.add(Silenced(at_us(life.second), silences))


def test_it_is_not_told_until_its_time_is_over_and_then_again() -> None:
    life, notices = Life(), Notices({"all": Alert(hold_s=0)})
    life.polls(2, paused=True)
    assert [one.status for one in notices.update(life.state.findings, at_us(2))] == ["open"]
    tell(life, silence(life, 10))
    findings = life.state.findings
    assert life.open == {} and [one.kind.word for one in findings.list_silenced_findings()] == [
        "paused"
    ]
    assert consumer_verdict(life.state, 0).word != "paused"
    assert "paused" in {one.kind.word for one in consumer_findings(life.state, 0)}
    # It is not over: nobody is told that it is.
    assert notices.update(findings, at_us(3)) == []
    life.polls(9)
    assert life.open == {}
    life.polls(2)
    assert life.words == {"paused"} and life.state.findings.list_silenced_findings() == []
    assert [one.status for one in notices.update(life.state.findings, at_us(13))] == ["open"]


def test_it_is_about_one_code_of_one_thing_that_was_made_once() -> None:
    for changes in (
        {"code": "NT-C07"},
        {"stream": "T"},
        {"consumer": "D"},
        {"created_at_us": 7},
        {"part": "x"},
    ):
        life = Life()
        life.polls(2, paused=True)
        tell(life, silence(life, **changes))
        assert life.words == {"paused"}, changes


def entry(asked: SilenceFinding, now_us: int) -> JournalEntry:
    action = "lift_silence" if asked.for_s is None else "silence"
    return JournalEntry(
        "e", now_us, "here", "u@A (me)", action, asked.stream, asked.consumer or None,  # type: ignore[arg-type]
        json.dumps(silence_json(asked, now_us)), None, None, "done", None,
    )  # fmt: skip


def test_the_journal_says_what_is_silenced_and_is_not_undone_by_it() -> None:
    life = Life()
    life.polls(2, paused=True)
    (finding,) = life.state.findings.list_open_findings()
    asked = silence_command(finding, "2h it is meant")
    kept = entry(asked, 1_000_000)
    (one,) = silences_of([kept], 2_000_000)
    assert (one.reason, one.until_us, one.who) == ("it is meant", 7_201_000_000, "u@A (me)")
    assert Entity(one.stream, one.consumer, one.created_at_us, one.part) == finding.entity
    assert silences_of([kept], 7_201_000_000) == ()
    lifted = entry(silence_command(finding, None), 3_000_000)
    assert silences_of([kept, lifted], 4_000_000) == ()
    assert entry_text(kept).startswith("silence NT-C27 of C on S until ")
    assert entry_text(kept).endswith(": it is meant")
    assert entry_text(lifted) == "report NT-C27 of C on S again"
    assert entry_command(kept).startswith("# silence")
    assert (
        find_last_undoable([kept, lifted]) is None
        and find_newest_not_undoable([kept, lifted]) is None
    )


def test_an_answer_without_a_time_or_a_reason_is_not_taken() -> None:
    assert "not a duration" in silence_refusal("soon it is meant")
    assert "reason is missing" in silence_refusal("1h ")
    assert "at most a year" in silence_refusal("9000d it is meant")
    assert silence_meaning("1d3h it is meant") == "1 day 3 hours"
    assert silence_meaning("2M") == "60 days" and silence_meaning("2m why") == "2 minutes"
    assert silence_meaning("soon it is meant") == ""
    assert silence_refusal("1h it is meant") == ""


def test_a_silence_of_a_retired_code_is_one_of_its_successor() -> None:
    life = Life({"priority_policy": "pinned_client", "settings": {"priority_groups": ["g"]}})
    life.polls(20, pending_msgs=5, waiting_pulls_count=1)
    assert life.open.keys() == {"NT-C41"}
    tell(life, silence(life, code="NT-C34"))
    assert life.open == {}
