"""`natstui watch --json` of several systems: one that hangs or dies disturbs no other."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import nats
import pytest

from natstui.jetstream.testbed.broker import Broker
from tests.cli.processes import NatstuiProcess, wait_until_ended
from tests.cli.watching import watch
from tests.jetstream.test_connections import as_user
from tests.jetstream.test_other_account import BOTH, a_consumer

pytestmark = pytest.mark.server

LONG_S = 60.0


class Watched:
    """The command at work, and the objects it has written, with when they came."""

    def __init__(self, *words: str, environment: dict[str, str]) -> None:
        self.process = NatstuiProcess("watch", *words, environment=environment)
        self.rows: list[tuple[float, dict[str, Any]]] = []
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self.rows.append((time.monotonic(), json.loads(line)))

    def end(self) -> None:
        """Kill it, and read to the end."""
        self.process.kill()
        self.process.wait()
        self._reading.join()
        self.process.stdout.close()
        self.process.stderr.close()

    def until(
        self, test: Callable[[dict[str, Any]], bool], seen_count: int | None = None
    ) -> float:
        """Wait for a row from now on, or after so many, that passes; return when it came."""
        seen_count = len(self.rows) if seen_count is None else seen_count
        end_s = time.monotonic() + LONG_S
        while time.monotonic() < end_s:
            fresh = self.rows[seen_count:]
            seen_count += len(fresh)
            for at_s, row in fresh:
                if test(row):
                    return at_s
            time.sleep(0.02)
        raise AssertionError([row for _, row in self.rows[-5:]])

    def longest_gap_s(self, system: str, since_s: float) -> float:
        """Return how long a system was silent at most since a moment."""
        times = [at_s for at_s, row in self.rows if row["system"] == system and at_s >= since_s]
        moments = [since_s, *times, time.monotonic()]
        return max(b - a for a, b in itertools.pairwise(moments))

    def children(self) -> dict[str, int]:
        """Return the process of each system."""
        own = self.process.pid
        found = Path(f"/proc/{own}/task/{own}/children").read_text().split()
        words = {int(pid): Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0") for pid in found}
        return {it[it.index(b"--context") + 1].decode(): pid for pid, it in words.items()}


@contextmanager
def watching(*words: str, environment: dict[str, str]) -> Iterator[Watched]:
    watched = Watched(*words, environment=environment)
    try:
        yield watched
    finally:
        watched.end()


@pytest.fixture
def systems(
    nats_server_factory: Callable[..., Broker], tmp_path: Path
) -> tuple[dict[str, Broker], dict[str, str]]:
    """Three servers, each a context with a stream of its name, and the environment for them."""
    servers = {name: nats_server_factory() for name in ("a", "b", "c")}
    named(tmp_path, {name: server.url for name, server in servers.items()})
    return servers, {"XDG_CONFIG_HOME": str(tmp_path)}


def named(folder: Path, urls: dict[str, str]) -> None:
    """Make a context of each address."""
    contexts = folder / "nats" / "context"
    contexts.mkdir(parents=True)
    for name, url in urls.items():
        (contexts / f"{name}.json").write_text(json.dumps({"url": url}))


@pytest.mark.long
async def test_one_that_hangs_and_one_that_dies_disturb_no_other(
    systems: tuple[dict[str, Broker], dict[str, str]],
) -> None:
    servers, environment = systems
    for name, server in servers.items():
        nc = await nats.connect(server.url)
        await nc.jetstream().add_stream(name=name.upper(), subjects=["s"])
        await nc.close()
    with watching("--json", "--context", "a,b,c", environment=environment) as watched:
        for name in servers:
            watched.until(stream_of(name))
        streams = {(row["system"], row["name"]) for _, row in watched.rows if is_stream(row)}
        assert streams == {("a", "A"), ("b", "B"), ("c", "C")}
        since_s, seen_count = time.monotonic(), len(watched.rows)
        servers["b"].freeze()
        servers["c"].kill()
        watched.until(
            lambda row: row["system"] == "c" and row.get("link") == "reconnecting", seen_count
        )
        for _ in range(5):
            watched.until(stream_of("a"))
        # Its own process is frozen, then killed: another one is started.
        child = watched.children()["b"]
        os.kill(child, signal.SIGSTOP)
        for _ in range(3):
            watched.until(stream_of("a"))
        seen_count = len(watched.rows)
        os.kill(child, signal.SIGKILL)
        watched.until(lambda row: row["system"] == "b" and row.get("state") == "ended", seen_count)
        ended = [row for _, row in watched.rows if row.get("state") == "ended"]
        assert [(row["system"], row["exit_code"]) for row in ended] == [("b", -signal.SIGKILL)]
        servers["b"].thaw()
        servers["c"].restart()
        for name in ("b", "c"):
            watched.until(stream_of(name))
        # Polls are a second apart; a busy machine may take longer for one. Behind those that hang
        # it would wait for all of the time since they do.
        assert watched.longest_gap_s("a", since_s) < max(6, (time.monotonic() - since_s) / 2)
        children = watched.children()
        watched.process.send_signal(signal.SIGTERM)
        assert watched.process.wait(LONG_S) == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in children.values())


def is_stream(row: dict[str, Any]) -> bool:
    return bool(row["kind"] == "stream")


def of_kind(system: str, kind: str) -> Callable[[dict[str, Any]], bool]:
    return lambda row: bool(row["system"] == system and row["kind"] == kind)


def stream_of(system: str) -> Callable[[dict[str, Any]], bool]:
    return of_kind(system, "stream")


def test_once_the_code_is_that_of_the_first_that_failed(
    systems: tuple[dict[str, Broker], dict[str, str]],
) -> None:
    servers, environment = systems
    servers["b"].kill()
    said = watch("--once", "--json", "--context", "a,b", **environment)
    assert said.code == 3 and said.err.startswith("natstui: b: ") and "{" not in said.err
    assert {row["system"] for row in said.rows if row["kind"] == "account"} == {"a"}
    schema = json.loads(watch("--schema").out)
    fields = {
        it["properties"]["kind"]["enum"][0]: set(it["properties"])
        for it in schema["$defs"].values()
        if "kind" in it["properties"]
    }
    assert all(set(row) == fields[row["kind"]] for row in said.rows)


@pytest.mark.parametrize("words", [("--js-domain", "their"), ("--js-api-prefix", "$JS.their.API")])
async def test_a_domain_of_the_command_line_is_that_of_each_system(
    nats_server_factory: Callable[..., Broker], tmp_path: Path, words: tuple[str, ...]
) -> None:
    server = nats_server_factory(
        """
        jetstream {}
        accounts {
          THEIR { jetstream: enabled, users: [{user: their, password: p}],
                  exports: [{service: "$JS.API.>"}] }
          OWN { jetstream: enabled, users: [{user: own, password: p}],
                imports: [{service: {account: THEIR, subject: "$JS.API.>"},
                           to: "$JS.their.API.>"}] }
        }
        """
    )
    for account in ("own", "their"):
        nc = await nats.connect(server.url, user=account, password="p")
        await nc.jetstream().add_stream(name=account.upper(), subjects=[account])
        await nc.close()
    url = server.url.replace("nats://", "nats://own:p@")
    named(tmp_path, dict.fromkeys(("a", "b"), url))
    environment = {"XDG_CONFIG_HOME": str(tmp_path)}
    said = await asyncio.to_thread(
        lambda: watch("--once", "--json", "--context", "a,b", *words, **environment)
    )
    streams = {(row["system"], row["name"]) for row in said.rows if is_stream(row)}
    assert streams == {("a", "THEIR"), ("b", "THEIR")}, said


@pytest.mark.long
async def test_accounts_of_one_server_are_told_side_by_side(
    nats_server_factory: Callable[..., Broker],
) -> None:
    server = nats_server_factory(BOTH)
    for account in ("app", "other"):
        nc = await nats.connect(as_user(server.url, account))
        await a_consumer(nc, "SAME", account.upper())
        await nc.close()
    words = ("--json", "--server", as_user(server.url, "sys"), "--account", "APP,OTHER")
    with watching(*words, environment={}) as watched:
        for system, kind in product(("APP", "OTHER"), ("account", "stream", "consumer")):
            watched.until(of_kind(system, kind), 0)
        rows = [row for _, row in watched.rows]
        for kind in ("account", "consumer"):
            named = {(row["system"], row["name"]) for row in rows if row["kind"] == kind}
            assert named == {("APP", "APP"), ("OTHER", "OTHER")}
        assert {row["system"] for row in rows if is_stream(row)} == {"APP", "OTHER"}
        own = watched.process.pid
        for pid in Path(f"/proc/{own}/task/{own}/children").read_text().split():
            # What every user of the machine can read names no password.
            assert b"sys:sys" not in Path(f"/proc/{pid}/cmdline").read_bytes()
        # A process that is killed is told, and another one is started, beside the other account.
        seen_count = len(watched.rows)
        os.kill(int(pid), signal.SIGKILL)
        watched.until(lambda row: row.get("state") == "ended", seen_count)
        (gone,) = (row for _, row in watched.rows if row.get("state") == "ended")
        assert gone["exit_code"] == -signal.SIGKILL
        started = ("started", gone["system"])
        watched.until(lambda row: (row.get("state"), row["system"]) == started, seen_count)
        (other,) = {"APP", "OTHER"} - {gone["system"]}
        watched.until(of_kind(other, "stream"))
        watched.process.send_signal(signal.SIGTERM)
        assert watched.process.wait(LONG_S) == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--json", "--context", "a,b", "--account", "X,Y"), "accounts of one system"),
        (("--json", "--context", "a", "--account", "X,,Y"), "empty"),
        (("--context", "a", "--account", "X,Y"), "--json"),
        (("--account", ""), "empty"),
        (("--json", "--context", "a,nope"), "there is no NATS CLI context 'nope'"),
        (("--context", "a,b"), "--json"),
        (("--json", "--context", "a,b", "--metrics", "127.0.0.1:0"), "--metrics"),
        (("--json", "--context", "a,b", "--server", "nats://x"), "--server"),
        (("--json", "--context", "a,b", "--profile", "p"), "--profile"),
        (("--json", "--context", "a,,b"), "empty"),
    ],
)
def test_what_cannot_be_meant_is_one_sentence(
    tmp_path: Path, words: tuple[str, ...], sentence: str
) -> None:
    named(tmp_path, dict.fromkeys(("a", "b"), "nats://127.0.0.1:1"))
    said = watch(*words, XDG_CONFIG_HOME=str(tmp_path))
    assert (said.code, said.out) == (2, "")
    assert sentence in said.err and said.err.count("\n") == 1


@pytest.mark.long
def test_every_process_ends_when_the_command_is_killed_also_one_that_writes_nothing(
    systems: tuple[dict[str, Broker], dict[str, str]],
) -> None:
    servers, environment = systems
    with watching("--json", "--context", "a,c", environment=environment) as watched:
        for name in "ac":
            watched.until(lambda row, name=name: row["system"] == name and "link" in row)
        seen_count = len(watched.rows)
        servers["c"].kill()
        watched.until(
            lambda row: row["system"] == "c" and row.get("link") == "reconnecting", seen_count
        )
        children = watched.children()
        assert sorted(children) == ["a", "c"]
        watched.process.kill()
        for pid in children.values():
            wait_until_ended(pid)
