"""A least-privilege user sees every read-only screen; what is denied is named."""

from __future__ import annotations

from collections.abc import Callable

import nats
import pytest

from natstui.jetstream.testbed.broker import Broker
from natstui.model.live.snapshot import Snapshot
from natstui.model.records.record import Unavailable
from natstui.tui.messages.pull import PullScreen
from natstui.values import replace
from tests.tui.engine_records import engine_records
from tests.tui.test_status_strip import ACCOUNT
from tests.tui.viewer import Viewer, fed, viewing

pytestmark = pytest.mark.server

ACCOUNTS = """
accounts {{ APP: {{ jetstream: enabled, users: [
  {{ user: app, password: app }}
  {{ user: mon, password: mon, permissions: {{
      publish: {{ allow: [{publish}] }}
      subscribe: {{ allow: ["_INBOX_mon.>", "$JS.EVENT.ADVISORY.STREAM.>",
                            "$JS.EVENT.ADVISORY.CONSUMER.>", "$JS.EVENT.METRIC.>"] }}
  }} }}
] }} }}
"""
INBOX = {"NATSTUI_CONNECTION_INBOX_PREFIX": "_INBOX_mon"}
READ_VERBS = (
    "$JS.API.INFO",
    "$JS.API.STREAM.LIST",
    "$JS.API.STREAM.NAMES",
    "$JS.API.STREAM.INFO.*",
    "$JS.API.CONSUMER.LIST.*",
    "$JS.API.CONSUMER.NAMES.*",
    "$JS.API.CONSUMER.INFO.*.*",
)


async def server_for(factory: Callable[..., Broker], allowed: tuple[str, ...]) -> str:
    """Start a server with a stream and a consumer; return the monitor's address."""
    quoted = ", ".join(f'"{subject}"' for subject in allowed)
    server = factory(ACCOUNTS.format(publish=quoted))
    nc = await nats.connect(server.url, user="app", password="app")
    js = nc.jetstream()
    await js.add_stream(name="S", subjects=["s"])
    await js.add_consumer("S", durable_name="c", ack_policy="explicit")
    await js.publish("s", b"x")
    await nc.close()
    return server.url.replace("nats://", "nats://mon:mon@")


async def test_a_read_only_user_can_use_every_screen_and_each_names_what_is_missing_for_it(
    nats_server_factory: Callable[..., Broker],
) -> None:
    pulling = "$JS.API.CONSUMER.MSG.NEXT.S.c"
    url = await server_for(nats_server_factory, (*READ_VERBS, pulling))
    async with viewing(url, size=(120, 40), environ=INBOX) as viewer:
        await viewer.becomes("S", msgs="1", consumers="1")
        await viewer.press("2")
        await viewer.becomes("c", pending="1")
        await viewer.press("4")
        await viewer.until(lambda: "● connected" in viewer.words and "ACCOUNT" in viewer.text)
        for keys, subjects in (
            (("4",), ("$SYS.REQ.ACCOUNT.PING.CONNZ", "$SYS.REQ.SERVER.PING.VARZ", "http_port")),
            (("6",), ("$SYS.REQ.ACCOUNT.PING.CONNZ", "--allow-pub")),
            (("x",), ("$SYS.REQ.ACCOUNT.PING.CONNZ", "--allow-pub")),
            (("1", "W"), ("$SYS.REQ.ACCOUNT.PING.CONNZ", "an operator adds it")),
            (("escape", "2", "W"), ("$SYS.REQ.ACCOUNT.PING.CONNZ", "an operator adds it")),
        ):
            await viewer.press(*keys)
            for subject in subjects:
                await viewer.until(lambda it=subject: it in viewer.words, f"{keys} {subject}")
        await viewer.press("escape", "1")
        await viewer.becomes("S", msgs="1", consumers="1")
        await viewer.press("m", "T")
        wanted = 'the user has no permission to subscribe to "s"'
        await viewer.until(lambda: wanted in viewer.text, wanted)
        await viewer.press("escape", "escape")
        await viewer.type_command("sub secret.>")
        secret = 'the user has no permission to subscribe to "secret.>"'
        await viewer.until(lambda: secret in viewer.text, secret)
        await viewer.press("escape")
        await viewer.type_command("sub a..b")
        await viewer.until(lambda: "'a..b' is not a subject" in viewer.words)
        await viewer.press("escape")
        await a_refused_ack_is_not_called_acknowledged(viewer)
    nc = await nats.connect(url.replace("mon:mon", "app:app"))
    assert (await nc.jetstream().consumer_info("S", "c")).num_ack_pending == 1
    await nc.close()


async def a_refused_ack_is_not_called_acknowledged(viewer: Viewer) -> None:
    await viewer.app.push_screen(PullScreen("S", "c"))
    await viewer.press("enter")
    await viewer.until(lambda: "not acked yet" in viewer.words, "the message")
    for key in ("a", "r"):
        await viewer.press(key)
        await viewer.until(lambda: not viewer.app.link.pending, "the answer")
        assert "permission" in viewer.text.lower(), "refused"
        assert "acknowledged" not in viewer.text


async def test_what_may_not_be_read_is_named_where_it_would_stand() -> None:
    denied = "the user has no permission to publish to $JS.API.CONSUMER.LIST.S"
    reason = Unavailable(2_000_000, "CONSUMER.LIST.S", denied, "$JS.API.CONSUMER.LIST.S")
    *before, poll = engine_records({"S": ()})
    assert isinstance(poll, Snapshot)
    async with fed(*before, reason, replace(poll, account=ACCOUNT)) as viewer:
        await viewer.until(lambda: "unavailable" in viewer.text)
        await viewer.press("2")
        await viewer.until(lambda: denied in viewer.words, "why there is no consumer")
        await viewer.press("4")
        await viewer.until(lambda: viewer.app.current_mode == "server", "the servers")
        await viewer.until(lambda: "$JS.API.CONSUMER.LIST" in viewer.text)


@pytest.mark.long
async def test_what_the_user_may_not_read_is_named_with_its_subject(
    nats_server_factory: Callable[..., Broker],
) -> None:
    allowed = tuple(subject for subject in READ_VERBS if "CONSUMER.LIST" not in subject)
    url = await server_for(nats_server_factory, allowed)
    async with viewing(url, size=(140, 40), environ=INBOX) as viewer:
        await viewer.becomes("S", msgs="1")
        await viewer.until(lambda: "unavailable" in viewer.text)
        await viewer.press("2")
        await viewer.until(lambda: "$JS.API.CONSUMER.LIST" in viewer.text)
        await viewer.press("4")
        await viewer.until(lambda: viewer.app.current_mode == "server", "the servers")
        await viewer.until(lambda: "$JS.API.CONSUMER.LIST" in viewer.text)
