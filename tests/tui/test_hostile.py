"""Hostile names, descriptions and metadata on every screen, in toasts and on the clipboard."""

from __future__ import annotations

import json
import unicodedata

import nats
import pytest
from textual.app import App

from tests.accounts import Account
from tests.tui.viewer import Viewer, viewing

pytestmark = pytest.mark.server

PAYLOADS = (
    "[@click=app.quit]x[/]",
    "x[/]",
    "[/nope]",
    '{"b":[/c]}',
    "[link=https://evil.example]x[/link]",
    "\x1b]52;c;ZXZpbA==\x07",
    "\x1b]2;PWNED\x1b\\",
    "\x1b[2J\x1b[31mred",
    "\x9b31m\x90x\x9c",
    "nul\x00del\x7fbel\x07cr\rlf\n",
    "宽字符名字",
    "zero\u200bwidth\u2060joiner\u200d",
    "\u202eevil\u2066x\u2069",
    "e\u0301a\U0001f469\u200d\U0001f4bb",
    "lone\ud800surrogate",
)


def assert_harmless(text: str) -> None:
    for character in text:
        if character == "\n":
            continue
        assert unicodedata.category(character) not in {"Cc", "Cs", "Cf"}, repr(text)


ALL = "\n".join(PAYLOADS)
STORED = (f"宽字符名字{ALL}",)
"""Of each there is a stream: it has everything, and its name a wide one and the markup."""


async def make(server: Account) -> None:
    """Put each payload wherever a server lets somebody put it, and all of them too."""
    nc = await nats.connect(server.url)
    for number, payload in enumerate(STORED):
        # What JSON cannot carry as such, an escape of it can: the server stores that.
        shown = json.loads(json.dumps(payload).replace("\\ud800", "\\\\ud800"))
        name = "".join(c for c in shown if c.isprintable() and c not in " .*>/\\")[:40]
        stream = {
            "name": f"P{number:02d}{name}",
            "subjects": [f"p{number}.>"],
            "description": shown,
            "metadata": {"note": shown},
        }
        consumer = {"durable_name": "c", "description": shown, "metadata": {"k": shown}}
        for verb, body in (
            (f"STREAM.CREATE.{stream['name']}", stream),
            (
                f"CONSUMER.CREATE.{stream['name']}.c",
                {"stream_name": stream["name"], "config": consumer},
            ),
        ):
            reply = await nc.request(f"$JS.API.{verb}", json.dumps(body).encode(), timeout=5)
            assert b'"error"' not in reply.data, (verb, reply.data)
    await nc.close()


async def see(viewer: Viewer, *keys: str) -> None:
    """Press keys, and look at what is on the screen after each."""
    for key in keys:
        await viewer.press(key)
        assert_harmless(viewer.text)
        assert viewer.app.is_running


async def test_hostile_text_is_shown_harmlessly_on_every_screen(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied: list[str] = []
    monkeypatch.setattr(App, "copy_to_clipboard", lambda _self, text: copied.append(text))
    await make(account)
    # Nothing changes meanwhile: a poll would only draw the same again.
    async with viewing(account.url, "--interval", "5s", size=(80, 24), panel=True) as viewer:
        await viewer.until(lambda: len(viewer.rows()) == len(STORED), "rows")
        await viewer.type("cC")
        await see(viewer, "d", "y")
        await viewer.press("escape", "escape")
        await see(viewer, "2")
        await viewer.type("cC")
        await see(viewer, "y")
        await see(viewer, "3", "exclamation_mark")
        await viewer.type_command("note x[/]y")
        await viewer.type_command("nope[/]")
        await viewer.until(lambda: any("nope[/]" in toast for toast in viewer.toasts), "the toast")
        assert_harmless(viewer.text)
    assert len(copied) >= 2 * len(STORED)
    for text in copied:
        assert_harmless(text)
