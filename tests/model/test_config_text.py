from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from natstui.model.assets.consumer_fields import CONSUMER_FIELDS
from natstui.model.assets.fields import Config, Field, objects_at, read
from natstui.model.assets.stream_fields import STREAM_FIELD_BY_PATH, STREAM_FIELDS
from natstui.model.assets.text import (
    exact_bytes,
    exact_duration,
    format_field,
    format_source,
    format_sources,
    parse_field,
    parse_repeated,
    parse_source,
    parse_sources,
)

S = 1_000_000_000


@pytest.mark.parametrize(
    ("path", "text", "value"),
    [
        ("max_bytes", "256MB", 256 << 20),
        ("max_bytes", "unlimited", -1),
        ("max_bytes", "-1", -1),
        ("max_age", "1d3h", 97_200 * S),
        ("max_age", "unlimited", 0),
        ("max_msgs", "15k", 15_000),
        ("subjects", "a.>, b c", ["a.>", "b", "c"]),
        ("no_ack", "yes", True),
        ("retention", "workqueue", "workqueue"),
        ("metadata", "team=ops, tier=1", {"team": "ops", "tier": "1"}),
        ("metadata", 'note="a, b=c", x=y=z', {"note": "a, b=c", "x": "y=z"}),
        ("metadata", '{"a": "b, c", "d": {"e": 1}}', {"a": "b, c", "d": '{"e": 1}'}),
        (
            "mirror",
            '{"name": "ORDERS", "opt_start_seq": 5}',
            {"name": "ORDERS", "opt_start_seq": 5},
        ),
        ("sources", '[{"name": "A"}, {"name": "B"}]', [{"name": "A"}, {"name": "B"}]),
        ("sources", '{"name": "A", "of_later": {"x": 1}}', [{"name": "A", "of_later": {"x": 1}}]),
        ("mirror", "ORDERS seq=5", {"name": "ORDERS", "opt_start_seq": 5}),
        (
            "sources",
            "A filter=a.>; B map=b.*:c.$1 api=$JS.hub.API",
            [
                {"name": "A", "filter_subject": "a.>"},
                {
                    "name": "B",
                    "external": {"api": "$JS.hub.API"},
                    "subject_transforms": [{"src": "b.*", "dest": "c.$1"}],
                },
            ],
        ),
    ],
)
def test_what_people_type_becomes_what_the_server_takes_and_back(
    path: str, text: str, value: object
) -> None:
    field = STREAM_FIELD_BY_PATH[path]
    assert parse_field(field, text) == value
    assert parse_field(field, format_field(field, value)) == value


