"""Taking back: only where the change was made, and never more than was said."""

from __future__ import annotations

import asyncio
import json
import re
import resource
from collections.abc import Callable
from pathlib import Path

import nats
import pytest

from natstui.jetstream.testbed.broker import Broker
from natstui.jetstream.testbed.cluster import Cluster
from tests.accounts import Account
from tests.cli.test_manage import Shell

pytestmark = pytest.mark.server

_ACCOUNTS = """
accounts {
  A: { jetstream: enabled, users: [ { user: a, password: a } ] }
  B: { jetstream: enabled, users: [ { user: b, password: b } ] }
}
"""


def url_of(broker: Broker, user: str) -> str:
    return broker.url.replace("nats://", f"nats://{user}:{user}@")


async def publish(url: str, subject: str, count: int) -> None:
    nc = await nats.connect(url)
    for number in range(count):
        await nc.request(subject, str(number).encode(), timeout=10)
    await nc.close()


async def make_elsewhere(url: str, stream: str, subject: str) -> None:
    nc = await nats.connect(url)
    await nc.jetstream().add_stream(name=stream, subjects=[subject], storage="memory")
    await nc.close()


def messages(shell: Shell, stream: str) -> int:
    info = json.loads(shell.ok("stream", "info", stream, "--json"))
    count: int = info["state"]["messages"]
    return count


def test_an_undo_in_another_account_leaves_its_stream_alone(
    nats_server_factory: Callable[..., Broker], tmp_path: Path
) -> None:
    broker = nats_server_factory(_ACCOUNTS)
    a, b = (Shell(url_of(broker, user), tmp_path) for user in "ab")
    b.ok("stream", "add", "ORDERS", "--subjects", "orders.>")
    (tmp_path / "STATE" / "natstui" / "journal.jsonl").unlink()
    asyncio.run(publish(url_of(broker, "b"), "orders.new", 50))
    a.ok("stream", "add", "ORDERS", "--subjects", "orders.>")
    refused = b.run("undo", "--yes")
    assert (refused.returncode, refused.stdout) == (4, "")
    assert messages(b, "ORDERS") == 50
    entry = json.loads(a.ok("journal", "--json"))[0]["entry"]
    refused = b.run("undo", entry, "--yes")
    assert refused.returncode != 0
    assert "account A" in refused.stderr
    assert messages(b, "ORDERS") == 50
    assert a.ok("undo", "--yes") == "stream ORDERS deleted\n"


def test_a_full_disk_refuses_a_change_before_it_is_made(account: Account, tmp_path: Path) -> None:
    shell = Shell(account.url, tmp_path)
    shell.ok("stream", "add", "S", "--subjects", "s")
    shell.ok("kv", "add", "B")
    shell.ok("kv", "put", "B", "k", "1")
    asyncio.run(publish(account.url, "s", 3))
    journal = tmp_path / "STATE" / "natstui" / "journal.jsonl"
    before = journal.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    for room_bytes in (1, 300):
        # As on a disk with so much left: the beginning of an entry would still be written.
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + room_bytes, limits[1]))
        try:
            for words in ("stream purge S --yes", "stream rm S --yes", "stream add T --subjects t",
                          "kv put B k 2 --yes", "kv del B k --yes", "undo --yes"):  # fmt: skip
                refused = shell.run(*words.split())
                assert refused.returncode == 6, (words, refused.stdout)
                assert "the journal" in refused.stderr and "was made" not in refused.stderr
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert journal.read_bytes() == before
    assert messages(shell, "S") == 3
    assert "stream not found" in shell.run("stream", "info", "T").stderr
    assert shell.ok("kv", "get", "B", "k", "--raw") == "1"
    shell.ok("stream", "purge", "S", "--yes")
    assert messages(shell, "S") == 0
    actions = [entry["action"] for entry in json.loads(shell.ok("journal", "--json"))]
    assert sorted(actions) == ["create_stream", "create_stream", "purge_stream", "put_key"]


