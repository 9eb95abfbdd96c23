"""Whatever removes or overwrites, by key or command: nothing is lost without having been said.

The cases are found from the catalogue of actions, the commands from `natstui` itself and the keys
from the screens: what is new and not covered here fails.
"""

from __future__ import annotations

import base64
import importlib
import json
import pkgutil
import re
import typing
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import pytest
from msgspec import Struct, field
from textual.binding import Binding
from textual.dom import DOMNode

import natstui.tui
from natstui.cli.root import root
from natstui.errors import NatstuiError
from natstui.jetstream.connection.writer import MissingConfirmation
from natstui.jetstream.managing.apply import preview
from natstui.jetstream.messages.publish import publish, request_reply
from natstui.jetstream.testbed.broker import Broker
from natstui.model.records.actions import CATALOGUE, IRREVERSIBLE_ACTIONS
from natstui.model.records.managing import (
    Action,
    Change,
    JournalAction,
    SilenceAction,
)
from natstui.model.records.messages import PublishMessage, RequestReply
from natstui.tui.frame.action_keys import SPECS
from natstui.values import replace
from tests.accounts import Account
from tests.cli.test_manage import Shell
from tests.jetstream.admin_session import AdminSession, admin_session
from tests.jetstream.pending import until_pending

_ACCOUNTS = """
accounts {
  A: { jetstream: enabled, users: [ { user: a, password: a } ] }
  B: { jetstream: enabled, users: [ { user: b, password: b } ] }
}
"""

_MEMORY = {"storage": "memory", "allow_rollup_hdrs": True}
"""Made again at once: in a file it would wait for the old store to be removed."""


class Case(Struct, frozen=True):
    """One removing action on stream S or consumer C of it, and what has to be said before."""

    said: str
    """How many messages go, or what else does."""
    body: dict[str, Any] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    """Of the command, behind the names."""
    edits: bool = False


CASES: dict[Action, Case] = {
    "edit_stream": Case("7 of 10 messages", {"max_msgs": 3}, ("--max-msgs", "3"), edits=True),
    "delete_stream": Case("all 10 messages"),
    "purge_stream": Case("8 of 10 messages", {"keep": 2}, ("--keep", "2")),
    "delete_message": Case("1 message, 3 of s.a", {"seq": 3}, ("3",)),
    "edit_consumer": Case(
        "at most 10 messages", {"filter_subject": "s.b"}, ("--filter", "s.b"), edits=True
    ),
    "delete_consumer": Case("at most 10 messages"),
    "reset_consumer": Case("10 unprocessed", {"seq": 1}, ("--seq", "1")),
}
SENT: tuple[JournalAction, ...] = ("publish", "request")
"""Not a change of an asset, but it may remove too: by a roll-up, or by asking the API itself."""

STORED: dict[JournalAction, tuple[str, ...]] = {
    "put_key": ("B", "k", "new"),
    "delete_key": ("B", "k"),
    "purge_key": ("B", "k"),
    "put_object": ("B", "/dev/null", "--name", "k"),
    "delete_object": ("B", "k"),
}
"""Done to what a bucket holds: the words of its command behind the verb."""


OF_CLUSTERS: set[JournalAction] = {"remove_peer_stream", "kick_connection", "remove_server"}
"""What needs a cluster and its system account: tests of their own do these."""


def test_no_action_that_removes_is_left_out() -> None:
    removing = {name for name, it in CATALOGUE.items() if it.removes != "never"}
    # A benchmark is confirmed for what its plan takes: tests/cli/test_bench.py.
    assert removing == {*CASES, *SENT, *STORED, *OF_CLUSTERS, "benchmark"}
    changing = set(_names(JournalAction)) - set(_names(SilenceAction))
    assert set(CATALOGUE) == changing, "an action that is in no catalogue"
    assert {
        name for name in removing if CATALOGUE[name].removes == "always"
    } == IRREVERSIBLE_ACTIONS


def _names(kind: Any) -> Iterator[str]:
    for one in typing.get_args(kind):
        if isinstance(one, str):
            yield one
        else:
            yield from _names(one)


def test_no_command_that_writes_is_left_out() -> None:
    # A benchmark is confirmed for what its plan takes: tests/cli/test_bench.py.
    commands = {one for one in _that_write(root, ()) if not one.startswith("bench ")}
    known = {it.command for it in CATALOGUE.values() if it.command}
    beside = {word for it in CATALOGUE.values() for word in it.related_commands}
    assert commands == known | beside | {"undo"}


