"""Clients side by side: the rows, the words of the other program, its rate, and the table."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from natstui.bench.versus.measure import Compared, Figures, Rounds
from natstui.bench.versus.rival import (
    Rival,
    RivalFailed,
    failure_in,
    flags,
    rate_in,
    why_not,
)
from natstui.bench.versus.rows import ROWS, chosen, plan_of
from natstui.bench.versus.table import mean_ratio, objects, ratio_of, table_text
from natstui.config.connection import Connection, Secret
from natstui.errors import NotFound
from natstui.jetstream.connection.client import connect
from natstui.jetstream.testbed.broker import Broker
from natstui.model.bench.patterns import Pattern
from natstui.model.bench.plan import ClientKind, Role, StreamPlan
from tests.bench.running import plan, run_plan

# As nats bench prints them: its words, the rate, and what follows.
ONE = """
2026/11/23 21:01:02 Starting JetStream synchronous publisher benchmark [batch=0, msgs=2,000]
2026/11/23 21:01:02 [1] Starting JetStream synchronous publisher, publishing 2,000 messages

NATS JetStream synchronous publisher stats: 16,339 msgs/sec ~ 2.0 MiB/sec ~ min: 27.49us
"""
BOTH = """
  [1] 999,791 msgs/sec ~ 122 MiB/sec ~ min: 0.07us ~ avg: 0.09us (10,000 msgs)
  [2] 1,061,741 msgs/sec ~ 130 MiB/sec ~ min: 0.07us ~ avg: 0.09us (10,000 msgs)

 NATS Core NATS publisher aggregated stats: 1,823,298 msgs/sec ~ 223 MiB/sec
 message rates min 999,791 | avg 1,030,766 | max 1,061,741 | stddev 30,975 msgs
"""
IN_TURNS = BOTH.replace("1,823,298", "823,298")
UNKNOWN_FLAG = """
error: unknown long flag '--inbox', use --help for full help including flags and arguments

usage: nats bench pub [<flags>] <subject>

Pass --help to see global flags applicable to this command.
"""
NO_STREAM = """
2026/11/23 21:01:04 Starting JetStream durable consumer (callback) benchmark [acks=explicit]
nats: error: creating the durable consumer: nats: API error: code=404 description=stream not found
"""
# Writes its words down, and makes what the NATS CLI would have printed.
STAND_IN = """#!{python}
import json, os, sys, time
with open({log!r}, "a") as file:
    file.write(json.dumps([sys.argv[1:], dict(os.environ)]) + "\\n")
if "serve" in sys.argv:
    time.sleep(60)
