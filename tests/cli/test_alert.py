"""`natstui alert`: everybody a rule names is told once, and once more when it is over."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import nats
import pytest
from click.testing import CliRunner
from nats.aio.msg import Msg
from nats.js.api import ConsumerConfig, StreamConfig

from natstui.cli.alerts import command as alert_command
from natstui.cli.alerts.notices import Notice, Notices
from natstui.cli.alerts.sending import NoticeSender
from natstui.cli.root import root
from natstui.config.settings import Alert
from natstui.errors import SessionError
from natstui.jetstream.testbed.broker import Broker
from natstui.model.findings.catalogue.account import ALERT_NOT_DELIVERED
from natstui.model.findings.finding import Entity, Finding, Findings
from tests.cli.beside import Begin, run_beside, stop
from tests.cli.test_manage import run_here
from tests.jetstream.flushing import flushed
from tests.model.findings.life import Life, at_us
from tests.session.making import made
from tests.session.scenario import Scenario
from tests.wrong_http import MODES, wrong_http

PATIENCE_S = 60.0


def limited(life: Life, *, full: bool) -> None:
    life.polls(4, pending_msgs=5, ack_pending_msgs=2 if full else 0, delivered_at_us=at_us(0))


def held() -> Life:
    return Life({"max_ack_pending_msgs": 2, "ack_policy": "explicit"})


def told(notices: Notices, life: Life) -> list[tuple[str, str, str]]:
    found = notices.update(life.state.findings, life.state.now_at_us)
    return [(one.alert, one.status, one.finding.kind.code) for one in found]


def test_a_finding_is_told_once_when_it_has_held_and_once_when_it_is_over() -> None:
    life, notices = held(), Notices({"now": Alert(hold_s=0), "later": Alert(hold_s=8)})
    limited(life, full=True)
    assert ("now", "open", "NT-C09") in told(notices, life)
    assert told(notices, life) == []
    limited(life, full=True)
    limited(life, full=True)
    assert ("later", "open", "NT-C09") in told(notices, life)
    life.polls(6, pending_msgs=0, ack_pending_msgs=0, delivered_consumer_seq=9)
    ended = told(notices, life)
    assert ("now", "resolved", "NT-C09") in ended
    assert ("later", "resolved", "NT-C09") in ended
    assert told(notices, life) == []


def test_what_was_sent_stays_sent_when_the_clock_is_set_back() -> None:
    life, notices = held(), Notices({"rule": Alert(hold_s=60, codes=("NT-C09",))})
    limited(life, full=True)
    findings, now_us = life.state.findings, life.state.now_at_us
    sent = [
        [notice.status for notice in notices.update(findings, now_us + round(s * 1e6))]
        for s in (60, -3600, 61)
    ]
    assert sent == [["open"], [], []]
    life.polls(6, pending_msgs=0, ack_pending_msgs=0, delivered_consumer_seq=9)
    ended = notices.update(life.state.findings, now_us - 3_600_000_000)
    assert [notice.status for notice in ended] == ["resolved"]


def test_codes_severity_and_entity_choose() -> None:
    alerts = {
        "code": Alert(hold_s=0, codes=["NT-C09"]),
        "other": Alert(hold_s=0, codes=["NT-C01"]),
        "consumer": Alert(hold_s=0, entity="S/*", codes=["NT-C09"]),
        "stream": Alert(hold_s=0, entity="S"),
        "elsewhere": Alert(hold_s=0, entity="T/*"),
        "severe": Alert(hold_s=0, min_severity="critical"),
    }
    life = held()
    limited(life, full=True)
    names = {name for name, _, code in told(Notices(alerts), life) if code == "NT-C09"}
    assert names == {"code", "consumer", "severe"}


@contextmanager
def hook(bodies: list[dict[str, Any]]) -> Iterator[str]:
    """Serve an address that keeps what is posted to it."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.sleep(0.05)


def statuses(bodies: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(one["status"], one["code"]) for one in bodies if one["consumer"] == "held"]


