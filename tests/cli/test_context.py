"""`natstui context`: what it writes is what the NATS CLI would, and no secret is shown."""

from __future__ import annotations

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from natstui.config.contexts import write_context
from natstui.jetstream.testbed.broker import Broker
from tests.cli.test_manage import Shell

SECRET = "open-sesame"


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    one = Shell("", tmp_path)
    del one.environment["NATSTUI_CONNECTION_SERVER"]
    return one


def files(shell: Shell) -> Path:
    return shell.folder / "CONFIG" / "nats"


def fields(shell: Shell, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((files(shell) / "context" / f"{name}.json").read_text())
    return found


@pytest.mark.server
def test_a_context_is_made_selected_used_changed_and_removed(
    shell: Shell, nats_server: Broker
) -> None:
    made = shell.ok("context", "add", "here", "--server", nats_server.url, "--user", "ann",
                    "--password", "-", "--description", "ours", "--select",
                    stdin=f"{SECRET}\n")  # fmt: skip
    place = files(shell) / "context" / "here.json"
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE((files(shell) / "context.txt").stat().st_mode) == 0o600
    assert (files(shell) / "context.txt").read_text() == "here"
    assert fields(shell, "here")["password"] == SECRET
    listed = shell.ok("context", "ls") + shell.ok("context", "ls", "--json")
    assert "user ann" in listed and "ours" in listed and nats_server.url in listed
    assert SECRET not in made + listed
    # The selected one is where every command goes.
    assert shell.run("stream", "ls").returncode == 0
    shell.ok("context", "add", "there", "--server", "nats://bob:hidden@there:4222")
    assert "hidden" not in shell.ok("context", "ls")
    refused = shell.run("context", "rm", "here", "-f")
    assert refused.returncode == 2 and "is selected" in refused.stderr
    assert "previously selected: here" in shell.ok("context", "select", "there")
    assert (files(shell) / "previous-context.txt").read_text() == "here"
    assert shell.run("context", "rm", "here").returncode == 5 and place.exists()
    shell.ok("context", "rm", "here", "-f")
    assert not place.exists()


def test_what_was_done_is_said_in_json_too(shell: Shell) -> None:
    def told(*words: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(shell.ok("context", *words, "--json"))
        return found

    file = str(files(shell) / "context" / "one.json")
    made = {"name": "one", "file": file, "selected": True}
    assert told("add", "one", "--server", "nats://one:4222", "--select") == made
    shell.ok("context", "add", "two", "--server", "nats://two:4222")
    assert told("edit", "one", "--description", "d") == {"name": "one", "file": file}
    assert told("select", "two") == {"name": "two", "before": "one"}
    assert told("rm", "one", "-f") == {"name": "one"}


def test_a_change_keeps_what_it_does_not_know_and_replaces_the_identity(shell: Shell) -> None:
    shell.ok("context", "add", "one", "--server", "nats://one:4222", "--user", "ann",
             "--password", SECRET)  # fmt: skip
    place = files(shell) / "context" / "one.json"
    place.write_text(json.dumps({**fields(shell, "one"), "of_tomorrow": [1]}))
    words = ("context", "edit", "one", "--creds", "~/ann.creds", "--js-domain", "hub")
    refused = shell.run(*words)
    assert "'one' has password: to remove that, add --password ''" in refused.stderr
    assert (refused.returncode, fields(shell, "one")["password"]) == (2, SECRET)
    shell.ok(*words, "--password", "")
    found = fields(shell, "one")
    assert (found["creds"], found["jetstream_domain"]) == ("~/ann.creds", "hub")
    assert found["of_tomorrow"] == [1] and not found["user"] and not found["password"]
    shell.ok("context", "edit", "one", "--js-domain", "")
    assert not fields(shell, "one")["jetstream_domain"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("add", "../evil", "--server", "nats://x:1"), "not a name"),
        (("add", "x"), "needs --server"),
        (("add", "x", "--server", "s", "--user", "u", "--token", "t"), "one identity"),
        (("edit", "nobody", "--description", "d"), "no NATS CLI context"),
        (("select", "nobody"), "no NATS CLI context"),
        (("rm", "nobody", "-f"), "no NATS CLI context"),
        (("add", "x", "--server", "s", "--token", "-"), "nothing on stdin"),
    ],
)
def test_what_cannot_be_is_said(shell: Shell, words: tuple[str, ...], said: str) -> None:
    done = shell.run("context", *words)
    assert done.returncode == 2 and said in done.stderr, done
    assert not list(shell.folder.rglob("*.json"))


def test_none_is_made_over_another(shell: Shell) -> None:
    shell.ok("context", "add", "one", "--server", "nats://one:4222")
    again = shell.run("context", "add", "one", "--server", "nats://two:4222")
    assert again.returncode == 2 and "already" in again.stderr
    assert fields(shell, "one")["url"] == "nats://one:4222"


