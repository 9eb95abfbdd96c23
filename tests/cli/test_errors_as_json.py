"""An error of a command that was asked for JSON is JSON on stderr, and nothing else is there."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import click
import pytest

from natstui.cli.root import root
from tests.accounts import Account
from tests.cli.beside import Begin, run_beside, stop
from tests.cli.test_manage import Shell, run_here

HOSTILE = "evil\x1b[31m"


def said(shell: Shell, *words: str) -> tuple[int, str, str]:
    done = run_here(*words, environment=shell.environment)
    return done.returncode, done.stdout, done.stderr


ERRORS = (
    (("stream", "info", "NONE", "--json"), 4, 10059, "not found"),
    (("stream", "rm", "S", "-j"), 5, None, "use --yes"),
    (("stream", "info", "--json"), 2, None, "Missing argument"),
    (("stream", "info", "S", "--none", "--json"), 2, None, "No such option"),
    (("none", "--json"), 2, None, "No such command"),
    (("kv", "get", "NONE", "k", "--json"), 4, 10059, "no bucket"),
    (("pub", "a b", "x", "--json"), 2, None, "not a valid subject"),
    (("backup", "verify", "none", "--json"), 6, None, "no folder"),
    (("stream", "info", HOSTILE + ".", "--json"), 2, None, "is not a valid name"),
    (("stream", "ls", "--json", "--server", "nats://127.0.0.1:1"), 3, None, "refused"),
)
"""Words, exit code, code of the server, and what the error says."""


@pytest.mark.server
def test_an_error_is_an_object_with_its_code(account: Account, tmp_path: Path) -> None:
    shell = Shell(account.url, tmp_path)
    shell.ok("stream", "add", "S")
    for words, code, err_code, text in ERRORS:
        done, out, err = said(shell, *words)
        assert (done, out) == (code, ""), words
        last = err.splitlines()[-1]
        assert "\x1b" not in err
        told = json.loads(last)
        assert told["code"] == code and text in told["error"], words
        assert told.get("err_code") == err_code, words


@pytest.mark.server
def test_without_json_an_error_is_a_sentence(account: Account, tmp_path: Path) -> None:
    shell = Shell(account.url, tmp_path)
    code, _, err = said(shell, "stream", "info", "NONE")
    assert code == 4 and err.startswith("natstui: STREAM.INFO.NONE")
    # Behind -- it is the payload.
    code, out, _ = said(shell, "pub", "a", "--", "--json")
    assert (code, out) == (0, "1 message, 6 B, sent to a.\n")


def commands(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from commands(found, (*path, name))
    elif command.context_settings.get("ignore_unknown_options"):
        return  # it says what it does not know by itself
    elif any("--json" in getattr(one, "opts", ()) for one in command.params):
        yield path


WITHOUT_JSON = {
    ("engine",),  # speaks lines of JSON by itself
    ("replay-engine",),
    ("replay",),  # opens a screen
    ("serve",),  # shows screens in a browser
    ("help",),  # prose for people
    ("sessions", "format"),
}


def every_command(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from every_command(found, (*path, name))
    elif not command.context_settings.get("ignore_unknown_options"):
        yield path


def test_every_command_answers_in_json() -> None:
    assert set(every_command(root, ())) - set(commands(root, ())) == WITHOUT_JSON


@pytest.mark.server
def test_what_runs_until_it_is_stopped_says_in_json_where_it_is(
    account: Account, held_port: int
) -> None:
    listen = f"127.0.0.1:{held_port}"

    def is_up() -> bool:
        with suppress(OSError), urllib.request.urlopen(f"http://{listen}/metrics") as page:
            return re.search(rb"^natstui_up\S* 1$", page.read(), re.MULTILINE) is not None
        return False

    async def work(begin: Begin) -> None:
        begin()
        # What is stopped while it connects leaves that to the end of its process.
        while not await asyncio.to_thread(is_up):
            await asyncio.sleep(0.05)
        stop()

    server = {"NATSTUI_CONNECTION_SERVER": account.url}
    done = run_beside(work, "metrics", "--listen", listen, "--json", environment=server)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["url"].startswith(f"http://{listen}")


def test_a_wrong_flag_is_told_so_by_every_command_that_has_json(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from natstui.cli.root import run

    every = list(commands(root, ()))
    assert len(every) > 50
    for path in every:
        monkeypatch.setattr(sys, "argv", ["natstui", *path, "--json", "--no-such-flag"])
        with pytest.raises(SystemExit) as ended:
            run()
        told = json.loads(capsys.readouterr().err)
        assert (ended.value.code, told["code"]) == (2, 2), path
