from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from natstui.errors import (
    ActionRefusal,
    Conflict,
    PermissionDenied,
    RequestFailed,
    SessionError,
    UsageError,
)
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.decode.streams import read_stream
from natstui.jetstream.connection.writer import Asset, MissingConfirmation
from natstui.jetstream.managing.apply import preview
from natstui.jetstream.managing.configure import EditConflict
from natstui.jetstream.managing.losses import count_loss
from natstui.jetstream.testbed.broker import Broker
from natstui.model.assets.consumer_fields import CONSUMER_FIELDS
from natstui.model.assets.fields import SERVER_VERSION_BY_API_LEVEL, Field, with_value_at
from natstui.model.assets.stream_fields import STREAM_FIELDS
from natstui.model.records.journal import entry_command, entry_text
from natstui.model.records.managing import Action, Change
from natstui.values import replace
from tests.accounts import Account
from tests.architecture.source import modules
from tests.jetstream.admin_session import admin_session

pytestmark = pytest.mark.server

S = 1_000_000_000
PLAIN = {"name": "C", "durable_name": "C", "ack_policy": "explicit"}
GROUPED = PLAIN | {
    "max_batch": 50,
    "max_expires": 30 * S,
    "max_bytes": 100_000,
    "priority_groups": ["A"],
    "priority_policy": "pinned_client",
    "priority_timeout": 30 * S,
}


@pytest.mark.needs_server("2.11")
def test_an_edit_of_the_description_keeps_every_other_setting_of_a_consumer(
    account: Account, tmp_path: Path
) -> None:
    with admin_session(account.url, tmp_path) as session:
        session.apply("create_stream", "S", {"name": "S"})
        session.apply("create_consumer", "S", GROUPED, consumer="C")
        before = session.config("S", "C")
        wanted = {**before, "description": "edited"}
        changed = session.apply("edit_consumer", "S", wanted, consumer="C", seen=before)
        assert changed.unapplied_settings == ()
        assert session.config("S", "C") == wanted
        assert session.config("S", "C")["priority_groups"] == ["A"]


@pytest.mark.needs_server("2.11")
def test_a_concurrent_change_is_refused_with_both_versions(
    account: Account, tmp_path: Path
) -> None:
    with admin_session(account.url, tmp_path) as session:
        session.apply("create_stream", "S", {"name": "S"})
        session.apply("create_consumer", "S", GROUPED, consumer="C")
        seen = session.config("S", "C")
        other = {**seen, "max_batch": 7}
        body = {"stream_name": "S", "config": other, "action": "update"}
        session.request("CONSUMER.CREATE.S.C", body)
        with pytest.raises(EditConflict, match="changed by somebody else") as caught:
            wanted = {**seen, "description": "mine"}
            session.apply("edit_consumer", "S", wanted, consumer="C", seen=seen)
        assert caught.value.seen["max_batch"] == 50
        assert caught.value.current["max_batch"] == 7
        assert "description" not in session.config("S", "C")


FILTERED = """
accounts { APP: { jetstream: enabled, users: [
  { user: app, password: app }
  { user: eu, password: eu, permissions: { publish: { deny: [
      "$JS.API.CONSUMER.CREATE.*", "$JS.API.CONSUMER.CREATE.*.*", "$JS.API.CONSUMER.DURABLE.>"
    ], allow: [
      "$JS.API.CONSUMER.CREATE.S.*.eu.>", "$JS.API.CONSUMER.INFO.>", "$JS.API.STREAM.INFO.>",
      "$JS.API.CONSUMER.DELETE.S.*", "$JS.API.INFO", "$SYS.REQ.USER.INFO"
    ] } } }
] } }
"""