@pytest.mark.parametrize("content", ["[" * 100_000, '{"a":' * 100_000])
def test_a_context_that_is_too_deep_is_named_and_the_others_are_listed(
    shell: Shell, content: str
) -> None:
    shell.ok("context", "add", "good", "--server", "nats://127.0.0.1:4222")
    (files(shell) / "context" / "deep.json").write_text(content)
    assert "good" in shell.ok("context", "ls")
    refused = shell.run("stream", "ls", "--context", "deep")
    assert refused.returncode == 2 and "is not JSON" in refused.stderr


@pytest.mark.parametrize("flag", ["--creds", "--nkey", "--tlsca", "--tlscert"])
def test_a_file_without_an_end_is_refused(shell: Shell, flag: str) -> None:
    more = ("--tlskey", "/dev/zero") if flag == "--tlscert" else ()
    shell.ok(
        "context", "add", "endless", "--server", "nats://127.0.0.1:1", flag, "/dev/zero", *more
    )
    refused = shell.run("stream", "ls", "--context", "endless")
    assert refused.returncode == 2 and "it is not a plain file" in refused.stderr


@pytest.mark.parametrize("text", ["s3cr/et", "s3cr#et", "s3cr?et", "a:s3cr/et", "s3@cr:et/x"])
def test_no_piece_of_a_password_is_shown_of_an_address_that_is_none(
    shell: Shell, text: str
) -> None:
    refused = shell.run("stream", "ls", "--server", f"nats://u:{text}@127.0.0.1:4222")
    assert refused.returncode == 2
    assert "s3" not in refused.stderr and "et" not in refused.stderr.replace("letter", "")


def test_a_name_that_would_be_taken_for_a_file_is_no_name(shell: Shell) -> None:
    refused = shell.run("context", "add", "con.json", "--server", "nats://127.0.0.1:1")
    assert refused.returncode == 2 and "is not a name of a context" in refused.stderr
    assert not list(files(shell).rglob("con*"))


def test_a_name_that_is_too_long_for_a_file_is_refused(shell: Shell) -> None:
    for words in (("context", "add"), ("context", "edit"), ("--context",)):
        flags = ["--server", "nats://here:1"] if len(words) == 2 else ["stream", "ls"]
        refused = shell.run(*words, "é" * 101, *flags)
        assert refused.returncode == 2 and "at most 200 bytes, not 202" in refused.stderr, refused
    shell.ok("context", "add", "é" * 100, "--server", "nats://here:1")


def test_a_link_that_leads_to_no_file_is_not_written_through(shell: Shell) -> None:
    elsewhere = shell.folder / "elsewhere"
    (files(shell) / "context").mkdir(parents=True)
    (files(shell) / "context" / "new.json").symlink_to(elsewhere)
    words = ("context", "add", "new", "--server", "nats://127.0.0.1:1")
    refused = shell.run(*words)
    assert refused.returncode == 2 and "it is a link" in refused.stderr
    shell.ok("context", "add", "old", "--server", "nats://127.0.0.1:1")
    (files(shell) / "context.txt").symlink_to(elsewhere)
    refused = shell.run("context", "select", "old")
    assert refused.returncode == 2 and "it is a link" in refused.stderr
    assert not elsewhere.exists()


def test_edits_at_once_are_all_kept(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.ok("context", "add", "here", "--server", "nats://127.0.0.1:1")
    monkeypatch.setenv("XDG_CONFIG_HOME", shell.environment["XDG_CONFIG_HOME"])
    changes = {f"field_{number}": str(number) for number in range(40)}

    def edit(change: tuple[str, str]) -> None:
        write_context("here", dict([change]), is_new=False)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(edit, changes.items()))
    assert changes.items() <= fields(shell, "here").items()


def test_an_edit_of_a_context_that_does_not_exist_creates_no_folder(shell: Shell) -> None:
    refused = shell.run("context", "edit", "nowhere", "--user", "ann")
    assert refused.returncode == 2 and "no NATS CLI context 'nowhere'" in refused.stderr
    assert not files(shell).exists()


def test_files_of_a_context_are_found_from_every_folder(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KEYS", "/keys")
    shell.ok("context", "add", "one", "--server", "nats://one:4222", "--ca", "tls/ca.pem",
             "--cert", "../c.pem", "--key", "~/k.pem", "--nkey", "file://one.nk")  # fmt: skip
    found = fields(shell, "one")
    assert (found["ca"], found["cert"]) == (f"{tmp_path}/tls/ca.pem", f"{tmp_path}/../c.pem")
    # As the NATS CLI understands it.
    assert (found["key"], found["nkey"]) == ("~/k.pem", f"file://{tmp_path}/one.nk")
    shell.ok("context", "edit", "one", "--creds", "a.creds", "--key", "$KEYS/k", "--ca", "/ca")
    found = fields(shell, "one")
    assert (found["creds"], found["key"], found["ca"]) == (f"{tmp_path}/a.creds", "$KEYS/k", "/ca")
    shell.ok("context", "edit", "one", "--token", "file://t", "--ca", "")
    assert (fields(shell, "one")["token"], fields(shell, "one")["ca"]) == (
        f"file://{tmp_path}/t", "",
    )  # fmt: skip
    shell.ok("context", "edit", "one", "--creds", "op://vault/nats/creds", "--token", "")
    assert fields(shell, "one")["creds"] == "op://vault/nats/creds"
