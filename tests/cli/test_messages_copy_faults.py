"""Copies between streams that vanish, are recreated, or refuse: no message is forgotten."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nats
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nats.aio.client import Client

from natstui.jetstream.messages import reading
from natstui.jetstream.messages.copying import account as copy_account
from natstui.jetstream.messages.copying import copy, message_file, window
from natstui.jetstream.messages.copying.account import (
    FirstAndLastSeqs,
    add_seq,
    merged_ranges,
    ranges_from,
    ranges_until,
    seqs_of,
)
from natstui.jetstream.testbed.broker import Broker
from tests.accounts import Account
from tests.cli.beside import Begin, run_beside, stop
from tests.cli.processes import NatstuiProcess
from tests.cli.test_core import PATIENCE_S, connected, run
from tests.cli.test_manage import Done, Shell
from tests.cli.test_messages_copy import (
    copied,
    copying_here,
    counts,
    filled,
    position_saved,
    some_stored,
    started,
    state_file,
)
from tests.hostile_server import Lie, lying
from tests.jetstream.flushing import flushed
from tests.jetstream.raw_publisher import RawPublisher
from tests.serving import relay, serving

pytestmark = pytest.mark.server
TO_T = ("S", "--to-stream", "T", "--map", "s.>:t.>", "--json")


@pytest.fixture
def shell(account: Account, tmp_path: Any) -> Shell:
    return Shell(account.url, tmp_path)


@given(st.lists(st.integers(1, 60)), st.lists(st.integers(1, 60)), st.integers(1, 70))
def test_ranges_hold_what_was_added(some: list[int], others: list[int], from_seq: int) -> None:
    left: FirstAndLastSeqs = []
    right: FirstAndLastSeqs = []
    for seq in some:
        add_seq(left, seq)
    for seq in others:
        add_seq(right, seq)
    merged = merged_ranges(left, right)
    assert list(seqs_of(merged)) == sorted({*some, *others})
    expected = [seq for seq in sorted({*some, *others}) if seq >= from_seq]
    assert list(seqs_of(ranges_from(merged, from_seq))) == expected
    earlier = [seq for seq in sorted({*some, *others}) if seq < from_seq]
    assert list(seqs_of(ranges_until(merged, from_seq - 1))) == earlier


async def test_more_refused_than_can_be_kept_stops_the_copy_and_none_is_forgotten(
    shell: Shell, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copy_account, "MAX_RANGES", 20)
    async with connected(account.url) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s.>"])
        for number in range(200):
            # Every second one is too large for the target: ranges of one.
            await js.publish(f"s.{number}", b"x" * (1000 if number % 2 else 10))
        config = {"name": "T", "subjects": ["t.>"], "max_msg_size": 500}
        await js.add_stream(**config)
        words, resume = TO_T, ()
        for _ in range(10):
            done = await run(shell, "messages", "copy", *words, *resume)
            resume = ("--resume",)
            if done.returncode == 0:
                break
            assert done.returncode == 4
            await js.update_stream(**{**config, "max_msg_size": -1})
        assert done.returncode == 0, done.stderr
        assert await counts(nc, "T") == {f"t.{number}": 1 for number in range(200)}


@pytest.mark.parametrize("recreated", ["S", "T"])
async def test_a_stream_that_was_created_again_is_not_continued(
    shell: Shell, account: Account, recreated: str
) -> None:
    async with connected(account.url) as nc:
        js = nc.jetstream()
        await filled(nc, "S", 10)
        config = {"name": "T", "subjects": ["t.>"], "discard": "new", "max_msgs": 4}
        await js.add_stream(**config)
        assert (await run(shell, "messages", "copy", *TO_T)).returncode == 4
        await js.delete_stream(recreated)
        if recreated == "S":
            await filled(nc, "S", 10)
        else:
            await js.add_stream(**{**config, "max_msgs": 100})
        refused = await run(shell, "messages", "copy", *TO_T, "--resume")
        assert refused.returncode == 2
        said = {
            "S": "S was deleted and recreated in the meantime",
            "T": "target stream T was deleted or recreated",
        }
        assert said[recreated] in refused.stderr
        assert "copy again without --resume" in refused.stderr


async def test_a_target_that_was_purged_is_not_continued_and_one_with_a_reader_is(
    shell: Shell, account: Account
) -> None:
    async with connected(account.url) as nc:
        js = nc.jetstream()
        await filled(nc, "S", 10)
        config = {"name": "T", "subjects": ["t.>"], "discard": "new", "max_msgs": 4}
        await js.add_stream(**config)
        assert (await run(shell, "messages", "copy", *TO_T)).returncode == 4
        await js.purge_stream("T")
        refused = await run(shell, "messages", "copy", *TO_T, "--resume")
        assert refused.returncode == 2
        assert "target stream T was purged, or several copies" in refused.stderr
        await js.delete_stream("T")
        await js.add_stream(**config)
        assert (await run(shell, "messages", "copy", *TO_T)).returncode == 4
        await js.purge_stream("T", keep=2)
        refused = await run(shell, "messages", "copy", *TO_T, "--resume")
        assert refused.returncode == 2
        assert "target stream T was purged" in refused.stderr
        await js.delete_stream("T")
        await js.add_stream(**config, retention="workqueue")
        assert (await run(shell, "messages", "copy", *TO_T)).returncode == 4
        # As its consumer takes them.
        await js.purge_stream("T")
        assert (await run(shell, "messages", "copy", *TO_T, "--resume")).returncode == 4
        assert (await js.stream_info("T")).state.messages == 4


async def test_what_the_target_has_removed_is_no_duplicate_that_it_has(
    shell: Shell, account: Account
) -> None:
    async with connected(account.url) as nc:
        js = nc.jetstream()
        await filled(nc, "S", 10)
        # Limits that are far away explain nothing.
        limits = {"max_msgs": 1_000, "max_bytes": 10_000_000, "max_age": 86_400}
        for stream, config in (
            ("T", {}), ("L", limits), ("U", {"retention": "workqueue"}),
        ):  # fmt: skip
            prefix, retention = stream.lower(), config.get("retention", "limits")
            await js.add_stream(name=stream, subjects=[f"{prefix}.>"], **config)
            words = ["messages", "copy", "S", "--to-stream", stream, "--map", f"s.>:{prefix}.>"]
            assert (await run(shell, *words)).returncode == 0
            again = await run(shell, *words, "--json")
            assert (again.returncode, copied(again.stdout)["duplicate_msgs"]) == (0, 10)
            for seq in (3, 7):
                await js.delete_msg(stream, seq)
            holed = await run(shell, *words, "--json")
            await js.purge_stream(stream)
            emptied = await run(shell, *words, "--json")
            if retention == "workqueue":
                # As its consumers take them, but it has none.
                assert (holed.returncode, emptied.returncode) == (4, 4)
                for done, gone_msgs in ((holed, 2), (emptied, 10)):
                    account = copied(done.stdout)
                    assert account["duplicate_msgs"] == 10
                    assert sum(account["no_longer_there"].values()) == gone_msgs
                continue
            account = copied(holed.stdout)
            assert holed.returncode == 4
            assert (account["duplicate_msgs"], account["refused_msgs"]) == (8, 2)
            assert account["refused_ranges"] == [[3, 3], [7, 7]]
            account = copied(emptied.stdout)
            assert emptied.returncode == 4
            assert (account["duplicate_msgs"], account["refused_msgs"]) == (0, 10)
            (reason,) = account["refusals"]
            assert (
                f"{stream} has removed the copy that it stored before" in reason and "2m" in reason
            )


async def test_of_messages_with_one_id_it_is_not_said_that_the_target_had_the_others(
    shell: Shell, account: Account
) -> None:
    async with connected(account.url) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s.>"], duplicate_window=0.1)
        for number in range(3):
            for _ in range(100):
                ack = await js.publish("s.a", b"%d" % number, headers={"Nats-Msg-Id": "same"})
                if not ack.duplicate:
                    break
                # Until the window has forgotten the one before.
                await asyncio.sleep(0.1)
            else:
                raise AssertionError("the window never ends")
        await js.add_stream(name="T", subjects=["t.>"])
        kept = await run(shell, "messages", "copy", *TO_T, "--msg-id", "kept")
        account = copied(kept.stdout)
        assert (kept.returncode, account["acknowledged_msgs"], account["refused_msgs"]) == (
            4,
            1,
            2,
        )
        assert "another message of this copy has the same message id" in str(account["refusals"])
        # The one that a copy before has stored is there, also where it goes on.
        for more in ((), ("--resume",)):
            again = await run(shell, "messages", "copy", *TO_T, "--msg-id", "kept", *more)
            account = copied(again.stdout)
            assert again.returncode == 4, again
            assert (account["duplicate_msgs"], account["refused_msgs"]) == (0 if more else 1, 2)
            assert "the target has another message with the same message id" in again.stdout
        # What another publisher has stored under the id is none of them.
        await js.purge_stream("T")
        await js.publish("t.other", b"0", headers={"Nats-Msg-Id": "same-too"})
        await js.publish("s.b", b"0", headers={"Nats-Msg-Id": "same-too"})
        again = await run(shell, "messages", "copy", *TO_T, "--from-seq", "4", "--msg-id", "kept")
        assert copied(again.stdout)["refused_msgs"] == 1


@pytest.mark.parametrize(
    "config",
    [
        {"allow_msg_ttl": True},
        pytest.param({"allow_rollup_hdrs": True}, marks=pytest.mark.long),
        pytest.param({"max_msgs_per_subject": 1000}, marks=pytest.mark.long),
        {"max_age": 3600 * 10**9},
        {"retention": "workqueue"},
    ],
    ids=str,
)
async def test_what_was_purged_where_limits_or_acks_remove_messages_is_no_success(
    shell: Shell, account: Account, config: dict[str, Any]
) -> None:
    async with connected(account.url) as nc:
        js = nc.jetstream()
        await filled(nc, "S", 10)
        body = {"name": "T", "subjects": ["t.>"], "discard": "new", "max_msgs": 4} | config
        await nc.request("$JS.API.STREAM.CREATE.T", json.dumps(body).encode(), 30)
        assert (await run(shell, "messages", "copy", *TO_T)).returncode == 4
        await js.purge_stream("T")
        await nc.request(
            "$JS.API.STREAM.UPDATE.T", json.dumps(body | {"max_msgs": 99}).encode(), 30
        )
        resumed = await run(shell, "messages", "copy", *TO_T, "--resume")
        account = copied(resumed.stdout)
        assert (resumed.returncode, account["acknowledged_msgs"]) == (4, 6), resumed
        assert list(account["no_longer_there"].values()) == [4]
        assert "does not have all messages any more that it stored before" in resumed.stderr
        await js.purge_stream("T")
        again = await run(shell, "messages", "copy", *TO_T)
        account = copied(again.stdout)
        assert again.returncode == 4
        assert "max_age" in config or list(account["no_longer_there"].values()) == [10]
        # Whether its consumers have taken them is not known: that is no failure, but is said.
        if "retention" in config:
            await js.add_consumer("T", durable_name="C", ack_policy="explicit")
            again = await run(shell, "messages", "copy", *TO_T[:-1])
            assert again.returncode == 0, again
            removed = "T by acks of its consumers or a deletion or purge"
            assert f"10 not there any more: removed from {removed} by somebody" in again.stdout


async def test_the_deletion_of_the_first_copied_message_is_no_purge(
    shell: Shell, account: Account
) -> None:
    async with connected(account.url) as nc:
        js = nc.jetstream()
        await filled(nc, "S", 10)
        config = {"name": "T", "subjects": ["t.>"], "discard": "new", "max_msgs": 4}
        await js.add_stream(**config)
        assert (await run(shell, "messages", "copy", *TO_T)).returncode == 4
        await js.delete_msg("T", 1)
        await js.update_stream(**{**config, "max_msgs": 100})
        done = await run(shell, "messages", "copy", *TO_T, "--resume")
        assert done.returncode == 0, done.stderr
        assert (await js.stream_info("T")).state.messages == 9


async def test_a_target_of_which_the_only_copied_message_is_gone_is_not_continued(
    shell: Shell, account: Account
) -> None:
    async with connected(account.url) as nc:
        js = nc.jetstream()
        await filled(nc, "S", 10)
        await js.add_stream(name="T", subjects=["t.>"], discard="new", max_msgs=1)
        assert (await run(shell, "messages", "copy", *TO_T)).returncode == 4
        await js.purge_stream("T")
        refused = await run(shell, "messages", "copy", *TO_T, "--resume")
        assert refused.returncode == 2
        assert "target stream T was purged" in refused.stderr


async def test_a_payload_that_no_longer_fits_with_headers_is_refused_by_name(
    shell: Shell, account: Account
) -> None:
    async with connected(account.url) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s.>"])
        await js.add_stream(name="T", subjects=["t.>"])
        most_bytes = nc.max_payload
        await js.publish("s.1", b"before")
        await js.publish("s.2", b"x" * most_bytes)
        await js.publish("s.3", b"behind")
        async with asyncio.timeout(60):
            done = await run(shell, "messages", "copy", *TO_T)
        account = copied(done.stdout)
        assert done.returncode == 4
        assert (account["acknowledged_msgs"], account["refused_ranges"]) == (2, [[2, 2]])
        (reason,) = account["refusals"]
        assert "message 2 has" in reason and f"{most_bytes:,}" in reason
        assert account["payload_bytes"] == len("before") + most_bytes + len("behind")
        assert await counts(nc, "T") == {"t.1": 1, "t.3": 1}


@pytest.mark.needs_server("2.12")
async def test_messages_of_an_atomic_batch_are_copied_as_single_ones(
    shell: Shell, account: Account
) -> None:
    async with connected(account.url) as nc:
        config = {"name": "S", "subjects": ["s.>"], "allow_atomic": True}
        await nc.request("$JS.API.STREAM.CREATE.S", json.dumps(config).encode(), timeout=20)
        await nc.jetstream().add_stream(name="T", subjects=["t.>"])
        for number in (1, 2, 3):
            headers = {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": str(number)}
            headers |= {"Nats-Batch-Commit": "1"} if number == 3 else {}
            await nc.request(f"s.{number}", b"x", headers=headers, timeout=20)
        done = await run(shell, "messages", "copy", *TO_T)
        assert (done.returncode, copied(done.stdout)["acknowledged_msgs"]) == (0, 3), done
        assert await counts(nc, "T") == {"t.1": 1, "t.2": 1, "t.3": 1}


async def test_a_target_that_is_deleted_meanwhile_ends_the_copy(
    shell: Shell, account: Account
) -> None:
    async with connected(account.url) as nc:
        js = nc.jetstream()
        await filled(nc, "S", 3_000)
        await js.add_stream(name="T", subjects=["t.>"])
        copying = copying_here(shell, "S", "--to-stream", "T", "--map", "s.>:t.>", "--rate", "500")
        await some_stored(nc, "T", 300)
        await js.delete_stream("T")
        async with asyncio.timeout(60):
            done = await copying
        assert done.returncode == 4, done.stderr
        assert "no stream stores" in done.stderr and "the target was deleted" in done.stderr
        assert json.loads(done.stdout)["acknowledged_msgs"] >= 300


async def test_a_target_that_is_created_again_meanwhile_is_no_success(
    shell: Shell, account: Account
) -> None:
    async with connected(account.url) as nc:
        js = nc.jetstream()
        await filled(nc, "S", 1_500)
        await js.add_stream(name="T", subjects=["t.>"])
        copying = copying_here(shell, "S", "--to-stream", "T", "--map", "s.>:t.>", "--rate", "1k")
        await some_stored(nc, "T", 300)
        await js.delete_stream("T")
        await js.add_stream(name="T", subjects=["t.>"])
        done = await copying
        assert done.returncode == 4, done.stderr


LARGE = b"x" * 6_000
"""So large that a server sends only the first of a stream before they are read."""


@pytest.mark.parametrize("to", ["stream", "file"])
async def test_a_source_that_is_recreated_meanwhile_is_no_success(
    shell: Shell, account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: str
) -> None:
    monkeypatch.setattr(reading, "_MAX_SILENCE_S", 1.0)
    async with connected(account.url) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s.>"])
        await js.add_stream(name="T", subjects=["t.>"])
        for _ in range(3_000):
            await nc.publish("s.a", LARGE)
        await some_stored(nc, "S", 3_000)
        target = tmp_path / "copied.jsonl"
        words = ["--to-stream", "T"] if to == "stream" else ["--to-file", str(target)]
        copying = copying_here(shell, "S", *words, "--map", "s.>:t.>", "--rate", "1k")
        async with asyncio.timeout(PATIENCE_S):
            while not (await js.stream_info("S")).state.consumer_count:
                await asyncio.sleep(0.02)
        await js.delete_stream("S")
        await js.add_stream(name="S", subjects=["s.>"])
        for _ in range(3_000):
            await nc.publish("s.b", LARGE)
        await flushed(nc)
        async with asyncio.timeout(60):
            done = await copying
    assert done.returncode == 4, done.stderr
    # Whichever sees it first: the reader when it begins again, or the copy when it looks.
    seen = "S was deleted (and recreated )?while it was (read|copied)"
    assert re.search(seen, done.stderr), done.stderr
    assert not target.exists()


async def test_what_is_purged_before_it_is_copied_is_named(
    shell: Shell, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_HEARTBEAT_S", 1)
    async with connected(account.url) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s.>"])
        await js.add_stream(name="T", subjects=["t.>"])
        for _ in range(3_000):
            await nc.publish("s.a", LARGE)
        await some_stored(nc, "S", 3_000)
        copying = copying_here(shell, "S", "--to-stream", "T", "--map", "s.>:t.>", "--rate", "1k")
        await some_stored(nc, "T", 100)
        await js.purge_stream("S")
        async with asyncio.timeout(60):
            done = await copying
    account = copied(done.stdout)
    assert done.returncode == 4, done.stderr
    first_seq, last_seq = account["removed_seqs"]
    assert (first_seq, last_seq) == (account["acknowledged_msgs"] + 1, 3_000)
    assert f"from sequence {first_seq:,} to {last_seq:,} were removed from S" in done.stderr


@pytest.mark.timeout(110)
async def test_answers_that_are_lost_with_a_leader_are_all_asked_for_again_at_once(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(window, "_RESEND_AFTER_S", 1.5)
    async with connected(account.url) as nc:
        await filled(nc, "S", 400)
        await nc.jetstream().add_stream(name="T", subjects=["t.>"])
    answers_count = 0

    def lost(body: bytes) -> bytes | None:
        nonlocal answers_count
        answers_count += 1
        return None if 1 < answers_count <= 180 else body

    with lying(account.url) as wire:
        wire.carries_changes, wire.lie = True, Lie("publish", lost)
        copying = copying_here(Shell(wire.url, tmp_path), *TO_T[:-1])
        done = await copying
    account = copied(done.stdout)
    assert (done.returncode, account["acknowledged_msgs"]) == (0, 400), done.stderr
    assert account["confirmed_msgs"] == 179


async def test_a_lost_ack_ends_a_copy_whose_target_may_not_be_read(
    nats_server_factory: Callable[[str], Broker],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(window, "_RESEND_AFTER_S", 0.5)
    denied = 'permissions: { publish: { deny: ["$JS.API.STREAM.INFO.T"] } }'
    url = nats_server_factory(
        "authorization { users: [ { user: a, password: a }, "
        f"{{ user: b, password: b, {denied} }} ] }}"
    ).url
    acks = itertools.count()
    async with connected(url.replace("//", "//a:a@")) as nc:
        await filled(nc, "S", 5)
        await nc.jetstream().add_stream(name="T", subjects=["t.>"])
        with lying(url.replace("//", "//b:b@")) as wire:
            wire.carries_changes = True
            wire.lie = Lie("publish", lambda body: None if next(acks) == 2 else body)
            words = ("messages", "copy", "S", "--to-subject", "t.x", "--json")
            done = await run(Shell(wire.url, tmp_path), *words)
    assert done.returncode == 4
    assert "1 message may or may not be stored" in done.stderr
    assert copied(done.stdout)["acknowledged_msgs"] == 4


async def test_a_stream_whose_acks_cannot_be_read_leaves_it_open_what_is_stored(
    shell: Shell, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(window, "_RESEND_AFTER_S", 0.5)
    async with connected(account.url) as nc:
        await filled(nc, "S", 30)
        # The server quotes the name of such a stream so that its acks are no JSON.
        name = "T\x07b"
        config = json.dumps({"name": name, "subjects": ["t.>"]}).encode()
        await nc.request(f"$JS.API.STREAM.CREATE.{name}", config, timeout=PATIENCE_S)
        sent = await run(shell, "pub", "t.x", "hello", "-J")
        assert sent.returncode == 4, sent
        assert "the last one may still have been stored" in sent.stderr, sent
        done = await run(shell, "messages", "copy", "S", "--to-subject", "t.y", "--yes", "--json")
        assert done.returncode == 4 and "is no acknowledgement of a stream" in done.stderr, done
        account = copied(done.stdout)
        assert account["refused_msgs"] == 0 and account["unknown_msgs"] > 0, account
    entries = json.loads(shell.ok("journal", "--json"))
    assert [entry["outcome"] for entry in entries] == ["unknown", "unknown"]


@pytest.mark.long
async def test_the_order_is_kept_when_the_server_restarts_and_there_is_a_rate(
    nats_server: Broker, tmp_path: Path
) -> None:
    shell = Shell(nats_server.url, tmp_path)
    count = 1_000
    async with connected(nats_server.url) as nc:
        await filled(nc, "S", count)
        await nc.jetstream().add_stream(name="T", subjects=["t.>"])
        copying = copying_here(shell, "S", "--to-stream", "T", "--map", "s.>:t.>", "--rate", "1k")
        await some_stored(nc, "T", 300)
    await asyncio.to_thread(nats_server.restart)
    done = await copying
    assert done.returncode == 0, done.stderr
    assert copied(done.stdout)["acknowledged_msgs"] == count
    nc = await nats.connect(nats_server.url)
    try:
        js = nc.jetstream()
        subscription = await js.subscribe("t.>", stream="T", ordered_consumer=True)
        numbers = [int((await subscription.next_msg(timeout=10)).data) for _ in range(count)]
    finally:
        await nc.close()
    assert numbers == list(range(1, count + 1))


HEADERS = b"NATS/1.0\r\nName: Jos\xe9\r\nA:  two \r\nA: again\r\n\r\n"
"""One text is no UTF-8, one has blanks around it, and a name comes twice."""


async def raw_headers(nc: Client, stream: str, seq: int) -> bytes:
    asked = json.dumps({"seq": seq}).encode()
    reply = await nc.request(f"$JS.API.STREAM.MSG.GET.{stream}", asked, timeout=30)
    return base64.b64decode(json.loads(reply.data)["message"]["hdrs"])


async def test_headers_are_copied_byte_by_byte_also_through_a_file(
    shell: Shell, account: Account, tmp_path: Path
) -> None:
    kept = tmp_path / "kept.jsonl"
    async with connected(account.url) as nc:
        js = nc.jetstream()
        for name in "STU":
            await js.add_stream(name=name, subjects=[f"{name.lower()}.>"])
        with RawPublisher(account.url) as raw:
            raw.publish(b"s.1", b"body", HEADERS)
            raw.settle()
        await some_stored(nc, "S", 1)
        for words in (
            TO_T,
            ("S", "--to-file", str(kept)),
            ("--from-file", str(kept), "--to-stream", "U", "--map", "s.>:u.>"),
        ):
            done = await run(shell, "messages", "copy", *words)
            assert done.returncode == 0, done.stderr
        for name in "TU":
            assert (await raw_headers(nc, name, 1)).startswith(HEADERS.removesuffix(b"\r\n"))
    line = json.loads(kept.read_bytes())
    assert line["headers"][0] == ["Name", "Jos\ufffd"]
    assert base64.b64decode(line["headers_base64"]).startswith(b"Name: Jos\xe9\r\n")


async def test_what_was_sent_before_a_damaged_line_is_accounted_for(
    shell: Shell, account: Account, tmp_path: Path
) -> None:
    kept = tmp_path / "kept.jsonl"
    async with connected(account.url) as nc:
        await filled(nc, "S", 500)
        await nc.jetstream().add_stream(name="T", subjects=["t.>"])
        await run(shell, "messages", "copy", "S", "--to-file", str(kept))
        kept.write_bytes(kept.read_bytes()[:-20])
        words = ("--from-file", str(kept), *TO_T[1:])
        done = await run(shell, "messages", "copy", *words)
        account = copied(done.stdout)
        assert done.returncode == 4 and ":500 is no message" in done.stderr
        assert (account["acknowledged_msgs"], account["unknown_msgs"]) == (499, 0)
        assert len(await counts(nc, "T")) == 499


@pytest.mark.long
@pytest.mark.parametrize("rate", ["100k", "300"])
async def test_a_copy_to_a_file_on_a_full_disk_goes_on_when_there_is_space(
    shell: Shell, account: Account, tmp_path: Path, rate: str
) -> None:
    folder = tmp_path / "full"
    folder.mkdir()
    kept = folder / "kept.jsonl"
    command = (f"ulimit -f 100; exec {sys.executable} -m natstui messages copy S --to-file"
               f" {kept} --json --rate {rate}")  # fmt: skip
    async with connected(account.url) as nc:
        await filled(nc, "S", 2_000)
        done = await asyncio.to_thread(
            subprocess.run, ["bash", "-c", command],
            # A part of a compiled module on a full disk would be read ever after.
            env={**os.environ, **shell.environment, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == 6 and "cannot be written: File too large" in done.stderr
        account = copied(done.stdout)
        saved_seq = json.loads(state_file(tmp_path).read_bytes())["done_seq"]
        assert f"--resume continues after sequence {saved_seq:,}" in done.stderr
        assert account["acknowledged_msgs"] == saved_seq and account["refused_msgs"] > 0
        assert not kept.exists()
        resumed = await run(
            shell, "messages", "copy", "S", "--to-file", str(kept), "--resume", "--json"
        )
    assert resumed.returncode == 0, resumed.stderr
    assert copied(resumed.stdout)["acknowledged_msgs"] == 2_000 - saved_seq
    numbers = [json.loads(line)["stream_seq"] for line in kept.read_bytes().splitlines()]
    assert numbers == list(range(1, 2_001))
    assert list(folder.iterdir()) == [kept]


@pytest.mark.long
async def test_a_killed_copy_to_a_file_goes_on(
    shell: Shell, account: Account, tmp_path: Path
) -> None:
    kept = tmp_path / "kept.jsonl"
    words = ("S", "--to-file", str(kept), "--rate", "1k")
    async with connected(account.url) as nc:
        await filled(nc, "S", 4_000)
        process = started(shell, *words)
        await position_saved(tmp_path, 1)
        process.kill()
        await asyncio.to_thread(process.communicate)
        assert not kept.exists()
        done = await run(
            shell, "messages", "copy", "S", "--to-file", str(kept), "--resume", "--json"
        )
    assert done.returncode == 0, done.stderr
    assert 0 < copied(done.stdout)["acknowledged_msgs"] < 4_000
    numbers = [json.loads(line)["stream_seq"] for line in kept.read_bytes().splitlines()]
    assert numbers == list(range(1, 4_001))


def without_line(part: bytes) -> bytes:
    """Return a file without a line of its middle."""
    lines = part.splitlines(keepends=True)
    return b"".join(lines[:100] + lines[101:])


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "garbage": lambda _: b"garbage\n",
    "a line missing": without_line,
    "a subject changed": lambda part: part.replace(b'"s.100"', b'"s.001"', 1),
}


def test_a_copy_to_a_file_that_lost_what_it_had_does_not_go_on(
    shell: Shell, account: Account, tmp_path: Path
) -> None:
    kept = tmp_path / "kept.jsonl"
    words = ("messages", "copy", "S", "--to-file", str(kept))

    async def work(begin: Begin) -> None:
        async with connected(account.url) as nc:
            await filled(nc, "S", 4_000)
        begin()
        await position_saved(tmp_path, 200)
        stop()

    run_beside(work, *words, "--rate", "1k", environment=shell.environment)
    (part,) = tmp_path.glob(".kept.jsonl*/messages.jsonl")
    whole = part.read_bytes()
    for name, damaged in DAMAGES.items():
        part.write_bytes(damaged(whole))
        refused = shell.run(*words, "--resume")
        assert refused.returncode == 2, (name, refused.stderr)
        reason = "some were changed or are missing: copy again without --resume"
        assert reason in refused.stderr and "Traceback" not in refused.stderr, name
        assert not kept.exists(), name


@pytest.mark.parametrize("name", ["/dev/zero", "/dev/null", "folder", "line"])
async def test_what_has_no_end_is_no_file_of_messages(
    shell: Shell, account: Account, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_file, "_MAX_LINE_BYTES", 1_000_000)
    path = Path(name) if name.startswith("/") else tmp_path / name
    if name == "folder":
        path.mkdir()
    if name == "line":
        with path.open("wb") as file:
            file.truncate(1024**2)
    async with connected(account.url) as nc:
        await nc.jetstream().add_stream(name="T", subjects=["t.>"])
        refused = await run(
            shell, "messages", "copy", "--from-file", str(path), "--to-stream", "T"
        )
    assert refused.returncode in (2, 4), refused
    assert refused.stderr.startswith(f"natstui: {path}"), refused
    assert "Traceback" not in refused.stderr


def test_a_fifo_of_messages_is_waited_for_and_a_signal_ends_that(
    shell: Shell, account: Account, tmp_path: Path
) -> None:
    fifo, file = tmp_path / "fifo", tmp_path / "messages"
    os.mkfifo(fifo)
    words = ("messages", "copy", "--from-file", str(fifo), "--to-stream", "T", "--map", "s.>:t.>")

    async def make() -> None:
        async with connected(account.url) as nc:
            await filled(nc, "S", 3)
            await nc.jetstream().add_stream(name="T", subjects=["t.>"])

    async def end_it(begin: Begin) -> None:
        begin()
        while str(fifo) not in opened_by(os.getpid()):
            await asyncio.sleep(0.05)
        stop()

    async def write(begin: Begin) -> None:
        begin()
        # Its opening waits for whoever reads.
        await asyncio.to_thread(fifo.write_bytes, file.read_bytes())

    asyncio.run(make())
    shell.ok("messages", "copy", "S", "--to-file", str(file))
    done = run_beside(end_it, *words, environment=shell.environment)
    assert done.returncode == 143, done
    done = run_beside(write, *words, "--json", environment=shell.environment)
    assert done.returncode == 0, done.stderr
    assert copied(done.stdout)["acknowledged_msgs"] == 3


@pytest.mark.long
async def test_the_position_of_a_copy_is_saved_though_nothing_more_is_sent(
    shell: Shell, account: Account, tmp_path: Path
) -> None:
    file, fifo = tmp_path / "messages", tmp_path / "fifo"
    os.mkfifo(fifo)
    words = ("--from-file", str(fifo), "--to-stream", "T", "--map", "s.>:t.>")
    async with connected(account.url) as nc:
        await filled(nc, "S", 50)
        await nc.jetstream().add_stream(name="T", subjects=["t.>"])
        assert (await run(shell, "messages", "copy", "S", "--to-file", str(file))).returncode == 0
        process = started(shell, *words)
        try:
            await waits_at(process, fifo)
            with await asyncio.to_thread(fifo.open, "wb") as writer:
                writer.write(file.read_bytes())
                writer.flush()
                await position_saved(tmp_path, 50)
        finally:
            process.kill()
            await asyncio.to_thread(process.communicate)


async def test_an_error_in_the_middle_leaves_a_copy_that_goes_on(
    shell: Shell, account: Account, tmp_path: Path
) -> None:
    file = tmp_path / "messages"
    words = ("--from-file", str(file), "--to-stream", "T", "--map", "s.>:t.>", "--json")
    async with connected(account.url) as nc:
        await filled(nc, "S", 50)
        await nc.jetstream().add_stream(name="T", subjects=["t.>"])
        assert (await run(shell, "messages", "copy", "S", "--to-file", str(file))).returncode == 0
        lines = file.read_bytes().splitlines(keepends=True)
        file.write_bytes(b"".join([*lines[:30], b"no message\n", *lines[31:]]))
        failed = await run(shell, "messages", "copy", *words)
        assert failed.returncode == 4 and ":31 is no message" in failed.stderr
        file.write_bytes(b"".join(lines))
        done = await run(shell, "messages", "copy", *words, "--resume")
        assert done.returncode == 0, done.stderr
        assert copied(done.stdout)["acknowledged_msgs"] == 20
        assert len(await counts(nc, "T")) == 50


async def waits_at(process: NatstuiProcess, path: Path) -> None:
    """Return once a process has opened a file."""
    async with asyncio.timeout(PATIENCE_S):
        while str(path) not in opened_by(process.pid):
            assert process.poll() is None
            await asyncio.sleep(0.05)


def opened_by(pid: int) -> set[str]:
    names = set[str]()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            names.add(str(descriptor.readlink()))
    return names


class Cutting:
    """A wire to the server that is cut once: at a request of JetStream, by its number."""

    def __init__(self, server: Broker, number: int | None) -> None:
        self._server = server
        self._number = number
        self.requests: list[bytes] = []

    async def join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await relay(reader, writer, self._server.url, self._up)

    def _up(self, data: bytes) -> bytes:
        verbs = re.findall(rb"PUB (\$JS\.API\.[^ ]+)", data)
        is_now = self._number in range(len(self.requests), len(self.requests) + len(verbs))
        self.requests += verbs
        if is_now:
            raise ConnectionResetError
        return data


@pytest.mark.long
async def test_at_whichever_request_the_connection_is_lost_a_copy_that_began_goes_on(
    nats_server: Broker, tmp_path: Path
) -> None:
    shell = Shell(nats_server.url, tmp_path)

    async def copied_through(wire: Cutting, target: str) -> tuple[Done, int]:
        await nc.jetstream().add_stream(name=target, subjects=[f"{target}.>"])
        async with serving(wire.join) as port:
            way = Shell(f"nats://127.0.0.1:{port}", shell.folder)
            words = ("S", "--to-stream", target, "--map", f"s.>:{target}.>", "--json")
            done = await run(way, "messages", "copy", *words)
        return done, (await nc.jetstream().stream_info(target)).state.messages

    async with connected(nats_server.url) as nc:
        await filled(nc, "S", 4)
        whole = Cutting(nats_server, None)
        done, stored_msgs = await copied_through(whole, "T")
        assert (done.returncode, stored_msgs) == (0, 4), done.stderr
        began = False
        for number, request in enumerate(whole.requests):
            done, stored_msgs = await copied_through(Cutting(nats_server, number), f"T{number}")
            began |= stored_msgs > 0
            is_whole = (done.returncode, stored_msgs) == (0, 4)
            assert is_whole if began else done.returncode, (number, request, done.stderr)
        assert began


def test_a_copy_that_waits_for_its_last_look_ends_with_the_first_signal(
    shell: Shell, nats_server: Broker, held_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copy, "_DRAIN_TIMEOUT_S", 0.5)
    over = threading.Event()

    async def work(begin: Begin) -> None:
        async with connected(nats_server.url) as nc:
            await filled(nc, "S", 4)
            await nc.jetstream().add_stream(name="T", subjects=["t.>"])
        gone = asyncio.Event()

        def look(data: bytes) -> bytes:
            # The newest message of the target is looked at when all are acknowledged.
            if gone.is_set() or b"PUB $JS.API.STREAM.MSG.GET.T" in data:
                gone.set()
                raise ConnectionResetError
            return data

        async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await relay(reader, writer, nats_server.url, look)

        async with serving(join, held_port):
            begin()
            await gone.wait()
            stop(signal.SIGINT)
            while not over.is_set():
                await asyncio.sleep(0.02)

    words = ("messages", "copy", "S", "--to-stream", "T", "--map", "s.>:t.>")
    environment = Shell(f"nats://127.0.0.1:{held_port}", shell.folder).environment
    done = run_beside(work, *words, environment=environment, ended=over)
    assert done.returncode == 130, done