def test_an_undo_leaves_alone_what_was_made_again_and_what_stands_behind_the_same_port(
    nats_server_factory: Callable[..., Broker], tmp_path: Path
) -> None:
    first = nats_server_factory()
    shell = Shell(first.url, tmp_path)
    shell.ok("stream", "add", "ORDERS", "--subjects", "orders.>")
    # The same address in the journal, and another server behind it: a forwarded port.
    second = nats_server_factory()
    other = Shell(second.url, tmp_path)
    journal = tmp_path / "STATE" / "natstui" / "journal.jsonl"
    forwarded = journal.read_text().replace(first.url, second.url)
    forwarded = forwarded.replace(first.url.partition("//")[2], second.url.partition("//")[2])
    line = journal.read_text()
    journal.write_text("")
    other.ok("stream", "add", "ORDERS", "--subjects", "orders.>")
    asyncio.run(publish(second.url, "orders.new", 5))
    journal.write_text(forwarded)
    assert other.run("undo", "--yes").returncode != 0
    assert messages(other, "ORDERS") == 5
    journal.write_text(line)
    shell.ok("stream", "rm", "ORDERS", "--yes")
    journal.write_text(line)
    asyncio.run(make_elsewhere(first.url, "ORDERS", "orders.>"))
    refused = shell.run("undo", "--yes")
    assert "was recreated" in refused.stderr
    assert messages(shell, "ORDERS") == 0


def test_an_undo_says_how_many_messages_it_would_delete(account: Account, tmp_path: Path) -> None:
    shell = Shell(account.url, tmp_path)
    shell.ok("stream", "add", "ORDERS", "--subjects", "orders.>")
    asyncio.run(publish(account.url, "orders.new", 7))
    refused = shell.run("undo")
    assert refused.returncode == 5
    assert "this will delete stream ORDERS: all 7 messages" in refused.stderr
    assert messages(shell, "ORDERS") == 7


def test_a_line_of_an_older_natstui_is_read_and_not_acted_on_without_proof(
    account: Account, tmp_path: Path
) -> None:
    shell = Shell(account.url, tmp_path)
    shell.ok("stream", "add", "ORDERS", "--subjects", "orders.>")
    journal = tmp_path / "STATE" / "natstui" / "journal.jsonl"
    entry = json.loads(journal.read_text())
    new = ("place", "account", "created_at_us", "stream_created_at_us", "loses", "server_id")
    journal.write_text(json.dumps({k: v for k, v in entry.items() if k not in new}) + "\n")
    assert "create stream ORDERS" in shell.ok("journal")
    refused = shell.run("undo", "--yes")
    assert refused.returncode == 5
    assert "does not contain server, account" in refused.stderr
    assert messages(shell, "ORDERS") == 0


@pytest.mark.parametrize("named", [True, False])
def test_a_restarted_server_is_still_the_same(named: bool, tmp_path: Path) -> None:
    name = "n1" if named else ""
    with Broker(store=tmp_path / "store", name=name) as broker:
        shell = Shell(broker.url, tmp_path)
        shell.ok("stream", "add", "ORDERS", "--subjects", "orders.>")
        broker.restart()
        assert shell.ok("undo", "--yes") == "stream ORDERS deleted\n"


def test_an_edit_that_removes_is_counted_asked_for_and_not_promised_back(
    account: Account, tmp_path: Path
) -> None:
    shell = Shell(account.url, tmp_path)
    shell.ok("stream", "add", "ORDERS", "--subjects", "orders.>")
    asyncio.run(publish(account.url, "orders.new", 100))
    said = "90 of 100 messages"
    plan = shell.run("stream", "edit", "ORDERS", "--max-msgs", "10", "--dry-run")
    assert plan.returncode == 1
    assert said in plan.stderr
    refused = shell.run("stream", "edit", "ORDERS", "--max-msgs", "10")
    assert (refused.returncode, refused.stdout) == (5, "")
    assert said in refused.stderr
    assert messages(shell, "ORDERS") == 100
    wrong = shell.run("stream", "edit", "ORDERS", "--max-msgs", "10", "--confirm", "OTHER")
    assert wrong.returncode == 5
    assert messages(shell, "ORDERS") == 100
    done = shell.run("stream", "edit", "ORDERS", "--max-msgs", "10", "--yes")
    assert (done.returncode, messages(shell, "ORDERS")) == (0, 10)
    assert said in done.stderr
    assert said in json.loads(shell.ok("journal", "--json"))[-1]["loses"]
    undone = shell.ok("undo")
    assert f"not restored: {said}" in undone


