"""What differs between a stream and its backup, and whether something is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from natstui.jetstream.connection.decode.streams import read_state
from natstui.jetstream.connection.times import time_us
from natstui.jetstream.managing.backup_folder import Backup
from natstui.jetstream.managing.restore import find_differences

WAS = {"messages": 2301, "bytes": 9, "first_seq": 1, "last_seq": 2301, "num_subjects": 1,
       "first_ts": "2026-01-01T00:00:00Z"}  # fmt: skip
NOW_US = time_us("2026-01-01T01:00:00Z")


def differences(**state: Any) -> tuple[list[str], list[str]]:
    return differences_with({}, **state)


def differences_with(config: dict[str, Any], **state: Any) -> tuple[list[str], list[str]]:
    backup = Backup(Path("b"), {"name": "S", **config}, WAS, None, 0, has_checksum=True)
    may_have_ttls = bool(config.get("allow_msg_ttl"))
    return find_differences(
        backup, read_state({**WAS, **state}), NOW_US, may_have_ttls=may_have_ttls
    )


def test_sequences_without_a_message_after_those_of_the_backup_are_no_loss() -> None:
    # As 2.12 restores what was published to meanwhile: it lists none behind the last message.
    wrong, remarks = differences(last_seq=3001, num_deleted=700)
    assert wrong == []
    assert remarks == [
        "700 sequences at the end without a message: these messages were stored during the backup,"
        " and are not in it"
    ]
    listed = list(range(2302, 3002))
    assert differences(last_seq=3001, num_deleted=700, deleted=listed) == (wrong, remarks)


@pytest.mark.parametrize("newer", [0, 1, 700])
def test_a_message_that_was_in_the_backup_and_is_not_restored_is_a_loss(newer: int) -> None:
    lost = [5, 17]
    wrong, _ = differences(
        messages=2299, last_seq=2301 + newer, num_deleted=2 + newer, deleted=lost
    )
    said = "2 messages less" if newer else "messages 2,299 instead of 2,301"
    assert wrong == [said]
    # As many newer ones do not make up for them.
    wrong, _ = differences(last_seq=2303, num_deleted=2, deleted=lost)
    assert wrong == ["2 messages less"]


def test_the_last_messages_of_a_backup_are_missed_also_when_none_is_behind_them() -> None:
    # The server lists none of those that were deleted behind the last message that it has.
    wrong, _ = differences(messages=2000, last_seq=3001, num_deleted=1001)
    assert wrong == ["301 messages less"]


def test_what_limits_removed_while_it_was_backed_up_is_said_and_is_no_loss() -> None:
    moved = {"last_seq": 2401, "first_seq": 101}
    wrong, _ = differences(**moved)
    assert wrong == ["first sequence 101 instead of 1", "100 messages less"]
    now_right, remarks = differences_with({"max_msgs": 2301}, **moved)
    assert now_right == [] and remarks[-2:] == wrong


def test_more_messages_are_missing_than_a_limit_can_have_removed() -> None:
    state = {"messages": 1302, "last_seq": 2302, "num_deleted": 1000, "deleted": [*range(2, 1002)]}
    assert differences_with({"max_msgs": 5000}, **state)[0] == ["1,000 messages less"]
    # How many a limit of bytes removes for a large one is not known.
    assert differences_with({"max_bytes": 10}, **state)[0] == []


@pytest.mark.parametrize(("age_s", "is_over"), [(3599, True), (3600, True), (3601, False)])
def test_only_what_is_over_max_age_is_said_to_have_expired(age_s: int, is_over: bool) -> None:
    config = {"max_age": age_s * 1_000_000_000}
    wrong, remarks = differences_with(config, messages=0, first_seq=2302)
    if is_over:
        assert wrong == []
        assert remarks[0].startswith("2,301 messages expired since the backup: they were older")
    else:
        assert "messages 0 instead of 2,301" in wrong and remarks == []


@pytest.mark.parametrize("is_whole", [True, False])
def test_what_was_removed_during_a_backup_is_no_loss_where_it_was_accepted(is_whole: bool) -> None:
    backup = Backup(
        Path("b"), {"name": "S"}, WAS, None, 0, True, removed_msgs=400, is_complete=is_whole
    )
    state = read_state({**WAS, "messages": 2000, "first_seq": 302, "bytes": 5})
    wrong, remarks = find_differences(backup, state, NOW_US, may_have_ttls=False)
    text = "without 301 messages that were removed from the stream during the backup"
    assert (remarks == [text]) is is_whole
    assert bool(wrong) is not is_whole
    _, remarks = find_differences(backup, read_state(WAS), NOW_US, may_have_ttls=False)
    assert any("its backup is not complete: up to 400" in remark for remark in remarks) is not (
        is_whole
    )
