"""One cluster, its faults one after the other, and what a poller and `watch` said of each.

Run `python -m tests.jetstream.cluster_matrix` for every cell; the suite runs some of them.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import nats
from nats.aio.client import Client as Nats

from natstui.cli.watch.lines import json_line
from natstui.cli.watch.run import WatchCollector, all_rows
from natstui.config import Connection, Secret
from natstui.errors import ConnectionLost, RequestFailed
from natstui.jetstream.connection.client import Client, connect
from natstui.jetstream.connection.times import time_us
from natstui.jetstream.events.subscriptions import read_events
from natstui.jetstream.polling.control import PollControl
from natstui.jetstream.polling.poller import poll
from natstui.jetstream.testbed.cluster import Cluster
from natstui.model.columns.consumers import ConsumerRow
from natstui.model.columns.streams import StreamRow
from natstui.model.live.known_rows import RowKey
from natstui.model.live.rates import stream_rates
from natstui.model.live.snapshot import Snapshot
from natstui.model.live.state import State
from natstui.model.records.record import Advisory, Configured, LinkChanged, Record, Unavailable
from tests.ending import ended

FAULTS = ("kill", "freeze", "restart", "quorum")
WHICH = ("connected", "other")
CELLS = tuple((fault, which) for fault in FAULTS for which in WHICH)

_PER_S = 20
_BEFORE_S, _AFTER_S = 4.0, 5.0
_FAULT_S = 13.0
_NOTICED_S = 8.0
"""How much longer a freeze of the node we are connected to lasts: until pings tell of it."""
_NAMED_S = 10.0
_LIST_S, _INTERVAL_S = 4.0, 1.0
_CLEARED_S = _LIST_S + 2 * _INTERVAL_S
"""A list asked for just before the recovery is answered in part, and after `_LIST_S`; the next
begins an interval later, and has until the one after that.
"""
_ASKED_EVERY_S = 0.1
"""How often we ask the leaders ourselves."""
_AT_ONCE_S = 0.5
"""All of them answer within this, where each has a leader."""
_BACK_S = 40.0
_WALL_S = time.time() - time.monotonic()
_R1 = ("R1n1", "R1n2", "R1n3")
_R3 = ("R3a", "R3b", "R3c")


@dataclass
class Seen:
    """One poll as it was taken up: when, and what was known then."""

    mono_s: float
    state: State


class Watcher:
    """The engine's parts as the viewer has them, and those of `watch --json` beside them."""

    def __init__(self) -> None:
        self.control = PollControl(_INTERVAL_S)
        self.collector = WatchCollector()
        self.records: list[tuple[float, Record]] = []
        self.seen: list[Seen] = []
        self.lines: list[tuple[float, dict[str, Any]]] = []

    @property
    def state(self) -> State:
        return self.collector.state

    def add(self, record: Record) -> None:
        now_s = time.monotonic()
        self.records.append((now_s, record))
        self.collector.add(record)
        if isinstance(record, Snapshot):
            self.seen.append(Seen(now_s, self.state))

    def write(self) -> None:
        """Note what `watch --json` says at this moment."""
        now_s = time.monotonic()
        for row in self.collector.pop_events():
            self.lines.append((now_s, {f: getattr(row, f) for f in row.__struct_fields__}))
        for row in all_rows(self.state):
            if isinstance(row, StreamRow | ConsumerRow) and row.is_stale:
                self.lines.append((now_s, json.loads(json_line(row))))


@dataclass
class Report:
    """What one cell showed; `faults` are the sentences of what was wrong."""

    cell: str
    rates_count: int = 0
    unknown_count: int = 0
    worst_percent: float = 0.0
    beats: str = ""
    named_s: float | None = None
    json_s: float | None = None
    cleared_s: float | None = None
    slack_s: float = 0.0
    """How long a busy machine made even a question to a living leader wait."""
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        numbers = (
            f"{self.cell:18} rates {self.rates_count:4} unknown {self.unknown_count:3} "
            f"worst {self.worst_percent:5.1f} %  healthy {self.beats:22} "
            f"named {_s(self.named_s)} json {_s(self.json_s)} cleared {_s(self.cleared_s)} "
            f"slack {_s(self.slack_s)}"
        )
        return "\n    ".join([numbers, *self.faults])


def _s(seconds: float | None) -> str:
    return "  -   " if seconds is None else f"{seconds:5.2f} s"