@pytest.mark.parametrize("said", [{"filter_subjects": ["eu.a"]}, {"filter_subject": "eu.a"}])
def test_a_user_who_may_read_some_subjects_makes_changes_and_takes_back_their_consumers(
    said: dict[str, object], nats_server_factory: Callable[..., Broker], tmp_path: Path
) -> None:
    url = nats_server_factory(FILTERED).url
    with admin_session(url.replace("//", "//app:app@"), tmp_path) as owner:
        owner.apply("create_stream", "S", {"name": "S", "subjects": ["eu.>", "us.>"]})
    with admin_session(url.replace("//", "//eu:eu@"), tmp_path) as session:
        base = {"name": "C", "durable_name": "C", "ack_policy": "explicit"}
        made = session.apply("create_consumer", "S", {**base, **said}, consumer="C")
        assert made.unapplied_settings == ()
        seen = session.config("S", "C")
        assert seen["filter_subject"] == "eu.a"
        same = session.apply("edit_consumer", "S", {**base, **said}, consumer="C", seen=seen)
        assert same.text == "consumer C has this configuration already: nothing was changed"
        wanted = {**base, "filter_subjects": ["eu.*.b"]}
        session.apply("edit_consumer", "S", wanted, consumer="C", seen=seen)
        assert session.config("S", "C")["filter_subject"] == "eu.*.b"
        assert session.undo().text == "consumer C changed"
        assert session.config("S", "C")["filter_subject"] == "eu.a"
        with pytest.raises(PermissionDenied):
            session.apply("edit_consumer", "S", {**base, "filter_subject": "us.a"}, consumer="C")
        session.apply("delete_consumer", "S", consumer="C", confirmed="C")
        session.undo()
        assert session.config("S", "C")["filter_subject"] == "eu.a"


def test_one_place_knows_how_a_consumer_is_asked_for() -> None:
    asking = {module.name for module in modules() if 'CONSUMER.CREATE"' in module.text}
    asking |= {module.name for module in modules() if "CONSUMER.CREATE.{" in module.text}
    # The shapes are those of replies.
    assert asking - {"natstui.jetstream.connection.shapes"} == {"natstui.model.assets.defaults"}


def test_several_filters_stay_a_list(account: Account, tmp_path: Path) -> None:
    with admin_session(account.url, tmp_path) as session:
        session.apply("create_stream", "S", {"name": "S", "subjects": ["a", "b"]})
        config = {"name": "C", "filter_subjects": ["a", "b"]}
        session.apply("create_consumer", "S", config, consumer="C")
        seen = session.config("S", "C")
        assert seen["filter_subjects"] == ["a", "b"]
        session.apply("edit_consumer", "S", {"name": "C"}, consumer="C", seen=seen)
        assert "filter_subjects" not in session.config("S", "C")


def test_a_server_takes_another_first_sequence_and_drops_messages_for_it_so_natstui_refuses(
    nats_server: Broker, tmp_path: Path
) -> None:
    with admin_session(nats_server.url, tmp_path) as session:
        for name in ("S", "T"):
            session.apply("create_stream", name, {"name": name})
            session.run(session.writer.client.request_subject(name, b"x"))
        seen = session.config("S")
        with pytest.raises(UsageError, match="drop every message before it"):
            session.apply("edit_stream", "S", {**seen, "first_seq": 900}, seen=seen)
        session.request("STREAM.UPDATE.T", {**session.config("T"), "first_seq": 900})
        assert session.request("STREAM.INFO.T")["state"]["messages"] == 1
    nats_server.restart()
    with admin_session(nats_server.url, tmp_path) as session:
        left = {name: session.request(f"STREAM.INFO.{name}")["state"]["messages"] for name in "ST"}
    assert left == {"S": 1, "T": 0}


@pytest.mark.needs_server("2.11")
def test_what_the_server_did_not_take_is_reported(account: Account, tmp_path: Path) -> None:
    with admin_session(account.url, tmp_path) as session:
        asked = {"name": "S", "subject_delete_marker_ttl": 5 * S, "deny_purge": True}
        changed = session.apply("create_stream", "S", asked)
        assert [(d.label, d.before, d.after) for d in changed.unapplied_settings] == [
            ("Deny purge", "yes", "no")
        ]


def test_creating_what_exists_is_refused(account: Account, tmp_path: Path) -> None:
    with admin_session(account.url, tmp_path) as session:
        session.apply("create_stream", "S", {"name": "S"})
        with pytest.raises(Conflict, match="stream S exists already"):
            session.apply("create_stream", "S", {"name": "S"})


