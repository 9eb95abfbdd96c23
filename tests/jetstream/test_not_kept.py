"""What a stream acknowledged and did not keep, from its state and its configuration."""

from __future__ import annotations

from typing import Any

import pytest

from natstui.jetstream.connection.decode.streams import StreamState
from natstui.jetstream.connection.storing import count_missing
from natstui.jetstream.messages.copying import account as copy_account
from natstui.jetstream.messages.copying.account import MAX_COUNTED_SUBJECTS, CopyAccount
from natstui.model.assets.limits_loss import removal_reason


@pytest.mark.parametrize(
    ("ranges", "state", "missing_msgs"),
    [
        ([[1, 5]], {"messages": 5, "first_seq": 1, "last_seq": 5}, 0),
        ([[1, 5]], {"messages": 0, "first_seq": 6, "last_seq": 5}, 5),
        ([[1, 5]], {"messages": 0, "first_seq": 0, "last_seq": 5}, 5),
        ([[1, 5]], {"messages": 2, "first_seq": 4, "last_seq": 5}, 3),
        ([[1, 2], [9, 10]], {"messages": 5, "first_seq": 6, "last_seq": 10}, 2),
        ([[1, 5]], {"messages": 3, "first_seq": 1, "last_seq": 5, "deleted": [4, 2]}, 2),
        ([[1, 2], [4, 5]], {"messages": 4, "first_seq": 1, "last_seq": 5, "deleted": [3]}, 0),
        ([[1, 5]], {"messages": 3, "first_seq": 1, "last_seq": 3}, 2),
    ],
)
def test_what_is_not_there_any_more_is_counted(
    ranges: list[list[int]], state: dict[str, Any], missing_msgs: int
) -> None:
    assert count_missing(ranges, StreamState(**state)) == missing_msgs


SOMEBODY = "a deletion or purge by somebody"
FAR = {"max_msgs": 500, "max_bytes": 10_000, "max_age": 3600 * 10**9}


@pytest.mark.parametrize(
    ("config", "state", "reason"),
    [
        ({"retention": "interest"}, {}, "interest retention, and it has no consumer"),
        ({"retention": "interest"}, {"consumer_count": 1}, None),
        ({"retention": "workqueue", "max_msgs": 5}, {"consumer_count": 1, "messages": 4}, None),
        ({"retention": "workqueue", "max_msgs": 5}, {"consumer_count": 1, "messages": 5},
         "max messages 5, or acks of its consumers"),
        ({"retention": "workqueue", "max_msgs": 5}, {"messages": 5},
         f"max messages 5, acks of former consumers or {SOMEBODY}"),
        ({"retention": "interest", "allow_msg_ttl": True}, {"consumer_count": 1}, None),
        ({"max_msgs": 5, "max_age": 3 * 10**9}, {"messages": 5},
         f"max messages 5, max age 3s or {SOMEBODY}"),
        ({"max_bytes": 90}, {"bytes": 60}, f"max bytes 90 B or {SOMEBODY}"),
        (FAR, {"messages": 5, "bytes": 60}, SOMEBODY),
        ({"retention": "limits", "max_msgs": -1}, {}, SOMEBODY),
    ],
)  # fmt: skip
def test_what_may_have_removed_it_is_named(
    config: dict[str, Any], state: dict[str, Any], reason: str | None
) -> None:
    assert removal_reason(config, StreamState(**state), age_s=5.0) == reason


def test_the_sequences_of_a_copy_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy_account, "MAX_RANGES", 4)
    account = CopyAccount()
    for seq in range(1, 40, 2):
        account.count_stored("T", seq, "t")
    assert account.acknowledged_msgs == 20
    assert len(account.stored_ranges["T"]) <= 4
    assert (account.stored_ranges["T"][0][0], account.stored_ranges["T"][-1][1]) == (1, 39)


def test_the_subjects_of_a_copy_take_bounded_memory() -> None:
    account = CopyAccount()
    for seq in range(1, MAX_COUNTED_SUBJECTS + 1):
        account.count_stored("T", seq, f"t.{seq}")
    account.count_stored("T", MAX_COUNTED_SUBJECTS + 1, "t.too many")
    account.count_stored("T", MAX_COUNTED_SUBJECTS + 2, "t.1")
    subjects = account.stored_subjects["T"]
    assert len(subjects) == MAX_COUNTED_SUBJECTS and "t.too many" not in subjects
    assert subjects["t.1"] == 2
    assert account.acknowledged_msgs == MAX_COUNTED_SUBJECTS + 2