class Bench:
    """A cluster with streams on every node, and a load of known rate on each."""

    def __init__(self, cluster: Cluster, client: Client) -> None:
        self.cluster = cluster
        self.client = client
        self.truth: dict[str, list[tuple[float, int]]] = {}
        """Stream → when, on our monotonic clock, its last sequence was which."""
        self.trips: dict[str, list[tuple[float, float]]] = {}
        """Stream → when we asked its leader, and how long the answer took."""

    async def prepare(self) -> None:
        for i, name in enumerate(_R1, start=1):
            await self._make({"name": name, "placement": {"tags": [f"n{i}"]}}, 1)
        for name in _R3:
            await self._make({"name": name}, 3)

    async def _make(self, words: dict[str, Any], replicas_count: int) -> None:
        name = words["name"]
        config = {**words, "subjects": [name], "num_replicas": replicas_count}
        await self.client.request(f"STREAM.CREATE.{name}", config)
        body = {"stream_name": name, "config": {"durable_name": "C", "ack_policy": "explicit"}}
        await self.client.request(f"CONSUMER.DURABLE.CREATE.{name}.C", body)

    async def leaders(self) -> dict[str, str]:
        """Return who leads each stream, once everybody does."""
        while True:
            reply = json.loads(await self.client.request("STREAM.LIST"))
            led = {s["config"]["name"]: s["cluster"].get("leader") for s in reply["streams"]}
            if not reply.get("missing") and len(led) == len(_R1 + _R3) and all(led.values()):
                return led
            await asyncio.sleep(0.2)

    async def meta_leader(self) -> str:
        """Return the node that answers lists, asked in a thread."""
        url = next(node for node in self.cluster.nodes if node.is_running).monitoring_url
        body = await asyncio.to_thread(lambda: urllib.request.urlopen(url + "/jsz").read())
        leader: str = json.loads(body)["meta_cluster"]["leader"]
        return leader

    async def observe(self) -> None:
        """Ask every leader ten times a second: when which sequence was the last, by its clock."""
        while True:
            began_s = time.monotonic()
            for reply in await asyncio.gather(
                *(self._ask(f"STREAM.INFO.{name}") for name in _R1 + _R3)
            ):
                if reply is not None:
                    at_s = time_us(reply["ts"]) / 1e6 - _WALL_S
                    seq = reply["state"]["last_seq"]
                    self.truth.setdefault(reply["config"]["name"], []).append((at_s, seq))
            await asyncio.sleep(max(0.0, began_s + _ASKED_EVERY_S - time.monotonic()))

    async def answers(self, names: set[str]) -> None:
        """Return when everybody's leader answers, and the one of lists: the servers are back."""
        for name in names:
            for verb in (f"STREAM.INFO.{name}", f"CONSUMER.INFO.{name}.C"):
                reply = None
                while reply is None or not reply["cluster"].get("leader"):
                    reply = await self._ask(verb)
        await asyncio.gather(*(self._lists(name) for name in names))

    async def _lists(self, name: str) -> None:
        """Return when consumers are listed: by the cluster's leader, which may come last."""
        while not (await self._ask(f"CONSUMER.LIST.{name}") or {}).get("consumers"):
            pass

    async def keep_asking(self, names: set[str], back: list[float]) -> None:
        """Ask everybody on and on, and note when the last of them answered after all.

        A leader that was just elected may fall once more: until then the servers are not back.
        """
        while True:
            asked_s = time.monotonic()
            await self.answers(names)
            if time.monotonic() - asked_s > _AT_ONCE_S:
                back.append(time.monotonic())
            await asyncio.sleep(0.2)

    async def _ask(self, verb: str) -> Any:
        """Return an answer; None when there is none soon, or it says no."""
        asked_s = time.monotonic()
        try:
            reply = json.loads(await self.client.request(verb, timeout_s=0.7))
            if verb.startswith("STREAM.INFO."):
                trips = self.trips.setdefault(reply["config"]["name"], [])
                trips.append((asked_s, time.monotonic() - asked_s))
            return reply
        except (RequestFailed, ConnectionLost):
            await asyncio.sleep(0.05)
            return None


async def publish_all(urls: tuple[str, ...], stop: asyncio.Event) -> None:
    """Publish `_PER_S` a second to every stream, whatever happens to it."""
    nc: Nats = await nats.connect(
        list(urls), user="app", password="app", max_reconnect_attempts=-1,
        reconnect_time_wait=0.1, ping_interval=1, max_outstanding_pings=2, error_cb=_hear,
    )  # fmt: skip
    began_s, count = time.monotonic(), 0
    while not stop.is_set():
        for name in _R1 + _R3:
            if nc.is_connected:
                await nc.publish(name, b"x" * 100)
        count += 1
        await asyncio.sleep(max(0.0, began_s + count / _PER_S - time.monotonic()))
    await nc.close()


