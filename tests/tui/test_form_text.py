"""What a form makes of its texts, without a screen."""

from __future__ import annotations

import re
from typing import Any

import pytest

from natstui.errors import UsageError
from natstui.model.assets.consumer_fields import CONSUMER_FIELD_BY_PATH
from natstui.model.assets.meaning import behaviour_text
from natstui.model.assets.rules import NamesInUse, OtherStream
from natstui.model.assets.stream_fields import NEW_STREAM_CONFIG, STREAM_FIELD_BY_PATH
from natstui.model.live.state import State
from natstui.model.records.messages import DeliveryPreview, StoredMessage
from natstui.model.records.record import Permitted
from natstui.tui.frame.action_keys import is_allowed
from natstui.tui.frame.form.text import (
    FormAsset,
    FormEntries,
    build_draft,
    config_of_file,
    delivery_text,
    lock_reason,
    start_text,
)
from natstui.tui.kit.fields import Choice, FieldRow
from natstui.values import replace

AROUND = NamesInUse(streams=(OtherStream("A", ("a.>",)),), servers_count=1, api_level=5)


def new(kind: Any, base: dict[str, object], *, is_edit: bool = False) -> FormAsset:
    return FormAsset(kind, "S", base, is_edit=is_edit)


def test_what_the_server_does_not_know_is_locked_with_the_version_that_brings_it() -> None:
    asset = new("stream", NEW_STREAM_CONFIG)
    why = lock_reason(asset, STREAM_FIELD_BY_PATH["allow_msg_ttl"], 0)
    assert why == "Message TTL needs server 2.11 or newer"
    assert lock_reason(asset, STREAM_FIELD_BY_PATH["allow_msg_ttl"], 1) is None
    groups = lock_reason(new("consumer", {}), CONSUMER_FIELD_BY_PATH["priority_groups"], 0)
    assert groups == "Priority groups needs server 2.11 or newer"


def test_of_what_was_typed_while_it_was_sent_nothing_is_lost_and_no_more_is_unsent() -> None:
    entries = FormEntries(
        new("stream", {"name": "S", "max_msgs": 5, "description": "old"}, is_edit=True)
    )
    for path, text in (("max_msgs", "7"), ("description", "new"), ("max_age", "60m")):
        entries.put(path, text)
    sent_texts = dict(entries.texts)
    entries.put("max_msgs", "5")
    entries.put("subjects", "s.>")
    after = {"name": "S", "max_msgs": 7, "description": "new", "max_age": 3_600_000_000_000}
    entries.continue_from(new("stream", after, is_edit=True), sent_texts)
    assert entries.texts == {"max_msgs": "5", "subjects": "s.>"}
    entries.update_draft()
    assert entries.draft.config == {**after, "max_msgs": 5, "subjects": ["s.>"]}


def test_what_cannot_change_is_locked_with_its_reason() -> None:
    asset = new("stream", {"name": "S"}, is_edit=True)
    assert lock_reason(asset, STREAM_FIELD_BY_PATH["storage"], 5) is not None
    assert lock_reason(asset, STREAM_FIELD_BY_PATH["max_age"], 5) is None


def test_a_consumer_may_be_made_where_one_filter_is_allowed() -> None:
    permitted = Permitted(0, ("$JS.API.CONSUMER.CREATE.S.*.eu.>",), (), None, ())
    assert is_allowed(State().after(permitted), "add-consumer")
    elsewhere = Permitted(0, ("$JS.API.CONSUMER.INFO.>",), (), None, ())
    assert not is_allowed(State().after(elsewhere), "add-consumer")


def test_metadata_keeps_its_commas_when_a_pair_is_added_in_a_form() -> None:
    kept = {"note": "a, b=c", "rule": '{"k": [1, 2]}'}
    asset = new("stream", {"name": "S", "metadata": {**kept, "_nats.level": "5"}}, is_edit=True)
    start = start_text(asset, STREAM_FIELD_BY_PATH["metadata"])
    assert "_nats" not in start
    draft = build_draft(asset, {"metadata": f"{start}, tier=1"}, AROUND)
    assert draft.problems == ()
    assert draft.config["metadata"] == {**kept, "tier": "1"}


def test_thresholds_in_the_metadata_are_fields_with_their_meaning() -> None:
    key = "io.nats.monitor."
    metadata = {"team": "shop", f"{key}msgs-warn": "5", f"{key}subjects-warn": "9"}
    config: dict[str, object] = {"name": "S", "subjects": ["s.>"], "metadata": metadata}
    asset = new("stream", config, is_edit=True)
    few, many = (
        STREAM_FIELD_BY_PATH[f"metadata.{key}{name}-warn"] for name in ("msgs", "subjects")
    )
    assert start_text(asset, STREAM_FIELD_BY_PATH["metadata"]) == "team=shop"
    assert (start_text(asset, few), start_text(asset, many)) == ("5", "9")
    (problem,) = build_draft(asset, {few.path: "many"}, AROUND).problems
    assert problem.path == few.path and "is no whole number" in problem.text
    draft = build_draft(asset, {few.path: "7", many.path: "", "metadata": "team=till"}, AROUND)
    assert draft.problems == ()
    assert draft.config["metadata"] == {"team": "till", f"{key}msgs-warn": "7"}


