"""The commands that manage streams and consumers, against a real server."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import nats
import pytest
from click.testing import CliRunner
from msgspec import Struct

from natstui.clean import clean_line
from natstui.cli.manage.options import read_config_file
from natstui.cli.root import root, run
from natstui.errors import NatstuiError, UsageError
from natstui.jetstream.testbed.broker import Broker
from natstui.tui.frame.form.text import config_of_file
from tests.accounts import Account
from tests.cli.rewriting import speaking

pytestmark = pytest.mark.server


class Done(Struct, frozen=True):
    """What a command printed, and how it ended."""

    returncode: int
    stdout: str
    stderr: str


def run_here(
    *words: str, environment: Mapping[str, str] | None = None, stdin: IO[bytes] | None = None
) -> Done:
    """Run `natstui WORDS` in this process, to the errors and the code that it ends with."""
    isolated = CliRunner().isolation(input=stdin, env=environment)
    with pytest.MonkeyPatch.context() as patch, isolated as (out, err, _):
        patch.setattr(sys, "argv", ["natstui", *words])
        code: object = 0
        try:
            run()
        except SystemExit as ended:
            code = ended.code or 0
        sys.stdout.flush()
        sys.stderr.flush()
        assert isinstance(code, int)
        return Done(code, out.getvalue().decode(), err.getvalue().decode())


class Shell:
    """Runs commands of `natstui` with a state and configuration of its own."""

    def __init__(self, url: str, folder: Path) -> None:
        home = {f"XDG_{name}_HOME": str(folder / name) for name in ("STATE", "CONFIG", "DATA")}
        self.environment = {**home, "NATSTUI_CONNECTION_SERVER": url}
        self.folder = folder

    def run(self, *words: str, stdin: str | IO[bytes] = "") -> Done:
        done = CliRunner().invoke(root, words, input=stdin, env=self.environment)
        if isinstance(done.exception, NatstuiError):
            said = f"{done.stderr}natstui: {done.exception}\n"
            return Done(done.exception.exit_code, done.stdout, said)
        return Done(done.exit_code, done.stdout, done.stderr)

    def ok(self, *words: str, stdin: str = "") -> str:
        done = self.run(*words, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def config(self, *words: str) -> dict[str, object]:
        config: dict[str, object] = json.loads(self.ok(*words, "--json"))["config"]
        return config


@pytest.fixture
def shell(account: Account, tmp_path: Path) -> Shell:
    return Shell(account.url, tmp_path)


def test_a_word_of_a_newer_server_does_not_hinder_another_change(
    shell: Shell, account: Account
) -> None:
    shell.ok("stream", "add", "S", "--compression", "none")
    with speaking(account.url, b'"none"', b'"zst9"') as newer:
        server = ("--server", newer)
        assert shell.config("stream", "info", "S", *server)["compression"] == "zst9"
        shell.ok("stream", "edit", "S", "--description", "mine", *server)
        config = shell.config("stream", "info", "S", *server)
        assert (config["description"], config["compression"]) == ("mine", "zst9")
        refused = shell.run("stream", "edit", "S", "--compression", "lz4", *server)
        assert "Compression must be one of none, s2, not 'lz4'" in refused.stderr


@pytest.mark.parametrize("flags", [(), ("--ephemeral",)])
def test_an_exported_consumer_is_made_again_under_another_name(
    shell: Shell, flags: tuple[str, ...], tmp_path: Path
) -> None:
    shell.ok("stream", "add", "S", "--subjects", "s.>")
    words = ("--filter", "s.a", "--priority-policy", "overflow", "--priority-groups", "A")
    shell.ok("consumer", "add", "S", "one", *words, *flags)
    exported = tmp_path / "one.json"
    exported.write_text(shell.ok("consumer", "info", "S", "one", "--json"))
    shell.ok("consumer", "add", "S", "two", "--file", str(exported), *flags)
    one, two = (shell.config("consumer", "info", "S", name) for name in ("one", "two"))
    named = {key: value for key, value in one.items() if value == "one"}
    assert two == {**one, **dict.fromkeys(named, "two")}
    # What the other is called is no change to this one, and filters of the file replace filters.
    edited = shell.run("consumer", "edit", "S", "two", "--file", str(exported), "--dry-run")
    assert (edited.returncode, edited.stdout) == (0, "")
    told = f"natstui: {exported} is the configuration of consumer one: it is applied to two\n"
    assert told in edited.stderr
    (tmp_path / "b.json").write_text('{"filter_subjects": ["s.b"]}')
    shell.ok("consumer", "edit", "S", "two", "--file", str(tmp_path / "b.json"))
    assert shell.config("consumer", "info", "S", "two")["filter_subject"] == "s.b"


def test_an_empty_value_of_an_option_is_refused_where_it_would_mean_all(shell: Shell) -> None:
    shell.ok("stream", "add", "S", "--subjects", "s.>", "--description", "kept")
    shell.ok("pub", "s.a", "x")
    for words in (
        ("stream", "purge", "S", "--filter", "", "--yes"),
        ("messages", "copy", "S", "--unacknowledged", "", "--to-subject", "t"),
        ("stream", "ls", "--context", ""),
        ("--profile", "", "stream", "ls"),
        ("stream", "edit", "S", "--context", ""),
    ):
        refused = shell.run(*words)
        flag = words[words.index("") - 1]
        assert refused.returncode == 2, words
        assert f"{flag} is empty: give it a value, or leave the option out" in refused.stderr
    assert json.loads(shell.ok("stream", "info", "S", "--json"))["state"]["messages"] == 1
    # Of an edit, an empty value removes what was set.
    shell.ok("stream", "edit", "S", "--description", "")
    assert "description" not in shell.config("stream", "info", "S")


def test_one_long_value_does_not_make_every_row_of_a_list_long(shell: Shell) -> None:
    many = ",".join(f"subject-number-{number}.of.many" for number in range(202))
    shell.ok("stream", "add", "MANY", "--subjects", many)
    shell.ok("stream", "add", "LONG", "--subjects", "long." + "x" * 3000)
    for number in range(20):
        shell.ok("stream", "add", f"S-{number}")
    listed = shell.ok("stream", "ls")
    assert max(map(len, listed.splitlines())) < 200
    assert "subject-number-0.of.many,subject-number-1.of.many +200" in listed
    rows = json.loads(shell.ok("stream", "ls", "--json"))
    assert max(len(row["config"]["subjects"]) for row in rows) == 202


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", '{\n\t"filter_subject": "s.a", "opt_start_time": "TIME"\n}'),
        ("a.yaml", '{\n\t"filter_subject": "s.a", "opt_start_time": "TIME"\n}'),
        ("a.yaml", "filter_subject: s.a\nopt_start_time: TIME\nmetadata: {tier: 1}\n"),
        ("a.toml", 'filter_subject = "s.a"\nopt_start_time = TIME\nmetadata.tier = 1\n'),
        ("whole", 'config:\n  filter_subject: s.a\n  opt_start_time: "TIME"\n'),
        ("bare", 'filter_subject = "s.a"\nopt_start_time = TIME\n'),
    ],
)
def test_form_and_command_line_find_the_same_in_a_file(
    shell: Shell, tmp_path: Path, name: str, text: str
) -> None:
    moment = "2026-01-31T12:00:00.123456Z"
    (tmp_path / name).write_text(text.replace("TIME", moment), encoding="utf-8-sig")
    of_form = config_of_file(str(tmp_path / name), "consumer")
    assert of_form.pop("name") == ""
    assert of_form == read_config_file("consumer", str(tmp_path / name))
    shell.ok("stream", "add", "S", "--subjects", "s.>")
    words = ("--file", str(tmp_path / name), "--deliver-policy", "by_start_time")
    shell.ok("consumer", "add", "S", "c", *words)
    config = shell.config("consumer", "info", "S", "c")
    assert (config["filter_subject"], config["opt_start_time"]) == ("s.a", moment)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.json", b"{", "cannot be understood: Expecting property name"),
        ("a.yaml", b"a: [", "cannot be understood: while parsing"),
        ("a.toml", b"a = ", "cannot be understood: Invalid value"),
        ("a.yaml", b"a: !!binary aGk=", "cannot be understood: it has a bytes"),
        ("a.json", b"[" * 100_000, "cannot be understood: it is nested more than 100"),
        ("a.json", b"\xff", "cannot be read: it is not text in UTF-8"),
        ("a.json", b"[1]", "has no configuration"),
        ("a.yaml", b"", "has no configuration"),
    ],
)
def test_a_file_that_is_no_configuration_is_one_sentence_for_both(
    shell: Shell, tmp_path: Path, name: str, content: bytes, sentence: str
) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(UsageError, match=sentence) as of_form:
        config_of_file(str(file), "stream")
    done = shell.run("stream", "add", "S", "--file", str(file))
    assert done.returncode == 2
    assert str(of_form.value) in done.stderr


@pytest.mark.parametrize("text", ['{\t"max_msgs": 5}', "max_msgs: 5", "max_msgs = 5"])
def test_a_configuration_on_stdin_may_be_in_any_language(shell: Shell, text: str) -> None:
    shell.ok("stream", "add", "S", "--file", "-", stdin=text)
    assert shell.config("stream", "info", "S")["max_msgs"] == 5


def test_json_of_a_server_is_shown_by_a_terminal_without_obeying_it(shell: Shell) -> None:
    hostile = "\x1b]52;c;eA==\x07 \x9b31m \u202eevil \x7f"
    shell.ok("stream", "add", "S", "--description", hostile, "--metadata", f"x={hostile}")
    shell.ok("consumer", "add", "S", "c", "--description", hostile)
    for words in (("stream", "info", "S"), ("consumer", "info", "S", "c"), ("stream", "ls")):
        text = shell.ok(*words, "--json").rstrip("\n")
        assert clean_line(text.replace("\x7f", "")) == text.replace("\x7f", ""), words
        assert "u001b]52;c;eA==" in text
    assert shell.config("stream", "info", "S")["description"] == hostile


def test_a_mirror_may_be_written_in_json(shell: Shell) -> None:
    shell.ok("stream", "add", "S", "--subjects", "s.>")
    shell.ok("stream", "add", "M", "--mirror", '{"name": "S", "filter_subject": "s.a"}')
    assert shell.config("stream", "info", "M")["mirror"] == {"name": "S", "filter_subject": "s.a"}
    refused = shell.run("stream", "add", "N", "--mirror", '{"name": 5}')
    assert "Mirror: an object needs the name of a stream" in refused.stderr
    refused = shell.run("stream", "add", "N", "--mirror", '{"name"')
    assert "Mirror: this is not valid JSON" in refused.stderr


def test_flags_that_are_given_again_add_to_the_list(shell: Shell) -> None:
    for name in ("A", "B"):
        shell.ok("stream", "add", name)
    shell.ok(
        "stream", "add", "ORDERS", "--subjects", "o.>", "--subjects", "p.>,q", "--max-age", "2M",
        "--source", "A", "--source", '{"name": "B", "filter_subject": "b.>"}',
        "--metadata", "note=a, b=c", "--metadata", 'rule={"k": [1, 2]}',
    )  # fmt: skip
    config = shell.config("stream", "info", "ORDERS")
    assert config["subjects"] == ["o.>", "p.>", "q"]
    assert config["max_age"] == 60 * 86_400 * 10**9
    assert [source["name"] for source in config["sources"]] == ["A", "B"]  # type: ignore[attr-defined]
    own = {k: v for k, v in config["metadata"].items() if not k.startswith("_nats.")}  # type: ignore[attr-defined]
    assert own == {"note": "a, b=c", "rule": '{"k": [1, 2]}'}
    words = ("consumer", "add", "ORDERS", "c", "--filter", "o.a", "--filter", "p.b")
    shell.ok(*words, "--backoff", "1s", "--backoff", "1m", "--max-deliver", "3")
    config = shell.config("consumer", "info", "ORDERS", "c")
    assert config["filter_subjects"] == ["o.a", "p.b"]
    assert config["backoff"] == [10**9, 60 * 10**9]


def test_a_server_that_is_given_again_is_another_address(shell: Shell) -> None:
    url = shell.environment["NATSTUI_CONNECTION_SERVER"]
    nobody = "nats://127.0.0.1:1"
    assert shell.ok("stream", "ls", "--server", url, "--server", nobody).startswith("STREAM")
    assert shell.ok("stream", "ls", "--server", nobody, "--server", url).startswith("STREAM")


def test_a_stream_is_made_changed_purged_and_deleted(shell: Shell) -> None:
    made = shell.ok(
        "stream", "add", "ORDERS", "--subjects", "orders.>", "--max-bytes", "256MB",
        "--max-age", "1d3h", "--storage", "memory", "--metadata", "team=ops",
    )  # fmt: skip
    assert made == "stream ORDERS created\n"
    config = shell.config("stream", "info", "ORDERS")
    assert config["max_bytes"] == 256 << 20
    assert config["max_age"] == 97_200 * 10**9
    plan = shell.run("stream", "edit", "ORDERS", "--max-msgs", "15k", "--dry-run")
    assert plan.returncode == 1
    assert plan.stdout == "Maximum messages: unlimited → 15000\n"
    assert "nats stream edit ORDERS --max-msgs=15000 --force" in plan.stderr
    assert shell.config("stream", "info", "ORDERS")["max_msgs"] == -1
    shell.ok("stream", "edit", "ORDERS", "--max-msgs", "15k")
    assert shell.run("stream", "edit", "ORDERS", "--max-msgs", "15k", "--dry-run").returncode == 0
    assert shell.ok("undo") == "stream ORDERS changed\n"
    assert shell.config("stream", "info", "ORDERS")["max_msgs"] == -1
    refused = shell.run("stream", "rm", "ORDERS")
    assert refused.returncode == 5
    assert "not confirmed" in refused.stderr
    shell.ok("stream", "purge", "ORDERS", "--yes")
    refused = shell.run("undo", "--yes")
    assert refused.returncode == 2
    assert "purge stream ORDERS, cannot be undone" in refused.stderr
    assert shell.run("stream", "add", "ORDERS").returncode == 4
    shell.ok("stream", "rm", "ORDERS", "--confirm", "ORDERS")
    assert shell.ok("stream", "ls", "--json").strip() == "[]"
    lines = shell.ok("journal").splitlines()
    assert [line.split("  ")[-2] for line in lines] == [
        "create stream ORDERS", "edit stream ORDERS", "edit stream ORDERS",
        "purge stream ORDERS", "delete stream ORDERS",
    ]  # fmt: skip


def test_a_consumer_is_made_paused_changed_and_deleted(shell: Shell) -> None:
    shell.ok("stream", "add", "S", "--subjects", "s.>")
    shell.ok(
        "consumer", "add", "S", "C", "--filter", "s.a", "--backoff", "1s, 5s", "--max-deliver", "5"
    )
    assert shell.config("consumer", "info", "S", "C")["backoff"] == [10**9, 5 * 10**9]
    assert "paused until" in shell.ok("consumer", "pause", "S", "C", "1h")
    shell.ok("consumer", "resume", "S", "C")
    shell.ok("consumer", "reset", "S", "C", "--seq", "1", "--yes")
    shell.ok("consumer", "edit", "S", "C", "--description", "edited")
    assert shell.ok("consumer", "ls", "S").splitlines()[1].startswith("C ")
    shell.ok("consumer", "rm", "S", "C", "--yes")
    assert shell.ok("consumer", "ls", "S", "--json").strip() == "[]"


@pytest.mark.needs_server("2.14")
def test_a_consumer_that_was_reset_beyond_the_end_is_not_fine(shell: Shell) -> None:
    shell.ok("stream", "add", "S", "--subjects", "s", "--defaults")
    shell.ok("consumer", "add", "S", "C", "--defaults")
    shell.ok("pub", "s", "x", "-J")
    refused = shell.run("consumer", "reset", "S", "C", "--seq", "9")
    assert refused.returncode == 5
    skipped = "sequences 1 to 8 of S are not delivered, 7 of them not stored yet: its last is 1"
    assert skipped in refused.stderr
    shell.ok("consumer", "reset", "S", "C", "--seq", "9", "--yes")
    shell.environment["NATSTUI_MONITOR_INTERVAL_S"] = "1"
    done = shell.run("stuck", "S", "C")
    assert done.returncode == 1, done
    assert "delivery begins at sequence 9, the stream ends at 1" in done.stdout


def test_a_file_of_any_kind_makes_a_stream(shell: Shell) -> None:
    for suffix, text in (
        ("json", '{"subjects": ["json.>"], "max_msgs": 7}'),
        ("yaml", "subjects: [yaml.>]\nmax_msgs: 7\n"),
        ("toml", 'subjects = ["toml.>"]\nmax_msgs = 7\n'),
    ):
        file = shell.folder / f"config.{suffix}"
        file.write_text(text)
        shell.ok("stream", "add", suffix.upper(), "--file", str(file))
        config = shell.config("stream", "info", suffix.upper())
        assert (config["subjects"], config["max_msgs"]) == ([f"{suffix}.>"], 7)
    shell.ok("stream", "add", "COPY", "--clone", "JSON", "--subjects", "copied.>")
    assert shell.config("stream", "info", "COPY")["max_msgs"] == 7


def test_an_own_template_is_found_beside_the_built_in_ones(shell: Shell) -> None:
    folder = shell.folder / "CONFIG" / "natstui" / "templates"
    folder.mkdir(parents=True)
    (folder / "audit.toml").write_text('help = "kept for ten years"\nmax_age = 1000000000\n')
    assert "audit: kept for ten years" in shell.ok("stream", "add", "X", "--template", "?")
    shell.ok("stream", "add", "A", "--template", "audit", "--subjects", "audit.>")
    assert shell.config("stream", "info", "A")["max_age"] == 10**9


def test_a_mistake_ends_with_the_words_of_the_form(shell: Shell) -> None:
    done = shell.run("stream", "add", "S", "--max-age", "5ms")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "natstui: the maximum age is shorter than 100ms\n"
    done = shell.run("stream", "add", "S", "--max-age", "soon")
    assert "Maximum age: 'soon' is not a duration" in done.stderr


def test_read_only_changes_nothing(shell: Shell) -> None:
    done = run_here("stream", "add", "S", "--read-only", environment=shell.environment)
    assert done == Done(5, "", "natstui: read-only: nothing is changed on this server\n")
    assert shell.ok("stream", "ls", "--json").strip() == "[]"


def test_a_stored_message_is_printed_byte_by_byte(shell: Shell) -> None:
    shell.ok("stream", "add", "S", "--subjects", "s.>")
    done = shell.run("stream", "get", "S", "1")
    assert done.returncode == 4
    assert done.stderr == "natstui: stream S has no such message\n"


def test_a_dry_run_warns_of_what_the_server_has(shell: Shell) -> None:
    shell.ok("stream", "add", "ORDERS", "--subjects", "orders.>", "--retention", "workqueue")
    shell.ok("consumer", "add", "ORDERS", "FIRST", "--filter", "orders.eu")
    plan = shell.run("stream", "add", "EU", "--subjects", "orders.eu", "--dry-run")
    assert plan.returncode == 1
    assert (
        "'orders.eu' overlaps 'orders.>' of stream ORDERS: the server refuses that" in plan.stderr
    )
    plan = shell.run("consumer", "add", "ORDERS", "SECOND", "--dry-run")
    assert (
        "'>' overlaps 'orders.eu' of consumer FIRST, so the server refuses this one" in plan.stderr
    )


async def metadata_of(url: str) -> dict[str, str]:
    nc = await nats.connect(url)
    try:
        return (await nc.jetstream().stream_info("S")).config.metadata or {}
    finally:
        await nc.close()


def test_a_threshold_in_the_metadata_is_set_and_taken_away_by_its_flag(
    shell: Shell, account: Account
) -> None:
    key = "io.nats.monitor.msgs-warn"
    shell.ok("stream", "add", "S", "--metadata", "team=shop", "--monitor-msgs-warn", "5")
    metadata = asyncio.run(metadata_of(account.url))
    assert (metadata.get(key), metadata.get("team")) == ("5", "shop")
    done = shell.run("stream", "edit", "S", "--monitor-msgs-warn", "few")
    assert done.returncode == 2
    assert "is no whole number" in done.stderr
    shell.ok("stream", "edit", "S", "--monitor-msgs-warn", "")
    metadata = asyncio.run(metadata_of(account.url))
    assert (metadata.get(key), metadata.get("team")) == (None, "shop")


def connections_count(server: Broker) -> int:
    with urllib.request.urlopen(f"{server.monitoring_url}/varz") as reply:
        return int(json.load(reply)["total_connections"])


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(words.split(), id=words, marks=marks)
        for words, marks in {
            "stream add S2 --subjects two": pytest.mark.long,
            "stream edit S --max-msgs 7 --dry-run": (),
            "stream edit S --max-msgs 7 --yes": (),
            "stream seal S --yes": pytest.mark.long,
            "stream rm S --yes": pytest.mark.long,
        }.items()
    ],
)
def test_a_command_that_changes_connects_once(
    nats_server: Broker, tmp_path: Path, words: tuple[str, ...]
) -> None:
    shell = Shell(nats_server.url, tmp_path)
    shell.ok("stream", "add", "S", "--subjects", "one")
    before_count = connections_count(nats_server)
    done = shell.run(*words)
    assert done.returncode == ("--dry-run" in words), done.stderr
    assert connections_count(nats_server) - before_count == 1


@pytest.mark.parametrize(
    ("option", "content"),
    [
        ("--config", ""),
        ("--file", "# nothing yet\n"),
        ("--config", "{}"),
        *(
            pytest.param(option, content, marks=pytest.mark.long)
            for option, content in (
                ("--config", "\n \n"), ("--config", "# nothing yet\n"), ("--file", ""),
                ("--file", "\n \n"), ("--file", "{}"),
            )
        ),
    ],
)  # fmt: skip
def test_nothing_is_no_configuration(shell: Shell, content: str, option: str) -> None:
    shell.ok("stream", "add", "S", "--subjects", "s.>", "--max-age", "1h")
    before = shell.config("stream", "info", "S")
    for words in (("edit", "S"), ("add", "T")):
        refused = shell.run("stream", *words, option, "-", stdin=content)
        assert refused.returncode == 2, refused.stdout
        assert "has no configuration: it must be an object with keys" in refused.stderr
    assert shell.config("stream", "info", "S") == before
    assert "not found" in shell.run("stream", "info", "T").stderr


def test_a_purge_that_removes_more_than_was_said_ends_with_that(
    shell: Shell, account: Account
) -> None:
    shell.ok("stream", "add", "S", "--subjects", "s.*")
    for subject in ("s.a", "s.b", "s.c"):
        shell.ok("pub", "-J", subject, "x")
    with speaking(account.url, b'"filter": "s.*"', b'"filter": "s.a"') as deaf:
        words = ("stream", "purge", "S", "--filter", "s.a", "--yes", "--server", deaf)
        done = shell.run(*words)
    assert done.returncode == 4
    assert "these are more than the 1 that were counted before" in done.stderr


def test_a_time_of_a_server_that_is_none_is_said(shell: Shell, account: Account) -> None:
    shell.ok("stream", "add", "S", "--subjects", "s.*")
    with speaking(account.url, b'"ts":"2', b'"ts":"x') as odd:
        done = shell.run("stream", "info", "S", "--server", odd)
    assert done.returncode == 4 and "ts" in done.stderr, done


def test_a_user_without_a_name_changes_what_he_may(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)

    def nobody(uid: int) -> object:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    shell.ok("stream", "add", "S", "--subjects", "s.*")
    (entry,) = json.loads(shell.ok("journal", "--json"))
    assert f"({os.getuid()})" in entry["who"]


def test_an_option_without_its_value_does_not_take_the_next_option_for_it(shell: Shell) -> None:
    for words in (
        ("stream", "add", "OPT", "--subjects", "--dry-run"),
        ("stream", "purge", "OPT", "--subject", "--yes"),
    ):
        done = shell.run(*words)
        assert done.returncode == 2, done.stderr
        assert f"needs a value before {words[-1]}" in done.stderr
    assert "OPT" not in shell.run("stream", "ls").stdout


@pytest.mark.parametrize(
    "blank",
    [
        "",
        pytest.param(" ", marks=pytest.mark.long),
        pytest.param("\t", marks=pytest.mark.long),
        pytest.param("\n", marks=pytest.mark.long),
        pytest.param("\r", marks=pytest.mark.long),
        "\xa0",
    ],
)
def test_a_blank_filter_is_no_filter_that_was_left_out(shell: Shell, blank: str) -> None:
    shell.ok("stream", "add", "S", "--subjects", "s.>")
    shell.ok("pub", "s.a", "x")
    for words in (("--subject", blank, "--yes"), ("--subject", blank, "--keep", "1", "--yes")):
        done = shell.run("stream", "purge", "S", *words)
        assert done.returncode == 2 and "--filter is empty" in done.stderr, done
    assert json.loads(shell.ok("stream", "info", "S", "--json"))["state"]["messages"] == 1
    done = shell.run("stream", "edit", "S", "--max-msgs", blank or " ", "--yes")
    assert done.returncode == 2 and "--max-msgs is empty" in done.stderr, done
    done = shell.run("restore", blank, "--yes")
    assert done.returncode == 2 and "DIR is empty" in done.stderr, done
