"""What a shell offers while somebody types, asked as bash, zsh and fish ask it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from natstui.cli.root import root
from tests.accounts import Account
from tests.cli.test_core import connected
from tests.session.making import made
from tests.session.scenario import Scenario


def offered(
    line: str, folder: Path, shell: str = "bash", *, here: bool = True, **environment: str
) -> list[str]:
    """Return what is offered for the last word of a line, here or by a process of its own."""
    words = line.split(" ")
    # fish says the word itself, the others which one it is.
    word = words[-1] if shell == "fish" else str(len(words) - 1)
    asked = {"_NATSTUI_COMPLETE": f"{shell}_complete", "COMP_WORDS": line, "COMP_CWORD": word}
    own = {f"XDG_{name}_HOME": str(folder / name) for name in ("STATE", "CONFIG", "DATA")}
    added = {**own, **environment, **asked}
    if here:
        called = CliRunner().invoke(root, (), prog_name="natstui", env=added)
        assert (called.exit_code, called.stderr) == (0, "")
        printed = called.stdout
    else:
        done = subprocess.run(
            [sys.executable, "-m", "natstui"], capture_output=True, text=True, timeout=60,
            check=True, env={**os.environ, **added}, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.stderr == ""
        printed = done.stdout
    rows = printed.splitlines()
    if shell == "zsh":  # three lines each: how it is completed, the word, and what it is
        return rows[1::3]
    return [row.partition(",")[2].partition("\t")[0] for row in rows if row]


async def filled(url: str) -> None:
    async with connected(url) as nc:
        for name in ("ORDERS", "ORDERS_MIRROR", "PAYMENTS"):
            await nc.jetstream().add_stream(name=name, subjects=[name], storage="memory")
        for name in ("billing", "backup"):
            await nc.jetstream().add_consumer("ORDERS", durable_name=name)
        bucket = await nc.jetstream().create_key_value(bucket="settings")
        for key in ("site.name", "site.url", "theme"):
            await bucket.put(key, b"x")


OFFERED: tuple[tuple[str, list[str]], ...] = (
    ("natstui str", ["stream"]),
    ("natstui stream in", ["info"]),
    ("natstui stream info ORD", ["ORDERS", "ORDERS_MIRROR"]),
    ("natstui stream view O", ["ORDERS", "ORDERS_MIRROR"]),
    ("natstui stream backup PAY", ["PAYMENTS"]),
    ("natstui kv get ", ["settings"]),
    ("natstui kv get settings si", ["site.name", "site.url"]),
    ("natstui consumer info ORDERS b", ["backup", "billing"]),
    ("natstui consumer info NONE b", []),
    ("natstui stuck PAY", ["PAYMENTS"]),
    ("natstui stream edit ORDERS --max-ag", ["--max-age"]),
    ("natstui stream add NEW", []),
)


@pytest.mark.server
def test_names_are_offered_as_they_are_now(account: Account, tmp_path: Path) -> None:
    asyncio.run(filled(account.url))
    server = {"NATSTUI_CONNECTION_SERVER": account.url}
    for line, expected in OFFERED:
        assert sorted(offered(line, tmp_path, **server)) == expected, line
    for shell in ("zsh", "fish"):
        for line, expected in (OFFERED[0], OFFERED[6], OFFERED[7]):
            assert sorted(offered(line, tmp_path, shell, **server)) == expected, (shell, line)
    line, expected = OFFERED[2]
    assert sorted(offered(line, tmp_path, "fish", here=False, **server)) == expected


@pytest.mark.slow
def test_without_a_server_nothing_is_offered_and_nothing_said(tmp_path: Path) -> None:
    nowhere = {"NATSTUI_CONNECTION_SERVER": "nats://127.0.0.1:1"}
    assert offered("natstui stream info ", tmp_path, **nowhere) == []


@pytest.mark.slow
def test_recordings_and_contexts_are_offered(tmp_path: Path) -> None:
    sessions = tmp_path / "sessions"
    scenario = Scenario(streams=1, consumers=1)
    name = made(sessions, [*scenario.beginning(), *scenario.records(0, 2)]).name
    kept = {"NATSTUI_SESSION_FOLDER": str(sessions)}
    assert offered("natstui replay ", tmp_path, **kept) == ["last", name]
    assert offered("natstui analyze last ", tmp_path, **kept) == ["last", name]
    context = tmp_path / "CONFIG" / "nats" / "context" / "work.json"
    context.parent.mkdir(parents=True)
    context.write_text("{}")
    assert offered("natstui stream ls --context w", tmp_path) == ["work"]