def _that_write(command: click.Command, path: tuple[str, ...]) -> Iterator[str]:
    """Yield the commands that may change a server: all of them can be told not to."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from _that_write(found, (*path, name))
    elif {"yes", "confirm"} <= {parameter.name for parameter in command.params}:
        yield " ".join(path)


def test_no_key_that_writes_is_left_out() -> None:
    for module in pkgutil.walk_packages(natstui.tui.__path__, "natstui.tui."):
        importlib.import_module(module.name)
    waiting: list[type] = [DOMNode]
    wanted = set()
    while waiting:
        cls = waiting.pop()
        waiting += cls.__subclasses__()
        for binding in cls.__dict__.get("BINDINGS", ()):
            action = binding.action if isinstance(binding, Binding) else ""
            if found := re.search(r"'manage', '(\S+)'", action):
                wanted.add(found[1])
    assert wanted <= set(SPECS), "a key of no known action"
    assert wanted >= {"purge_stream", "delete_stream", "delete_consumer"}
    sent = {spec.sent_action for spec in SPECS.values()}
    assert set(_names(Action)) <= sent, "an action that no screen asks for"


def test_only_the_writer_sends_what_removes() -> None:
    room = Path(natstui.tui.__path__[0]).parent
    verbs = ("STREAM.DELETE", "STREAM.PURGE", "MSG.DELETE", "STREAM.UPDATE", "CONSUMER.RESET")
    starts = [start for verb in verbs for start in (f'f"{verb}.', f'("{verb}.')]
    texts = {str(file.relative_to(room)): file.read_text() for file in room.rglob("*.py")}
    senders = {name for name, text in texts.items() if any(map(text.__contains__, starts))}
    assert senders
    allowed = ("jetstream/managing/", "jetstream/testbed/", "bench/")
    assert [sender for sender in senders if not sender.startswith(allowed)] == []


def url_of(broker: Broker, user: str) -> str:
    return broker.url.replace("nats://", f"nats://{user}:{user}@")


def fill(session: AdminSession, count: int = 10) -> None:
    """Make S and C with messages that C alone wants, in place of what is there."""
    with suppress(NatstuiError):
        session.request("STREAM.DELETE.S")
    config = {"name": "S", "subjects": ["s.>"], "retention": "interest", **_MEMORY}
    session.request("STREAM.CREATE.S", config)
    consumer = {"durable_name": "C", "ack_policy": "explicit"}
    session.request(
        "CONSUMER.CREATE.S.C", {"stream_name": "S", "config": consumer, "action": "create"}
    )
    for _ in range(count):
        session.run(session.writer.client.request_subject("s.a", b"x"))
    session.run(until_pending(session.writer.client.nc.jetstream(), "S", count, "C"))


def there(session: AdminSession) -> tuple[object, ...]:
    """Return all that could have been lost."""
    stream, consumer = session.request("STREAM.INFO.S"), session.request("CONSUMER.INFO.S.C")
    seen = (consumer["created"], consumer["config"], consumer["num_pending"])
    return stream["created"], stream["config"], stream["state"]["messages"], *seen


def change_of(session: AdminSession, action: Action, **words: Any) -> Change:
    """Return the change as a screen sends it that knows what is there now."""
    case, consumer = CASES[action], "C" if action.endswith("consumer") else None
    seen = session.config("S", consumer) if case.edits else None
    body = json.dumps({**(seen or {}), **case.body})
    made = session.created_at_us("S", consumer)
    known = Change(1, action, "S", consumer, body, json.dumps(seen) if seen else None)
    return replace(known, created_at_us=made, confirmed=consumer or "S", **words)


@pytest.mark.server
def test_a_change_that_removes_is_done_only_to_what_was_seen_and_named(
    nats_server_factory: Callable[..., Broker], tmp_path: Path
) -> None:
    broker = nats_server_factory(_ACCOUNTS)
    with (
        admin_session(url_of(broker, "a"), tmp_path) as a,
        admin_session(url_of(broker, "b"), tmp_path) as b,
        admin_session(url_of(broker, "a"), tmp_path, read_only=True) as reader,
        admin_session(url_of(broker, "a"), tmp_path, production=True) as production,
    ):
        for action in sorted(CASES):
            the_change_is_done_only_to_what_was_seen_and_named(action, a, b, reader, production)


def the_change_is_done_only_to_what_was_seen_and_named(
    action: Action,
    a: AdminSession,
    b: AdminSession,
    reader: AdminSession,
    production: AdminSession,
) -> None:
    fill(a)
    fill(b)
    change = change_of(a, action)
    asked = Change(2, action, "S", change.consumer, change.body_json)
    told = a.run(preview(a.writer, asked))
    assert CASES[action].said in told.question
    assert f"{told.name}" in told.question
    assert told.needed
    refusals: list[tuple[AdminSession, Change]] = [
        (b, change),
        (reader, change),
        (a, replace(change, confirmed=None)),
        (a, replace(change, confirmed="OTHER")),
        (production, replace(change, confirmed=None)),
    ]
    if told.most_msgs and told.most_msgs > 2:
        refusals.append((a, replace(change, previewed_msgs=1)))
    if CASES[action].edits:
        refusals.append((a, replace(change, seen_json='{"description": "as it was"}')))
    for session, wrong in refusals:
        before = there(a), there(b)
        with pytest.raises(NatstuiError):
            session.do(wrong)
        assert (there(a), there(b)) == before, wrong
    with pytest.raises(MissingConfirmation, match=CASES[action].said) as refused:
        a.do(replace(change, confirmed=None))
    assert refused.value.confirmation == told
    in_production = production.run(preview(production.writer, asked))
    assert in_production.question == f"{told.question}; this is production"
    a.request("STREAM.DELETE.S")
    fill(a)
    before = there(a)
    with pytest.raises(NatstuiError, match="recreated"):
        a.do(change)
    assert there(a) == before
    a.do(change_of(a, action, previewed_msgs=told.most_msgs))
    entry = a.writer.journal.entries()[-1]
    assert (entry.account, entry.outcome) == ("A", "done")
    assert CASES[action].said in (entry.loses or "")


HEADLESS = sorted(action for action in CASES if CATALOGUE[action].command)


@pytest.mark.server
def test_a_command_that_removes_says_what_and_does_nothing_on_a_closed_stdin(
    account: Account, tmp_path: Path
) -> None:
    shell = Shell(account.url, tmp_path)
    production = replace_environment(shell, NATSTUI_CONNECTION_PRODUCTION="true")
    with admin_session(account.url, tmp_path) as session:
        for action in HEADLESS:
            case = CASES[action]
            consumer = ("C",) if action.endswith("consumer") else ()
            words = (*CATALOGUE[action].command.split(), "S", *consumer, *case.words)
            fill(session)
            before = there(session)
            for run, flags in (
                (shell, ()),
                (shell, ("--confirm", "OTHER")),
                (shell, ("--read-only", "--yes")),
                (production, ("--yes",)),
            ):
                done = run.run(*words, *flags)
                assert (done.returncode, done.stdout) == (5, ""), (words, flags)
                assert there(session) == before, (words, flags)
                if not flags:
                    assert case.said in done.stderr
                    assert (consumer or ("S",))[0] in done.stderr
            done = shell.run(*words, "--yes")
            assert done.returncode == 0, done.stderr
            assert case.said in done.stderr, "said also to whoever is not asked"


@pytest.mark.server
def test_a_command_that_removes_from_a_bucket_says_what_and_does_nothing_on_a_closed_stdin(
    account: Account, tmp_path: Path
) -> None:
    shell = Shell(account.url, tmp_path)
    production = replace_environment(shell, NATSTUI_CONNECTION_PRODUCTION="true")
    for of in ("kv", "object"):
        shell.ok(of, "add", "B")
    for action in sorted(STORED):
        words = (*CATALOGUE[action].command.split(), *STORED[action])
        of = words[0]
        value = ("k", "value") if of == "kv" else ("--name", "k")
        shell.ok(of, "put", "B", *value, "--yes", stdin="value")
        said = "is overwritten" if action == "put_object" else "for good"
        for run, flags in (
            (shell, ()),
            (shell, ("--confirm", "OTHER")),
            (shell, ("--read-only", "--yes")),
            (production, ("--yes",)),
        ):
            done = run.run(*words, *flags)
            assert (done.returncode, done.stdout) == (5, ""), (words, flags)
            output = () if of == "kv" else ("--output", "-")
            assert shell.ok(of, "get", "B", "k", *output) == "value", (words, flags)
            if not flags:
                assert said in done.stderr
        done = shell.run(*words, "--yes")
        assert done.returncode == 0, done.stderr
        assert said in done.stderr, "said also to whoever is not asked"


def replace_environment(shell: Shell, **values: str) -> Shell:
    other = Shell(shell.environment["NATSTUI_CONNECTION_SERVER"], shell.folder)
    other.environment |= values
    return other


@pytest.mark.server
def test_a_message_that_removes_others_asks_for_its_subject(
    account: Account, tmp_path: Path
) -> None:
    rollup = (("Nats-Rollup", "all"),)
    x = base64.b64encode(b"x").decode()
    gone = "10 of 10 messages of S"
    api = "$JS.API.STREAM.PURGE.S"
    with admin_session(account.url, tmp_path) as session:
        fill(session)
        before = there(session)
        for work, said in (
            (
                publish(session.writer, PublishMessage(1, "s.a", x, rollup)),
                gone,
            ),
            (
                request_reply(session.writer, RequestReply(1, "s.a", x, rollup)),
                gone,
            ),
            (request_reply(session.writer, RequestReply(1, api)), "remove messages"),
            (publish(session.writer, PublishMessage(1, api)), "remove messages"),
        ):
            with pytest.raises(MissingConfirmation, match=said):
                session.run(work)
            assert there(session) == before
        session.run(publish(session.writer, PublishMessage(1, "s.a", x, rollup, confirmed="s.a")))
        assert there(session)[2] == 1


@pytest.mark.server
def test_an_empty_filter_does_not_purge_all(account: Account, tmp_path: Path) -> None:
    with admin_session(account.url, tmp_path) as session:
        fill(session)
        before = there(session)
        for flag in ("--filter", "--subject"):
            done = Shell(account.url, tmp_path).run("stream", "purge", "S", flag, "", "--yes")
            assert (done.returncode, "is empty" in done.stderr) == (2, True), done.stderr
        assert there(session) == before


@pytest.mark.server
def test_what_copies_a_work_queue_empties_it_and_asks(account: Account, tmp_path: Path) -> None:
    shell = Shell(account.url, tmp_path)
    shell.ok("stream", "add", "WQ", "--subjects", "wq.>", "--retention", "workqueue")
    shell.ok("consumer", "add", "WQ", "C", "--filter", "wq.b")
    shell.ok("pub", "wq.a", "x", "--count", "6", "-J")
    shell.ok("stream", "add", "AGG", "--subjects", "agg")
    loses = "up to 6 messages of the work queue WQ are moved out of it for good"
    changes = (
        ("stream", "add", "NEW", "--source", "WQ"),
        ("stream", "add", "MIRROR", "--mirror", "WQ"),
        ("stream", "edit", "AGG", "--source", "WQ"),
    )
    for words in changes:
        assert loses in shell.run(*words, "--dry-run").stderr, words
        refused = shell.run(*words)
        assert refused.returncode == 5 and loses in refused.stderr, refused
    # What a consumer waits for stays until it is acknowledged.
    shell.ok("stream", "edit", "AGG", "--source", "WQ filter=wq.b")
    assert '"messages":6' in shell.ok("stream", "info", "WQ", "--json")
    done = shell.ok(*changes[0], "--yes")
    assert "stream NEW created" in done


@pytest.mark.server
def test_a_restored_stream_that_copies_a_work_queue_empties_it_and_asks(
    account: Account, tmp_path: Path
) -> None:
    shell = Shell(account.url, tmp_path)
    shell.ok("stream", "add", "WQ", "--subjects", "wq.>", "--retention", "workqueue")
    shell.ok("stream", "add", "AGG", "--source", "WQ filter=wq.b", "--yes")
    shell.ok("pub", "wq.a", "x", "-J")
    shell.ok("stream", "backup", "AGG", str(tmp_path / "agg"))
    shell.ok("backup", str(tmp_path / "all"))
    shell.ok("stream", "rm", "AGG", "--yes")
    shell.ok("pub", "wq.b", "x", "--count", "6", "-J")
    words = ("stream", "restore", str(tmp_path / "agg"))
    refused = shell.run(*words)
    assert refused.returncode == 5, refused
    assert "up to 6 messages of the work queue WQ are moved out of it for good" in refused.stderr
    assert shell.run("stream", "info", "AGG").returncode == 4
    assert "AGG restored" in shell.ok(*words, "--yes")
    for name in ("AGG", "WQ"):
        shell.ok("stream", "rm", name, "--yes")
    refused = shell.run("restore", str(tmp_path / "all"))
    assert refused.returncode == 5 and "of the work queue WQ" in refused.stderr
    assert shell.run("stream", "info", "WQ").returncode == 4
    assert "WQ restored" in shell.ok("restore", str(tmp_path / "all"), "--yes")


@pytest.mark.server
@pytest.mark.needs_server("2.14")
def test_a_reset_says_which_messages_an_interest_stream_then_removes(
    account: Account, tmp_path: Path
) -> None:
    shell = Shell(account.url, tmp_path)
    shell.ok("stream", "add", "IN", "--subjects", "in.>", "--retention", "interest")
    shell.ok("consumer", "add", "IN", "C")
    shell.ok("pub", "in.b", "x", "--count", "10", "-J")
    refused = shell.run("consumer", "reset", "IN", "C", "--seq", "9")
    assert refused.returncode == 5
    assert "at most 8 messages that only it needs are removed for good" in refused.stderr
