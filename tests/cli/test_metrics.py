"""`natstui metrics`: what Prometheus reads is what the server says, in the exporter's words."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import signal
import socket
import struct
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import nats
import pytest
from nats.js.api import ConsumerConfig, StreamConfig, StreamSource
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from natstui.clean import clean_line
from natstui.cli.metrics.exposition import (
    CONTENT_TYPE,
    Exposition,
    _upstream_lines,
    finding_lines,
)
from natstui.cli.metrics.serving import parse_address, serve_metrics, serve_text
from natstui.jetstream.testbed.broker import Broker
from natstui.model.findings.catalogue.account import NOT_CONNECTED
from natstui.model.findings.catalogue.streams import STREAM_DELETED
from natstui.model.findings.finding import Entity, Finding
from natstui.model.live.snapshot import StreamColumns, Upstream
from natstui.model.live.state import State
from natstui.model.records.record import LinkChanged
from natstui.values import replace
from tests.accounts import Account
from tests.cli.beside import Begin, run_beside, stop, until_said, written_to
from tests.cli.processes import NatstuiProcess
from tests.cli.test_manage import run_here
from tests.jetstream.flushing import flushed
from tests.model.builders import columns
from tests.session.scenario import Scenario

PATIENCE_S = 60.0
SERVER = {
    "server_id", "server_name", "cluster", "domain", "meta_leader", "is_meta_leader", "account",
    "account_name", "account_id",
}  # fmt: skip
STREAM = SERVER | {"stream_name", "stream_leader", "is_stream_leader", "stream_raft_group"}
CONSUMER = STREAM | {
    "consumer_name", "consumer_leader", "is_consumer_leader", "consumer_desc",
}  # fmt: skip
OF_STREAM = (
    "total_messages", "total_bytes", "first_seq", "last_seq", "consumer_count", "subject_count",
    "limit_bytes", "limit_messages",
)  # fmt: skip
OF_CONSUMER = (
    "delivered_consumer_seq", "delivered_stream_seq", "num_ack_pending", "num_redelivered",
    "num_waiting", "num_pending", "ack_floor_stream_seq", "ack_floor_consumer_seq",
    "last_delivery_seconds", "last_ack_seconds",
)  # fmt: skip
UPSTREAM = ("lag", "active_duration_ns")
EXPECTED = {
    **{f"jetstream_account_{one}": SERVER for one in (
        "max_memory", "max_storage", "memory_used", "storage_used",
    )},
    **{f"jetstream_stream_{one}": STREAM for one in OF_STREAM},
    **{f"jetstream_consumer_{one}": CONSUMER for one in OF_CONSUMER},
    **{f"jetstream_stream_mirror_{one}": STREAM | {"mirror_name", "mirror_api", "mirror_deliver"}
       for one in UPSTREAM},
    **{f"jetstream_stream_source_{one}": STREAM | {"source_name", "source_api", "source_deliver"}
       for one in UPSTREAM},
    "natstui_up": SERVER,
    "natstui_poll_age_seconds": SERVER,
    "natstui_finding_since_seconds": {
        "code", "severity", "stream_name", "consumer_name", "part", "finding",
    },
}  # fmt: skip
"""The exporter's names and labels that the monitoring of one account can know, and ours.