def test_a_mistake_is_said_in_the_words_of_the_form_and_nothing_is_sent(
    account: Account, tmp_path: Path
) -> None:
    with admin_session(account.url, tmp_path) as session:
        with pytest.raises(UsageError, match="the maximum age is shorter than 100ms"):
            session.apply("create_stream", "S", {"name": "S", "max_age": 5})
        assert session.writer.journal.entries() == []


def test_read_only_refuses_every_write_and_sends_nothing(account: Account, tmp_path: Path) -> None:
    with admin_session(account.url, tmp_path, read_only=True) as session:
        with pytest.raises(ActionRefusal, match="read-only"):
            session.apply("create_stream", "S", {"name": "S"})
        assert session.request("STREAM.NAMES")["total"] == 0


def test_production_asks_for_the_name_of_what_is_changed(account: Account, tmp_path: Path) -> None:
    with admin_session(account.url, tmp_path, production=True) as session:
        with pytest.raises(ActionRefusal, match="this is production, type 'S'"):
            session.apply("create_stream", "S", {"name": "S"})
        session.apply("create_stream", "S", {"name": "S"}, confirmed="S")
        assert session.config("S")["name"] == "S"


def test_in_production_a_consumer_without_a_name_is_created_with_the_name_of_its_stream(
    account: Account, tmp_path: Path
) -> None:
    with admin_session(account.url, tmp_path, production=True) as session:
        session.apply("create_stream", "ORDERS", {"name": "ORDERS"}, confirmed="ORDERS")
        change = Change(1, "create_consumer", "ORDERS", None, '{"ack_policy": "explicit"}')
        with pytest.raises(MissingConfirmation, match="this is production, type 'ORDERS'") as told:
            session.do(change)
        confirmation = told.value.confirmation
        shown = session.run(preview(session.writer, change))
        assert (confirmation.name, confirmation.question) == ("ORDERS", shown.question)
        with pytest.raises(ActionRefusal, match="'ORDER' is not 'ORDERS'"):
            session.do(replace(change, confirmed="ORDER"))
        created = session.do(
            replace(change, confirmed=confirmation.name, place=confirmation.place)
        )
        (name,) = session.request("CONSUMER.NAMES.ORDERS")["consumers"]
        assert created.text == f"consumer {name} created"


def test_what_cannot_be_undone_asks_for_the_name(account: Account, tmp_path: Path) -> None:
    with admin_session(account.url, tmp_path) as session:
        session.apply("create_stream", "S", {"name": "S"})
        for action in ("delete_stream", "purge_stream"):
            with pytest.raises(ActionRefusal, match=r"this cannot be undone.*type 'S'"):
                session.apply(action, "S")  # type: ignore[arg-type]
        sealed = {**session.config("S"), "sealed": True}
        with pytest.raises(ActionRefusal, match="type 'S'"):
            session.apply("edit_stream", "S", sealed)
        session.apply("edit_stream", "S", sealed, confirmed="S")
        assert session.config("S")["sealed"] is True


@pytest.mark.needs_server("2.11")
def test_a_deleted_stream_and_consumer_come_back_from_the_journal(
    account: Account, tmp_path: Path
) -> None:
    with admin_session(account.url, tmp_path) as session:
        session.apply("create_stream", "S", {"name": "S", "max_msgs": 5})
        session.apply("create_consumer", "S", GROUPED, consumer="C")
        session.apply("delete_consumer", "S", consumer="C", confirmed="C")
        assert session.undo().text.startswith("consumer C recreated, without its delivery state")
        assert session.config("S", "C")["priority_groups"] == ["A"]
        session.apply("delete_stream", "S", confirmed="S")
        assert session.undo().text.startswith("stream S recreated, without its messages and")
        assert session.config("S")["max_msgs"] == 5


def test_an_undo_is_refused_when_it_was_changed_again_elsewhere(
    account: Account, tmp_path: Path
) -> None:
    with admin_session(account.url, tmp_path) as session:
        session.apply("create_stream", "S", {"name": "S"})
        session.apply("edit_stream", "S", {**session.config("S"), "max_msgs": 5})
        session.request("STREAM.UPDATE.S", {**session.config("S"), "max_msgs": 6})
        with pytest.raises(EditConflict):
            session.undo()
        assert session.config("S")["max_msgs"] == 6


