"""What a consumer gave up: found, looked at, sent again, and never guessed."""

from __future__ import annotations

import nats
import pytest
from nats.aio.client import Client

from natstui.tui.kit.pick import PickDialog
from natstui.tui.kit.prompt import Prompt
from natstui.tui.messages.dead_letters import DeadLettersScreen
from natstui.tui.messages.message import MessageScreen
from natstui.tui.messages.screen import MessagesScreen
from tests.accounts import Account
from tests.cli.test_messages_copy import counts, gave_up
from tests.tui.viewer import Viewer, viewing

pytestmark = pytest.mark.server

KEEPER = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.>"


async def at_dead_letters(viewer: Viewer) -> None:
    await viewer.until(lambda: "S" in viewer.rows(), "the stream")
    await viewer.press("2")
    await viewer.until(viewer.rows, "the consumer")
    await viewer.press("home", "D")
    await viewer.until(lambda: isinstance(viewer.app.screen, DeadLettersScreen))


async def asks(viewer: Viewer, kind: type[PickDialog] | type[Prompt], words: str) -> None:
    await viewer.until(
        lambda: isinstance(viewer.app.screen, kind) and words in viewer.words, words
    )


async def kept(nc: Client) -> None:
    await nc.jetstream().add_stream(name="ADVISORIES", subjects=[KEEPER])


async def test_what_was_given_up_is_listed_opened_and_sent_again(account: Account) -> None:
    nc = await nats.connect(account.url)
    js = nc.jetstream()
    await kept(nc)
    await js.add_stream(name="AGAIN", subjects=["again"])
    await gave_up(nc, 6, acked=2)
    await js.delete_msg("S", 8)
    async with viewing(account.url) as viewer:
        await at_dead_letters(viewer)
        await viewer.until(lambda: len(viewer.rows()) == 5, "five of the six")
        assert viewer.rows()["3"]["subject"] == "s.3" and viewer.rows()["3"]["payload"] == "3"
        for words in ("S › C", "5 dropped", "1 gone", "6 in advisories that ADVISORIES stores"):
            assert words in viewer.words, words
        await viewer.press("enter")
        await viewer.until(lambda: isinstance(viewer.app.screen, MessageScreen))
        await viewer.until(lambda: "Subject: s.3" in viewer.words, "the message")
        await viewer.press("escape", "m")
        await viewer.until(lambda: isinstance(viewer.app.screen, MessagesScreen))
        await viewer.press("escape", "space", "x", "home", "enter")
        await asks(viewer, PickDialog, "1 marked message")
        await viewer.press("enter")
        await asks(viewer, Prompt, "To which subject?")
        await viewer.type("again")
        await viewer.press("enter")
        await asks(viewer, PickDialog, "Send 1 message of S")
        assert "1 again → AGAIN" in viewer.words
        await viewer.press("end", "enter")
        await viewer.until(lambda: "1 message stored again" in viewer.words, "what became of it")
        assert (await js.get_msg("AGAIN", 1)).data == b"3"
        await viewer.press("space", "x", "home", "enter", "end", "enter")
        await asks(viewer, Prompt, "To which subject?")
        await viewer.type("a..b")
        await viewer.press("enter")
        await asks(viewer, Prompt, "not a valid subject to publish to")
        await viewer.press(*["backspace"] * 4, "enter")
        await asks(viewer, PickDialog, "Send 5 messages of S")
        assert "1 are no longer stored and were not sent" in viewer.words
        await viewer.press("enter")
        assert sum((await counts(nc, "S")).values()) == 7, "nothing was sent"
        await viewer.press("x", "home", "enter", "end", "enter")
        await asks(viewer, Prompt, "To which subject?")
        await viewer.press("enter")
        await asks(viewer, PickDialog, "to their own subjects")
        await viewer.press("end", "enter")
        await viewer.until(lambda: "5 messages stored again" in viewer.words, "the account")
        assert await counts(nc, "S") == {
            **{f"s.{number}": 1 for number in (1, 2)},
            **{f"s.{number}": 2 for number in range(3, 8)},
        }
        await viewer.type_command("journal")
        await viewer.until(lambda: "5 messages of S" in viewer.words, "the journal")
        await viewer.press("escape")

        # Nothing stores any more which they were, and nobody has heard of it.
        await js.delete_stream("ADVISORIES")
        await viewer.press("escape", "D")
        await viewer.until(lambda: "5 PERHAPS dropped" in viewer.words, "that it is a guess")
        assert "it is unknown which messages C dropped" in viewer.words
        await viewer.press("x", "home", "enter", "end", "enter")
        await asks(viewer, Prompt, "To which subject?")
        await viewer.press("enter")
        await asks(viewer, PickDialog, "may have been acknowledged")
        await viewer.press("escape", "f")
        await viewer.type("night")
        await viewer.press("enter")
        await asks(viewer, Prompt, "no session 'night'")
    await nc.close()