async def _hear(_error: Exception) -> None:
    """Go on: the load is of no use to anybody but us."""


@asynccontextmanager
async def watching(urls: tuple[str, ...]) -> AsyncIterator[tuple[Watcher, Client]]:
    """Poll and listen as an engine does, connected to the first address."""
    watcher = Watcher()
    connection = Connection(servers=urls, user="app", password=Secret("app"))
    client = await connect(connection, on_link=watcher.add)

    async def write() -> None:
        while True:
            await asyncio.sleep(0.2)
            watcher.write()

    works = (poll(client, watcher.control, watcher), read_events(client, watcher), write())
    tasks = [asyncio.create_task(work) for work in works]
    try:
        yield watcher, client
    finally:
        for task in tasks:
            task.cancel()
        await ended(*tasks)
        await client.close()


@contextmanager
def _faulty(cluster: Cluster, fault: str, nodes: list[str]) -> Iterator[Callable[[], None]]:
    """Do the fault; the value makes it good again."""
    hit = [cluster.node(name) for name in nodes]

    def mend() -> None:
        for node in hit:
            if fault == "freeze":
                node.thaw()
            elif not node.is_running:
                node.start()

    for node in hit:
        {"freeze": node.freeze, "restart": node.stop}.get(fault, node.kill)()
    try:
        yield mend
    finally:
        mend()


async def run_cell(bench: Bench, fault: str, which: str) -> Report:
    """Let one fault happen and pass; return what was seen of it."""
    report = Report(f"{fault} {which}")
    cluster, led = bench.cluster, await bench.leaders()
    # The bench's own connection stands on n1, which is never the one to fall.
    meta, names = await bench.meta_leader(), ["n2", "n3"]
    async with watching(_urls_from(cluster, "n2" if which == "connected" else "n1")) as (w, _):
        while len(w.state.streams) < len(led):
            await asyncio.sleep(0.1)
        # As a screen does that has all of them in view.
        w.control.set_visible(tuple(led), tuple((name, "C") for name in led))
        await asyncio.sleep(_BEFORE_S)
        nodes = names if fault == "quorum" else ["n2"]
        lost = {name for name in _R1 if led[name] in nodes}
        began_s = time.monotonic()
        with _faulty(cluster, fault, nodes) as mend:
            if fault != "restart":
                unnoticed = fault == "freeze" and which == "connected"
                await asyncio.sleep(_FAULT_S + (_NOTICED_S if unnoticed else 0))
            await asyncio.to_thread(mend) if fault == "freeze" else mend()
            mended_s = time.monotonic()
            async with asyncio.timeout(_BACK_S):
                await bench.answers(set(led))
            back = [time.monotonic()]
            asking = asyncio.create_task(bench.keep_asking(set(led), back))
            trouble: list[str] = []
            while not _is_clear(w.state) and time.monotonic() < back[-1] + 20:
                trouble = _trouble(w.state)
                await asyncio.sleep(0.05)
            report.cleared_s = max(0.0, time.monotonic() - back[-1])
            asking.cancel()
        await asyncio.sleep(_AFTER_S)
    report.cell += f" (meta {meta}, lost {len(lost)})"
    connected_s = _connected_again_s(w, began_s)
    whole = (set(_R1) - lost) | {n for n in _R3 if led[n] not in nodes and fault != "quorum"}
    report.slack_s = _slack_s(bench, whole, connected_s)
    named = lost if fault != "restart" else set()
    _judge_names(report, w, named, began_s, connected_s, mended_s)
    _judge_rhythm(report, w, whole, connected_s, mended_s)
    _judge_events(report, w, set(led), began_s)
    late = sorted(trip for name in whole for trip in bench.trips[name])
    for name in (*_R1, *_R3):
        _judge_rates(report, w, name, bench.truth[name], late)
    if report.cleared_s > _CLEARED_S + report.slack_s:
        report.faults.append(f"{report.cleared_s:.1f} s after the recovery: {trouble}")
    return report


