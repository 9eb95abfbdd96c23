"""What cannot be reached, or is not run, is named by every command that lists the others: these
fail, after they printed the others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.accounts import Account
from tests.cli.test_manage import Shell
from tests.hostile_server import Lie, lying

pytestmark = pytest.mark.server

REASON = "unsupported - required API level: 9, current API level: 4"


def away(of: str, *names: str, refused: bool) -> Lie:
    """Return the replies of a server, since 2.12, of which these are away, or not run."""
    kind = of.removesuffix("s")
    error = {"code": 500, "err_code": 10195, "description": f"{kind} is offline: {REASON}"}
    if kind == "stream":
        error["err_code"] = 10194
    elif not refused:
        error = {"code": 500, "err_code": 10119, "description": "consumer is offline"}

    def reply(body: bytes) -> bytes:
        page: Any = json.loads(body) if body.startswith(b'{"type"') else {}
        what = page.get("type", "").rpartition(".")[2]
        if what == f"{kind}_info_response" and _name(page) in names:
            return json.dumps({"type": page["type"], "error": error}).encode()
        if what != f"{kind}_list_response":
            return body
        page[of] = [row for row in page[of] if _name(row) not in names]
        page["missing"] = list(names)
        if refused:
            page["offline"] = dict.fromkeys(names, REASON)
        return json.dumps(page).encode()

    return Lie("", reply)


def _name(row: Any) -> str:
    return str(row.get("name") or row["config"]["name"])


@pytest.fixture
def told(account: Account, tmp_path: Path) -> Iterator[Any]:
    """Return what tells a command that something is away, and returns what it printed."""
    real = Shell(account.url, tmp_path)
    real.ok("stream", "add", "S", "--subjects", "s", "--yes")
    real.ok("consumer", "add", "S", "stays", "--yes")
    real.ok("consumer", "add", "S", "newer", "--yes")
    for bucket in ("stays", "newer"):
        real.ok("kv", "add", bucket)
        real.ok("object", "add", bucket)
    with lying(account.url) as wire:
        shell = Shell(wire.url, tmp_path)

        def run(lie: Lie, *words: str) -> tuple[str, str]:
            wire.lie = lie
            ended = shell.run(*words)
            assert ended.returncode == 4, ended.stderr
            assert ended.stderr.endswith("natstui: the list is incomplete\n")
            return ended.stdout, ended.stderr

        yield run


CONSUMER = (("consumer", "ls", "S"), ("consumer", "report", "S"), ("consumer", "find", "S"))


@pytest.mark.parametrize("words", CONSUMER, ids=" ".join)
@pytest.mark.parametrize("as_json", [False, True], ids=["table", "json"])
def test_a_consumer_that_is_away_is_named(
    told: Any, words: tuple[str, ...], as_json: bool
) -> None:
    words = (*words, "--json") if as_json else words
    name = "newer" if words[1] == "ls" else "S newer"
    stdout, stderr = told(away("consumers", "newer", refused=True), *words)
    assert "stays" in stdout and "newer" not in stdout
    assert f"natstui: the server does not run {name}: {REASON}" in stderr
    stdout, stderr = told(away("consumers", "newer", refused=False), *words)
    assert "stays" in stdout and "newer" not in stdout
    assert f"natstui: not reachable: {name}" in stderr


STREAM = (
    (("stream", "ls"), "S"),
    (("stream", "report"), "S"),
    (("stream", "find"), "S"),
    (("kv", "ls"), "KV_newer"),
    (("object", "ls"), "OBJ_newer"),
)


@pytest.mark.parametrize(("words", "name"), STREAM, ids=lambda value: str(value))
def test_a_stream_that_is_away_is_named(told: Any, words: tuple[str, ...], name: str) -> None:
    stdout, stderr = told(away("streams", name, refused=True), *words)
    assert ("stays" in stdout and name.partition("_")[2]) or name not in stdout.split()
    assert f"natstui: the server does not run {name}: {REASON}" in stderr
    stderr = told(away("streams", name, refused=False), *words)[1]
    assert f"natstui: not reachable: {name}" in stderr


def test_of_a_stream_that_is_away_no_consumer_is_known(told: Any) -> None:
    for words in (("find",), ("find", "S"), ("report", "S")):
        stdout, stderr = told(away("streams", "S", refused=False), "consumer", *words)
        assert "stays" not in stdout
        assert "natstui: not reachable: the consumers of S\n" in stderr
