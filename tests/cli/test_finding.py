"""`stream find|report|gaps|copy|seal` and `consumer find|report|copy` against a real server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from natstui.cli.health import reading
from natstui.cli.manage.stream import ranges_of
from natstui.cli.watch.find import parse_condition
from natstui.errors import UsageError
from natstui.jetstream.testbed.broker import Broker
from tests.accounts import Account
from tests.cli.test_core import connected
from tests.cli.test_manage import Shell

pytestmark = pytest.mark.server

KNOWN = (
    "name",
    "stored_msgs",
    "stored_bytes",
    "leader",
    "subjects",
    "last_at_us",
    "pull",
    "lag_s",
    "ack_policy",
    "pinned_client",
    "in_msgs_per_s",
)
ROW = {
    "name": "ORDERS", "stored_msgs": 12_000, "stored_bytes": 2**21, "leader": None,
    "subjects": ("orders.>", "o"), "last_at_us": 1_000_000, "pull": True, "lag_s": 90.0,
    "ack_policy": "none", "pinned_client": "no", "in_msgs_per_s": 0.75,
}  # fmt: skip


@pytest.fixture
def shell(account: Account, tmp_path: Path) -> Shell:
    return Shell(account.url, tmp_path)


@pytest.fixture(autouse=True)
def one_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here is a rate, which would take more polls."""
    monkeypatch.setattr(reading, "MIN_POLLS_COUNT", 1)


async def filled(url: str) -> None:
    async with connected(url) as nc:
        js = nc.jetstream()
        await js.add_stream(name="A", subjects=["a.>"])
        await js.add_stream(name="B", subjects=["b"])
        for number in range(12):
            await js.publish(f"a.{number}", b"x" * 100)
        for seq in (3, 4, 5, 9):
            await js.delete_msg("A", seq)
        await js.add_stream(name="COPY", mirror={"name": "A"})
        while (await js.stream_info("COPY")).state.messages < 8:
            await asyncio.sleep(0.02)
        await js.add_consumer("A", durable_name="one", ack_policy="explicit")
        await js.add_consumer("B", durable_name="two", deliver_subject="push")


def names(text: str) -> list[str]:
    return sorted(text.split("\n")[:-1])


def test_streams_and_consumers_are_found_by_what_they_are(shell: Shell, account: Account) -> None:
    asyncio.run(filled(account.url))
    for words, expected in (
        (("--where", "stored_msgs > 5", "--where", "name != COPY"), ["A"]),
        (("--empty", "--invert"), ["A", "COPY"]),
        (("--mirrored", "--idle", "1ms"), ["COPY"]),
        (("--subject", "a.7"), ["A"]),
        (("--idle", "1h"), []),
        (("--created", "1h"), []),
    ):
        assert names(shell.ok("stream", "find", "--names", *words)) == expected, words
    row = json.loads(shell.ok("stream", "find", "--empty", "--json"))
    assert (row["kind"], row["name"], row["stored_msgs"]) == ("stream", "B", 0)
    for words, expected in (
        (("B",), ["B two"]),
        (("--pull", "--where", "pending_msgs >= 8"), ["A one"]),
        (("--push",), ["B two"]),
        (("--bound", "--invert"), ["A one", "B two"]),
    ):
        assert names(shell.ok("consumer", "find", "--names", *words)) == expected, words
    wrong = shell.run("stream", "find", "--where", "messages > 3")
    assert wrong.returncode == 2 and "there is no field 'messages'" in wrong.stderr
    report = shell.ok("stream", "report").splitlines()
    assert [line.split()[0] for line in report] == ["STREAM", "A", "COPY", "B"]
    told = json.loads(shell.ok("consumer", "report", "A", "--json"))
    assert (told["name"], told["pending_msgs"]) == ("one", 8)
    assert shell.run("consumer", "report", "NONE").returncode == 2


