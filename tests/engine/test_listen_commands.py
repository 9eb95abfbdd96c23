"""Listening in read-only mode: what it would take of push consumers for good is refused."""

from __future__ import annotations

import pytest

from natstui.config.connection import Connection
from natstui.engine.server_commands import ListenCommands
from natstui.errors import ActionRefusal
from natstui.jetstream.connection.client import connect
from natstui.model.records.listening import StartListening, SubjectRowOptions
from natstui.model.records.record import Record
from tests.accounts import Account
from tests.cli.test_core import connected

LOOK = SubjectRowOptions(by="subject", reverse=False)


class Unread:
    """A viewer that reads nothing."""

    def add(self, _record: Record) -> None:
        pass


@pytest.mark.server
async def test_read_only_it_takes_nothing_of_a_push_consumer(account: Account) -> None:
    async with connected(account.url) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s"])
        await js.add_consumer(
            "S", durable_name="C", deliver_subject="push.here", ack_policy="none"
        )
        await js.publish("s", b"precious")
        client = await connect(Connection(servers=(account.url,), read_only=True))
        commands = ListenCommands(Unread())
        refused = "read-only: .*: C of S delivers to push.here, which has no subscriber"
        with pytest.raises(ActionRefusal, match=refused):
            await commands.execute(client, StartListening(1, ("push.here",), LOOK), print)
        sentence, _ = await commands.execute(client, StartListening(2, ("push.*",), LOOK), print)
        assert "push" in sentence
        # At once: also a listener that has had no time closes its connection.
        await commands.close()
        await client.close()
        assert (await js.consumer_info("S", "C")).delivered.stream_seq == 0, "nothing was taken"