print("NATS publisher stats: 1,000 msgs/sec ~ 125 KiB/sec")
"""


def quiet(_text: str) -> None:
    """Tell nobody."""


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[list[str]]]:
    """Put a program `nats` on the PATH that writes down what it was told."""
    log, program = tmp_path / "said", tmp_path / "nats"
    program.write_text(STAND_IN.format(python=sys.executable, log=str(log)))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("NATS_CONTEXT", "somebody")
    return lambda: [json.loads(line) for line in log.read_text().splitlines()]


def test_every_row_is_a_plan_that_can_be_run() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS) == 21
    for row in ROWS:
        assert plan_of(row, "wire", 1000, "STREAM").roles
        if row.has_plain:
            assert plan_of(row, "nats-py", 1000, "STREAM").roles
    assert [row.name for row in chosen(("js", "get"))] == ["js get sync", "js get batch"]
    with pytest.raises(NotFound, match="no pattern has 'nope'"):
        chosen(("nope",))


def test_the_rate_of_all_clients_together_is_read() -> None:
    assert rate_in(ONE) == 16_339
    assert rate_in(BOTH) == 1_823_298
    assert rate_in(IN_TURNS) == 823_298
    with pytest.raises(RivalFailed, match="printed no rate, but: nats: error: no such stream"):
        rate_in("nats: error: no such stream")


def test_of_what_the_other_program_says_its_error_is_told() -> None:
    assert failure_in(UNKNOWN_FLAG, 1).startswith("error: unknown long flag '--inbox'")
    assert failure_in(NO_STREAM, 1).startswith("nats: error: creating the durable consumer")
    assert failure_in("it fell over", 2) == "it fell over"
    assert failure_in("", 2) == "exit code 2"


def test_an_inbox_prefix_is_said_only_where_it_is_not_the_usual_one() -> None:
    assert flags(Connection()) == []
    assert flags(Connection(inbox_prefix="_I.me")) == ["--inbox-prefix", "_I.me"]


def test_credentials_that_are_in_no_file_leave_the_other_program_out() -> None:
    assert why_not(Connection(user="u", password=Secret("p"), creds_file="f")) is None
    assert "credentials in a file" in (why_not(Connection(creds=Secret("text"))) or "")


def test_ratios_have_intervals_and_a_geometric_mean() -> None:
    first, second = (Compared(row) for row in ROWS[:2])
    first.figures = {"natstui": Figures([200.0, 220, 240], [0.9]), "nats-py": Figures([100.0] * 3)}
    second.figures = {"natstui": Figures([50.0]), "nats-py": Figures([100.0])}
    ratio, low, high = ratio_of(first, "nats-py") or (0.0, None, None)
    assert (ratio, low, high) == (pytest.approx(2.2), pytest.approx(2.0), pytest.approx(2.4))
    assert ratio_of(second, "nats-py") == (pytest.approx(0.5), None, None)
    assert mean_ratio([first, second], "nats-py") == pytest.approx((2.2 * 0.5) ** 0.5)
    assert mean_ratio([first, second], "nats bench") is None
    text = table_text([first, second])
    assert "2.20×   2.00–2.40" in text
    assert "geometric mean of the ratios to nats-py: 1.05" in text
    assert max(map(len, text.splitlines())) <= 90


@pytest.mark.server
async def test_everything_is_measured_in_turns_and_nothing_is_left_behind(
    broker: Broker, said: Callable[[], list[list[str]]]
) -> None:
    rows = tuple(row for name in ("js consume none", "kv get") for row in chosen((name,)))
    connection = Connection(servers=(broker.url,), user="u", password=Secret("geheim"))
    compared = await Rounds(connection, rows, quiet, 2000).run(1)
    assert [one.errors for one in compared] == [{}] * len(rows), compared
    for one in compared:
        assert {"natstui", "nats bench"} <= set(one.figures)
        assert ("nats-py" in one.figures) == one.row.has_plain
        assert one.figures["nats bench"].rates_per_s == [1000.0]
        assert one.figures["natstui"].rates_per_s[0] > 0
    assert json.loads(json.dumps(objects(compared)))[0]["pattern"] == "js consume none"
    told = said()
    assert not any("geheim" in " ".join(words) for words, _ in told)
    assert all(env["NATS_PASSWORD"] == "geheim" for _, env in told)  # type: ignore[call-overload]
    assert not any("NATS_CONTEXT" in env for _, env in told)
    words = [" ".join(one) for one, _ in told]
    assert sum("bench kv put --bucket NATSTUI_VS" in one for one in words) == 1
    assert sum("bench js consume --stream NATSTUI_VS" in one for one in words) == 1
    own = await connect(Connection(servers=(broker.url,)))
    assert json.loads(await own.request("STREAM.NAMES"))["total"] == 0
    await own.close()


async def test_a_service_of_the_other_program_answers_while_it_is_asked_and_is_ended(
    tmp_path: Path, said: Callable[[], list[list[str]]]
) -> None:
    (row,) = chosen(("service",))
    rival = Rival(str(tmp_path / "nats"), Connection(), None)
    assert await rival.run(row, 500, "S") == (1000.0, None)
    served, asked = (" ".join(words) for words, _ in said())
    assert "bench service serve natstui.versus.S --clients 1 --msgs 500" in served
    assert "bench service request natstui.versus.S --msgs 500 --size 128 --no-progress" in asked


async def test_each_subscriber_of_the_other_program_waits_for_what_is_published(
    tmp_path: Path, said: Callable[[], list[list[str]]]
) -> None:
    (row,) = chosen(("core 1 to 4",))
    await Rival(str(tmp_path / "nats"), Connection(), None).run(row, 500, "S")
    takes, sends = (" ".join(words) for words, _ in said())
    assert "bench sub natstui.versus.S --clients 4 --msgs 500 " in takes
    assert "bench pub natstui.versus.S --msgs 500 " in sends


@pytest.mark.server
def test_the_command_prints_rates_intervals_ratios_and_the_server(nats_server: Broker) -> None:
    command = [sys.executable, "-m", "natstui", "bench", "vs", "js", "get", "sync"]
    flags = ["--rounds", "2", "--msgs", "2k", "--json", "--server", nats_server.url]
    done = subprocess.run(
        [*command, *flags], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)
    assert len(row["clients"]["natstui"]["rates_per_s"]) == 2
    low, high = row["clients"]["nats-py"]["rate_interval_per_s"]
    assert 0 < low <= high
    assert row["natstui_to"]["nats-py"][0] > 0
    assert "round 2 of 2: js get sync" in done.stderr


@pytest.mark.server
@pytest.mark.parametrize(("pattern", "client"), [("js-ordered", "nats-py"), ("js-push", "wire")])
async def test_what_a_stream_holds_comes_after_go_and_not_while_others_start(
    broker: Broker, pattern: Pattern, client: ClientKind
) -> None:
    connection = Connection(servers=(broker.url,))
    name = f"HELD-{pattern}-{client}"
    stream = StreamPlan(name, subjects=("held",), keep=True)
    fills = Role("p", "js-publish-async", subject="held", total_msgs=500)
    await run_plan(connection, plan(fills, stream=stream))
    # The second worker's start keeps the first one waiting.
    held = replace(stream, create=False)
    readers = Role("r", pattern, 2, client, subject="held")
    try:
        result, _ = await run_plan(connection, plan(readers, stream=held))
    finally:
        own = await connect(connection)
        await own.request(f"STREAM.DELETE.{name}")
        await own.close()
    copies = 2 if readers.traits.is_ordered else 1
    assert result.accounting.received_msgs == 500 * copies
    assert result.counts.steady_received_msgs == 500 * copies
    assert 0 < (result.receive_per_s or 0) < 1e6
    assert result.verdict == "ok", result.notes