def test_what_was_active_before_a_restart_is_not_called_idle(
    nats_server_factory: Callable[..., Broker], tmp_path: Path
) -> None:
    broker = nats_server_factory()
    shell = Shell(broker.url, tmp_path)
    asyncio.run(filled(broker.url))
    shell.ok("consumer", "next", "A", "one", "--ack")
    broker.restart()
    for words, names_found in (((), ""), (("--invert",), "B two\n")):
        found = shell.run("consumer", "find", "--idle", "1h", "--names", *words)
        assert (found.returncode, found.stdout) == (0, names_found)
        assert "left out: 1 consumer, of which the server does not know when" in found.stderr
    missing = shell.run("consumer", "find", "NONE", "--names")
    assert missing.returncode == 2 and "there is no stream NONE" in missing.stderr


def test_gaps_are_listed_as_runs(shell: Shell, account: Account) -> None:
    asyncio.run(filled(account.url))
    rows = json.loads(shell.ok("stream", "gaps", "A", "--json"))
    assert [(one["first_seq"], one["last_seq"], one["missing_msgs"]) for one in rows] == [
        (3, 5, 3), (9, 9, 1),
    ]  # fmt: skip
    assert json.loads(shell.ok("stream", "gaps", "B", "--json")) == []
    assert shell.ok("stream", "gaps", "A").split()[3:] == ["3", "5", "3", "9", "9", "1"]
    assert ranges_of([]) == []


def test_a_copy_has_the_configuration_and_no_message(shell: Shell, account: Account) -> None:
    asyncio.run(filled(account.url))
    shell.ok("stream", "edit", "A", "--max-msgs", "50", "--description", "mine")
    shell.ok("stream", "copy", "A", "C", "--subjects", "c.>")
    one, other = (shell.config("stream", "info", name) for name in ("A", "C"))
    differing = {key for key in one if one[key] != other.get(key)}
    assert differing <= {"name", "subjects", "metadata"}
    assert json.loads(shell.ok("stream", "info", "C", "--json"))["state"]["messages"] == 0
    assert shell.run("stream", "copy", "A", "B", "--subjects", "d").returncode == 4
    assert shell.run("stream", "copy", "NONE", "D").returncode == 4


def test_a_copied_consumer_differs_in_its_name_and_in_what_was_said(
    shell: Shell, account: Account
) -> None:
    asyncio.run(filled(account.url))
    shell.ok("consumer", "edit", "A", "one", "--max-deliver", "5", "--description", "mine")
    words = ("consumer", "copy", "A", "one", "other", "--filter", "a.7")
    planned = shell.run(*words, "--dry-run")
    assert planned.returncode == 1
    assert json.loads(planned.stdout)["durable_name"] == "other"
    assert "nats consumer add A other" in planned.stderr
    assert shell.run(*words, "--read-only").returncode == 5
    assert shell.run("consumer", "info", "A", "other").returncode == 4
    shell.ok(*words)
    one, other = (shell.config("consumer", "info", "A", name) for name in ("one", "other"))
    assert {key for key in one if one[key] != other[key]} <= {"name", "durable_name", "metadata"}
    assert (other["filter_subject"], other["max_deliver"]) == ("a.7", 5)
    again = shell.run(*words)
    assert again.returncode == 4 and "exists already" in again.stderr
    assert shell.run("consumer", "copy", "A", "NONE", "more").returncode == 4
    (entry,) = (
        one for one in json.loads(shell.ok("journal", "--json")) if one["consumer"] == "other"
    )
    assert (entry["action"], entry["outcome"]) == ("create_consumer", "done")
    shell.ok("undo", entry["entry"], "--yes")
    assert shell.run("consumer", "info", "A", "other").returncode == 4


def test_a_copy_does_not_deliver_to_the_same_clients_unless_that_is_said(
    shell: Shell, account: Account
) -> None:
    asyncio.run(filled(account.url))
    refused = shell.run("consumer", "copy", "B", "two", "same")
    assert refused.returncode == 2 and "receive every message twice" in refused.stderr
    assert shell.run("consumer", "info", "B", "same").returncode == 4
    shell.ok("consumer", "copy", "B", "two", "another", "--deliver-subject", "elsewhere")
    assert shell.config("consumer", "info", "B", "another")["deliver_subject"] == "elsewhere"
    shell.ok("consumer", "copy", "B", "two", "puller", "--pull", "--ack-policy", "explicit")
    assert "deliver_subject" not in shell.config("consumer", "info", "B", "puller")


