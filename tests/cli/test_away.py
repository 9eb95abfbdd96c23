"""What cannot be reached, or is not run, is named by every command that lists the others: these
fail, after they printed the others."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from natstui.cli.health import reading
from tests.accounts import Account
from tests.cli.test_manage import Done, Shell
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


Run = Callable[..., Done]


@pytest.fixture
def run(account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Return what runs a command while the server lies, and needs no rates."""
    monkeypatch.setattr(reading, "MIN_POLLS_COUNT", 1)
    real = Shell(account.url, tmp_path)
    real.ok("stream", "add", "S", "--subjects", "s", "--yes")
    for name in ("stays", "newer"):
        real.ok("consumer", "add", "S", name, "--yes")
        real.ok("kv", "add", name)
        real.ok("object", "add", name)
    with lying(account.url) as wire:
        shell = Shell(wire.url, tmp_path)

        def run(lie: Lie, *words: str) -> Done:
            wire.lie = lie
            return shell.run(*words)

        yield run


def listed(run: Run, lie: Lie, *words: str) -> tuple[str, str]:
    """Return what a command prints that lists all but what is away."""
    ended = run(lie, *words)
    assert ended.returncode == 4, ended.stderr
    assert ended.stderr.endswith("natstui: the list is incomplete\n")
    return ended.stdout, ended.stderr


CONSUMER = (("consumer", "ls", "S"), ("consumer", "report", "S"), ("consumer", "find", "S"))


def test_a_consumer_that_is_away_is_named(run: Run) -> None:
    for words in (*CONSUMER, ("consumer", "ls", "S", "--json")):
        name = "newer" if words[1] == "ls" else "S newer"
        stdout, stderr = listed(run, away("consumers", "newer", refused=True), *words)
        assert "stays" in stdout and "newer" not in stdout, words
        assert f"natstui: the server does not run {name}: {REASON}" in stderr, words
        stdout, stderr = listed(run, away("consumers", "newer", refused=False), *words)
        assert "stays" in stdout and "newer" not in stdout, words
        assert f"natstui: not reachable: {name}" in stderr, words


STREAM = (
    (("stream", "ls"), "S"),
    (("stream", "report"), "S"),
    (("stream", "find"), "S"),
    (("kv", "ls"), "KV_newer"),
    (("object", "ls"), "OBJ_newer"),
)


def test_a_stream_that_is_away_is_named(run: Run) -> None:
    for words, name in STREAM:
        stdout, stderr = listed(run, away("streams", name, refused=True), *words)
        assert ("stays" in stdout and name.partition("_")[2]) or name not in stdout.split(), words
        assert f"natstui: the server does not run {name}: {REASON}" in stderr, words
        stderr = listed(run, away("streams", name, refused=False), *words)[1]
        assert f"natstui: not reachable: {name}" in stderr, words


def test_of_a_stream_that_is_away_no_consumer_is_known(run: Run) -> None:
    for words in (("find",), ("find", "S"), ("report", "S")):
        stdout, stderr = listed(run, away("streams", "S", refused=False), "consumer", *words)
        assert "stays" not in stdout
        assert "natstui: not reachable: the consumers of S\n" in stderr


def test_what_prints_a_part_says_what_is_missing_and_does_not_succeed(run: Run) -> None:
    lie = away("streams", "S", "OBJ_newer", refused=False)
    for words in (("watch", "--once", "--json"), ("overview",)):
        ended = run(lie, *words)
        assert ended.returncode == 4, words
        assert "KV_stays" in ended.stdout, "what can be read is printed"
        assert "not everything could be read: not reachable: OBJ_newer, S" in ended.stderr
    ended = run(away("consumers", "newer", refused=False), "watch", "--once", "--json")
    assert ended.returncode == 4
    assert "not everything could be read: not reachable: newer on S" in ended.stderr


def test_what_is_away_is_critical_and_no_missing_name(run: Run) -> None:
    lie = away("streams", "S", refused=False)
    nagios = run(lie, "health", "--format", "nagios")
    assert nagios.returncode == 2
    assert nagios.stdout.startswith("CRITICAL natstui: "), nagios
    ended = run(lie, "health", "--stream", "S")
    assert ended.returncode == 2 and "there is no stream" not in ended.stdout
    consumer = run(lie, "stuck", "S", "stays")
    assert consumer.returncode == 3 and "cannot be reached" in consumer.stderr