def test_every_write_is_in_the_journal_with_both_configurations(
    account: Account, tmp_path: Path
) -> None:
    with admin_session(account.url, tmp_path) as session:
        session.apply("create_stream", "S", {"name": "S", "storage": "memory"})
        session.apply("edit_stream", "S", {**session.config("S"), "max_age": 3600 * S})
        session.request("STREAM.CREATE.T", {"name": "T", "subjects": ["t"]})
        with pytest.raises(Conflict):
            session.apply("create_stream", "U", {"name": "U", "subjects": ["t"]})
        entries = session.writer.journal.entries()
        assert [entry_text(entry) for entry in entries] == [
            "create stream S",
            "edit stream S",
            "create stream U",
        ]
        assert [entry.outcome for entry in entries] == ["done", "done", "failed"]
        edited = entries[1]
        assert json.loads(edited.before_json or "")["max_age"] == 0
        assert json.loads(edited.after_json or "")["max_age"] == 3600 * S
        assert edited.who.endswith(")")
        assert [entry_command(entry) for entry in entries] == [
            "nats stream add S --subjects=S --storage=memory --no-allow-direct --defaults",
            "nats stream edit S --max-age=1h --force",
            "nats stream add U --subjects=t --no-allow-direct --defaults",
        ]
        assert (tmp_path / "journal.jsonl").stat().st_mode & 0o777 == 0o600


def test_an_entry_that_was_cut_off_costs_no_other(account: Account, tmp_path: Path) -> None:
    with admin_session(account.url, tmp_path) as session:
        journal = session.writer.journal
        session.apply("create_stream", "S", {"name": "S"})
        with journal.file.open("ab") as file:
            file.write(journal.file.read_bytes()[:60])
        assert len(journal.entries()) == 1
        session.apply("create_stream", "T", {"name": "T"})
        session.apply("create_stream", "U", {"name": "U"})
        assert [entry.stream for entry in journal.entries()] == ["S", "T", "U"]
        with journal.file.open("ab") as file:
            file.write(b"{nonsense}\n{}\n")
        assert "journal.jsonl:2 is damaged" in journal.read().warning
        assert journal.read().warning.endswith("; so is line 5, 6")
        session.apply("create_stream", "V", {"name": "V"})
        assert [entry.stream for entry in journal.entries()] == ["S", "T", "U", "V"]


