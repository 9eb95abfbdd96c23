"""Whatever is asked for is what the server has; what we refuse, the server refuses too."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from natstui.errors import NotFound, RequestFailed, UsageError
from natstui.jetstream.connection.client import Client
from natstui.model.assets.consumer_fields import CONSUMER_FIELD_BY_PATH
from natstui.model.assets.consumer_rules import consumer_problems
from natstui.model.assets.differences import AssetKind, differences, normalize_config, with_field
from natstui.model.assets.fields import Config
from natstui.model.assets.rules import NamesInUse, Problem
from natstui.model.assets.stream_fields import STREAM_FIELD_BY_PATH
from natstui.model.assets.stream_rules import stream_problems
from natstui.tui.frame.form.text import FormAsset, build_draft
from tests.accounts import Account
from tests.jetstream.admin_session import AdminSession, admin_session
from tests.jetstream.random_configs import consumer_configs, stream_configs

# What an older server refuses beyond our rules, it refuses in its own words.
pytestmark = [pytest.mark.server, pytest.mark.needs_server("2.14")]

Step = tuple[str, object]

_BOUNDED = settings(
    max_examples=60,
    derandomize=True,
    database=None,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)

_STREAM_EDITS = st.sampled_from(
    [
        ("description", "another"), ("metadata", {"edited": "1"}), ("max_age", 3 * 10**12),
        ("max_bytes", 12_345_678), ("max_msgs", 77), ("max_msg_size", 4096),
        ("max_msgs_per_subject", 9), ("max_consumers", 12), ("discard", "new"),
        ("duplicate_window", 200_000_000), ("compression", "s2"), ("no_ack", True),
        ("allow_direct", True), ("allow_rollup_hdrs", True), ("allow_atomic", True),
        ("consumer_limits.max_ack_pending", 55), ("retention", "interest"),
        ("republish.headers_only", False), ("sources", [{"name": "ORIGIN", "opt_start_seq": 9}]),
    ]
)  # fmt: skip

_CONSUMER_EDITS = st.sampled_from(
    [
        ("description", "another"), ("metadata", {"edited": "1"}), ("ack_wait", 7 * 10**9),
        ("max_deliver", 25), ("max_ack_pending", 33), ("filter_subjects", ["origin.c"]),
        ("headers_only", True), ("sample_freq", "7"), ("max_batch", 3), ("max_bytes", 999),
        ("max_expires", 10**9), ("inactive_threshold", 10**13), ("backoff", [10**9, 2 * 10**9]),
    ]
)  # fmt: skip


async def discard(client: Client, verb: str) -> None:
    with suppress(NotFound):
        await client.request(verb)


def server_refuses(session: AdminSession, verb: str, body: dict[str, Any]) -> str:
    """Return the server's own words; empty when it takes it."""
    try:
        session.request(verb, body)
    except RequestFailed as error:
        note(str(error))
        return str(error)
    return ""


class Words:
    """What we say of a mistake and what the server says, without names and numbers."""

    def __init__(self) -> None:
        self.ours_of: dict[str, set[str]] = {}

    def check(self) -> None:
        """Check that the same mistake, by the server's words, is always said in the same words."""
        assert len(self.ours_of) >= 3
        assert all(len(ours) == 1 for ours in self.ours_of.values()), self.ours_of

    def add(self, session: AdminSession, kind: AssetKind, config: Config, said: str) -> None:
        """Check that form and writer say the same, and keep it beside the server's words."""
        level = level_of(session)
        problems = refusals(kind, config, level)
        subject = FormAsset(kind, "ORIGIN", config, is_edit=False, owner={"name": "ORIGIN"})
        texts = {} if "durable_name" in config else {"durable_name": "no"}
        form = build_draft(subject, texts, NamesInUse(api_level=level))
        assert form.problems == problems
        sentence = "; ".join(dict.fromkeys(problem.text for problem in problems))
        before, name = len(session.writer.journal.entries()), str(config["name"])
        with pytest.raises(UsageError) as caught:
            if kind == "stream":
                session.apply("create_stream", name, config)
            else:
                session.apply("create_consumer", "ORIGIN", config, consumer=name)
        assert str(caught.value) == sentence
        assert len(session.writer.journal.entries()) == before
        if len({problem.text for problem in problems}) == 1:
            self.ours_of.setdefault(plain(said), set()).add(plain(sentence))


def plain(sentence: str) -> str:
    """Return a sentence without what differs from one configuration to the next."""
    said = sentence.partition(": ")[2] if sentence[:7] in ("STREAM.", "CONSUME") else sentence
    return re.sub(r"(?<=priority policy )\w+|'[^']*'|\"[^\"]*\"|[0-9]+", "_", said)