What its `jetstream_server_*` tell of a whole server, an account is not told.
"""
HOSTILE = 'he said "no"\\ and\nleft \x1b[31m'
VISIBLE = 'he said "no"\\ and\nleft \\u001b[31m'
"""The same without what controls a terminal."""


@contextmanager
def metrics(
    *words: str, command: Sequence[str] = ("metrics", "--listen", "127.0.0.1:0")
) -> Iterator[tuple[NatstuiProcess, str]]:
    """Run a command that serves metrics; give the process and the address of its page."""
    process = NatstuiProcess(*command, *words)
    try:
        said = process.stderr.readline()
        found = re.search(r"http://\S+", said)
        assert found, said
        yield process, found[0]
    finally:
        process.send_signal(signal.SIGTERM)
        # `watch` is left by Ctrl-C, and has nothing to end in order.
        process.communicate()
        assert process.returncode in (0, -signal.SIGTERM)


def served_here(port: int, look: Callable[[str], None], *words: str) -> None:
    """Run `natstui metrics` here on a port, look at its page meanwhile, and stop it."""

    async def work(begin: Begin) -> None:
        begin()
        await asyncio.to_thread(look, f"http://127.0.0.1:{port}/metrics")
        stop()

    done = run_beside(work, "metrics", "--listen", f"127.0.0.1:{port}", *words)
    assert done.returncode == 0, done.stderr


def has_everything(metrics: dict[str, Metric]) -> bool:
    """Return whether all is there that is expected: of a mirror it comes a while later."""
    return metrics.keys() >= EXPECTED.keys() - {"natstui_finding_since_seconds"}


def scraped(url: str, until: Callable[[dict[str, Metric]], bool]) -> dict[str, Metric]:
    """Scrape, once somebody listens, until something is so; return the metrics by name."""
    give_up_at = time.monotonic() + PATIENCE_S
    while True:
        try:
            with urllib.request.urlopen(url) as answer:
                assert answer.headers["Content-Type"] == CONTENT_TYPE
                text = answer.read().decode()
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ConnectionRefusedError):
                raise
            assert time.monotonic() < give_up_at, error
            time.sleep(0.05)
            continue
        found = {one.name: one for one in text_string_to_metric_families(text)}
        if until(found):
            return found
        assert time.monotonic() < give_up_at, text
        time.sleep(0.1)


def _has_ipv6() -> bool:
    """Return whether this machine has the address ::1."""
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


@pytest.mark.parametrize(
    ("listen", "is_warned"),
    [
        ("127.0.0.1:0", False),
        ("localhost:0", False),
        (":0", False),
        *([("[::1]:0", False)] if _has_ipv6() else []),
        ("0.0.0.0:0", True),
    ],
)
def test_an_address_that_others_reach_is_warned_of(
    listen: str, is_warned: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with serve_metrics(listen, "--listen", State):
        said = capsys.readouterr().err.splitlines()
        with urllib.request.urlopen(said[0].removeprefix("metrics at ")) as answer:
            assert answer.status == 200
    warned = "natstui: anyone who can reach this address can read the names of streams"
    assert said[0].startswith("metrics at http://")
    assert [line.startswith(warned) for line in said[1:]] == [True] * is_warned


@pytest.mark.parametrize(
    ("listen", "host", "is_allowed"),
    [
        ("127.0.0.1:0", "127.0.0.1", True),
        ("127.0.0.1:0", "localhost:9777", True),
        ("127.0.0.1:0", "[::1]:9777", True),
        ("0.0.0.0:0", "10.0.0.7:9777", True),
        ("127.0.0.1:0", "example.org", False),
        ("127.0.0.1:0", "127.0.0.1.example.org:9777", False),
        ("127.0.0.1:0", "127.0.0.1:80@example.org", False),
        ("127.0.0.1:0", "", False),
        ("localhost:0", "LocalHost:1", True),
        (f"{socket.gethostname()}:0", socket.gethostname().upper(), True),
        ("127.0.0.1:0", socket.gethostname(), False),
    ],
)
def test_a_name_that_leads_here_from_elsewhere_reads_nothing(
    listen: str, host: str, is_allowed: bool
) -> None:
    address = parse_address(listen)
    with serve_text(address, lambda: "# EOF\n") as port:
        asked = urllib.request.Request(
            f"http://{address[0]}:{port}/metrics", headers={"Host": host}
        )
        try:
            with urllib.request.urlopen(asked) as answer:
                status = answer.status
        except urllib.error.HTTPError as error:
            status = error.code
            assert "call natstui by its address" in error.read().decode()
    assert status == (200 if is_allowed else 403)


@pytest.mark.parametrize("hosts", [(), ("127.0.0.1", "evil.example"), ("127.0.0.1",) * 2])
def test_a_request_has_exactly_one_host_header(hosts: Sequence[str]) -> None:
    with serve_text(("127.0.0.1", 0), lambda: "# EOF\n") as port:
        client = http.client.HTTPConnection("127.0.0.1", port)
        client.putrequest("GET", "/metrics", skip_host=True)
        for host in hosts:
            client.putheader("Host", host)
        client.endheaders()
        assert client.getresponse().status == 403
        client.close()


def value(found: dict[str, Metric], name: str, **labels: str) -> float:
    """Return the one value with these labels."""
    (sample,) = [
        one
        for one in found[name].samples
        if all(one.labels.get(key) == text for key, text in labels.items())
    ]
    return sample.value


async def have_copied(nc: nats.NATS) -> None:
    """Wait until mirror and source were in touch with their stream, which the server then says."""
    async with asyncio.timeout(PATIENCE_S):
        for name in ("MIRROR", "ALL"):
            active_ns = -1
            while active_ns < 0:
                reply = json.loads((await nc.request(f"$JS.API.STREAM.INFO.{name}", b"", 30)).data)
                (upstream,) = [*filter(None, [reply.get("mirror")]), *reply.get("sources", ())]
                active_ns = upstream["active"]


async def filled(url: str) -> dict[str, int]:
    """Make streams and a consumer with something in every counter; return what the server says."""
    nc = await nats.connect(url)
    js = nc.jetstream()
    await js.add_stream(StreamConfig(name="A", subjects=["a.>"], max_msgs=100, max_bytes=10**6))
    await js.add_stream(StreamConfig(name="MIRROR", mirror=StreamSource(name="A")))
    await js.add_stream(StreamConfig(name="ALL", sources=[StreamSource(name="A")]))
    for number in range(10):
        await js.publish(f"a.{number % 3}", b"payload")
    consumer = ConsumerConfig(durable_name="c", description=HOSTILE, ack_wait=60)
    await js.add_consumer("A", consumer)
    pull = await js.pull_subscribe_bind("c", "A")
    first, second, *_ = await pull.fetch(4)
    await first.ack_sync(timeout=30)
    await second.nak()
    await pull.fetch(1)
    await flushed(nc)
    await have_copied(nc)
    info = await js.consumer_info("A", "c")
    assert info.num_ack_pending is not None
    assert info.num_pending is not None
    assert info.num_redelivered is not None
    await nc.close()
    return {
        "num_ack_pending": info.num_ack_pending,
        "num_pending": info.num_pending,
        "num_redelivered": info.num_redelivered,
    }


@pytest.mark.server
def test_the_page_is_that_of_the_exporter_and_has_no_old_numbers_of_a_server_that_is_gone(
    nats_server: Broker, held_port: int
) -> None:
    url = nats_server.url
    said = asyncio.run(filled(url))
    found: dict[str, Metric] = {}

    def look(page: str) -> None:
        found.update(scraped(page, lambda seen: set(EXPECTED) <= set(seen)))
        other_pages_are_not_found(page)
        nats_server.kill()
        scraped(
            page,
            lambda seen: (
                value(seen, "natstui_up") == 0
                and not any(name.startswith("jetstream_") for name in seen)
                and value(seen, "natstui_poll_age_seconds") > 1
            ),
        )

    served_here(held_port, look, "--server", url, "--interval", "200ms")
    assert set(found) == set(EXPECTED)
    for name, labels in EXPECTED.items():
        assert found[name].type == "gauge"
        assert {frozenset(one.labels) for one in found[name].samples} == {frozenset(labels)}, name
    assert value(found, "natstui_up") == 1
    assert value(found, "jetstream_stream_total_messages", stream_name="A") == 10
    assert value(found, "jetstream_stream_subject_count", stream_name="A") == 3
    assert value(found, "jetstream_stream_limit_bytes", stream_name="A") == 10**6
    assert value(found, "jetstream_stream_limit_messages", stream_name="ALL") == -1
    assert value(found, "jetstream_stream_mirror_lag", mirror_name="A", stream_name="MIRROR") == 0
    assert value(found, "jetstream_stream_source_lag", source_name="A", stream_name="ALL") == 0
    of_consumer = {"consumer_name": "c", "stream_name": "A", "consumer_desc": VISIBLE}
    for name, number in said.items():
        assert value(found, f"jetstream_consumer_{name}", **of_consumer) == number
    assert value(found, "jetstream_consumer_delivered_consumer_seq", **of_consumer) == 5


@pytest.mark.server
def test_watch_serves_the_same_beside(account: Account) -> None:
    asyncio.run(filled(account.url))
    there: list[dict[str, Metric]] = []

    async def work(begin: Begin) -> None:
        begin()
        await until_said("/metrics")
        (url,) = re.findall(r"http://\S+", written_to(sys.stderr))
        there.append(await asyncio.to_thread(scraped, url, has_everything))
        stop(signal.SIGINT)

    done = run_beside(work, "watch", "--metrics", "127.0.0.1:0", "--server", account.url)
    assert done.returncode == 0, done.stderr
    assert has_everything(there[0])


@pytest.mark.server
@pytest.mark.long
async def test_a_recording_serves_the_same_beside(account: Account, tmp_path: Path) -> None:
    await filled(account.url)
    words = ("record", "--sessions", str(tmp_path), "--server", account.url)
    with metrics(command=(*words, "--metrics", "127.0.0.1:0")) as (_, url):
        there = await asyncio.to_thread(scraped, url, has_everything)
    assert has_everything(there)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("watch", "--once", "--metrics", ":1"), "leave --once out"),
        (("watch", "--metrics", "here"), "--metrics 'here' is not an address"),
        (("record", "--metrics", "here"), "--metrics 'here' is not an address"),
    ],
)
def test_metrics_beside_are_refused_in_one_sentence(words: Sequence[str], sentence: str) -> None:
    ended = run_here(*words, "--server", "nats://127.0.0.1:1")
    assert ended.returncode == 2 and sentence in ended.stderr, ended
    assert ended.stderr.count("\n") == 1


def other_pages_are_not_found(page: str) -> None:
    try:
        urllib.request.urlopen(page.replace("/metrics", "/other"))
        raise AssertionError("it was found")
    except urllib.error.HTTPError as error:
        assert error.code == 404
        assert b"/metrics" in error.read()


def test_a_wrong_address_is_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for listen, words in (
            (f"127.0.0.1:{taken.getsockname()[1]}", "cannot listen on 127.0.0.1"),
            ("9777", "write it as 127.0.0.1:9777"),
            ("127.0.0.1:99999", "write it as 127.0.0.1:9777"),
        ):
            run = run_here("metrics", "--listen", listen, "--server", "nats://127.0.0.1:1")
            assert run.returncode == 2
            assert words in run.stderr
            assert run.stderr.count("\n") == 1


def test_no_text_of_a_finding_controls_a_terminal_and_two_names_stay_two_series() -> None:
    names = ["a\x1b[2J", "a\x7f", "a\u202e", "a\r", "a"]
    found = [Finding(STREAM_DELETED, Entity(name), 1, "text") for name in names]
    text = "".join(finding_lines(found)) + "# EOF\n"
    assert "".join(map(clean_line, text.split("\n"))) == text.replace("\n", "")
    (family,) = text_string_to_metric_families(text)
    assert len({one.labels["stream_name"] for one in family.samples}) == len(names)


def test_findings_of_deleted_streams_are_bounded_and_the_newest_stay() -> None:
    deleted = [Finding(STREAM_DELETED, Entity(f"S{at}"), at, "text") for at in range(2_326)]
    other = [Finding(NOT_CONNECTED, Entity(part="natstui"), 1, "text")]
    text = "".join(finding_lines([*deleted, *other])) + "# EOF\n"
    (family,) = text_string_to_metric_families(text)
    streams = {one.labels["stream_name"] for one in family.samples}
    assert streams == {"", *(f"S{at}" for at in range(2_226, 2_326))}


def test_a_client_that_hangs_up_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    made = threading.Event()

    def text() -> str:
        made.set()
        return "x" * 50_000_000

    before = threading.active_count()
    with serve_text(("127.0.0.1", 0), text) as port:
        reset = struct.pack("ii", 1, 0)
        whole = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        for request in (whole, b"GET / HT", b"", b"\x16\x03\x01\r\n\r\n"):
            made.clear()
            client = socket.create_connection(("127.0.0.1", port))
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
            client.sendall(request)
            if request == whole:
                assert made.wait(30)
            client.close()
        give_up_at = time.monotonic() + 30
        while threading.active_count() > before + 1:
            assert time.monotonic() < give_up_at
            time.sleep(0.01)
    assert capsys.readouterr().err == ""


def test_before_there_is_anything_there_is_only_that_nothing_is_connected() -> None:
    text = Exposition().text(State().after(LinkChanged(1, "failed", "refused")), 0)
    found = {one.name: one for one in text_string_to_metric_families(text)}
    assert set(found) == {"natstui_up"}
    assert value(found, "natstui_up") == 0


def test_before_the_first_poll_it_is_not_up() -> None:
    text = Exposition().text(State().after(LinkChanged(1, "connected", None)), 0)
    found = {one.name: one for one in text_string_to_metric_families(text)}
    assert value(found, "natstui_up") == 0


def test_of_a_server_that_hangs_or_is_lost_nothing_is_served_as_current() -> None:
    scenario = Scenario(streams=1, consumers=1)
    poll = scenario.poll(1)
    state = State()
    for record in (*scenario.beginning(), poll):
        state = state.after(record)
    lost = state.after(LinkChanged(poll.taken_at_us, "reconnecting", "it was closed"))
    for late_s, shown, is_up in ((4, state, True), (6, state, False), (0, lost, False)):
        text = Exposition().text(shown, poll.taken_mono_us + late_s * 1_000_000)
        families = {family.name: family for family in text_string_to_metric_families(text)}
        assert value(families, "natstui_up") == is_up, late_s
        assert any(name.startswith("jetstream_") for name in families) == is_up, late_s
        assert value(families, "natstui_poll_age_seconds") == late_s


def test_what_a_poll_before_a_sleep_of_the_machine_brought_is_not_served_as_current(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scenario = Scenario(streams=1, consumers=1)
    poll = scenario.poll(1)
    state = State()
    for record in (*scenario.beginning(), poll):
        state = state.after(record)
    asleep_us = poll.taken_mono_us + 3_600_000_000
    monkeypatch.setattr(time, "clock_gettime_ns", lambda _: asleep_us * 1000)
    families = {one.name: one for one in text_string_to_metric_families(Exposition().text(state))}
    assert value(families, "natstui_up") == 0
    assert value(families, "natstui_poll_age_seconds") == 3600


def test_a_row_whose_turn_comes_only_every_few_polls_is_not_left_out_as_stale() -> None:
    scenario = Scenario(streams=1, consumers=1)
    poll = scenario.poll(1)
    poll = replace(poll, cost=replace(poll.cost, round_us=10_000_000))
    state = State()
    for record in (*scenario.beginning(), poll):
        state = state.after(record)
    # Later polls come, and it is not the turn of these rows.
    state = state.after(replace(poll, taken_mono_us=poll.taken_mono_us + 11_000_000))
    for late_s, told in ((12, True), (15, False)):
        text = Exposition().text(state, poll.taken_mono_us + late_s * 1_000_000)
        names = {one.name for one in text_string_to_metric_families(text)}
        rows = {"jetstream_stream_last_seq", "jetstream_consumer_num_pending"}
        assert names & rows == (rows if told else set()), late_s


def test_two_sources_of_one_name_are_one_series_of_the_worst() -> None:
    """Servers list sources in any order, and nothing else in a reply tells these apart."""
    sources = tuple(
        Upstream("O", lag, active_ns, None, mirror=False)
        for lag, active_ns in ((3, None), (7, 1_000), (5, 9_000))
    )
    read = columns(StreamColumns, [{"name": "S", "upstreams": sources}], 1)
    text = "".join(_upstream_lines(read, [0], ['stream_name="S"'])) + "# EOF\n"
    found = {one.name: one for one in text_string_to_metric_families(text)}
    assert value(found, "jetstream_stream_source_lag") == 7
    assert value(found, "jetstream_stream_source_active_duration_ns") == 9_000
