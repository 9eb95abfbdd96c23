"""Entries of the journal whose JSON texts are damaged: one sentence, and never a traceback."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from natstui.jetstream.connection.journal import Journal
from natstui.model.records.journal import entry_command, entry_text, undo_text
from natstui.model.records.managing import JournalAction, JournalEntry
from natstui.model.records.silences import silences_of


def entry_of(action: JournalAction = "silence", **fields: str | None) -> JournalEntry:
    texts = {"request_json": "{}", "before_json": None, "after_json": None} | fields
    return msgspec.convert(
        {
            "entry": "e1", "at_us": 1, "server": "s", "who": "me", "action": action, "stream": "S",
            "consumer": "C", "outcome": "done", "reason": None, **texts,
        },
        JournalEntry,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["request_json", "before_json", "after_json"])
@pytest.mark.parametrize(
    "text",
    ["{{{", "", "[]", "5", '"x"', "null", pytest.param("[" * 100_000, id="nested")],
)
def test_a_line_whose_inner_text_is_no_json_object_is_named(
    tmp_path: Path, name: str, text: str
) -> None:
    file = tmp_path / "journal.jsonl"
    lines = [msgspec.json.encode(entry_of(**each)) for each in ({}, {name: text})]
    file.write_bytes(b"".join(line + b"\n" for line in lines))
    content = Journal(file).read()
    assert content.entries == [entry_of()] and content.is_end_damaged
    assert content.warning.endswith(f":2 is damaged and left out: {name} is no JSON object")


def test_inner_texts_with_every_string_that_json_can_name_are_read(tmp_path: Path) -> None:
    file = tmp_path / "journal.jsonl"
    entry = entry_of("publish", request_json=json.dumps({"subject": "a\ud800\x00"}))
    file.write_bytes(msgspec.json.encode(entry) + b"\n")
    assert Journal(file).entries() == [entry]


TAILS = {
    "zeros after a power loss": bytes(4096),
    "half an entry": b'{"entry": "e1", "at_us": 1',
    "half an entry and zeros": b'{"entry": "e1", "at_us": 1' + bytes(4096),
    "garbage": b"\xff\xfe garbage",
    "a list": b"[]",
    "a line of zeros": bytes(100) + b"\n",
}


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("is_reserved", [False, True])
def test_what_follows_a_torn_tail_is_kept_and_so_is_what_was_before(
    tmp_path: Path, tail: str, is_reserved: bool
) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    before, after, last = (entry_of(request_json=f'{{"seq": {number}}}') for number in range(3))
    journal.add(before, journal.reserve(4096))
    room = journal.reserve(4096)
    if not is_reserved:
        journal.release(room)
    with journal.file.open("ab") as file:
        file.write(TAILS[tail])
    assert journal.entries() == [before]
    journal.add(after, room if is_reserved else journal.reserve(4096))
    journal.add(last, journal.reserve(4096, after))
    content = journal.read()
    assert content.entries == [before, after, last] and not content.is_end_damaged
    number = 3 if is_reserved else 2
    is_named = f"journal.jsonl:{number} is damaged" in content.warning
    assert is_named == bool(TAILS[tail].strip(b"\0\n"))


@pytest.mark.parametrize("missing_bytes", [2, 40])
def test_a_last_line_that_is_cut_off_may_be_the_last_change(
    tmp_path: Path, missing_bytes: int
) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    for number in range(2):
        journal.add(entry_of(request_json=f'{{"seq": {number}}}'), journal.reserve(4096))
    os.truncate(journal.file, journal.file.stat().st_size - missing_bytes)
    content = journal.read()
    assert len(content.entries) == 1 and content.is_end_damaged
    assert ":2 is damaged and left out: " in content.warning


def test_zeros_before_an_entry_on_its_line_do_not_hide_it(tmp_path: Path) -> None:
    file = tmp_path / "journal.jsonl"
    file.write_bytes(bytes(4096) + msgspec.json.encode(entry_of()) + b"\n\n")
    assert Journal(file).read()[:2] == ([entry_of()], {})


def test_one_warning_names_every_damaged_line(tmp_path: Path) -> None:
    file = tmp_path / "journal.jsonl"
    entry = msgspec.json.encode(entry_of()) + b"\n"
    file.write_bytes(b"x\n" + entry + 2 * b"[]\n" + entry)
    content = Journal(file).read()
    assert content.entries == 2 * [entry_of()]
    assert re.search(r":1 is damaged and left out: .*; so is line 3, 4$", content.warning)
    file.write_bytes(entry + 9 * b"[]\n" + entry)
    assert Journal(file).read().warning.endswith("; so is line 3, 4, 5, 6…")


ODD_VALUES: tuple[object, ...] = ("x", [], {}, None, -1, 1.5, True, 10**30, "\ud800")
FIELDS = (
    "code", "part", "created_at_us", "reason", "until_us", "received", "acknowledged_msgs",
    "received_msgs", "stream_seq", "replies_count", "subject", "answer", "copied_from",
    "sent_count", "payload_bytes", "count", "stored_seq", "duplicate", "headers", "run", "phase",
    "what", "published_msgs", "pause_until", "seq", "preferred", "stream", "replicas",
)  # fmt: skip


@pytest.mark.parametrize("value", ODD_VALUES, ids=ascii)
def test_fields_of_another_type_are_shown_without_a_traceback(value: object) -> None:
    fields: list[Mapping[str, object]] = [{name: value} for name in FIELDS]
    requests = [json.dumps(each) for each in (dict.fromkeys(FIELDS, value), *fields)]
    entries = [
        entry_of(action, request_json=text, before_json=after, after_json=after)
        for action in get_args(JournalAction)
        for text in requests
        for after in (None, "{}", text)
    ]
    sent = json.dumps({"sent_count": value})
    entries += [
        entry_of(action, request_json=json.dumps(request), after_json=sent)
        for action in get_args(JournalAction)
        for request in ({"copied_from": "T"}, {"count": 5})
    ]
    for entry in entries:
        assert entry_text(entry) and entry_command(entry) and undo_text(entry), entry
        msgspec.json.encode(silences_of([entry], 0))
