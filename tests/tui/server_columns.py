"""What each column of the servers screen has to show, from the monitoring ports alone.

`/varz`, `/jsz`, `/connz` and `/routez` of every node are fetched beside the screen, again and
again: what was true before and after a look bounds what the look may have seen.
"""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any, Self

from msgspec import Struct

from natstui.jetstream.connection.times import time_us
from natstui.jetstream.testbed.broker import Broker
from natstui.jetstream.testbed.cluster import Cluster
from natstui.units import bytes_text, count_text, duration_text, rate_text

_EVERY_S = 0.1
_SETTLED_US = 1_500_000
"""A server measures its processor and memory once a second."""
_PATHS = {
    "varz": "/varz",
    "jsz": "/jsz?accounts=1&streams=1&consumers=1&raft=1",
    "connz": "/connz",
    "routez": "/routez",
}


class Told(Struct, frozen=True):
    """What the ports of one node told at one moment, by its clock."""

    before_us: int
    after_us: int
    varz: Mapping[str, Any]
    jsz: Mapping[str, Any]
    connz: Mapping[str, Any]
    routez: Mapping[str, Any]

    @classmethod
    def of(cls, node: Broker) -> Self:
        """Ask a node."""
        before_us = time.time_ns() // 1000
        answers = {}
        for name, path in _PATHS.items():
            with urllib.request.urlopen(f"{node.monitoring_url}{path}", timeout=30) as reply:
                answers[name] = json.load(reply)
        return cls(before_us, time.time_ns() // 1000, **answers)

    @property
    def details(self) -> list[Mapping[str, Any]]:
        """The streams that it holds a copy of."""
        accounts = self.jsz.get("account_details") or ()
        return list(chain.from_iterable(one.get("stream_detail") or () for one in accounts))

    def led(self, kind: str) -> int:
        """Return how many streams or consumers name it as their leader."""
        own, rows = self.varz["server_name"], self.details
        if kind == "consumers":
            rows = list(chain.from_iterable(one.get("consumer_detail") or () for one in rows))
        return sum(one["cluster"].get("leader") == own for one in rows)


class Beside:
    """Asks all ports of a cluster until it ends."""

    def __init__(self, cluster: Cluster) -> None:
        self.told: dict[str, list[Told]] = {node.name: [] for node in cluster.nodes}
        self._nodes = cluster.nodes
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _ask(self) -> None:
        while not self._ended.wait(_EVERY_S):
            for node in self._nodes:
                self.told[node.name].append(Told.of(node))

    def has_after(self, at_us: int) -> bool:
        """Tell whether every node was asked later than this."""
        return all(one and one[-1].before_us > at_us + _SETTLED_US for one in self.told.values())

    def around(self, name: str, at_us: int, margin_us: int = 0) -> list[Told]:
        """Return what a node told last before a moment, first after it, and in between."""
        told = self.told[name]
        first = bisect_left(told, at_us - margin_us, key=lambda one: one.after_us) - 1
        last = bisect_right(told, at_us + margin_us, key=lambda one: one.before_us)
        assert first >= 0 and last < len(told), "it was not asked both before and after"
        return told[first : last + 1]


class Look(Struct, frozen=True):
    """One row of the screen, and the looks at that server that it comes from."""

    name: str
    texts: Mapping[str, str]
    values: Mapping[str, Any]
    """What the columns are sorted by."""
    before_us: int
    at_us: int


Judge = Callable[[Beside, Look, str], None]


def _same(text: Callable[[Told], str]) -> Judge:
    """What stands there is what the ports told just before or just after."""

    def judge(beside: Beside, look: Look, column: str) -> None:
        wanted = {text(one) for one in beside.around(look.name, look.at_us)}
        shown = _without_bar(look.texts[column])
        assert shown in wanted, (column, look.name, shown, wanted)

    return judge


def _without_bar(text: str) -> str:
    """Return what stands behind the bar of a cell; the whole where there is no bar."""
    return text.lstrip("█▉▊▋▌▍▎▏░ ")


def _between(
    number: Callable[[Told], float],
    text: Callable[[Any], str],
    spare: float = 0.0,
    passing: int = 0,
) -> Judge:
    """What stands there lies between what was told before and after, and is written so.

    On a busy machine the ports are asked too seldom for what changes every second: there it is
    only held to be a number of this kind. So many may be `passing`: there between two asks only.
    """

    def judge(beside: Beside, look: Look, column: str) -> None:
        around = beside.around(look.name, look.at_us, _SETTLED_US)
        told, value = [number(one) for one in around], look.values[column]
        seldom = any(b.after_us - a.before_us > _SETTLED_US / 3 for a, b in pairwise(around))
        low = min(told) * (1 - spare) - passing
        high = max(told) * (1 + spare) + passing
        if seldom:
            low, high = low / 10, 10 * high + 100
        assert low <= value <= high, (column, look.name, value, told)
        assert _without_bar(look.texts[column]) == text(value), (column, value)

    return judge


def _rate(counter: str, text: Callable[[Any], str]) -> Judge:
    """A rate lies between the least and the most that the counter can have moved."""

    def judge(beside: Beside, look: Look, column: str) -> None:
        first = beside.around(look.name, look.before_us)
        last = beside.around(look.name, look.at_us)
        elapsed_s = (look.at_us - look.before_us) / 1e6
        least = (last[0].varz[counter] - first[-1].varz[counter]) / elapsed_s
        most = (last[-1].varz[counter] - first[0].varz[counter]) / elapsed_s
        value = look.values[column]
        assert least <= value <= most, (column, look.name, value, least, most)
        assert look.texts[column] == text(value), (column, value)

    return judge


def _uptime(beside: Beside, look: Look, column: str) -> None:
    told = beside.around(look.name, look.at_us)[0].varz
    wanted_s = (look.at_us - time_us(told["start"])) / 1e6
    assert look.texts[column] == duration_text(wanted_s), (column, look.texts[column], wanted_s)


def _role(beside: Beside, look: Look, column: str) -> None:
    """The leader says how far the others are; of the leader all say the same."""
    leaders = {
        one.jsz["meta_cluster"]["leader"]
        for name in beside.told
        for one in beside.around(name, look.at_us)
    }
    assert len(leaders) == 1, leaders
    (leader,) = leaders
    wanted = {"leader"}
    if look.name != leader:
        wanted = {
            f"lag {peer.get('lag', 0)}"
            for one in beside.around(leader, look.at_us)
            for peer in one.jsz["meta_cluster"]["replicas"]
            if peer["name"] == look.name and peer["current"]
        }
    assert look.texts[column] in wanted, (look.name, look.texts[column], wanted)


def _behind(beside: Beside, look: Look, column: str) -> None:
    """Of what each server leads: the replicas that it says are not current."""
    count = sum(
        peer["name"] == look.name and not peer["current"]
        for name in beside.told
        for one in beside.around(name, look.at_us)[-1].details
        for it in (one, *(one.get("consumer_detail") or ()))
        if it["cluster"].get("leader") == name
        for peer in it["cluster"]["replicas"]
    )
    assert look.texts[column] == count_text(count)


def _free(told: Told) -> str:
    """Return what is neither used nor reserved of what a server may store in files."""
    taken = max(told.jsz["storage"], told.jsz["reserved_storage"])
    return bytes_text(told.jsz["config"]["max_storage"] - taken)


ORACLES: dict[str, Judge] = {
    "name": _same(lambda it: it.varz["server_name"]),
    "meta": _role,
    "version": _same(lambda it: it.varz["version"]),
    "cluster": _same(lambda it: it.varz["cluster"]["name"]),
    "uptime": _uptime,
    "cpu": _between(lambda it: it.varz["cpu"], lambda value: f"{value:.0f}"),
    "memory": _between(lambda it: it.varz["mem"], bytes_text, 0.2),
    "conns": _same(lambda it: count_text(it.connz["num_connections"])),
    # A request between servers subscribes for as long as it takes.
    "subs": _between(lambda it: it.varz["subscriptions"], count_text, passing=3),
    "in_s": _rate("in_msgs", rate_text),
    "out_s": _rate("out_msgs", rate_text),
    "in_b": _rate("in_bytes", bytes_text),
    "out_b": _rate("out_bytes", bytes_text),
    "slow": _same(lambda it: count_text(it.varz["slow_consumers"])),
    "streams_led": _same(lambda it: count_text(it.led("streams"))),
    "consumers_led": _same(lambda it: count_text(it.led("consumers"))),
    "behind": _behind,
    "file": _same(lambda it: bytes_text(it.jsz["storage"])),
    "free": _same(_free),
    "store": _same(lambda it: bytes_text(it.jsz["memory"])),
    "ha": _same(lambda it: count_text(it.jsz["ha_assets"])),
    # A request is under way for less time than there is between two asks.
    "inflight": _between(lambda it: it.jsz["api"].get("inflight", 0), count_text, passing=5),
    "errors": _same(lambda it: count_text(it.jsz["api"]["errors"])),
    "routes": _same(lambda it: count_text(it.routez["num_routes"])),
}
"""A judge for each column: one without any is a column that nobody checks."""


def judged(beside: Beside, looks: Sequence[Look], columns: Sequence[str]) -> None:
    """Hold every column of every row against what the ports told."""
    assert set(columns) == ORACLES.keys()
    for look in looks:
        for column in columns:
            ORACLES[column](beside, look, column)