def _slack_s(bench: Bench, healthy: set[str], from_s: float) -> float:
    """Return by how much the machine itself was late: our own question to a living leader.

    Those are asked past everything that is tested here; one round waits 0.7 s for the dead.
    """
    gaps = [0.9]
    for name in healthy:
        times = sorted(at_s for at_s, _ in bench.truth[name] if at_s > from_s)
        gaps += [later - earlier for earlier, later in pairwise(times)]
    return 2 * (max(gaps) - 0.9)


def _urls_from(cluster: Cluster, first: str) -> tuple[str, ...]:
    ordered = sorted(cluster.nodes, key=lambda node: (node.name != first, node.name))
    return tuple(node.url for node in ordered)


def _is_clear(state: State) -> bool:
    return not _trouble(state)


def _trouble(state: State) -> list[str]:
    """Return what is still said to be amiss."""
    columns = state.streams.columns
    led = zip(columns.name, columns.leader, strict=True)
    return [
        *(f"unreachable {name}" for name in sorted(state.unreachable_streams)),
        *(f"unreachable {name}" for name in sorted(state.unreachable_consumers)),
        *(f"{it.what}: {it.reason}" for it in state.unavailable.values()),
        *(f"no leader of {name}" for name, leader in led if leader is None),
    ]


def _connected_again_s(w: Watcher, began_s: float) -> float:
    """Return when the first link after the fault stood; the fault if it never fell."""
    links = [(at_s, r) for at_s, r in w.records if isinstance(r, LinkChanged) and at_s > began_s]
    return next((at_s for at_s, r in links if r.state == "connected"), began_s)


def _judge_names(
    report: Report, w: Watcher, lost: set[str], began_s: float, stood_s: float, mended_s: float
) -> None:
    """Every stream that is gone is named, on the screen and in lines."""
    if not lost:
        return
    during = [s for s in w.seen if began_s < s.mono_s < mended_s]
    named = [s.mono_s for s in during if lost <= s.state.unreachable_streams]
    # Without a connection every row grows stale on the screen, and the link says why.
    report.named_s = named[0] - max(began_s, stood_s) if named else None
    if report.named_s is None or report.named_s > _NAMED_S + report.slack_s:
        report.faults.append(f"the dead streams {sorted(lost)} were named after {report.named_s}")
    for seen in during:
        columns = seen.state.streams.columns
        for name, leader in zip(columns.name, columns.leader, strict=True):
            if name in lost & seen.state.unreachable_streams and leader is not None:
                report.faults.append(f"{name} is unreachable, and led by {leader}")
                break
    told = [
        min((at_s for at_s, line in w.lines if at_s > began_s and test(name, line)), default=None)
        for name in lost
        for test in (_is_stale_line, _is_unavailable_line)
    ]
    if None in told:
        report.faults.append("watch --json did not name every dead stream")
    else:
        report.json_s = max(at_s for at_s in told if at_s is not None) - max(began_s, stood_s)
        if report.json_s > _NAMED_S + report.slack_s:
            report.faults.append(f"watch --json named the dead after {report.json_s:.1f} s")


def _is_stale_line(name: str, line: dict[str, Any]) -> bool:
    return line["name"] == name and line.get("stale") is True


def _is_unavailable_line(name: str, line: dict[str, Any]) -> bool:
    return line.get("name") == f"STREAM.INFO.{name}" and "reason" in line


