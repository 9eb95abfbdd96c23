"""`natstui health` and `natstui stuck`: verdict, exit code, and the same facts in every format."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import nats
import nats.js.errors
import pytest
from nats.js.api import ConsumerConfig, StreamConfig
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from natstui.cli.servers import unread_source_text
from natstui.config import Connection
from natstui.jetstream.connection.client import connect
from natstui.jetstream.connection.journal import Journal
from natstui.jetstream.connection.times import time_us
from natstui.jetstream.connection.writer import Writer
from natstui.jetstream.testbed.broker import Broker
from natstui.model.findings.catalogue.every import KINDS
from natstui.model.findings.monitor_metadata import PREFIX
from natstui.model.records.managing import SilenceFinding
from tests.cli.beside import Begin, run_beside, stop
from tests.cli.rewriting import too_old
from tests.cli.test_manage import Done
from tests.cli.test_manage import run_here as run
from tests.jetstream.flushing import flushed
from tests.jetstream.pending import until_pending

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("health")]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A server that all tests here only read from."""
    with Broker(store=tmp_path_factory.mktemp("health")) as broker:
        yield broker


@pytest.fixture(scope="module")
def url(server: Broker) -> str:
    """A well stream and consumer, one that waits for its acknowledgement, and one threshold."""
    asyncio.run(filled(server.url))
    # Every test reports what has lasted long enough, whichever of them comes first.
    for _ in range(10):
        judged = run("health", "--server", server.url, "--consumer", "SICK/held")
        if judged.returncode == 2:
            return server.url
    raise AssertionError(judged)


async def filled(url: str) -> None:
    nc = await nats.connect(url)
    js = nc.jetstream()
    await js.add_stream(StreamConfig(name="WELL", subjects=["well"], max_msgs=100))
    await js.add_consumer("WELL", ConsumerConfig(durable_name="idle", max_deliver=5))
    await js.add_stream(StreamConfig(name="SICK", subjects=["sick"], max_msgs=100))
    await js.add_consumer(
        "SICK",
        ConsumerConfig(durable_name="held", max_ack_pending=2, ack_wait=600, max_deliver=5),
    )
    for _ in range(10):
        await js.publish("sick", b"x")
    pull = await js.pull_subscribe_bind("held", "SICK")
    await pull.fetch(2)
    await until_pending(js, "SICK", 8, "held")
    metadata = {f"{PREFIX}msgs-warn": "5"}
    await js.add_stream(StreamConfig(name="FEW", subjects=["few"], max_msgs=9, metadata=metadata))
    await nc.close()


def test_a_server_that_is_not_supported_is_told_once_and_not_called_fine(url: str) -> None:
    with too_old(url) as (older, version):
        done = run("health", "--server", older, "--stream", "WELL", "--for", "200ms")
    assert (done.returncode, done.stderr) == (3, "")
    told = f"nats-server {version} is not supported: natstui needs 2.10 or newer"
    assert done.stdout.count("not supported") == 1
    first = done.stdout.splitlines()[0]
    assert first.startswith("unknown: ") and first.endswith(f"; {told}")


def test_what_was_asked_about_is_what_is_counted(url: str) -> None:
    for words, counts in (
        (("--stream", "WELL"), "1 stream and 1 consumer"),
        (("--stream", "FEW"), "1 stream and 0 consumers"),
        (("--consumer", "WELL/idle"), "1 stream and 1 consumer"),
        ((), "3 streams and 2 consumers"),
    ):
        done = run("health", "--server", url, "--for", "200ms", *words)
        assert f" in {counts}" in done.stdout.splitlines()[0], done