def test_a_copy_begins_with_a_file_and_delivers_elsewhere_only_if_that_says_so(
    shell: Shell, account: Account, tmp_path: Path
) -> None:
    asyncio.run(filled(account.url))
    part, whole = tmp_path / "part.toml", tmp_path / "whole.json"
    toml, durable = 'description = "x"', '{"durable_name": "whole", "description": "x"'
    for option, file, silent, naming in (
        ("--file", part, toml, toml + '\ndeliver_subject = "there"'),
        ("--config", whole, durable + "}", durable + ', "deliver_subject": "elsewhere"}'),
    ):
        words = ("consumer", "copy", "B", "two", file.stem, option, str(file))
        file.write_text(silent, encoding="utf-8")
        refused = shell.run(*words)
        assert refused.returncode == 2 and "receive every message twice" in refused.stderr
        file.write_text(naming, encoding="utf-8")
        shell.ok(*words)
        assert shell.config("consumer", "info", "B", file.stem)["description"] == "x"


def test_a_stream_is_sealed_only_when_its_name_was_said(shell: Shell, account: Account) -> None:
    asyncio.run(filled(account.url))
    for flags in ((), ("--confirm", "B"), ("--read-only", "--yes")):
        refused = shell.run("stream", "seal", "A", *flags)
        assert refused.returncode == 5, flags
    assert "sealed for ever" in shell.run("stream", "seal", "A").stderr
    shell.ok("stream", "seal", "A", "--confirm", "A")
    assert shell.config("stream", "info", "A")["sealed"] is True
    assert shell.run("pub", "a.1", "x", "-J").returncode == 4
    # The server replies as if it had changed it.
    ignored = shell.run("stream", "edit", "A", "--max-age", "1h", "--yes")
    assert ignored.returncode == 4, ignored
    assert "stream A unchanged" in ignored.stdout and "Maximum age not changed" in ignored.stderr


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("stored_msgs > 10k", True),
        ("stored_msgs>=12000", True),
        ("stored_bytes < 1MB", False),
        ("leader == null", True),
        ("leader != null", False),
        ("name = ORDERS", True),
        ("name =~ 'ORD*'", True),
        ("name !~ ORD*", False),
        ("subjects == o", True),
        ("subjects =~ orders.*", True),
        ("last_at_us < 1h ago", True),
        ("pull == true", True),
        ("lag_s > 1m", True),
        ("lag_s > 100", False),
        ("ack_policy == none", True),
        ("ack_policy != none", False),
        ("ack_policy == 'none'", True),
        ("ack_policy == null", False),
        ("pinned_client == no", True),
        ("leader == 'null'", False),
        ("leader == none", True),
        ("lag_s == none", False),
        ("in_msgs_per_s > 0.5", True),
        ("in_msgs_per_s == 0.75", True),
        ("in_msgs_per_s > 1.5k", False),
        ("pull == yes", True),
        ("pull == 'no'", False),
        ("pull != 'true'", False),
    ],
)
def test_a_condition_knows_the_units_of_its_field(text: str, holds: bool) -> None:
    assert parse_condition(text, KNOWN, datetime.now(UTC)).is_met(ROW) is holds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "stored_msgs",
        "none > 3",
        "stored_msgs > x",
        "stored_bytes > 3 apples",
        "ack_policy > none",
        "lag_s > 'null'",
        "lag_s == 'null'",
    ],
)
def test_what_is_no_condition_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(UsageError):
        parse_condition(text, KNOWN)


def test_an_unknown_ack_policy_is_null_and_not_none() -> None:
    row = {**ROW, "ack_policy": None}
    assert parse_condition("ack_policy == null", KNOWN).is_met(row)
    assert not parse_condition("ack_policy == none", KNOWN).is_met(row)


def test_what_is_unknown_is_neither_more_nor_less() -> None:
    row = {**ROW, "lag_s": None}
    for comparison in ("<", "<=", ">", ">="):
        assert not parse_condition(f"lag_s {comparison} 5", KNOWN).is_met(row)