@pytest.mark.parametrize(
    ("path", "text", "sentence"),
    [
        (
            "max_bytes",
            "many",
            "Maximum size: 'many' is not a size: write it as 128, 64KB or 1.5GiB",
        ),
        ("subjects", "a..b", "Subjects: 'a..b' is not a valid subject"),
        (
            "retention",
            "queue",
            "Retention must be one of limits, interest, workqueue, not 'queue'",
        ),
        ("no_ack", "maybe", "No acknowledgement must be yes or no, not 'maybe'"),
        ("metadata", "team", "Metadata: write 'team' as key=value"),
        (
            "metadata",
            "team=ops, _nats.level=9",
            "Metadata: '_nats.level' is set by the server: keys that begin with _nats. cannot "
            "be changed",
        ),
        (
            "mirror",
            '{"seq": 1}',
            'Mirror: an object needs the name of a stream, as {"name": "ORDERS"}',
        ),
        ("mirror", "A seq=x", "Mirror: 'x' is not a sequence: write it as seq=100"),
    ],
)
def test_a_typing_mistake_is_explained(path: str, text: str, sentence: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_field(STREAM_FIELD_BY_PATH[path], text)
    assert str(caught.value) == sentence


def test_a_copy_may_begin_so_long_ago() -> None:
    line = "A time=2h ago filter=a.>; B time=2026-01-31T12:00:00Z"
    first, second = objects_at({"all": parse_field(STREAM_FIELD_BY_PATH["sources"], line)}, "all")
    since = datetime.now(UTC) - datetime.fromisoformat(str(first["opt_start_time"]))
    assert timedelta(hours=2) <= since < timedelta(hours=3)
    assert (first["filter_subject"], second["opt_start_time"]) == ("a.>", "2026-01-31T12:00:00Z")


def test_an_empty_text_leaves_the_option_out() -> None:
    assert parse_field(STREAM_FIELD_BY_PATH["max_age"], "  ") is None
    assert format_field(STREAM_FIELD_BY_PATH["max_age"], None) == ""


@pytest.mark.parametrize(
    ("duration_ns", "text"),
    [(0, "0"), (1, "1ns"), (1500 * 10**6, "1s500ms"), (97_200 * S, "1d3h"), (-S, "-1s")],
)
def test_exact_durations_lose_nothing(duration_ns: int, text: str) -> None:
    assert exact_duration(duration_ns) == text


def test_exact_sizes_lose_nothing() -> None:
    assert [exact_bytes(n) for n in (0, 1000, 1024, 3 << 30)] == ["0", "1000", "1KB", "3GB"]


@pytest.mark.parametrize("fields", [STREAM_FIELDS, CONSUMER_FIELDS])
def test_every_option_has_words_of_its_own(fields: tuple[Field, ...]) -> None:
    assert len({field.path for field in fields}) == len(fields)
    assert len({field.label for field in fields}) == len(fields)
    assert all(field.help.endswith(".") and len(field.help) < 100 for field in fields)
    assert all(field.choices for field in fields if field.kind == "choice")


def test_sections_follow_each_other() -> None:
    assert tuple(dict.fromkeys(field.section for field in CONSUMER_FIELDS)) == (
        "Consumer", "Start", "Delivery", "Pull", "Push", "Storage", "Monitoring",
    )  # fmt: skip
    assert read({"placement": {"cluster": "x"}}, "placement.cluster") == "x"


@pytest.mark.parametrize(
    "source",
    [
        {"name": "{x"},
        {"name": "[x"},
        {"name": "A", "filter_subject": "o.a\u3000b"},
        {"name": "A\u00a0B", "opt_start_seq": 2},
    ],
)
def test_a_source_that_no_line_can_have_is_json(source: Config) -> None:
    assert parse_source(format_source(source)) == source
    assert parse_sources(format_sources((source,))) == [source]


@pytest.mark.slow
@settings(max_examples=50)
@given(some.dictionaries(some.text(), some.text(), min_size=1))
def test_any_metadata_survives_the_line_of_a_form(pairs: dict[str, str]) -> None:
    field = STREAM_FIELD_BY_PATH["metadata"]
    own = {key: value for key, value in pairs.items() if not key.startswith("_nats.")}
    assert (parse_field(field, format_field(field, pairs)) or {}) == own


def test_what_the_server_writes_about_itself_is_not_offered_for_editing() -> None:
    text = format_field(
        STREAM_FIELD_BY_PATH["metadata"], {"_nats.level": "0", "team": "ops", "_nats.ver": "2"}
    )
    assert text == "team=ops"


@pytest.mark.parametrize(
    ("path", "texts", "value"),
    [
        ("subjects", ("a", "b,c", "d"), ["a", "b", "c", "d"]),
        ("placement.tags", ("ssd", "eu"), ["ssd", "eu"]),
        ("sources", ("A", "B seq=2"), [{"name": "A"}, {"name": "B", "opt_start_seq": 2}]),
        ("metadata", ("note=a,b=c", "x=1"), {"note": "a,b=c", "x": "1"}),
        ("metadata", ('{"a": "b"}', 'json={"k": [1, 2]}'), {"a": "b", "json": '{"k": [1, 2]}'}),
        ("max_msgs", ("1", "2"), 2),
        ("subjects", ("",), None),
    ],
)
def test_a_flag_that_is_given_again_adds_to_a_list(
    path: str, texts: tuple[str, ...], value: object
) -> None:
    assert parse_repeated(STREAM_FIELD_BY_PATH[path], texts) == value
