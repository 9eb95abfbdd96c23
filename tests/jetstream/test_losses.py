"""What an edit removes is counted before it is done, and is never more than was said."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from natstui.errors import ActionRefusal, Conflict
from natstui.jetstream.managing.apply import preview
from natstui.jetstream.managing.configure import read_asset
from natstui.jetstream.managing.losses import count_loss
from natstui.jetstream.messages.pull import pull_next
from natstui.jetstream.testbed.broker import Broker
from natstui.model.records.actions import ACTIONS_ON_CONSUMER
from natstui.model.records.managing import Action, Change
from natstui.model.records.messages import PullNext
from natstui.model.servers.versions import VERSIONS_LIMITING_SUBJECTS_LATE, is_version_in
from natstui.values import replace
from tests.accounts import Account
from tests.jetstream.admin_session import AdminSession, admin_session
from tests.jetstream.pending import until_pending

pytestmark = pytest.mark.server

_NEW = {"discard": "new"}
_C = {"durable_name": "C", "ack_policy": "explicit"}


def fill(session: AdminSession, stream: str, count: int, subjects_count: int = 2) -> None:
    for number in range(count):
        subject = f"{stream.lower()}.{number % subjects_count}"
        session.run(session.writer.client.request_subject(subject, b"x" * 100))


def make(session: AdminSession, name: str, **config: Any) -> dict[str, Any]:
    session.request(
        "STREAM.CREATE." + name, {"name": name, "subjects": [f"{name.lower()}.>"]} | config
    )
    return session.config(name)


def held(session: AdminSession, stream: str) -> int:
    count: int = session.request(f"STREAM.INFO.{stream}")["state"]["messages"]
    return count


_EDITS: tuple[tuple[dict[str, Any], dict[str, Any], str], ...] = (
    ({}, {"max_msgs": 3}, "7 of 10 messages (about"),
    (_NEW, {"max_msgs": 3}, ""),
    ({}, {"max_bytes": 500}, "about 7 of 10 messages (about"),
    (_NEW, {"max_bytes": 500}, ""),
    (_NEW | {"max_msgs": 20}, {"max_msgs": 3, "discard": "old"}, "7 of 10 messages (about"),
    ({"max_msgs_per_subject": 5}, {"max_msgs_per_subject": 2}, "6 of 10 messages (about"),
    ({}, {"max_age": 10**8, "duplicate_window": 10**8}, "all 10 messages (about"),
    (_NEW, {"max_age": 10**8, "duplicate_window": 10**8}, "all 10 messages (about"),
    ({"storage": "memory"}, {"max_msgs": 3}, "7 of 10 messages (about"),
    ({"deny_delete": True}, {"max_msgs": 3}, "7 of 10 messages (about"),
    ({}, {"max_msgs": 30}, ""),
    ({"max_msgs": 30}, {"max_msgs": -1}, ""),
    ({}, {"description": "other"}, ""),
    ({}, {"subjects": ["elsewhere.>"]}, ""),
)


def test_what_an_edit_removes_is_said_before_and_asked_for(
    account: Account, tmp_path: Path
) -> None:
    with admin_session(account.url, tmp_path) as session:
        for number, (base, edit, said) in enumerate(_EDITS):
            name = f"S{number}"
            seen = make(session, name, **base)
            fill(session, name, 10)
            # So that what is to be older than 100 ms is.
            time.sleep(0.15 if "max_age" in edit else 0)
            subjects = [f"s{number}e.>"] if "subjects" in edit else seen["subjects"]
            wanted = seen | edit | {"subjects": subjects}
            if not said:
                session.apply("edit_stream", name, wanted)
                assert held(session, name) == 10, edit
                continue
            with pytest.raises(ActionRefusal) as refused:
                session.apply("edit_stream", name, wanted)
            assert f"({said}" in str(refused.value), edit
            assert "removed for good" in str(refused.value)
            assert (held(session, name), session.config(name)) == (10, seen), edit
            session.apply("edit_stream", name, wanted, confirmed=name)
            entry = session.writer.journal.entries()[-1]
            assert (entry.loses or "").startswith(said)
            give_up_at = time.monotonic() + 60
            expected = {
                "about 7": 3,
                "7 of": 3,
                "6 of": 4,
                "all 10": 0,
            }
            left = next(left for start, left in expected.items() if said.startswith(start))
            while held(session, name) != left:
                assert time.monotonic() < give_up_at, (edit, held(session, name))
                time.sleep(0.05)


_FIRST_LIMITS: tuple[tuple[dict[str, Any], dict[str, Any], str], ...] = (
    ({}, {"max_msgs_per_subject": 2}, "6 of 10 messages (about"),
    ({"storage": "memory"}, {"max_msgs_per_subject": 2}, "6 of 10 messages (about"),
    (_NEW, {"max_msgs_per_subject": 2}, "6 of 10 messages (about"),
    ({}, {"max_msgs_per_subject": 2, "max_msgs": 9}, "at most 7 of 10 messages (about"),
)


@pytest.mark.parametrize(("base", "edit", "said"), _FIRST_LIMITS)
def test_a_first_limit_per_subject_removes_what_was_said_and_when(
    account: Account, tmp_path: Path, base: dict[str, Any], edit: dict[str, Any], said: str
) -> None:
    with admin_session(account.url, tmp_path) as session:
        seen = make(session, "S", **base)
        fill(session, "S", 10)
        with pytest.raises(ActionRefusal) as refused:
            session.apply("edit_stream", "S", seen | edit)
        assert f"({said}" in str(refused.value)
        later = "removed later: with the next message of the subject" in str(refused.value)
        version = session.writer.client.link.server_version
        assert later is is_version_in(version, VERSIONS_LIMITING_SUBJECTS_LATE)
        session.apply("edit_stream", "S", seen | edit, confirmed="S")
        if later:
            assert held(session, "S") == min(10, edit.get("max_msgs", 10))
            fill(session, "S", 2)
        assert held(session, "S") == 4


def test_a_first_limit_that_refuses_new_messages_removes_at_a_restart_at_the_latest(
    nats_server: Broker, tmp_path: Path
) -> None:
    with admin_session(nats_server.url, tmp_path) as session:
        seen = make(session, "S", **_NEW, max_msgs=20)
        fill(session, "S", 10)
        edit = {"max_msgs_per_subject": 2, "discard_new_per_subject": True}
        with pytest.raises(ActionRefusal) as refused:
            session.apply("edit_stream", "S", seen | edit)
        later = "removed later: when the server restarts" in str(refused.value)
        session.apply("edit_stream", "S", seen | edit, confirmed="S")
        assert held(session, "S") == (10 if later else 4)
    nats_server.restart()
    with admin_session(nats_server.url, tmp_path) as session:
        assert held(session, "S") == 4


@pytest.mark.needs_server("2.15")
def test_without_consumers_a_stream_that_keeps_by_interest_loses_everything(
    account: Account, tmp_path: Path
) -> None:
    with admin_session(account.url, tmp_path) as session:
        seen = make(session, "S")
        fill(session, "S", 10)
        with pytest.raises(ActionRefusal, match=re.escape("(at most all 10 messages (about")):
            session.apply("edit_stream", "S", seen | {"retention": "interest"})
        session.apply("edit_stream", "S", seen | {"retention": "interest"}, confirmed="S")
        assert held(session, "S") == 0


@pytest.mark.needs_server(before="2.15")
def test_without_consumers_a_stream_that_keeps_by_interest_loses_nothing_before_2_15(
    nats_server: Broker, tmp_path: Path
) -> None:
    with admin_session(nats_server.url, tmp_path) as session:
        seen = make(session, "S")
        fill(session, "S", 10)
        session.apply("edit_stream", "S", seen | {"retention": "interest"})
        assert held(session, "S") == 10
    nats_server.restart()
    with admin_session(nats_server.url, tmp_path) as session:
        assert held(session, "S") == 10


def test_a_consumer_keeps_what_it_wants_of_a_stream_that_now_keeps_by_interest(
    account: Account, tmp_path: Path
) -> None:
    with admin_session(account.url, tmp_path) as session:
        seen = make(session, "S")
        fill(session, "S", 10)
        session.apply("create_consumer", "S", _C | {"filter_subject": "s.0"}, consumer="C")
        pulled = session.run(pull_next(session.writer, PullNext(1, "S", "C")))
        session.run(session.writer.client.request_subject(pulled.reply, b"+ACK"))
        wanted = seen | {"retention": "interest"}
        with pytest.raises(ActionRefusal, match=re.escape("(at most 6 of 10 messages (about")):
            session.apply("edit_stream", "S", wanted)
        session.apply("edit_stream", "S", wanted, confirmed="S")
        assert 4 <= held(session, "S") < 10


def test_far_more_than_was_told_is_not_removed(account: Account, tmp_path: Path) -> None:
    with admin_session(account.url, tmp_path) as session:
        make(session, "S")
        fill(session, "S", 10)
        change = Change(
            1, "purge_stream", "S", confirmed="S",
            created_at_us=session.created_at_us("S"), previewed_msgs=4,
        )  # fmt: skip
        with pytest.raises(Conflict, match="it was 4 messages when you confirmed"):
            session.do(change)
        assert held(session, "S") == 10


def test_sealing_and_denying_are_said_to_stay(account: Account, tmp_path: Path) -> None:
    with admin_session(account.url, tmp_path) as session:
        seen = make(session, "S")
        for edit, said in (
            ({"deny_delete": True}, "can never be deleted"),
            ({"deny_purge": True}, "can never be purged"),
            ({"sealed": True}, "stays sealed for ever"),
        ):
            with pytest.raises(ActionRefusal, match=said):
                session.apply("edit_stream", "S", seen | edit)
        assert session.config("S") == seen


def test_a_consumer_that_would_go_by_itself_and_what_only_it_wants_are_said(
    account: Account, tmp_path: Path
) -> None:
    with admin_session(account.url, tmp_path) as session:
        make(session, "S", retention="interest")
        session.apply("create_consumer", "S", _C, consumer="C")
        fill(session, "S", 10)
        session.run(until_pending(session.writer.client.nc.jetstream(), "S", 10, "C"))
        seen = session.config("S", "C")
        for edit, said in (
            ({"filter_subject": "s.1"}, "at most 10 messages that no other consumer needs"),
            ({"inactive_threshold": 300_000_000_000}, "unused for 5m.*at most 10 messages"),
        ):
            with pytest.raises(ActionRefusal, match=said):
                session.apply("edit_consumer", "S", seen | edit, consumer="C")
        with pytest.raises(ActionRefusal, match=r"10 unprocessed.*at most 10 messages"):
            session.apply("delete_consumer", "S", consumer="C")
        assert held(session, "S") == 10
        session.apply(
            "edit_consumer", "S", seen | {"filter_subject": "s.1"}, consumer="C", confirmed="C"
        )
        assert held(session, "S") == 5


def test_an_undo_that_tightens_again_is_an_edit_that_removes(
    account: Account, tmp_path: Path
) -> None:
    with admin_session(account.url, tmp_path) as session:
        seen = make(session, "S", max_msgs=5)
        session.apply("edit_stream", "S", seen | {"max_msgs": 100})
        fill(session, "S", 20)
        with pytest.raises(ActionRefusal, match="15 of 20 messages"):
            session.undo()
        assert held(session, "S") == 20
        session.undo(confirmed="S")
        assert held(session, "S") == 5


def test_a_user_who_may_not_look_is_told_an_unknown_part(
    nats_server_factory: Any, tmp_path: Path
) -> None:
    broker = nats_server_factory(
        """
        accounts { A: { jetstream: enabled, users: [
          { user: app, password: app }
          { user: few, password: few, permissions: { publish: { deny: [
            "$JS.API.STREAM.MSG.GET.>", "$JS.API.DIRECT.GET.>" ] } } }
        ] } }
        """
    )
    app, few = (broker.url.replace("nats://", f"nats://{u}:{u}@") for u in ("app", "few"))
    with admin_session(app, tmp_path) as session:
        seen = make(session, "S")
        fill(session, "S", 3)
    with admin_session(few, tmp_path) as session:
        with pytest.raises(ActionRefusal, match="an unknown number of 3 messages"):
            session.apply("edit_stream", "S", seen | {"max_age": 3600 * 10**9})
        assert held(session, "S") == 3


def test_the_count_asks_for_no_more_than_the_edit_touches(
    account: Account, tmp_path: Path
) -> None:
    with admin_session(account.url, tmp_path) as session:
        seen = make(session, "S")
        asset = session.asset("S")
        before = session.request("INFO")["api"]["total"]
        change = Change(1, "edit_stream", "S", None, json.dumps(seen | {"max_msgs": 3}))
        session.run(count_loss(session.writer.client, change, asset))
        assert session.request("INFO")["api"]["total"] - before <= 1


def test_what_is_done_to_a_consumer_is_refused_where_none_is_named(
    account: Account, tmp_path: Path
) -> None:
    with admin_session(account.url, tmp_path) as session:
        make(session, "S")
        created_at_us = session.run(read_asset(session.writer, "stream", "S")).created_at_us
        for action in ACTIONS_ON_CONSUMER:
            change = Change(1, action, "S", created_at_us=created_at_us)
            with pytest.raises(
                ActionRefusal, match="no consumer of S was named: nothing was changed"
            ):
                session.run(preview(session.writer, change))


def _ask_then_publish(session: AdminSession, change: Change, count: int) -> Change:
    """Ask what a change removes, publish further messages, and return it as confirmed."""
    shown = session.run(preview(session.writer, change))
    fill(session, "S", count)
    return replace(
        change, confirmed="S", created_at_us=shown.created_at_us,
        previewed_msgs=shown.most_msgs, previewed_last_seq=shown.last_seq,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("body", "left"),
    [({}, 9), ({"filter": "s.0"}, 5 + 9), ({"seq": 1_000_000}, 9), ({"seq": 1}, 10 + 9)],
)
def test_a_purge_leaves_what_was_published_after_the_question(
    account: Account, tmp_path: Path, body: dict[str, object], left: int
) -> None:
    with admin_session(account.url, tmp_path) as session:
        make(session, "S")
        fill(session, "S", 10)
        asked = Change(1, "purge_stream", "S", body_json=json.dumps(body))
        session.do(_ask_then_publish(session, asked, 9))
        assert held(session, "S") == left


def test_a_purge_of_an_empty_stream_leaves_what_was_published_after_the_question(
    account: Account, tmp_path: Path
) -> None:
    with admin_session(account.url, tmp_path) as session:
        make(session, "S")
        session.do(_ask_then_publish(session, Change(1, "purge_stream", "S", body_json="{}"), 9))
        assert held(session, "S") == 9


@pytest.mark.parametrize(
    ("action", "body"),
    [
        ("purge_stream", {"keep": 3}),
        ("delete_stream", {}),
        ("edit_stream", {"max_msgs": 1}),
    ],
)
def test_what_is_published_after_the_question_is_said_to_add_to_what_is_removed(
    account: Account, tmp_path: Path, action: Action, body: dict[str, object]
) -> None:
    with admin_session(account.url, tmp_path) as session:
        seen = make(session, "S")
        fill(session, "S", 10)
        wanted = seen | body if action == "edit_stream" else body
        asked = Change(1, action, "S", body_json=json.dumps(wanted))
        shown = session.run(preview(session.writer, asked))
        assert shown.lines[-1] == "for each message published until you confirm, one more"
        confirmed = _ask_then_publish(session, asked, 9)
        # Nobody published so many: they were there when it was asked.
        with pytest.raises(Conflict, match="when you confirmed: nothing was changed"):
            session.do(replace(confirmed, previewed_msgs=1, previewed_last_seq=19))
        session.do(confirmed)
        assert "published" not in (session.writer.journal.entries()[-1].loses or "")


@pytest.mark.parametrize(
    ("action", "body"),
    [("delete_consumer", {}), ("edit_consumer", {"inactive_threshold": 3600 * 10**9})],
)
def test_what_only_a_consumer_needs_is_said_to_grow_also_where_it_needs_nothing_yet(
    account: Account, tmp_path: Path, action: Action, body: dict[str, Any]
) -> None:
    with admin_session(account.url, tmp_path) as session:
        make(session, "S", retention="interest")
        session.apply("create_consumer", "S", _C, consumer="C")
        made_us = session.created_at_us("S", "C")
        change = Change(1, action, "S", "C", json.dumps(_C | body), created_at_us=made_us)
        question = session.run(preview(session.writer, change)).question
        assert "no message that only it needs is there now" in question
        assert "for each message published until you confirm, one more" in question
        fill(session, "S", 1)
        question = session.run(preview(session.writer, change)).question
        assert "at most 1 message that" in question


def test_an_empty_stream_is_said_to_lose_what_is_published_until_it_is_deleted(
    account: Account, tmp_path: Path
) -> None:
    with admin_session(account.url, tmp_path) as session:
        make(session, "U")
        change = Change(1, "delete_stream", "U", None, "{}")
        question = session.run(preview(session.writer, change)).question
        assert "no message is removed; for each message published until you confirm" in question
        make(session, "S", max_msgs=20)
        fill(session, "S", 3)
        wanted = json.dumps(session.config("S") | {"max_msgs": 5})
        change = Change(1, "edit_stream", "S", None, wanted)
        confirmed = _ask_then_publish(session, change, 7)
        with pytest.raises(Conflict, match="but it was 0 messages when you confirmed"):
            session.do(confirmed)


def test_a_limit_of_bytes_may_remove_more_than_the_mean_size_says(
    account: Account, tmp_path: Path
) -> None:
    with admin_session(account.url, tmp_path) as session:
        config = make(session, "S")
        fill(session, "S", 20)
        session.run(session.writer.client.request_subject("s.0", b"x" * 20_000))
        with pytest.raises(ActionRefusal, match="up to all of them where the oldest are smaller"):
            session.apply("edit_stream", "S", config | {"max_bytes": 15_000})


def test_what_is_older_than_a_max_age_is_counted_by_the_clock_of_the_server(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with admin_session(account.url, tmp_path) as session:
        config = make(session, "S")
        fill(session, "S", 3)
        asset = session.run(read_asset(session.writer, "stream", "S"))
        late_ns = time.time_ns() - 3600 * 10**9
        monkeypatch.setattr(time, "time_ns", lambda: late_ns)
        body = json.dumps(config | {"max_age": 10**8, "duplicate_window": 10**8})
        deadline_s = time.monotonic() + 30
        loss = None
        while (loss is None or loss.most_msgs != 3) and time.monotonic() < deadline_s:
            asset = session.run(read_asset(session.writer, "stream", "S"))
            change = Change(1, "edit_stream", "S", body_json=body)
            loss = session.run(count_loss(session.writer.client, change, asset))
        assert loss is not None and "all 3 messages" in loss.text


def test_a_threshold_for_consumers_names_the_messages_that_go_with_them(
    account: Account, tmp_path: Path
) -> None:
    with admin_session(account.url, tmp_path) as session:
        config = make(session, "S", retention="interest")
        session.apply("create_consumer", "S", _C, consumer="C")
        fill(session, "S", 3)
        limits = {"consumer_limits": {"inactive_threshold": 2 * 10**9}}
        with pytest.raises(ActionRefusal, match="with up to 3 messages that only they need"):
            session.apply("edit_stream", "S", config | limits)


@pytest.mark.needs_server(before="2.15")
def test_what_a_stream_kept_before_it_had_interest_retention_goes_with_its_last_consumer(
    account: Account, tmp_path: Path
) -> None:
    with admin_session(account.url, tmp_path) as session:
        config = make(session, "S")
        fill(session, "S", 3)
        session.request("STREAM.UPDATE.S", config | {"retention": "interest"})
        session.apply("create_consumer", "S", _C | {"deliver_policy": "new"}, consumer="C")
        with pytest.raises(ActionRefusal, match="at most 3 messages that only it needs"):
            session.apply("delete_consumer", "S", consumer="C")
