"""Browsing a work queue of a million messages: how long a page takes, and what it disturbs."""

from __future__ import annotations

import asyncio
import json
import resource
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks._browse_screen import measure_screen
from natstui.config import Connection
from natstui.jetstream.connection.client import Client, connect
from natstui.jetstream.messages.browse import browse
from natstui.jetstream.testbed.broker import Broker
from natstui.model.records.messages import BrowseMessages

COUNT = 1_000_000
PAYLOAD = (
    b'{"order": 1, "what": "an ordinary message of about a hundred bytes", "filled": "up to here"}'
)

JUMPS = {
    "first page": {},
    "oldest": {"newer": True},
    "sequence in the middle": {"from_seq": COUNT // 2, "newer": True},
    "page before the middle": {"from_seq": COUNT // 2},
    "newest of one subject in 100": {"filter_subject": "w.7"},
    "one subject before the middle": {"filter_subject": "w.7", "from_seq": COUNT // 2},
    "ack floor": {"consumer": "C", "jump": "ack_floor"},
    "first not acknowledged": {"consumer": "C", "jump": "first_unacked"},
    "next to deliver": {"consumer": "C", "jump": "next_to_deliver"},
    "last per subject": {"last_per_subject": True},
}


async def fill(client: Client) -> None:
    """Store the messages without acknowledgements, and take and ack some."""
    for number in range(COUNT):
        if number % 5000 == 4999:  # its acknowledgement is that of all before it
            await client.request_subject(f"w.{number % 100}", PAYLOAD, timeout_s=60)
        else:
            await client.nc.publish(f"w.{number % 100}", PAYLOAD)
    inbox = client.nc.new_inbox()
    taken = await client.nc.subscribe(inbox)
    body = json.dumps({"batch": 1000, "no_wait": True}).encode()
    await client.publish("$JS.API.CONSUMER.MSG.NEXT.W.C", body, reply=inbox)
    for number in range(1000):
        message = await taken.next_msg(timeout=10)
        if number % 3:
            await client.request_subject(message.reply, b"+ACK")
    await taken.unsubscribe()


async def consumer_state(client: Client) -> dict[str, object]:
    """Return what browsing must not change."""
    info = json.loads(await client.request("CONSUMER.INFO.W.C"))
    return {key: value for key, value in info.items() if key != "ts"}


async def measure(url: str, *, direct: bool) -> None:
    """Fill a stream, then time every jump five times."""
    client = await connect(Connection(servers=(url,)))
    queue = {"name": "W", "subjects": ["w.*"], "retention": "workqueue", "allow_direct": direct}
    await client.request("STREAM.CREATE.W", queue)
    consumer = {"durable_name": "C", "ack_policy": "explicit", "ack_wait": 3600 * 10**9}
    consumer["max_ack_pending"] = 5000
    body = {"stream_name": "W", "config": consumer, "action": "create"}
    await client.request("CONSUMER.CREATE.W.C", body)
    started = time.monotonic()
    await fill(client)
    stored = json.loads(await client.request("STREAM.INFO.W"))["state"]["messages"]
    how = "direct gets" if direct else "one by one"
    print(f"{stored:,} messages in {time.monotonic() - started:.0f} s, read by {how}", flush=True)
    before, memory = await consumer_state(client), resource.getrusage(resource.RUSAGE_SELF)
    for name, words in JUMPS.items():
        took = []
        for _ in range(5):
            at = time.perf_counter()
            page = await browse(client, BrowseMessages(0, "W", **words))  # type: ignore[arg-type]
            took.append(1000 * (time.perf_counter() - at))
        shown = f"median {statistics.median(took):6.1f} ms, most {max(took):6.1f} ms"
        print(f"  {name:32}{shown}, {len(page.messages)} messages")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory.ru_maxrss
    print(f"  memory grew by {grown / 1024:.1f} MiB")
    middle = json.loads(await client.request("STREAM.MSG.GET.W", {"seq": COUNT // 2}))
    await measure_screen(url, COUNT, middle["message"]["time"])
    same = "unchanged" if await consumer_state(client) == before else "CHANGED"
    print(f"  the consumer's state is {same}", flush=True)
    await client.close()


def main() -> None:
    """Measure both ways to read."""
    for direct in (True, False):
        with tempfile.TemporaryDirectory() as folder, Broker(store=Path(folder)) as broker:
            asyncio.run(measure(broker.url, direct=direct))


if __name__ == "__main__":
    main()