def test_a_word_of_a_newer_server_is_shown_and_kept_by_a_form() -> None:
    asset = new("stream", {"name": "S", "compression": "zstd9"}, is_edit=True)
    assert start_text(asset, STREAM_FIELD_BY_PATH["compression"]) == "zstd9"
    draft = build_draft(asset, {"description": "mine"}, AROUND)
    assert draft.problems == ()
    assert draft.config["compression"] == "zstd9"
    assert draft.changes == (("Description: unset → mine", ""),)
    row = FieldRow(STREAM_FIELD_BY_PATH["compression"], "zstd9")
    choice = list(row.compose())[1]
    assert isinstance(choice, Choice)
    assert choice.render().plain == " none  s2 [zstd9]"


def test_texts_become_the_configuration_with_problems_and_warnings() -> None:
    texts = {"name": "N", "subjects": "a.b", "num_replicas": "3", "max_age": "5ms"}
    draft = build_draft(new("stream", NEW_STREAM_CONFIG), texts, AROUND, "1M x 1KB")
    assert [problem.text for problem in draft.problems] == [
        "the maximum age is shorter than 100ms"
    ]
    assert draft.warnings == (
        "'a.b' overlaps 'a.>' of stream A: the server refuses that",
        "3 replicas need 3 servers; available: 1 server",
    )
    assert draft.notes == (
        "1,000,000 messages of 1KB take 0.98 GiB × 3 replicas = 2.95 GiB on disk; "
        "31.5 MiB of it is overhead",
    )
    assert draft.command.startswith("nats stream add N --subjects=a.b --max-age=5ms")


def test_an_edit_keeps_what_no_field_knows_and_says_what_changes() -> None:
    base = {"name": "S", "subjects": ["s"], "brand_new": {"x": 1}, "storage": "file"}
    draft = build_draft(new("stream", base, is_edit=True), {"max_msgs": "5"}, AROUND)
    assert draft.config == {**base, "max_msgs": 5}
    assert draft.changes == (("Maximum messages: unlimited → 5", ""),)
    lost = "it does not know brand_new, and would remove it"
    assert draft.command == f"# the NATS CLI cannot do this: {lost}"
    known = {key: value for key, value in base.items() if key != "brand_new"}
    draft = build_draft(new("stream", known, is_edit=True), {"max_msgs": "5"}, AROUND)
    assert draft.command == "nats stream edit S --max-msgs=5 --force"


def test_a_durable_consumer_has_its_name_twice() -> None:
    base: dict[str, object] = {"name": "", "durable_name": "", "ack_policy": "explicit"}
    asset = replace(new("consumer", base), owner={"name": "S"})
    draft = build_draft(asset, {"name": "C"}, AROUND)
    assert draft.config["durable_name"] == "C"
    assert draft.command == (
        "nats consumer add S C --ack=explicit --deliver=all --pull --defaults"
    )
    nameless = build_draft(asset, {}, AROUND)
    assert [problem.text for problem in nameless.problems] == [
        "a durable consumer needs a name; with Durable: no it is ephemeral: deleted after 5s "
        "without a client"
    ]
    assert nameless.command == (
        "nats consumer add S NAME --ack=explicit --deliver=all --pull --defaults"
    )
    assert "ephemeral" not in behaviour_text("consumer", "S", nameless.config)
    limited = replace(asset, owner={"name": "S", "consumer_limits": {"inactive_threshold": 10**9}})
    assert "deleted after 1s" in build_draft(limited, {}, AROUND).problems[0].text
    ephemeral = build_draft(asset, {"durable_name": "no"}, AROUND)
    assert "--ephemeral" in ephemeral.command
    assert behaviour_text("consumer", "S", ephemeral.config).endswith(
        "is ephemeral: deleted when no client pulls for 5s."
    )
    assert "durable_name" not in ephemeral.config
    assert ephemeral.problems == ()


def test_what_is_delivered_first_and_how_much_is_pending_is_said() -> None:
    assert delivery_text(DeliveryPreview(None, 0)) == "would deliver none of the stored messages"
    first = StoredMessage(3, "s.2", 1, (), "eA==", 1)
    said = "would deliver message 3 (s.2) first"
    assert delivery_text(DeliveryPreview(first, None)) == said
    assert delivery_text(DeliveryPreview(first, 1200)) == f"{said}, 1,200 pending from there"


def test_a_file_in_the_home_of_nobody_is_a_mistake_in_the_form() -> None:
    with pytest.raises(UsageError, match="there is no such user"):
        config_of_file("~no-such-user/stream.json", "stream")


@pytest.mark.parametrize(
    ("kind", "path", "text"),
    [
        ("consumer", "opt_start_time", "2m ago"),
        ("consumer", "pause_until", "in 1h"),
        ("stream", "mirror", "A time=2m ago"),
        ("stream", "sources", "A time=2m ago; B filter=b.> time=1h ago"),
    ],
)
def test_a_time_from_now_stands_still_once_it_is_typed(kind: Any, path: str, text: str) -> None:
    entries = FormEntries(new(kind, {"name": "S"}))
    entries.put(path, text)
    entries.update_draft()
    first = entries.draft.config
    assert first[path]
    entries.put(path, text)
    entries.update_draft()
    assert entries.draft.config == first
    assert entries.texts[path] == text
    entries.put(path, "soon ago")
    entries.update_draft()
    assert entries.draft.problems


def test_every_label_fits_beside_its_field() -> None:
    found = re.search(r"FieldRow > Label { width: (\d+); padding: 0 1;", FieldRow.DEFAULT_CSS)
    assert found is not None
    labels = [
        field.label for field in (*STREAM_FIELD_BY_PATH.values(), *CONSUMER_FIELD_BY_PATH.values())
    ]
    assert max(map(len, labels)) <= int(found[1]) - 2, max(labels, key=len)