def refusals(kind: AssetKind, config: Config, level: int) -> tuple[Problem, ...]:
    if kind == "stream":
        return stream_problems(config, level)
    return consumer_problems(config, None, level)


def level_of(session: AdminSession) -> int:
    level = session.writer.client.api_level
    assert level is not None
    return level


def stream_round_trip(session: AdminSession, config: dict[str, Any], step: Step) -> bool:
    """Create, read back, edit one field, take it back; tell whether something was edited."""
    name, (path, value) = config["name"], step
    session.apply("create_stream", name, config)
    made = session.config(name)
    assert differences("stream", config, made) == ()
    wanted = with_field(made, STREAM_FIELD_BY_PATH[path], value)
    found = differences("stream", made, wanted)
    if (
        not found
        or any(d.refused for d in found)
        or stream_problems(wanted, level_of(session), config_before=made)
    ):
        return False
    # An edit may remove something, or let the server remove it later: its name is typed.
    session.apply("edit_stream", name, wanted, seen=made, confirmed=name)
    assert differences("stream", wanted, session.config(name)) == ()
    if any(d.refused for d in differences("stream", wanted, made)):
        return False
    session.undo(confirmed=name)
    assert normalize_config("stream", session.config(name)) == normalize_config("stream", made)
    return True


def consumer_round_trip(session: AdminSession, config: dict[str, Any], step: Step) -> bool:
    """The same for a consumer on the stream ORIGIN."""
    name, (path, value) = config["name"], step
    session.apply("create_consumer", "ORIGIN", config, consumer=name)
    made = session.config("ORIGIN", name)
    assert differences("consumer", config, made) == ()
    wanted = with_field(made, CONSUMER_FIELD_BY_PATH[path], value)
    if consumer_problems(wanted, None, level_of(session)) or not differences(
        "consumer", made, wanted
    ):
        return False
    session.apply("edit_consumer", "ORIGIN", wanted, consumer=name, seen=made, confirmed=name)
    assert differences("consumer", wanted, session.config("ORIGIN", name)) == ()
    session.undo(confirmed=name)
    assert normalize_config("consumer", session.config("ORIGIN", name)) == normalize_config(
        "consumer", made
    )
    return True


def test_streams_are_as_asked_and_an_edit_can_be_taken_back(
    account: Account, tmp_path: Path
) -> None:
    with admin_session(account.url, tmp_path) as session:
        session.request("STREAM.CREATE.ORIGIN", {"name": "ORIGIN", "subjects": ["origin.>"]})
        seen, words, level = Counter[str](), Words(), level_of(session)

        @_BOUNDED
        @given(stream_configs(level), _STREAM_EDITS)
        def check(config: dict[str, Any], step: Step) -> None:
            name = config["name"]
            problems = refusals("stream", config, level)
            if problems:
                seen["refused"] += 1
                note(str(problems))
                said = server_refuses(session, f"STREAM.CREATE.{name}", config)
                assert said
                words.add(session, "stream", config, said)
                return
            seen["valid"] += 1
            # What is refused costs little: all of it is tried.
            if seen["edited"] > 8:
                return
            try:
                seen["edited"] += stream_round_trip(session, config, step)
            finally:
                session.run(discard(session.writer.client, f"STREAM.DELETE.{name}"))

        check()
        assert min(seen[key] for key in ("valid", "refused", "edited")) > 8, seen
        words.check()


def test_consumers_are_as_asked_and_an_edit_can_be_taken_back(
    account: Account, tmp_path: Path
) -> None:
    with admin_session(account.url, tmp_path) as session:
        session.request("STREAM.CREATE.ORIGIN", {"name": "ORIGIN", "subjects": ["origin.>"]})
        seen, words, level = Counter[str](), Words(), level_of(session)

        @settings(_BOUNDED, max_examples=25)
        @given(consumer_configs(level), _CONSUMER_EDITS)
        def check(config: dict[str, Any], step: Step) -> None:
            name = config["name"]
            problems = refusals("consumer", config, level)
            if problems:
                seen["refused"] += 1
                note(str(problems))
                body = {"stream_name": "ORIGIN", "config": config, "action": "create"}
                said = server_refuses(session, f"CONSUMER.CREATE.ORIGIN.{name}", body)
                assert said
                words.add(session, "consumer", config, said)
                return
            seen["valid"] += 1
            try:
                seen["edited"] += consumer_round_trip(session, config, step)
            finally:
                session.run(discard(session.writer.client, f"CONSUMER.DELETE.ORIGIN.{name}"))

        check()
        assert min(seen[key] for key in ("valid", "refused", "edited")) > 3, seen
        words.check()
