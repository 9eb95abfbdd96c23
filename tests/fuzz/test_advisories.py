"""Ten thousand forged announcements, 100 a second, while watch, viewer and recorder listen."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import nats
import pytest

from natstui.jetstream.testbed.broker import Broker
from natstui.session.read.recording import Recording
from natstui.session.share.verify import verify
from tests.jetstream.raw_publisher import RawPublisher
from tests.jetstream.test_forged import ADVISORY, BODIES, HEADERS, METRIC, SOUND, SUBJECTS
from tests.tui.terminals import OnTerminal, Reader, rss_mb
from tests.tui.test_viewer_process import MAIN

pytestmark = [pytest.mark.server, pytest.mark.terminal]

SEED = 20_261_122
MESSAGES_COUNT = 10_000
WARM_UP_COUNT = 300
PER_S = 100
MORE_MB = 20
KINDS = ("nak", "max_deliver", "stream_action", "consumer_pause", "of_tomorrow", "\x1b[31m")


def forged(chance: random.Random) -> tuple[bytes, bytes, bytes]:
    """Return subject, payload and headers of one message."""
    body = chance.choice((*BODIES, {}, {}, {}))
    if isinstance(body, dict):
        kind = f"io.nats.jetstream.advisory.v1.{chance.choice(KINDS)}"
        named = {"type": kind, "stream": f"S{chance.randrange(50)}", "deliveries": 3}
        body = json.dumps({**SOUND, **named, **body}).encode()
    elif chance.random() < 0.3:
        body = chance.randbytes(chance.randrange(2000))
    subject = chance.choice((ADVISORY, METRIC)) + chance.choice(SUBJECTS)
    return subject, body, chance.choice((*HEADERS, b"", b"", b"", b""))


def send(forger: RawPublisher, chance: random.Random, count: int) -> None:
    began_s = time.monotonic()
    for number in range(count):
        forger.publish(*forged(chance))
        time.sleep(max(0.0, began_s + number / PER_S - time.monotonic()))
    forger.settle()


async def connections(server: Broker) -> int:
    """Return how many connections the server ever had, this question's included."""
    nc = await nats.connect(server.url, user="sys", password="sys")
    reply = await nc.request("$SYS.REQ.SERVER.PING.STATSZ", timeout=10)
    await nc.close()
    return int(json.loads(reply.data)["statsz"]["total_connections"])


async def test_ten_thousand_forged_announcements_neither_end_nor_swell_nor_disconnect(
    nats_server_factory: object, tmp_path: Path
) -> None:
    accounts = (
        "accounts { SYS { users = [{user: sys, password: sys}] }\n"
        " APP { jetstream: enabled, users = [{user: app, password: app}] } }\n"
        "system_account: SYS\nno_auth_user: app\n"
    )
    server: Broker = nats_server_factory(accounts)  # type: ignore[operator]
    recorder = subprocess.Popen(
        [sys.executable, "-m", "natstui", "record", "--server", server.url,
         "--sessions", str(tmp_path / "sessions"), "--log-file", str(tmp_path / "record.log")],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with (tmp_path / "watch.json").open("wb") as watched:
        watch = subprocess.Popen(
            [sys.executable, "-m", "natstui", "watch", "--json", "--server", server.url],
            stdout=watched, stderr=subprocess.PIPE,
        )  # fmt: skip
    with OnTerminal(MAIN, "--server", server.url, width=120, height=40) as terminal:
        assert b"connected" in terminal.read(b"connected", within_s=60)
        reader = Reader(terminal)
        os.write(terminal.master, b"3")
        assert recorder.stdout is not None
        folder = Path(recorder.stdout.readline().strip())
        viewer = terminal.process.pid
        engine = int(Path(f"/proc/{viewer}/task/{viewer}/children").read_text().split()[0])
        pids = {"viewer": viewer, "engine": engine, "watch": watch.pid, "record": recorder.pid}
        chance = random.Random(SEED)
        with RawPublisher(server.url) as forger:
            send(forger, chance, WARM_UP_COUNT)
            before, began = {k: rss_mb(p) for k, p in pids.items()}, await connections(server)
            send(forger, chance, MESSAGES_COUNT)
            after = {k: rss_mb(p) for k, p in pids.items()}
            reconnects = await connections(server) - began - 1
        print(f"seed {SEED}: {MESSAGES_COUNT} messages, {reconnects} reconnects")
        for name in pids:
            print(f"{name}: {before[name]:.1f} MB before, {after[name]:.1f} MB after")
        assert engine == int(Path(f"/proc/{viewer}/task/{viewer}/children").read_text().split()[0])
        terminal.process.terminate()
        reader.join()
        assert terminal.process.wait(20) == 143
    for process in (watch, recorder):
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
    assert recorder.wait(30) == 0
    watch.communicate(timeout=30)
    recorder.stdout.close()
    assert reconnects == 0
    assert max(after[name] - before[name] for name in pids) < MORE_MB
    assert list(tmp_path.rglob("crash-*.log")) == []
    assert not verify(folder).damaged
    told = [r.reason for r in Recording(folder).records() if hasattr(r, "denied_subject")]
    left_out = sum(int(reason.split()[0]) for reason in told if "cannot be read" in reason)
    assert left_out > MESSAGES_COUNT / 3
