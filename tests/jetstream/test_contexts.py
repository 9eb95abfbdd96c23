from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest

from natstui.config.contexts import list_contexts, load_context, selected_context
from natstui.config.references import expand_path, file_or_secret, nsc_profile, resolve_secret
from natstui.errors import UsageError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The NATS CLI's folder."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "nats" / "context").mkdir(parents=True)
    return tmp_path / "nats"


def write(folder: Path, name: str, **fields: Any) -> Path:
    path = folder / "context" / f"{name}.json"
    path.write_text(json.dumps(fields))
    return path


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs, and nothing else on the PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def add_tool(folder: Path, name: str, script: str) -> None:
    tool = folder / name
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)


def test_every_field_of_a_context_is_read(folder: Path) -> None:
    write(
        folder,
        "prod",
        description="the shop",
        url="nats://a:4222,nats://b:4222",
        user="u",
        password="p",
        token="t",
        creds="c",
        nkey="n",
        user_jwt="j",
        user_seed="s",
        cert="ce",
        key="k",
        ca="ca",
        nsc="",
        socks_proxy="",
        jetstream_domain="hub",
        jetstream_api_prefix="api",
        jetstream_event_prefix="event",
        inbox_prefix="_INBOX_x",
        tls_first=True,
        color_scheme="red",
        windows_cert_store="",
    )
    assert load_context("prod").fields == {
        "server": "nats://a:4222,nats://b:4222",
        "user": "u",
        "password": "p",
        "token": "t",
        "creds": "c",
        "nkey": "n",
        "user_jwt": "j",
        "user_seed": "s",
        "cert": "ce",
        "key": "k",
        "ca": "ca",
        "domain": "hub",
        "api_prefix": "api",
        "event_prefix": "event",
        "inbox_prefix": "_INBOX_x",
        "tls_first": True,
        "colour": "red",
    }


def test_a_context_may_be_a_path(folder: Path) -> None:
    path = write(folder, "x", url="nats://h")
    context = load_context(str(path))
    assert (context.name, context.fields) == ("x", {"server": "nats://h"})


def test_the_selected_context_and_the_known_ones_are_found(folder: Path) -> None:
    assert selected_context() is None
    write(folder, "b", url="x")
    write(folder, "a", url="x")
    (folder / "context" / "empty.json").touch()
    (folder / "context" / "note.txt").write_text("no context")
    (folder / "context.txt").write_text("b\n")
    assert selected_context() == "b"
    assert list_contexts() == ["a", "b"]


def test_an_unknown_context_is_named_with_the_nearest_one(folder: Path) -> None:
    write(folder, "production", url="x")
    with pytest.raises(UsageError, match="did you mean 'production'"):
        load_context("prodution")


@pytest.mark.parametrize("name", ["", "..", "a/b", "a\\b", "../../etc/passwd"])
def test_a_name_cannot_lead_out_of_the_folder(folder: Path, name: str) -> None:
    with pytest.raises(UsageError, match="is not a name of a context"):
        load_context(name)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"socks_proxy": "socks5://x"}, "a SOCKS proxy"),
        ({"windows_cert_store": "user"}, "the Windows certificate store"),
        ({"url": 5}, "server has a value of the wrong kind"),
    ],
)
def test_what_natstui_cannot_do_is_refused(
    folder: Path, fields: dict[str, Any], complaint: str
) -> None:
    write(folder, "x", **fields)
    with pytest.raises(UsageError, match=complaint):
        load_context("x")


@pytest.mark.parametrize("text", ["{", "[]", '"x"', "\x00"])
def test_a_broken_context_is_refused(folder: Path, text: str) -> None:
    (folder / "context" / "x.json").write_text(text)
    with pytest.raises(UsageError, match=r"x\.json is not"):
        load_context("x")