def _judge_rhythm(
    report: Report, w: Watcher, healthy: set[str], from_s: float, to_s: float
) -> None:
    """Streams whose leaders live are read as often as before."""
    gaps: list[float] = []
    for name in healthy:
        seen = (_sampled_s(s.state, name) for s in w.seen if from_s < s.mono_s < to_s)
        times = sorted({sampled_s for sampled_s in seen if sampled_s > from_s})
        gaps += [later - earlier for earlier, later in pairwise(times)]
    if not gaps or to_s - from_s < 3:
        return
    middle = sorted(gaps)[len(gaps) // 2]
    report.beats = f"each {middle:.2f}, longest {max(gaps):.2f} s"
    # Gaps are whole polls of a little more than a second: four of them, not five.
    if middle > 1.6 + report.slack_s or max(gaps) > 4.5 + report.slack_s:
        report.faults.append(f"healthy rows came every {middle:.2f} s, at most {max(gaps):.2f} s")


def _sampled_s(state: State, name: str) -> float:
    columns = state.streams.columns
    return columns.sampled_mono_us[columns.name.index(name)] / 1e6


def _judge_events(report: Report, w: Watcher, names: set[str], began_s: float) -> None:
    """Nothing was changed, removed or rolled back: nobody says so."""
    for at_s, record in w.records:
        if at_s < began_s:
            continue
        if isinstance(record, Configured):
            changed = [c.name for c in (*record.streams, *record.consumers)]
            report.faults.append(f"configurations were told again: {changed[:5]}")
        if isinstance(record, Advisory) and "rolled" in record.type:
            report.faults.append(f"a false event: {record.text}")
    for seen in w.seen:
        if seen.mono_s > began_s and set(seen.state.streams.columns.name) != names:
            report.faults.append("a stream disappeared")
            break
    left = [r.what for _, r in w.records[-1:] if isinstance(r, Unavailable)]
    report.faults += [f"{what} is still unavailable at the end" for what in left]


def _judge_rates(
    report: Report,
    w: Watcher,
    name: str,
    truth: list[tuple[float, int]],
    late: list[tuple[float, float]],
) -> None:
    """Compare each rate shown with when the stream's leader had these sequences.

    When an answer was made is known as well as it came quickly: `late` tells how long questions
    to leaders took that nothing had happened to.
    """
    truth = sorted(truth)
    looked: set[tuple[tuple[float, int], tuple[float, int]]] = set()
    for seen in w.seen:
        points = _points(seen.state, name)
        report.unknown_count += points is None
        if points is None or points in looked:
            continue
        looked.add(points)
        (from_s, _), (to_s, _) = points
        off = sum(_off_s(point, truth) for point in points) / (to_s - from_s)
        report.rates_count += 1
        report.worst_percent = max(report.worst_percent, 100 * off)
        trips = [trip_s for at_s, trip_s in late if from_s - 1 < at_s < to_s]
        if off > 0.1 + max(trips, default=0.0) / (to_s - from_s):
            per_s = (points[1][1] - points[0][1]) / (to_s - from_s)
            about = [it for it in truth if from_s - 1 < it[0] < to_s + 1]
            report.faults.append(
                f"{name} is shown with {per_s:.1f}/s, {100 * off:.0f} % off: between {points}, "
                f"its leader said {about}, leaders took up to {max(trips, default=0.0):.3f} s"
            )


def _off_s(point: tuple[float, int], truth: list[tuple[float, int]]) -> float:
    """Return how far a sequence is told from the time in which it was the last one.

    A leader that was frozen, or that others replaced without its knowing, says old things for a
    moment: these do not count.
    """
    at_s, seq = point
    most_s = min((told_s for told_s, told in truth if told > seq), default=at_s)
    again_s = max((told_s for told_s, told in truth if told == seq), default=most_s)
    if again_s > most_s:
        most_s = again_s + _ASKED_EVERY_S
    earlier = (told_s for told_s, told in truth if told < seq and told_s < most_s)
    least_s = max(earlier, default=at_s)
    return max(0.0, least_s - at_s, at_s - most_s)


def _points(state: State, name: str) -> tuple[tuple[float, int], tuple[float, int]] | None:
    """Return the two moments and sequences between which the shown rate lies."""
    key: RowKey = next(key for key in state.streams.roster.keys if key[0] == name)
    if stream_rates(state.stream_history, key).in_msgs_per_s is None:
        return None
    older, newer = state.stream_history.series(key, "last_seq")[-2:]
    if older.value is None or newer.value is None:
        return None
    return (older.mono_us / 1e6, int(older.value)), (newer.mono_us / 1e6, int(newer.value))


@asynccontextmanager
async def loaded_cluster() -> AsyncIterator[Bench]:
    """A cluster under load; the bench's own connection stands on n1."""
    with Cluster() as cluster:
        connection = Connection(
            servers=(cluster.nodes[0].url,), user="app", password=Secret("app")
        )
        client, stop = await connect(connection), asyncio.Event()
        bench = Bench(cluster, client)
        await bench.prepare()
        load = asyncio.create_task(publish_all((cluster.nodes[0].url,), stop))
        observing = asyncio.create_task(bench.observe())
        try:
            yield bench
        finally:
            stop.set()
            await ended(observing)
            await asyncio.wait({load})
            await client.close()


async def main(cells: list[tuple[str, str]]) -> None:
    """Run cells and print what each showed."""
    async with loaded_cluster() as bench:
        for cell in cells:
            print(await run_cell(bench, *cell), flush=True)


if __name__ == "__main__":
    wanted = {tuple(word.split("-")) for word in sys.argv[1:]}
    asyncio.run(main([cell for cell in CELLS if not wanted or cell in wanted]))