def test_without_a_journal_nothing_is_written(account: Account, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with admin_session(account.url, blocked) as session:
        with pytest.raises(SessionError, match="cannot be written"):
            session.apply("create_stream", "S", {"name": "S"})
        assert session.request("STREAM.NAMES")["total"] == 0


def test_a_journal_that_is_a_link_is_not_written_through(account: Account, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    with admin_session(account.url, tmp_path) as session:
        session.writer.journal.file.parent.mkdir(exist_ok=True)
        session.writer.journal.file.symlink_to(precious)
        with pytest.raises(SessionError, match="it is a link"):
            session.apply("create_stream", "S", {"name": "S"})
        assert session.request("STREAM.NAMES")["total"] == 0
    assert precious.read_text() == "precious"


def test_a_purge_says_how_many_messages_it_will_remove(account: Account, tmp_path: Path) -> None:
    with admin_session(account.url, tmp_path) as session:
        session.apply("create_stream", "S", {"name": "S", "subjects": ["s.>"]})
        client = session.writer.client
        for number in range(10):
            session.run(client.request_subject(f"s.{number % 2}", b"x"))
        for asked, expected, left in (
            ({"filter": "s.1"}, "5 of 10 messages (", 5),
            ({"seq": 4}, "at most 3 of 5 messages (", 3),
            ({"keep": 2}, "1 of 3 messages (", 2),
            ({}, "all 2 messages (", 0),
        ):
            change = Change(1, "purge_stream", "S", None, json.dumps(asked))
            loss = session.run(count_loss(client, change, session.asset("S")))
            assert loss.text.startswith(expected)
            session.apply("purge_stream", "S", asked, confirmed="S")
            assert session.request("STREAM.INFO.S")["state"]["messages"] == left


@pytest.mark.needs_server("2.11")
def test_a_consumer_is_paused_and_resumed(account: Account, tmp_path: Path) -> None:
    with admin_session(account.url, tmp_path) as session:
        session.apply("create_stream", "S", {"name": "S"})
        session.apply("create_consumer", "S", GROUPED, consumer="C")
        session.apply("pause_consumer", "S", {"pause_until": "1h"}, consumer="C")
        assert session.request("CONSUMER.INFO.S.C")["paused"] is True
        assert session.undo().text == "consumer C on S resumed"
        assert session.request("CONSUMER.INFO.S.C").get("paused") in (None, False)
        with pytest.raises(UsageError, match="neither a time nor a duration"):
            session.apply("pause_consumer", "S", {"pause_until": "soon"}, consumer="C")
        with pytest.raises(UsageError, match="the maximum of servers is 292 years"):
            session.apply("pause_consumer", "S", {"pause_until": "99999999h"}, consumer="C")


@pytest.mark.needs_server("2.11")
def test_undoing_a_pause_puts_back_the_one_before_and_ends_none_of_somebody_else(
    account: Account, tmp_path: Path
) -> None:
    with admin_session(account.url, tmp_path) as session:

        def pause(until: str) -> None:
            session.apply("pause_consumer", "S", {"pause_until": until}, consumer="C")

        session.apply("create_stream", "S", {"name": "S"})
        long_after, later = "2090-01-02T03:04:05Z", "2080-01-02T03:04:05Z"
        created = {**PLAIN, "pause_until": long_after}
        session.apply("create_consumer", "S", created, consumer="C")
        pause(later)
        assert session.undo().text == f"consumer C on S paused until {long_after}"
        assert session.config("S", "C")["pause_until"] == long_after
        pause(later)
        other = {"pause_until": "2085-01-02T03:04:05Z"}
        session.request("CONSUMER.PAUSE.S.C", other)
        with pytest.raises(EditConflict, match="consumer C was changed by somebody else"):
            session.undo()
        assert session.config("S", "C")["pause_until"] == other["pause_until"]
        session.request("CONSUMER.PAUSE.S.C", {})
        with pytest.raises(EditConflict):
            session.undo()


def test_the_first_edit_of_a_consumer_after_a_restart_is_done_and_undone(
    nats_server: Broker, tmp_path: Path
) -> None:
    with admin_session(nats_server.url, tmp_path) as session:
        session.apply("create_stream", "S", {"name": "S", "storage": "file"})
        session.apply("create_consumer", "S", PLAIN, consumer="C")
    nats_server.restart()
    with admin_session(nats_server.url, tmp_path) as session:
        # Servers reply to it with the configuration that it had before.
        edited = session.apply("edit_consumer", "S", {**PLAIN, "max_deliver": 7}, consumer="C")
        assert (edited.text, edited.unapplied_settings) == ("consumer C changed", ())
        assert session.undo().text == "consumer C changed"
        assert session.config("S", "C")["max_deliver"] == -1


@pytest.mark.needs_server("2.14")
def test_a_consumer_is_reset(account: Account, tmp_path: Path) -> None:
    with admin_session(account.url, tmp_path) as session:
        session.apply("create_stream", "S", {"name": "S"})
        session.apply("create_consumer", "S", PLAIN, consumer="C")
        reset = session.apply("reset_consumer", "S", {"seq": 1}, consumer="C", confirmed="C")
        assert reset.text == "consumer C on S delivers again from sequence 1"
        change = Change(1, "reset_consumer", "S", "C", '{"seq": 99}')
        beyond = session.run(preview(session.writer, change))
        skipped = "sequences 1 to 98 of S are not delivered, 98 of them not stored yet"
        assert f"{skipped}: its last is 0" in beyond.lines


NEWER_ACTIONS = [
    pytest.param(
        action, body, f"{what} a consumer needs server {version} or newer",
        marks=pytest.mark.needs_server(before=version),
    )
    for action, body, what, version in (
        ("pause_consumer", {"pause_until": "1h"}, "pausing", "2.11"),
        ("resume_consumer", {}, "pausing", "2.11"),
        ("unpin_consumer", {"group": "A"}, "unpinning", "2.11"),
        ("reset_consumer", {"seq": 1}, "resetting", "2.14"),
    )
]  # fmt: skip


@pytest.mark.parametrize(("action", "body", "said"), NEWER_ACTIONS)
def test_an_action_of_a_newer_server_is_refused_at_once(
    account: Account, tmp_path: Path, action: Action, body: dict[str, object], said: str
) -> None:
    """An older server would not reply to it at all."""
    with admin_session(account.url, tmp_path) as session:
        session.apply("create_stream", "S", {"name": "S"})
        session.apply("create_consumer", "S", PLAIN, consumer="C")
        before = len(session.writer.journal.entries())
        with pytest.raises(RequestFailed, match=said):
            session.apply(action, "S", body, consumer="C", confirmed="C")
        assert len(session.writer.journal.entries()) == before


NEWER_OPTIONS = [
    pytest.param(
        field,
        marks=pytest.mark.needs_server(before=SERVER_VERSION_BY_API_LEVEL[field.needed_api_level]),
    )
    for field in (*STREAM_FIELDS, *CONSUMER_FIELDS)
    if field.needed_api_level
]


@pytest.mark.parametrize("field", NEWER_OPTIONS, ids=lambda field: field.path)
def test_an_option_of_a_newer_server_is_refused_and_its_default_is_not_sent(
    account: Account, tmp_path: Path, field: Field
) -> None:
    with admin_session(account.url, tmp_path) as session:
        is_stream = field in STREAM_FIELDS
        action: Action = "create_stream" if is_stream else "create_consumer"
        session.apply("create_stream", "ORIGIN", {"name": "ORIGIN"})
        stream, consumer = ("S", None) if is_stream else ("ORIGIN", "C")
        plain = {"name": "S"} if is_stream else PLAIN
        values: dict[str, object] = {
            "switch": True,
            "choice": (field.choices or ("",))[-1],
            "words": ["A"],
            "duration": 5 * S,
            "time": "2099-01-01T00:00:00Z",
        }
        asked = with_value_at(plain, field.path, values[field.kind])
        with pytest.raises(UsageError, match=f"{field.label} needs server"):
            session.apply(action, stream, asked, consumer=consumer)
        default = (
            plain if field.default is None else with_value_at(plain, field.path, field.default)
        )
        made = session.apply(action, stream, default, consumer=consumer)
        assert made.unapplied_settings == ()


def replica(
    name: str, active_ns: int = 10**9, *, offline: bool = False, lag: int = 0
) -> dict[str, object]:
    state = {"current": not lag, "offline": offline, "active": active_ns, "lag": lag}
    return {"name": name, **state}


@pytest.mark.parametrize(
    ("replicas", "lines"),
    [
        ([replica("n2"), replica("n3")], ("there are 2 copies",)),
        ([replica("n2"), replica("n3", 17 * 10**9)],
         ("there is 1 copy", "n3 has no contact to its leader, and may not have all of it")),
        ([replica("n2"), replica("n3", lag=7)],
         ("there are 2 copies", "not complete: n3 (7 operations behind)")),
        ([replica("n2", 14 * 10**9)], None),
        ([replica("n2", lag=7), replica("n3", 17 * 10**9)], None),
        ([replica("n2", offline=True), replica("n3", 17 * 10**9)], None),
    ],
)  # fmt: skip
async def test_a_copy_that_does_not_answer_is_none_that_is_left(
    replicas: list[dict[str, object]], lines: tuple[str, ...] | None
) -> None:
    body = {
        "config": {"name": "S"},
        "created": "2026-01-01T00:00:00Z",
        "state": {"messages": 100, "bytes": 1},
        "cluster": {"leader": "n1", "replicas": replicas},
    }
    info = read_stream(json.dumps(body).encode())
    change = Change(1, "remove_peer_stream", "S", None, '{"peer": "n1"}')
    counting = count_loss(cast(Client, None), change, Asset({"name": "S"}, 1, info))
    if lines is None:
        with pytest.raises(
            UsageError, match=r"n1 has the only (complete )?copy of S that replies: .*n2"
        ):
            await counting
        return
    text = (await counting).text
    assert all(line in text for line in lines), text
