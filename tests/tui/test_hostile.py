"""Hostile names, descriptions and metadata on every screen, in toasts and on the clipboard."""

from __future__ import annotations

import json
import unicodedata

import nats
import pytest
from textual.app import App

from natstui.jetstream.broker import Broker
from tests.tui.viewer import Viewer, viewing

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


async def make(server: Broker, payload: str) -> None:
    """Put the payload wherever a server lets somebody put it."""
    nc = await nats.connect(server.url)
    # What JSON cannot carry as such, an escape of it can: the server stores that.
    shown = json.loads(json.dumps(payload).replace("\\ud800", "\\\\ud800"))
    stream = {
        "name": "PLAIN",
        "subjects": ["a.>"],
        "description": shown,
        "metadata": {"note": shown},
    }
    named = {"name": "".join(c for c in shown if c.isprintable() and c not in " .*>/\\")[:60]}
    for config in (stream, {**named, "subjects": ["b.>"]} if named["name"] else stream):
        reply = await nc.request(
            f"$JS.API.STREAM.CREATE.{config['name']}", json.dumps(config).encode(), timeout=5
        )
        assert b'"error"' not in reply.data or b"already in use" in reply.data, reply.data
    consumer = {"durable_name": "c", "description": shown, "metadata": {"k": shown}}
    await nc.request(
        "$JS.API.CONSUMER.CREATE.PLAIN.c",
        json.dumps({"stream_name": "PLAIN", "config": consumer}).encode(),
        timeout=5,
    )
    await nc.close()


async def walk_all_screens(viewer: Viewer) -> None:
    screens: list[tuple[str, ...]] = [
        ("1",), ("d",), ("escape", "y"), ("y",), ("escape", "2"), ("d",), ("escape", "y"),
        ("escape", "3"), ("4",), ("1", "question_mark"), ("escape", "end", "d"),
        ("enter",), ("escape", "escape", "c"), ("C",),
    ]  # fmt: skip
    for keys in screens:
        await viewer.press(*keys)
        await viewer.pilot.pause(0.15)
        assert_harmless(viewer.text)
        assert viewer.app.is_running


@pytest.mark.parametrize("payload", PAYLOADS)
async def test_hostile_text_is_shown_harmlessly_on_every_screen(
    nats_server: Broker, payload: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied: list[str] = []
    monkeypatch.setattr(App, "copy_to_clipboard", lambda _self, text: copied.append(text))
    await make(nats_server, payload)
    async with viewing(nats_server.url, size=(120, 40)) as viewer:
        await viewer.until(lambda: viewer.rows(), "rows")
        await walk_all_screens(viewer)
        await viewer.type_command("note x[/]y")
        await viewer.type_command("nope[/]")
        await viewer.pilot.pause(0.3)
        assert_harmless(viewer.text)
    assert copied
    for text in copied:
        assert_harmless(text)
