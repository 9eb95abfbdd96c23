"""`natstui consumer next`, and who leads or is pinned, against real servers."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import nats
import nats.errors
import pytest

from natstui.jetstream.testbed.cluster import Cluster
from tests.accounts import Account
from tests.cli.test_core import connected, run
from tests.cli.test_manage import Shell
from tests.jetstream.pending import until_pending

pytestmark = pytest.mark.server


@pytest.fixture
def shell(account: Account, tmp_path: Path) -> Shell:
    return Shell(account.url, tmp_path)


async def filled(url: str, count: int) -> None:
    async with connected(url) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s"], storage="memory")
        await js.add_consumer("S", durable_name="C", ack_policy="explicit")
        for number in range(count):
            await js.publish("s", b"%d" % number, headers={"K": "v"})
        await until_pending(js, "S", count, "C")


async def test_messages_are_taken_and_acknowledged_or_come_again_as_was_said(
    shell: Shell, account: Account
) -> None:
    await filled(account.url, 3)
    unsaid = await run(shell, "consumer", "next", "S", "C")
    assert unsaid.returncode == 2 and "use --ack" in unsaid.stderr
    taken = await run(shell, "consumer", "next", "S", "C", "--ack", "--count", "2", "--raw")
    assert taken.stdout == "0\n1\n", taken.stderr
    kept = await run(shell, "consumer", "next", "S", "C", "--no-ack", "--json")
    found = json.loads(kept.stdout)
    assert (found["stream_seq"], found["deliveries_count"], found["pending_msgs"]) == (3, 1, 0)
    assert found["headers"] == [["K", "v"]]
    state = json.loads(await asyncio.to_thread(shell.ok, "consumer", "info", "S", "C", "--json"))
    assert (state["num_ack_pending"], state["ack_floor"]["stream_seq"]) == (1, 2)
    none = await run(shell, "consumer", "next", "S", "C", "--ack", "--wait", "200ms")
    assert (none.returncode, none.stdout) == (4, "")
    entries = json.loads(await asyncio.to_thread(shell.ok, "journal", "--json"))
    assert sorted(one["action"] for one in entries) == ["answer", "answer", "pull", "pull", "pull"]


@pytest.mark.parametrize(
    "status",
    [
        "404",
        "100",
        *(pytest.param(status, marks=pytest.mark.long) for status in ("408", "409", "503")),
    ],
)
async def test_a_message_with_a_status_of_its_publisher_is_a_message(
    shell: Shell, account: Account, status: str
) -> None:
    async with connected(account.url) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s"], allow_direct=True)
        await js.add_consumer("S", durable_name="C", ack_policy="explicit")
        await js.add_consumer("S", durable_name="D", ack_policy="explicit")
        await js.add_consumer(
            "S", durable_name="P", ack_policy="explicit", deliver_subject="d.p", deliver_group="g"
        )
        for number in range(3):
            await js.publish("s", b"%d" % number, headers={"Status": status, "Description": "x"})
    taken = await run(shell, "consumer", "next", "S", "C", "--ack", "--count", "3", "--raw")
    assert (taken.returncode, taken.stdout) == (0, "0\n1\n2\n"), taken.stderr
    for consumer in ("D", "P"):
        words = ("consumer", "sub", "S", consumer, "--ack", "--count", "3", "--duration", "20s")
        received = await run(shell, *words, "--json")
        assert received.returncode == 0, received.stderr
        assert [json.loads(line)["stream_seq"] for line in received.stdout.splitlines()] == [
            1, 2, 3,
        ]  # fmt: skip
    viewed = await run(shell, "stream", "view", "S", "--json")
    assert viewed.returncode == 0, viewed.stderr
    assert [json.loads(line)["stream_seq"] for line in viewed.stdout.splitlines()] == [1, 2, 3]


async def test_nothing_is_taken_where_nothing_may_be_changed(
    shell: Shell, account: Account
) -> None:
    await filled(account.url, 1)
    words = ("consumer", "next", "S", "C", "--ack")
    assert (await run(shell, *words, "--read-only")).returncode == 5
    shell.environment["NATSTUI_CONNECTION_PRODUCTION"] = "true"
    refused = await run(shell, *words, "--yes")
    assert refused.returncode == 5 and "this is production" in refused.stderr
    state = json.loads(await asyncio.to_thread(shell.ok, "consumer", "info", "S", "C", "--json"))
    assert (state["num_pending"], state["num_ack_pending"]) == (1, 0)
    taken = await run(shell, *words, "--confirm", "C", "--raw")
    assert taken.stdout == "0\n", taken.stderr


async def test_a_pin_is_taken_from_the_client_that_has_it(shell: Shell, account: Account) -> None:
    async with connected(account.url) as nc:
        await nc.jetstream().add_stream(name="S", subjects=["s"], storage="memory")
        config = {"durable_name": "C", "name": "C", "ack_policy": "explicit",
                  "priority_policy": "pinned_client", "priority_groups": ["g"]}  # fmt: skip
        body = json.dumps({"stream_name": "S", "config": config}).encode()
        made = await nc.request("$JS.API.CONSUMER.CREATE.S.C", body, timeout=30)
        assert "error" not in json.loads(made.data), made.data
        unpinned = await nc.subscribe("$JS.EVENT.ADVISORY.CONSUMER.UNPINNED.S.C")
        await nc.jetstream().publish("s", b"x")
        pull = json.dumps({"batch": 1, "expires": 60_000_000_000, "group": "g"}).encode()
        inbox = nc.new_inbox()
        arrived = await nc.subscribe(inbox)
        await nc.publish("$JS.API.CONSUMER.MSG.NEXT.S.C", pull, reply=inbox)
        pinned = ((await arrived.next_msg(30)).headers or {})["Nats-Pin-Id"]
        done = await run(shell, "consumer", "unpin", "S", "C", "g")
        assert done.returncode == 0, done.stderr
        told = json.loads((await unpinned.next_msg(30)).data)
        assert (told["group"], told["reason"]) == ("g", "admin")
        info = json.loads((await nc.request("$JS.API.CONSUMER.INFO.S.C", timeout=30)).data)
    assert pinned not in json.dumps(info.get("priority_groups"))


@pytest.mark.long
@pytest.mark.cluster
async def test_another_server_leads_after_a_step_down(
    nats_cluster: Cluster, tmp_path: Path
) -> None:
    url = nats_cluster.urls[0].replace("//", "//app:app@")
    shell = Shell(url, tmp_path)
    nc = await nats.connect(url)
    await nc.jetstream(timeout=30).add_stream(name="S", subjects=["s"], num_replicas=3)
    await nc.jetstream(timeout=30).add_consumer("S", durable_name="C", ack_policy="explicit")

    async def leader(verb: str) -> str | None:
        try:
            info = json.loads((await nc.request(f"$JS.API.{verb}", timeout=2)).data)
        except nats.errors.TimeoutError:
            return None  # without a leader nobody answers
        found: str | None = (info.get("cluster") or {}).get("leader")
        return found

    for words, verb in (
        (("stream", "step-down", "S"), "STREAM.INFO.S"),
        (("consumer", "step-down", "S", "C"), "CONSUMER.INFO.S.C"),
    ):
        before = await leader(verb)
        done = await run(shell, *words)
        assert done.returncode == 0, done.stderr
        async with asyncio.timeout(60):
            while (now := await leader(verb)) in (None, "", before):
                await asyncio.sleep(0.2)
        assert now != before
    await nc.close()


@pytest.mark.cluster
async def test_no_server_steps_down_for_one_that_cannot_lead(
    cluster_account: Account, tmp_path: Path
) -> None:
    shell = Shell(cluster_account.url, tmp_path)
    async with connected(cluster_account.url) as nc:
        js = nc.jetstream(timeout=30)
        await js.add_stream(name="ONE", subjects=["one"], num_replicas=1)
        await js.add_consumer("ONE", durable_name="C", ack_policy="explicit")
        await js.add_stream(name="THREE", subjects=["three"], num_replicas=3)
    for words, sentence in (
        (("stream", "step-down", "ONE"), "ONE is only on "),
        (("consumer", "step-down", "ONE", "C"), "C on ONE is only on "),
        (("stream", "step-down", "THREE", "--preferred", "n9"), "n9 has no copy of THREE"),
    ):
        done = await run(shell, *words, "--force")
        assert done.returncode == 2, (words, done.stdout, done.stderr)
        assert sentence in done.stderr
        assert "stepped down" not in done.stdout