def test_the_exit_code_is_the_worst_of_what_was_asked_about(url: str) -> None:
    for words, code, told in (
        (["--stream", "WELL"], 0, "fine: natstui found nothing wrong"),
        (["--consumer", "WELL/idle"], 0, "fine: natstui found nothing wrong"),
        (["--stream", "FEW"], 1, "0 messages, 5 are few"),
        (["--consumer", "SICK/held"], 2, "2 of 2 ack pending"),
        (["--min-severity", "critical", "--stream", "FEW"], 0, "fine"),
        (["--stream", "GONE"], 3, "there is no stream GONE"),
        (["--consumer", "SICK/gone"], 3, "there is no consumer SICK/gone"),
    ):
        ended = run("health", "--server", url, *words)
        assert ended.returncode == code, (words, ended.stdout, ended.stderr)
        assert told in ended.stdout, (words, ended.stdout)


async def test_what_is_silenced_is_left_out_and_counted(
    nats_server: Broker, tmp_path: Path
) -> None:
    await filled(nats_server.url)
    client = await connect(Connection(servers=(nats_server.url,)))
    info = json.loads(await client.request("CONSUMER.INFO.SICK.held"))
    writer = Writer(client, Journal())
    made_us = time_us(info["created"])
    writer.silence(SilenceFinding(0, "NT-C09", "SICK", "held", made_us, "", "it is meant", 600))
    await client.close()
    words = ("health", "--server", nats_server.url, "--consumer", "SICK/held")

    def ended(*more: str) -> Done:
        return run(*words, *more)

    told = await asyncio.to_thread(ended)
    assert told.returncode == 0 and "1 silenced" in told.stdout, told
    told = await asyncio.to_thread(ended, "--json")
    assert json.loads(told.stdout)["silenced_count"] == 1
    told = await asyncio.to_thread(ended, "--ignore-silences")
    assert told.returncode == 2 and "NT-C09" in told.stdout, told
    stuck = await asyncio.to_thread(run, "stuck", "SICK", "held", "--server", nats_server.url)
    assert stuck.returncode == 2 and "NT-C09" in stuck.stdout, stuck


def test_every_format_tells_the_same(url: str) -> None:
    said = json.loads(run("health", "--server", url, "--for", "1s", "--json").stdout)
    assert said["status"] == "critical"
    assert said["streams_count"] == 3
    codes = [(one["severity"], one["code"]) for one in said["findings"]]
    (held,) = [one for one in said["findings"] if one["consumer"] == "held"]
    assert KINDS[held["code"]].word == held["word"] == "max ack pending reached"
    assert held["check"] and held["act"] and held["since_us"] <= said["at_us"]
    nagios = run("health", "--server", url, "--format", "nagios")
    assert nagios.returncode == 2
    status, _, data = nagios.stdout.partition(" | ")
    assert status.startswith("CRITICAL natstui: ")
    criticals = sum(severity == "critical" for severity, _ in codes)
    counts, _, watched = data.strip().partition(" watched=")
    assert counts == f"critical={criticals};;1 warning=1;1 streams=3 consumers=2"
    assert re.fullmatch(r"\d+\.\ds not_judged=\d+", watched)
    text = run("health", "--server", url, "--format", "openmetrics").stdout
    found = {one.name: one for one in text_string_to_metric_families(text)}
    assert found["natstui_health_status"].samples[0].value == 2
    labels = [one.labels for one in found["natstui_finding_since_seconds"].samples]
    assert [(one["severity"], one["code"]) for one in labels] == codes


def test_one_consumer_is_explained_in_full(url: str) -> None:
    ended = run("stuck", "--server", url, "SICK", "held", "--for", "1s", "--facts")
    assert ended.returncode == 2
    facts = ended.stdout.partition("\nfacts\n")[2]
    assert "ack_pending_msgs         2 msgs" in facts and "(of 30 s)" in facts, ended.stdout
    for words in (
        "SICK > held: max ack pending reached", "pending          8 messages",
        "ack pending      2 of 2",
        "the next message has been waiting for", "check: ", "do: ",
    ):  # fmt: skip
        assert words in ended.stdout, ended.stdout
    ended = run("stuck", "--server", url, "WELL", "idle")
    assert ended.returncode == 0
    assert "natstui found nothing wrong with the consumer" in ended.stdout
    ended = run("stuck", "--server", url, "WELL", "other")
    assert (ended.returncode, ended.stdout) == (3, "")
    assert ended.stderr == "natstui: there is no consumer WELL/other\n"


