from __future__ import annotations

import json
from typing import Any

from natstui.model.records.journal import (
    entry_command,
    entry_text,
    find_last_undoable,
    find_newest_not_undoable,
    undo_of,
    undo_text,
)
from natstui.model.records.managing import Action, JournalEntry
from natstui.values import replace


def entry(action: Action, request: dict[str, Any] | None = None, **words: Any) -> JournalEntry:
    start: dict[str, Any] = {
        "entry": "e1", "at_us": 1, "server": "here", "who": "me", "action": action,
        "stream": "S", "consumer": "C" if action.endswith("consumer") else None,
        "request_json": json.dumps(request or {}), "before_json": None, "after_json": None,
        "outcome": "done", "reason": None,
    }  # fmt: skip
    return JournalEntry(**{**start, **words})


def test_every_change_is_said_as_a_nats_command() -> None:
    said = {
        "delete_stream": "nats stream rm S --force",
        "step_down_stream": "nats stream cluster step-down S",
        "delete_consumer": "nats consumer rm S C --force",
        "resume_consumer": "nats consumer resume S C --force",
        "reset_consumer": "nats consumer reset S C --force",
        "step_down_consumer": "nats consumer cluster step-down S C",
    }
    for action, command in said.items():
        assert entry_command(entry(action)) == command  # type: ignore[arg-type]
    purge = entry("purge_stream", {"filter": "s.>", "keep": 5})
    assert entry_command(purge) == "nats stream purge S '--subject=s.>' --keep=5 --force"
    pause = entry("pause_consumer", {"pause_until": "2030-01-01T00:00:00Z"})
    assert entry_command(pause) == "nats consumer pause S C '2030-01-01 00:00:00' --force"
    reset = entry("reset_consumer", {"seq": 9})
    assert entry_command(reset) == "nats consumer reset S C --sequence=9 --force"
    assert entry_command(entry("delete_message", {"seq": 7})) == "nats stream rmm S 7 --force"
    peer = entry("remove_peer_stream", {"peer": "n2"})
    assert entry_command(peer) == "nats stream cluster peer-remove S n2 --force"
    kicked = entry("kick_connection", {"connection_id": 7, "server_id": "NID"}, stream="web")
    assert entry_command(kicked) == "nats server request kick 7 NID"
    removed = entry("remove_server", {"peer": "n3"}, stream="n3")
    assert entry_command(removed) == "nats server cluster peer-remove n3 --force"
    unpin = entry("unpin_consumer", {"group": "A"})
    assert entry_command(unpin) == "nats consumer unpin S C A --force"


def test_what_was_deleted_is_made_again_and_said_to_be_empty() -> None:
    deleted = entry("delete_stream", before_json='{"name": "S"}')
    change = undo_of(deleted, 5)
    assert change is not None
    assert (change.action, change.body_json) == ("create_stream", '{"name": "S"}')
    assert undo_text(deleted) == "recreate stream S, without its messages and consumers"
    assert entry_text(deleted) == "delete stream S"


def test_neither_purges_nor_failures_nor_undos_are_taken_back() -> None:
    made = entry("create_stream", entry="made")
    failed = entry("edit_stream", before_json="{}", outcome="failed", entry="failed")
    purged = entry("purge_stream", before_json="{}", entry="purged")
    assert undo_of(purged, 1) is None
    assert undo_of(failed, 1) is None
    assert find_last_undoable([made, failed, purged]) == made
    undone = entry("delete_stream", before_json="{}", entry="undone", undoes="made")
    assert find_last_undoable([made, undone]) is None


def test_a_step_down_names_the_server_that_shall_lead() -> None:
    asked = {"preferred": "n2"}
    for action, consumer, command in (
        ("step_down_stream", None, "nats stream cluster step-down S --preferred=n2"),
        ("step_down_consumer", "C", "nats consumer cluster step-down S C --preferred=n2"),
        ("step_down_meta", None, "nats server cluster step-down --preferred=n2"),
    ):
        assert entry_command(entry(action, asked, consumer=consumer)) == command


def test_messages_are_said_without_their_payload_and_as_commands_that_exist() -> None:
    asked = {"subject": "w.a", "payload_bytes": 5, "headers": {"Nats-Msg-Id": "one", "Key": ""}}
    stored = json.dumps({"stream": "W", "stored_seq": 3, "duplicate": False})
    published = entry("publish", asked, after_json=stored, stream="W")
    assert entry_text(published) == "publish 5 bytes to w.a, stored as 3 in W"
    assert entry_command(published) == (
        "nats publish --header=Nats-Msg-Id:one --header=Key: w.a --force-stdin"
    )
    again = entry("publish", asked, after_json=stored.replace("false", "true"))
    assert entry_text(again).endswith("a duplicate of 3 in W")
    empty = entry("publish", {"subject": "w.a", "payload_bytes": 0})
    assert entry_command(empty) == "nats publish w.a ''"
    pulled = entry("pull", consumer="C", after_json='{"stream_seq": 7}')
    assert entry_text(pulled) == "pull message 7 from C on S"
    assert entry_command(pulled) == "nats consumer next S C --no-ack"
    reply = "$JS.ACK.S.C.1.7.1.1.0"
    nak = {"answer": "nak", "subject": reply, "payload": '-NAK {"delay": 5}', "stream_seq": 7}
    answered = entry("answer", nak, consumer="C")
    assert entry_text(answered) == "nak message 7 of C on S"
    assert entry_command(answered) == f"nats publish '{reply}' -- '-NAK {{\"delay\": 5}}'"
    double = entry("answer", {**nak, "answer": "double_ack", "payload": "+ACK"}, consumer="C")
    assert entry_command(double) == f"nats request '{reply}' -- +ACK"
    assert undo_of(published, 1) is None
    one = entry("publish", {"subject": "w.a", "payload_bytes": 1}, stream="W")
    assert entry_text(one) == "publish 1 byte to w.a"
    copied = entry("publish", {"copied_from": "S", "subject": "w"}, after_json='{"sent_count": 1}')
    assert entry_text(copied) == "copy 1 message of S to w"
    replied = entry("reply", {"subject": "w"}, after_json='{"replies_count": 1}')
    assert entry_text(replied) == "reply 1 time to requests on w"


def test_the_last_change_or_message_that_cannot_be_taken_back_is_known_unless_it_failed() -> None:
    made = entry("create_stream", entry="made")
    purged = entry("purge_stream", before_json="{}", entry="purged")
    assert find_newest_not_undoable([made]) is None
    assert find_newest_not_undoable([made, purged]) is purged
    assert find_newest_not_undoable([purged, made]) is None
    failed = entry("purge_stream", outcome="failed", entry="failed")
    sent = replace(made, action="publish", entry="sent")
    assert find_newest_not_undoable([made, failed, sent]) is sent
    edited = entry("edit_stream", before_json="{}", entry="edited")
    back = entry("edit_stream", before_json="{}", entry="back", undoes="edited")
    assert find_newest_not_undoable([purged, edited, back]) is purged
    # An undo that failed, or was undone itself, leaves the change to be undone.
    failed_back = replace(back, outcome="failed")
    again = entry("edit_stream", before_json="{}", entry="again", undoes="back")
    for entries in ([purged, edited, failed_back], [purged, edited, back, again]):
        assert find_newest_not_undoable(entries) is None
        assert find_last_undoable(entries) is edited
    twice = entry("edit_stream", before_json="{}", entry="twice", undoes="edited")
    assert find_newest_not_undoable([purged, edited, back, again, twice]) is purged