def test_what_does_not_come_back_with_an_undo_is_said(account: Account, tmp_path: Path) -> None:
    shell = Shell(account.url, tmp_path)
    shell.ok("stream", "add", "S", "--subjects", "s")
    shell.ok("pub", "s", "x", "-J", "--count", "3")
    for name in ("C", "D"):
        shell.ok("consumer", "add", "S", name)
    shell.ok("consumer", "rm", "S", "C", "--yes")
    text = json.loads(shell.ok("undo", "--json"))["text"]
    assert text.startswith("consumer C recreated, without its delivery state: ")
    assert "3 unprocessed" in text
    shell.ok("stream", "rm", "S", "--yes")
    undone = shell.run("undo")
    said = "without its messages and consumers: all 3 messages "
    assert (
        f"stream S recreated, {said}" in undone.stdout and "2 consumers with it" in undone.stdout
    )


def test_every_change_is_warned_of(account: Account, tmp_path: Path) -> None:
    shell = Shell(account.url, tmp_path)
    shell.ok("stream", "add", "A", "--subjects", "a.>", "--max-msgs", "5")
    overlapping = shell.run("stream", "add", "B", "--subjects", "a.b", "--max-msgs", "5")
    assert "overlaps 'a.>' of stream A" in overlapping.stderr
    missing = shell.run("stream", "add", "M", "--mirror", "NOWHERE", "--max-msgs", "5")
    assert missing.returncode == 0, missing.stderr
    assert "this stream mirrors NOWHERE, which does not exist" in missing.stderr
    shell.ok("consumer", "add", "A", "C", "--filter", "a.b")
    orphaned = shell.run("stream", "edit", "A", "--subjects", "z.>")
    assert orphaned.returncode == 0
    assert "a consumer filters 'a.b'" in orphaned.stderr
    idle = shell.run("consumer", "edit", "A", "C", "--filter", "q")
    assert "no subject of the stream matches 'q'" in idle.stderr
    back = shell.run("undo", json.loads(shell.ok("journal", "--json"))[-2]["entry"])
    assert back.returncode == 0, back.stderr


def test_another_name_than_the_one_asked_for_is_never_a_yes(
    account: Account, tmp_path: Path
) -> None:
    shell = Shell(account.url, tmp_path)
    shell.ok("stream", "add", "KEEP", "--subjects", "keep.>")
    shell.ok("stream", "edit", "KEEP", "--description", "mine")
    for words in (("undo",), ("stream", "edit", "KEEP", "--description", "x")):
        refused = shell.run(*words, "--confirm", "NOT-KEEP")
        assert refused.returncode == 5, words
        assert "'NOT-KEEP' is not 'KEEP'" in refused.stderr
    assert shell.config("stream", "info", "KEEP")["description"] == "mine"


def test_an_undo_of_no_entry_says_first_which_change_is_the_last(
    account: Account, tmp_path: Path
) -> None:
    shell = Shell(account.url, tmp_path)
    shell.ok("stream", "add", "S", "--subjects", "s")
    shell.ok("stream", "edit", "S", "--description", "mine")
    entry = json.loads(shell.ok("journal", "--json"))[-1]["entry"]
    done = shell.run("undo", "--yes")
    assert done.returncode == 0
    assert done.stderr.startswith(f"natstui: the last change is {entry}, "), done.stderr