def test_what_cannot_be_told_is_3_and_one_sentence(tmp_path: Path) -> None:
    for words in (
        ["--server", "nats://127.0.0.1:1"],
        ["--consumer", "S"],
        ["--for", "soon"],
        ["--config", str(tmp_path / "none.toml")],
    ):
        ended = run("health", *words)
        assert ended.returncode == 3, words
        assert ended.stdout == ""
        assert ended.stderr.startswith("natstui: ")
        assert ended.stderr.count("\n") == 1


def test_what_was_to_be_read_and_was_not_is_not_called_fine(
    url: str, nats_server: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATSTUI_CONNECTION_MONITORING", "http://127.0.0.1:1")
    words = ("health", "--server", nats_server.url, "--min-severity", "critical", "--for", "1s")
    text = "not read: the monitoring ports"
    for format_words in ((), ("--format", "nagios")):
        done = run(*words, *format_words)
        assert done.returncode == 3 and text in done.stdout, done
    # Servers are not the subject of a stream.
    assert run("health", "--server", url, "--stream", "WELL").returncode == 0


def test_servers_that_are_still_to_be_read_are_waited_for(
    nats_server: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        monkeypatch.setenv("NATSTUI_CONNECTION_MONITORING", f"http://127.0.0.1:{port}")
        monkeypatch.setenv("NATSTUI_CONNECTION_REQUEST_TIMEOUT_S", "1")
        done = run("overview", "--server", nats_server.url, "--for", "0s")
    assert done.returncode == 4 and "not read: the monitoring ports" in done.stderr, done


def test_servers_that_were_not_read_in_time_are_named() -> None:
    read_from_ports = Connection(
        servers=("nats://localhost",), monitoring=("http://localhost:8222",)
    )
    text = unread_source_text(read_from_ports, None)
    assert text is not None and text.startswith("not read: the monitoring ports: nothing replied")
    assert unread_source_text(Connection(servers=("nats://localhost",)), None) is None


def test_an_account_that_may_not_be_read_is_not_called_fine(
    nats_server_factory: Callable[..., Broker],
) -> None:
    broker = nats_server_factory("""
      jetstream: enabled
      authorization { users: [ { user: a, password: a,
        permissions: { publish: { deny: "$JS.API.INFO" } } } ] }
    """)
    url = broker.url.replace("nats://", "nats://a:a@")
    done = run("health", "--server", url, "--min-severity", "critical")
    assert done.returncode == 3 and "the account: the user has no permission" in done.stdout, done


def test_the_catalogue_is_printed_without_a_server() -> None:
    text = run("health", "--list")
    assert text.returncode == 0
    for code, kind in KINDS.items():
        assert f"{code}  {kind.severity}" in text.stdout
        assert kind.sentence in text.stdout
        assert kind.act in text.stdout
    said = json.loads(run("health", "--json", "--list").stdout)
    assert [one["code"] for one in said] == list(KINDS)
    assert all(limit["unit"] for one in said for limit in one["thresholds"])


def test_a_recording_is_judged_as_it_was_live(url: str, tmp_path: Path) -> None:
    words = ["--server", url, "--sessions", str(tmp_path), "--duration", "2s"]
    recorded = run("record", *words)
    assert recorded.returncode == 0, recorded.stderr
    (folder,) = tmp_path.iterdir()
    live = json.loads(run("health", "--server", url, "--json").stdout)
    ended = run("health", "--session", folder.name, "--sessions", str(tmp_path), "--json")
    said = json.loads(ended.stdout)
    assert (ended.returncode, said["unknown"]) == (2, None)
    found = [{(one["code"], one["stream"]) for one in each["findings"]} for each in (said, live)]
    assert found[0] == found[1]
    since = [{one["code"]: one["since_us"] for one in each["findings"]} for each in (said, live)]
    assert since[0]["NT-C09"] == since[1]["NT-C09"]
    both = run("health", "--session", folder.name, "--server", url)
    assert both.returncode == 3
    assert "leave --server" in both.stderr


def test_a_tap_ends_by_itself_and_says_what_it_cost(url: str) -> None:
    words = ("stuck", "--server", url, "WELL", "idle", "--for", "1s", "--tap", "1s", "--json")
    done = run(*words)
    told = json.loads(done.stdout)
    assert done.returncode == 0, done
    assert (told["stream"], told["consumer"]) == ("WELL", "idle")
    assert told["status"] and told["state"]["ack_policy"] == "explicit"
    tap = told["tap"]
    assert tap["ended"] == "ended: natstui read for 1s" and tap["elapsed_s"] >= 1
    assert (tap["read_msgs"], tap["read_bytes"], tap["unsettled"]) == (0, 0, [])


def test_a_tap_that_is_stopped_before_its_time_tells_what_it_read(server: Broker) -> None:
    done = tapped(server.url)
    assert done.returncode == 130
    told = json.loads(done.stdout)
    assert (told["stream"], told["consumer"]) == ("TAPPED", "C")
    tap = told["tap"]
    assert tap["ended"] == "ended: reading was stopped" and tap["elapsed_s"] < 300
    assert tap["counts"]["acks_count"] == 8 and tap["counts"]["naks_count"] == 2
    # The question whether somebody listens was read too.
    assert tap["read_msgs"] == 11 and tap["counts"]["others_count"] == 1
    assert tap["read_bytes"] > 300
    assert [one["stream_seq"] for one in tap["unsettled"]] == [9, 10]
    assert tap["stored_to_acked_p50_ns"] > 0


def tapped(url: str) -> Done:
    """Answer ten messages after the tap has begun, and stop it.

    The server shows that it has begun as a subscription.
    """

    async def work(begin: Begin) -> None:
        nc = await nats.connect(url)
        js = nc.jetstream()
        with suppress(nats.js.errors.NotFoundError):
            await js.delete_stream("TAPPED")
        await js.add_stream(StreamConfig(name="TAPPED", subjects=["tapped"]))
        await js.add_consumer("TAPPED", ConsumerConfig(durable_name="C", ack_wait=600))
        for _ in range(10):
            await js.publish("tapped", b"x")
        messages = await (await js.pull_subscribe_bind("C", "TAPPED")).fetch(10)
        begin()
        while await nobody_listens(nc):
            await asyncio.sleep(0.05)
        for number, message in enumerate(messages):
            await (message.ack() if number < 8 else message.nak(delay=600))
        await flushed(nc)
        # What it has read shows when it ends only.
        await asyncio.sleep(3)
        stop(signal.SIGINT)
        await nc.close()

    words = ("stuck", "--server", url, "TAPPED", "C", "--for", "1s", "--tap", "5m", "--json")
    return run_beside(work, *words)


async def nobody_listens(nc: nats.NATS) -> bool:
    """Tell whether nobody reads the answers of this consumer's clients yet.

    The server's word for "nobody" stands before its answer to a ping: no clock decides.
    """
    heard = await nc.subscribe(inbox := nc.new_inbox())
    await nc.publish("$JS.ACK.TAPPED.C.none", reply=inbox)
    await flushed(nc)
    nobody = heard.pending_msgs > 0
    await heard.unsubscribe()
    return nobody


def test_a_tap_without_a_sensible_time_is_one_sentence(url: str) -> None:
    for text in ("soon", "0s", "1h"):
        ended = run("stuck", "--server", url, "WELL", "idle", "--tap", text)
        assert ended.returncode == 3
        assert ended.stderr.startswith("natstui: --tap") and ended.stderr.count("\n") == 1