def test_secrets_are_read_from_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "secret"
    file.write_text("from a file\n")
    monkeypatch.setenv("SECRET", "from the environment")
    monkeypatch.setenv("FOLDER", str(tmp_path))
    data = base64.b64encode(b"from data").decode()
    assert resolve_secret("plain:text") == "plain:text"
    assert resolve_secret(f"file://{file}") == "from a file"
    assert resolve_secret("file://$FOLDER/secret") == "from a file"
    assert resolve_secret("env://SECRET") == "from the environment"
    assert resolve_secret(f"data:;base64,{data}") == "from data"
    assert resolve_secret(f"data:text/plain;base64,{data}") == "from data"


def test_paths_are_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLDER", "/x")
    assert expand_path("~/a") == os.path.expanduser("~/a")
    assert file_or_secret("$FOLDER/a.creds") == ("/x/a.creds", None)
    assert file_or_secret("file://$FOLDER/a.creds") == ("/x/a.creds", None)


@pytest.mark.parametrize(
    ("reference", "complaint"),
    [
        ("file:///no/such/file", "cannot be read: No such file"),
        ("env://NO_SUCH_VARIABLE", "'NO_SUCH_VARIABLE' is not set"),
        ("data:,hello", "is written data:;base64"),
        ("data:;base64,%%%", "is not text in base64"),
        ("op://vault/item", "needs the tool 'op', which is not installed"),
        ("nsc://o/a/u", "needs the tool 'nsc', which is not installed"),
    ],
)
def test_a_secret_that_cannot_be_had_is_named(tools: Path, reference: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        resolve_secret(reference)


def test_the_tools_of_others_are_run(tools: Path, tmp_path: Path) -> None:
    add_tool(tools, "op", '[ "$1" = read ] && echo "secret of $2"')
    assert resolve_secret("op://vault/item") == "secret of op://vault/item"
    assert file_or_secret("op://vault/item") == (None, "secret of op://vault/item")
    creds = tmp_path / "u.creds"
    creds.write_text("creds text\n")
    profile = json.dumps({"user_creds": str(creds), "operator": {"service": ["nats://a", "b"]}})
    add_tool(tools, "nsc", f"[ \"$3\" = nsc://o/a/u ] && echo '{profile}'")
    assert resolve_secret("nsc://o/a/u") == "creds text"
    assert nsc_profile("o/a/u") == (str(creds), "nats://a,b")


@pytest.mark.parametrize("printed", ["", "\\n"])
@pytest.mark.parametrize(
    ("tool", "reference", "command"),
    [
        ("op", "op://vault/item", "op read op://vault/item"),
        ("nsc", "nsc://o/a/u", "nsc generate profile nsc://o/a/u"),
    ],
)
def test_a_tool_that_prints_nothing_is_named_and_is_no_empty_secret(
    tools: Path, tool: str, reference: str, command: str, printed: str
) -> None:
    add_tool(tools, tool, f"printf '{printed}'")
    with pytest.raises(UsageError, match=f"the command {command} printed nothing"):
        resolve_secret(reference)


def test_an_empty_file_or_text_is_no_secret(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("\n")
    for reference in (f"file://{empty}", "data:;base64,"):
        with pytest.raises(UsageError, match="is an empty secret"):
            resolve_secret(reference)


@pytest.mark.parametrize(
    ("tool", "reference"), [("op", "op://vault/item"), ("nsc", "nsc://o/a/u")]
)
@pytest.mark.parametrize("where", ["", " >&2"])
def test_a_tool_that_prints_too_much_is_refused(
    tools: Path, tool: str, reference: str, where: str
) -> None:
    add_tool(tools, tool, f"while :; do echo {'x' * 10_000}{where}; done")
    with pytest.raises(UsageError, match=f"{tool} cannot be used: it printed more than 1,048,576"):
        resolve_secret(reference)


def test_what_a_tool_complains_about_is_told_harmlessly(tools: Path) -> None:
    add_tool(tools, "op", "printf 'no \\033[31msuch item' >&2; exit 1")
    with pytest.raises(UsageError) as caught:
        resolve_secret("op://vault/item")
    assert str(caught.value) == "op://vault/item: op failed: no ␛[31msuch item"
    add_tool(tools, "nsc", "echo nonsense")
    with pytest.raises(UsageError, match="is not a profile"):
        resolve_secret("nsc://o/a/u")
