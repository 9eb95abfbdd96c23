"""What a form makes of its texts, without a screen."""

from __future__ import annotations

from typing import Any

import pytest

from natstui.errors import UsageError
from natstui.model.consumer_spec import CONSUMER_FIELD
from natstui.model.stored import DeliveryPreview
from natstui.model.stream_spec import NEW_STREAM, STREAM_FIELD
from natstui.model.surroundings import Neighbour, Surroundings
from natstui.tui.form_file import config_of_file
from natstui.tui.present.form import Subject, delivery_text, drafted, locked

AROUND = Surroundings(streams=(Neighbour("A", ("a.>",)),), servers_count=1, api_level=5)


def new(kind: Any, base: dict[str, object], *, editing: bool = False) -> Subject:
    return Subject(kind, "S", base, editing=editing)


def test_what_the_server_does_not_know_is_locked_with_the_version_that_brings_it() -> None:
    subject = new("stream", NEW_STREAM)
    why = locked(subject, STREAM_FIELD["allow_msg_ttl"], 0)
    assert why == "Message TTL needs server 2.11 or newer"
    assert locked(subject, STREAM_FIELD["allow_msg_ttl"], 1) is None
    groups = locked(new("consumer", {}), CONSUMER_FIELD["priority_groups"], 0)
    assert groups == "Priority groups needs server 2.11 or newer"


def test_what_cannot_change_is_locked_with_its_reason() -> None:
    subject = new("stream", {"name": "S"}, editing=True)
    assert locked(subject, STREAM_FIELD["storage"], 5) is not None
    assert locked(subject, STREAM_FIELD["max_age"], 5) is None


def test_texts_become_the_configuration_with_problems_and_warnings() -> None:
    texts = {"name": "N", "subjects": "a.b", "num_replicas": "3", "max_age": "5ms"}
    draft = drafted(new("stream", NEW_STREAM), texts, AROUND, "1M x 1KB")
    assert [problem.text for problem in draft.problems] == ["a maximum age is at least 100ms"]
    assert draft.warnings == (
        "'a.b' overlaps 'a.>' of stream A: it is refused",
        "3 replicas need 3 servers, and there are 1 server",
    )
    assert draft.notes == (
        "1,000,000 messages of 1KB take 0.98 GiB × 3 replicas = 2.95 GiB on disk; "
        "31.5 MiB of it is overhead",
    )
    assert draft.command.startswith("nats stream add N --subjects=a.b --max-age=5ms")


def test_an_edit_keeps_what_no_field_knows_and_says_what_changes() -> None:
    base = {"name": "S", "subjects": ["s"], "brand_new": {"x": 1}, "storage": "file"}
    draft = drafted(new("stream", base, editing=True), {"max_msgs": "5"}, AROUND)
    assert draft.config == {**base, "max_msgs": 5}
    assert draft.changes == (("Maximum messages: unlimited → 5", ""),)
    assert draft.command == "nats stream edit S --max-msgs=5 --force"


def test_a_durable_consumer_has_its_name_twice() -> None:
    base: dict[str, object] = {"name": "", "durable_name": "", "ack_policy": "explicit"}
    draft = drafted(new("consumer", base), {"name": "C"}, AROUND)
    assert draft.config["durable_name"] == "C"
    assert draft.command == (
        "nats consumer add S C --ack=explicit --deliver=all --pull --defaults"
    )
    ephemeral = drafted(new("consumer", base), {"durable_name": "no"}, AROUND)
    assert "durable_name" not in ephemeral.config
    assert ephemeral.problems == ()


def test_nothing_to_deliver_is_said() -> None:
    assert delivery_text(DeliveryPreview(None, 0)) == "would deliver nothing that is stored now"


def test_a_file_in_the_home_of_nobody_is_a_mistake_in_the_form() -> None:
    with pytest.raises(UsageError, match="there is no such user"):
        config_of_file("~no-such-user/stream.json")