async def stuck(url: str) -> nats.NATS:
    """Make a consumer that waits for acknowledgements."""
    nc = await nats.connect(url)
    js = nc.jetstream()
    await js.add_stream(StreamConfig(name="SICK", subjects=["sick"], max_msgs=100))
    limits = ConsumerConfig(durable_name="held", max_ack_pending=2, ack_wait=600, max_deliver=5)
    await js.add_consumer("SICK", limits)
    for _ in range(10):
        await js.publish("sick", b"x")
    pull = await js.pull_subscribe_bind("held", "SICK")
    await pull.fetch(2)
    return nc


@pytest.mark.server
def test_a_command_a_webhook_and_a_subject_are_told(nats_server: Broker, tmp_path: Path) -> None:
    posted: list[dict[str, Any]] = []
    published: list[dict[str, Any]] = []
    script, kept = tmp_path / "keep.py", tmp_path / "kept"
    script.write_text(f"import sys; open({str(kept)!r}, 'a').write(sys.stdin.read() + '\\n')")
    config = tmp_path / "config.toml"
    opened = [("open", "NT-C09")]
    both = [*opened, ("resolved", "NT-C09")]

    async def take(message: Msg) -> None:
        published.append(json.loads(message.data))

    async def work(begin: Begin) -> None:
        nc = await stuck(nats_server.url)
        await nc.subscribe("alerts", cb=take)
        await flushed(nc)
        begin()
        await until(lambda: statuses(published) == statuses(posted) == opened)
        await until(kept.exists)
        await nc.jetstream().purge_stream("SICK")
        await until(lambda: statuses(published) == statuses(posted) == both)
        await nc.close()
        stop()

    with hook(posted) as address:
        config.write_text(
            '[alerts.held]\nentity = "SICK/*"\ncodes = ["NT-C09"]\nhold_s = 0\n'
            f'subject = "alerts"\nwebhook = "{address}"\nbell = true\n'
            f'command = "{sys.executable} -S {script}"\n'
        )
        done = run_beside(
            work, "alert", "--config", str(config), "--server", nats_server.url,
            "--confirm", "alerts", environment={"NATSTUI_CONNECTION_PRODUCTION": "true"},
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [line.split()[3] for line in done.stdout.splitlines()] == ["open", "resolved"]
    assert "\a" in done.stderr
    assert "findings are published to alerts" in done.stderr
    unknown = "it is not known who receives what is published to alerts\n"
    assert f"watching for 1 alert; {unknown}" in done.stderr
    bodies = [json.loads(line) for line in kept.read_text().splitlines()]
    assert sorted(statuses(bodies)) == both
    assert posted[0]["alert"] == "held"
    assert posted[0]["until_us"] is None
    assert posted[1]["until_us"] >= posted[1]["since_us"] == posted[0]["since_us"]


def some_notice(alert: str) -> Notice:
    return Notice(alert, "open", Finding(ALERT_NOT_DELIVERED, Entity(part="x"), 1, "text"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "mode",
    [
        pytest.param(mode, marks=[pytest.mark.long] * (mode in ("drip", "hang", "redirect")))
        for mode in MODES
    ],
)
async def test_a_failing_webhook_is_retried_reported_and_delays_no_other_rule(mode: str) -> None:
    failing: list[str] = []
    working: list[str] = []
    reported: list[str] = []
    async with wrong_http(mode, failing) as wrong, wrong_http("ok", working) as right:
        rules = {f"bad{number}": Alert(webhook=wrong) for number in range(6)}
        rules["good"] = Alert(webhook=right)
        sender = NoticeSender(
            rules, reported.append, webhook_timeout_s=2.0, retry_after_s=(0.1, 0.2)
        )
        for name in rules:
            sender.send(some_notice(name))
        await until(lambda: len(working) == 1)
        lasts = ("not sent", "trying again in 60 s")
        await until(lambda: sum(each.endswith(lasts) for each in reported) == 6)
        assert len(failing) == 6 * 3
        firsts = {each.partition(":")[0]: each for each in reversed(reported)}
        assert len(firsts) == 6
        assert all("trying again in 0.1 s" in each for each in firsts.values())
        found = sender.failure_findings()
        assert {one.entity.part for one in found} == {f"alert bad{number}" for number in range(6)}
        notices = Notices({"other": Alert(hold_s=0, entity="alert *")})
        assert len(notices.update(Findings(), found[0].since_us + 10**6, found)) == 6
        ended = notices.update(Findings(), found[0].since_us + 10**6)
        assert {one.status for one in ended} == {"resolved"}
        await sender.finish(0.1)


async def test_a_webhook_that_does_not_reply_is_given_up_after_its_time() -> None:
    reported: list[str] = []
    async with wrong_http("hang", []) as address:
        sender = NoticeSender(
            {"a": Alert(webhook=address)},
            reported.append,
            webhook_timeout_s=0.3,
            retry_after_s=(0.1,),
        )
        sender.send(some_notice("a"))
        await until(lambda: len(reported) == 2)
        said = "alert a: webhook: no complete reply within 0.3 s; trying again in"
        assert reported == [f"{said} 0.1 s", f"{said} 60 s"]
        await sender.finish(0.1)


async def test_an_outage_that_is_longer_than_the_retries_loses_no_notice() -> None:
    requests: list[str] = []
    reported: list[str] = []
    async with wrong_http("ok", requests) as address:
        port = address.rpartition(":")[2]
    sender = NoticeSender(
        {"a": Alert(webhook=address)}, reported.append, retry_after_s=(0.1,), retry_interval_s=0.2
    )
    sender.send(some_notice("a"))
    sender.send(some_notice("a"))
    await until(lambda: sum("trying again in 0.2 s" in each for each in reported) == 3)
    async with wrong_http("ok", requests, int(port)):
        await until(lambda: len(requests) == 2)
        await until(lambda: not sender.failure_findings())
    await sender.finish(0.1)


async def test_a_command_that_fails_is_named_without_its_arguments() -> None:
    reported: list[str] = []
    sender = NoticeSender({"a": Alert(command="false --token SECRET")}, reported.append)
    sender.send(some_notice("a"))
    await until(lambda: bool(reported))
    assert reported == ["alert a: the command false ended with 1; not sent"]
    assert "SECRET" not in sender.failure_findings()[0].text
    await sender.finish(0.1)


async def test_what_succeeds_again_is_no_finding_any_more() -> None:
    requests: list[str] = []
    reported: list[str] = []
    async with wrong_http("ok", requests) as address:
        port = address.rpartition(":")[2]
    sender = NoticeSender(
        {"a": Alert(webhook=address)}, reported.append, retry_after_s=(0.1,) * 300
    )
    sender.send(some_notice("a"))
    await until(lambda: bool(sender.failure_findings()))
    async with wrong_http("ok", requests, int(port)):
        await until(lambda: not sender.failure_findings())
    assert reported[0].startswith("alert a: webhook: cannot connect")
    await sender.finish(0.1)


@pytest.mark.server
def test_a_signal_ends_it_while_webhooks_hang(
    nats_server: Broker, tmp_path: Path, held_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alert_command, "_UNSENT_NOTICES_TIMEOUT_S", 0.5)
    config = tmp_path / "config.toml"
    config.write_text(
        "".join(
            f'[alerts.bad{rule}]\nhold_s = 0\nwebhook = "http://127.0.0.1:{held_port}/{rule}"\n'
            for rule in range(6)
        )
    )

    async def work(begin: Begin) -> None:
        requests: list[str] = []
        await (await stuck(nats_server.url)).close()
        async with wrong_http("drip", requests, held_port):
            begin()
            await until(lambda: len({line.split()[1] for line in requests}) == 6)
            stop(signal.SIGINT)
            await until(ended.is_set)

    ended = threading.Event()
    words = ("alert", "--config", str(config), "--server", nats_server.url)
    done = run_beside(work, *words, ended=ended)
    assert done.returncode == 0, done.stderr
    sentence = "6 of 6 receivers of alerts still had unsent notifications at the end"
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "there are no alerts"),
        ("[alerts.a]", "[alerts.a] has no receiver"),
        ('[alerts.a]\ncommand = "no-such-program x"', "there is no command"),
        ('[alerts.a]\nwebhook = "ftp://x"', "does not begin with http"),
        ('[alerts.a]\nwebhook = "http://127.0.0.1:99999/"', "no valid host or port"),
        ('[alerts.a]\nwebhook = "http://[::1"', "no valid host or port"),
        ('[alerts.a]\nsubject = "a b"', "is not a valid subject to publish to"),
        ('[alerts.a]\nsubject = "a..b"', "is not a valid subject to publish to"),
        ('[alerts.a]\nsubject = "a.>"', "is not a valid subject to publish to"),
        ('[alerts.a]\nsubject = "$JS.API.STREAM.PURGE.S"', "belongs to the server"),
        ('[alerts.a]\nsubject = "$SYS.REQ.SERVER.PING"', "belongs to the server"),
        ('[alerts.a]\nsubject = "$KV.BUCKET.key"', "belongs to the server"),
        ('[alerts.a]\nsubject = "$O.STORE.C.id"', "belongs to the server"),
        (
            '[alerts.a]\nsubject = "JS.hub.STREAM.PURGE.S"\n[connection]\napi_prefix = "JS.hub"',
            "belongs to the server",
        ),
        ('[alerts.a]\nsubject = "x"\n[connection]\nread_only = true', "read-only"),
        ('[alerts.a]\nbel = true', "did you mean 'bell'"),
    ],
)  # fmt: skip
def test_rules_that_could_never_tell_anybody_are_refused(
    text: str, words: str, tmp_path: Path
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(text)
    done = run_here("alert", "--config", str(config))
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ((), "findings are published to a.b, c; use --confirm a.b,c"),
        (("--confirm", "c"), "'c' is not 'a.b,c': nothing was changed"),
    ],
)
def test_production_wants_the_subjects_that_findings_are_published_to(
    more: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    config = tmp_path / "config.toml"
    rules = "".join(f'[alerts.{rule}]\nsubject = "{subject}"\n'
                    for rule, subject in (("x", "c"), ("y", "a.b"), ("z", "c")))  # fmt: skip
    config.write_text(f"{rules}[connection]\nproduction = true\nserver = 'nats://127.0.0.1:1'\n")
    done = run_here("alert", "--config", str(config), *more)
    assert done.returncode == 5, done.stderr
    assert words in done.stderr


@pytest.mark.server
def test_a_rule_is_tried_on_a_recording(nats_server: Broker, tmp_path: Path) -> None:
    async def make_stuck() -> None:
        await (await stuck(nats_server.url)).close()

    asyncio.run(make_stuck())
    sessions, config = tmp_path / "sessions", tmp_path / "config.toml"
    config.write_text(
        '[alerts.held]\nhold_s = 0\nbell = true\n[alerts.never]\ncodes = ["NT-C01"]\nbell = true\n'
    )
    record = ("record", "--server", nats_server.url, "--sessions", str(sessions))
    assert run_here(*record, "--duration", "3s").returncode == 0
    (folder,) = sessions.iterdir()
    dry = ("alert", "--dry-run", folder.name, "--sessions", str(sessions), "--config", str(config))
    run = run_here(*dry)
    assert run.returncode == 0, run.stderr
    *lines, held_line, never_line = run.stdout.splitlines()
    told = "held open critical NT-C09 SICK > held: max ack pending reached"
    assert any(told in line for line in lines)
    assert (
        held_line
        == f"held would have fired {'once' if len(lines) == 1 else f'{len(lines)} times'}"
    )
    assert never_line == "never would have fired 0 times"
    as_json = run_here(*dry, "--json")
    *notices, held_sum, never_sum = map(json.loads, as_json.stdout.splitlines())
    assert {"alert": "held", "status": "open", "code": "NT-C09"}.items() <= notices[0].items()
    assert held_sum == {"alert": "held", "fired_count": len(lines)}
    assert never_sum == {"alert": "never", "fired_count": 0}


def test_a_rule_that_is_tried_on_what_cannot_be_read_is_no_success(tmp_path: Path) -> None:
    scenario = Scenario(streams=1, consumers=1)
    folder = made(tmp_path / "sessions", [*scenario.beginning(), scenario.poll(1)])
    config = tmp_path / "config.toml"
    config.write_text("[alerts.any]\nbell = true\n")
    words = ["alert", "--dry-run", str(folder), "--config", str(config)]
    whole = CliRunner().invoke(root, words)
    assert whole.exit_code == 0, whole.output
    for segment in folder.glob("*.jsonl*"):
        if not segment.name.startswith("index"):
            segment.write_bytes(b"")
    done = CliRunner().invoke(root, words)
    assert isinstance(done.exception, SessionError)
    assert "it has no poll: nothing was checked" in str(done.exception)
