"""Backup and restore of a million messages, against the same bytes sent by hand with nats-py.

Raw and ours take turns, for both hear the same neighbours. What was restored is compared by
reading both streams with nats-py alone: sequences, holes, subjects, headers, times, payloads.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import nats
from nats.aio.client import Client as Plain
from nats.errors import TimeoutError as Silent

from natstui.config import Connection
from natstui.jetstream.connection.client import Client, connect
from natstui.jetstream.connection.journal import Journal
from natstui.jetstream.connection.writer import Writer
from natstui.jetstream.managing.backup import back_up_stream
from natstui.jetstream.managing.backup_folder import read_backup
from natstui.jetstream.managing.restore import RestoreRequest, restore_stream
from natstui.jetstream.managing.snapshot import RateLimit
from natstui.jetstream.testbed.broker import Broker

COUNT = 1_000_000
HOLES = 500
ROUNDS = 5
PAYLOAD = b'{"order": %d, "what": "an ordinary message of about a hundred bytes", "to": "here"}'


async def fill(client: Client) -> None:
    """Store messages of 1,000 subjects, every tenth with a header; then make holes in them."""
    config = {"name": "S", "subjects": ["s.>"], "max_msgs_per_subject": 2000,
              "compression": "s2", "allow_direct": True}  # fmt: skip
    await client.request("STREAM.CREATE.S", config)
    for number in range(1, COUNT + 1):
        subject, data = f"s.{number % 1000}", PAYLOAD % number
        if number % 5000 == 0:  # its acknowledgement is that of all before it
            await client.request_subject(subject, data, timeout_s=60)
        elif number % 10 == 0:
            await client.nc.publish(subject, data, headers={"Kind": f"k{number % 7}"})
        else:
            await client.nc.publish(subject, data)
    for at in range(1, HOLES + 1):
        await client.request("STREAM.MSG.DELETE.S", {"seq": at * (COUNT // (HOLES + 1))})
    consumer = {"durable_name": "C", "ack_policy": "explicit", "max_ack_pending": 5000}
    body = {"stream_name": "S", "config": consumer, "action": "create"}
    await client.request("CONSUMER.CREATE.S.C", body)


async def api(plain: Plain, verb: str, body: object = None) -> dict[str, Any]:
    """Ask the API with nats-py alone."""
    asked = json.dumps(body).encode() if body is not None else b""
    reply: dict[str, Any] = json.loads(
        (await plain.request(f"$JS.API.{verb}", asked, timeout=600)).data
    )
    assert "error" not in reply, reply
    return reply


async def raw_backup(plain: Plain, file: Path) -> dict[str, Any]:
    """Take the chunks and confirm each; write them, and do nothing else."""
    inbox = plain.new_inbox()
    arriving = await plain.subscribe(inbox)
    answer = await api(plain, "STREAM.SNAPSHOT.S", {"deliver_subject": inbox})
    with file.open("wb") as out:
        while (msg := await arriving.next_msg(timeout=60)).data:
            out.write(msg.data)
            if msg.reply:
                await plain.publish(msg.reply)
    await arriving.unsubscribe()
    return answer


async def raw_restore(plain: Plain, answer: dict[str, Any], file: Path) -> None:
    """Send the chunks, each answered, and nothing else."""
    config = {**answer["config"], "name": "RAW", "subjects": ["raw.>"]}
    body = {"config": config, "state": answer["state"]}
    subject = (await api(plain, "STREAM.RESTORE.RAW", body))["deliver_subject"]
    with file.open("rb") as data:
        while chunk := data.read(128 * 1024):
            await plain.request(subject, chunk, timeout=60)
    await plain.request(subject, b"", timeout=600)


async def timed(work: Callable[[], Awaitable[object]]) -> tuple[float, float]:
    """Return wall and our own processor seconds."""
    at, cpu = time.perf_counter(), time.process_time()
    await work()
    return time.perf_counter() - at, time.process_time() - cpu


def print_ratio(
    what: str, ours: list[tuple[float, float]], raw: list[tuple[float, float]]
) -> None:
    """Print medians, and the median of the ratios of neighbours."""
    ratios = [one[0] / other[0] for one, other in zip(ours, raw, strict=True)]
    for name, took in ((f"{what}, ours", ours), (f"{what}, raw", raw)):
        walls, cpus = zip(*took, strict=True)
        print(
            f"  {name:14} wall median {statistics.median(walls):6.2f} s, least {min(walls):6.2f} s"
            f"; own cpu median {statistics.median(cpus):5.2f} s"
        )
    shown = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    least = min(one[0] for one in ours) / min(one[0] for one in raw)
    print(
        f"  {what}: {statistics.median(ratios):.2f}× of raw (median of {shown}); "
        f"least against least {least:.2f}×",
        flush=True,
    )


async def contents(plain: Plain, stream: str) -> tuple[int, int, str]:
    """Return messages, holes and a digest of all a stream holds, read with nats-py alone."""
    digest, count, holes, last = hashlib.sha256(), 0, 0, 0
    subscription = await plain.jetstream().subscribe(
        ">", stream=stream, ordered_consumer=True, pending_msgs_limit=-1, pending_bytes_limit=-1
    )
    while True:
        try:
            msg = await subscription.next_msg(timeout=60)
        except Silent:
            break
        about = msg.metadata
        holes += about.sequence.stream - last - 1
        last = about.sequence.stream
        headers = sorted((msg.headers or {}).items())
        digest.update(f"{last} {msg.subject} {about.timestamp} {headers} ".encode() + msg.data)
        count += 1
        if not about.num_pending:
            break
    await subscription.unsubscribe()
    return count, holes, digest.hexdigest()


async def measure(url: str, folder: Path) -> None:
    """Fill, take turns, compare."""
    client, plain = await connect(Connection(servers=(url,))), await nats.connect(url)
    at = time.monotonic()
    await fill(client)
    state = (await api(plain, "STREAM.INFO.S"))["state"]
    print(f"  {state['messages']:,} messages in {time.monotonic() - at:.0f} s, "
          f"{state['bytes']:,} bytes", flush=True)  # fmt: skip
    own, raw, answer = folder / "own", folder / "raw", dict[str, Any]()
    writer = Writer(client, Journal(folder / "journal"))
    backups: list[list[tuple[float, float]]] = [[], []]
    for _ in range(ROUNDS):
        shutil.rmtree(own, ignore_errors=True)
        backups[0].append(await timed(lambda: back_up_stream(
            client, "S", own, RateLimit(), lambda *_: None, consumers=True)))  # fmt: skip

        async def by_hand() -> None:
            answer.update(await raw_backup(plain, raw))

        backups[1].append(await timed(by_hand))
    print_ratio("backup", *backups)
    wanted = RestoreRequest(read_backup(own), "OWN", subjects=("own.>",))
    restores: list[list[tuple[float, float]]] = [[], []]
    for number in range(ROUNDS):
        if number:
            for name in ("OWN", "RAW"):
                await api(plain, f"STREAM.DELETE.{name}")
        restores[0].append(
            await timed(lambda: restore_stream(writer, wanted, RateLimit(), lambda *_: None, []))
        )
        restores[1].append(await timed(lambda: raw_restore(plain, answer, raw)))
    print_ratio("restore", *restores)
    before, after = await contents(plain, "S"), await contents(plain, "OWN")
    same = "the same" if before == after else "ANOTHER"
    found = f"{after[0]:,} messages, {after[1]:,} holes"
    print(f"  restored {found}: content is {same} ({after[2][:16]})")
    await plain.close()
    await client.close()


def main() -> None:
    """Measure one stream on one server."""
    print(f"  load of this machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Broker(store=folder / "store") as broker:
            asyncio.run(measure(broker.url, folder))


if __name__ == "__main__":
    main()