def test_a_deleted_stream_is_recreated_only_in_the_system_that_had_it(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with Broker(store=store, name="n1") as broker:
        shell = Shell(broker.url, tmp_path)
        for name in ("ORDERS", "LOGS", "KV"):
            shell.ok("stream", "add", name, "--subjects", name.lower())
        shell.ok("stream", "rm", "LOGS", "--yes")
        shell.ok("stream", "rm", "ORDERS", "--yes")
        broker.stop()
        # Another system behind the same address, with the same names.
        store.rename(tmp_path / "first")
        broker.start()
        shell.ok("stream", "add", "KV", "--subjects", "kv")
        entries = [row["entry"] for row in json.loads(shell.ok("journal", "--json"))]
        refused = shell.run("undo", entries[-2], "--yes")
        assert refused.returncode == 5, refused.stdout
        assert "this is not the system from which stream ORDERS was deleted" in refused.stderr
        assert "other streams then (KV), and none of them is here" in refused.stderr
        assert "stream not found" in shell.run("stream", "info", "ORDERS").stderr
        # The first system again, its server upgraded.
        broker.stop()
        store.rename(tmp_path / "second")
        (tmp_path / "first").rename(store)
        broker.start()
        assert "stream ORDERS recreated" in shell.ok("undo", entries[-2])
        assert "stream LOGS recreated" in shell.ok("undo", entries[-3])


def test_without_a_proof_that_the_system_is_the_same_a_name_is_typed(tmp_path: Path) -> None:
    with Broker(store=tmp_path / "store", name="n1") as broker:
        shell = Shell(broker.url, tmp_path)
        shell.ok("kv", "add", "B")
        shell.ok("kv", "rm", "B", "--yes")
        broker.restart()
        refused = shell.run("undo")
        assert refused.returncode == 5
        assert "whether stream KV_B was deleted from this system is unknown" in refused.stderr
        assert "stream not found" in shell.run("stream", "info", "KV_B").stderr
        assert "stream KV_B recreated" in shell.ok("undo", "--confirm", "KV_B")


@pytest.mark.long
@pytest.mark.cluster
def test_a_cluster_is_the_same_from_each_of_its_nodes(
    nats_cluster: Cluster, tmp_path: Path
) -> None:
    first, second = (Shell(url_of(node, "app"), tmp_path) for node in nats_cluster.nodes[:2])
    first.ok("stream", "add", "ORDERS", "--subjects", "orders.>")
    assert json.loads(first.ok("journal", "--json"))[0]["place"] == "LAB"
    assert second.ok("undo", "--yes") == "stream ORDERS deleted\n"


@pytest.mark.cluster
def test_copies_that_are_made_again_are_not_called_lost(
    cluster_account: Account, tmp_path: Path
) -> None:
    shell = Shell(cluster_account.url, tmp_path)
    shell.ok("stream", "add", "S", "--subjects", "s", "--replicas", "3")
    shell.ok("pub", "s", "x", "-J", "--count", "3")
    edit = ("stream", "edit", "S", "--replicas", "1")
    refused = shell.run(*edit)
    assert refused.returncode == 5
    assert "2 of 3 copies are removed: one server then has the only copy" in refused.stderr
    shell.ok(*edit, "--yes")
    assert json.loads(shell.ok("journal", "--json"))[-1]["loses"] is None
    undone = shell.run("undo")
    assert undone.returncode == 0, undone.stderr
    made_again = "the servers make 2 copies again, and no message was lost with them"
    assert undone.stdout == f"stream S changed; {made_again}\n"
    assert messages(shell, "S") == 3
    # What the same edit removed for good is still named.
    shell.ok(*edit, "--max-msgs", "2", "--yes")
    undone = shell.run("undo")
    assert "not restored: 1 of 3 messages" in undone.stdout
    assert "2 of 3 copies" not in undone.stdout and "2 copies again" in undone.stdout


def test_a_message_that_was_sent_is_not_skipped(account: Account, tmp_path: Path) -> None:
    shell = Shell(account.url, tmp_path)
    shell.ok("stream", "add", "S", "--subjects", "s.>")
    shell.ok("pub", "s.x", "hello", "--jetstream")
    refused = shell.run("undo", "--yes")
    assert refused.returncode == 2 and "cannot be undone" in refused.stderr
    assert shell.run("stream", "info", "S").returncode == 0


def test_a_damaged_line_of_the_journal_costs_no_other_change(
    account: Account, tmp_path: Path
) -> None:
    shell, journal = Shell(account.url, tmp_path), tmp_path / "STATE" / "natstui" / "journal.jsonl"
    shell.ok("stream", "add", "ONE", "--subjects", "one")
    with journal.open("ab") as file:
        file.write(bytes(4096))
    shell.ok("stream", "add", "TWO", "--subjects", "two")
    with journal.open("ab") as file:
        file.write(b"garbage\n\n")
    listed = shell.run("journal", "--json")
    entries = json.loads(listed.stdout)
    assert [entry["stream"] for entry in entries] == ["ONE", "TWO"]
    assert listed.stderr.count("journal.jsonl:4 is damaged and left out") == 1
    unsure = shell.run("undo", "--yes")
    assert unsure.returncode == 2 and "the last change may be the damaged one" in unsure.stderr
    assert f"natstui undo {entries[1]['entry']}" in unsure.stderr
    shell.ok("undo", entries[1]["entry"], "--yes")
    shell.ok("stream", "add", "THREE", "--subjects", "three")
    shell.ok("undo", "--yes")
    names = ("ONE", "TWO", "THREE")
    assert [shell.run("stream", "info", name).returncode for name in names] == [0, 4, 4]


def test_no_undo_is_recommended_that_deletes_what_is_in_use(
    account: Account, tmp_path: Path
) -> None:
    shell, file = Shell(account.url, tmp_path), tmp_path / "a file"
    file.write_text("precious")

    def hint_after(*words: str) -> str:
        shell.ok(*words)
        refused = shell.run("undo", "--yes")
        assert refused.returncode == 2 and "cannot be undone" in refused.stderr
        return refused.stderr.partition("cannot be undone")[2].strip()

    shell.ok("object", "add", "OB")
    assert hint_after("object", "put", "OB", str(file), "--yes") == ""
    shell.ok("stream", "add", "S", "--subjects", "s.>")
    assert hint_after("pub", "s.x", "hello", "--jetstream") == ""
    # It is empty, and still what the last change is about.
    assert hint_after("stream", "purge", "S", "--yes") == ""
    shell.ok("pub", "s.x", "hello", "--jetstream")
    assert hint_after("object", "rm", "OB", "a file", "--yes") == ""
    shell.ok("stream", "add", "EMPTY", "--subjects", "empty.>")
    assert "create stream EMPTY" in hint_after("stream", "purge", "S", "--yes")
    shell.ok("stream", "edit", "S", "--max-msgs", "9")
    hint = hint_after("stream", "purge", "S", "--yes")
    assert re.fullmatch("; to undo edit stream S: natstui undo [0-9a-f]{8}", hint)


def test_no_undo_is_recommended_that_would_be_refused(account: Account, tmp_path: Path) -> None:
    shell = Shell(account.url, tmp_path)
    shell.ok("stream", "add", "S", "--subjects", "s.>")
    shell.ok("stream", "add", "OLD", "--subjects", "old.>")

    async def recreate() -> None:
        nc = await nats.connect(account.url)
        await nc.jetstream().delete_stream("OLD")
        await nc.jetstream().add_stream(name="OLD", subjects=["old.>"])
        await nc.close()

    asyncio.run(recreate())
    shell.ok("stream", "purge", "S", "--yes")
    refused = shell.run("undo", "--yes")
    assert refused.returncode == 2 and refused.stderr.rstrip().endswith("cannot be undone")