async def test_of_what_is_heard_it_is_said_what_sending_again_removes_and_the_name_typed(
    account: Account,
) -> None:
    nc = await nats.connect(account.url)
    js = nc.jetstream()
    await js.add_stream(name="AGAIN", subjects=["again"], max_msgs=1)
    await js.publish("again", b"mine")
    async with viewing(account.url) as viewer:
        await gave_up(nc, 2, acked=1)
        await at_dead_letters(viewer)
        await viewer.until(
            lambda: "2 reported since natstui started" in viewer.words, "what was heard"
        )
        assert set(viewer.rows()) == {"2", "3"}
        await viewer.press("x", "home", "enter", "end", "enter")
        await asks(viewer, Prompt, "To which subject?")
        await viewer.type("again")
        await viewer.press("enter")
        await asks(viewer, PickDialog, "Send 2 messages of S")
        loss = "up to 1 message of AGAIN and up to 1 copy in AGAIN are removed by its limits"
        assert loss in " ".join(viewer.words.split())
        await viewer.press("end", "enter")
        await asks(viewer, Prompt, "This cannot be undone (up to 1 message of AGAIN")
        assert "Type S to confirm" in " ".join(viewer.words.split())
        assert (await js.get_msg("AGAIN", 1)).data == b"mine"
        await viewer.press("T", "enter")
        await asks(viewer, Prompt, "That is not S")
        await viewer.press("backspace", "S", "enter")
        await viewer.until(lambda: "1 message stored again" in viewer.words, "the account")
        await viewer.until(
            lambda: "1 acknowledged, but not kept; AGAIN: max messages 1" in viewer.toasts[-1],
            "the rest",
        )
        await js.delete_stream("S")
        await js.add_stream(name="S", subjects=["s.>"])
        await viewer.press("x", "home", "enter", "end", "enter")
        await asks(viewer, Prompt, "To which subject?")
        await viewer.press("enter")
        await viewer.until(lambda: "S was recreated: these" in viewer.words, "the reason")
        assert (await js.stream_info("S")).state.messages == 0
    await nc.close()


@pytest.mark.long
async def test_production_wants_the_name(account: Account) -> None:
    nc = await nats.connect(account.url)
    await kept(nc)
    await gave_up(nc, 2, acked=1)
    environ = {"NATSTUI_CONNECTION_PRODUCTION": "true"}
    async with viewing(account.url, environ=environ) as viewer:
        await at_dead_letters(viewer)
        await viewer.until(lambda: len(viewer.rows()) == 2, "both")
        await viewer.press("x", "home", "enter", "end", "enter")
        await asks(viewer, Prompt, "To which subject?")
        await viewer.press("enter")
        await asks(viewer, PickDialog, "Send 2 messages of S")
        await viewer.press("end", "enter")
        await asks(viewer, Prompt, "This is production. Type S to confirm")
        await viewer.press("S", "enter")
        await viewer.until(lambda: "2 messages stored again" in viewer.words, "the account")
    await nc.close()
