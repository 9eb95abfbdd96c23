"""Every flag of the NATS CLI's `add` and `edit` means the same here, or a sentence refuses it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from natstui.model.assets.differences import AssetKind, fields_of, normalize_config, with_field
from natstui.model.assets.fields import read
from natstui.model.assets.text import parse_field
from tests.accounts import Account
from tests.cli.natscli_rows import EMPTIED, FLAGS, ROWS
from tests.cli.test_manage import Shell

pytestmark = pytest.mark.server


def test_the_tables_have_every_flag_of_the_nats_cli() -> None:
    for command, flags in FLAGS.items():
        words = [word for row, _ in ROWS[command] for word in row.split("|")]
        assert {flag for flag in flags.split() if f"--{flag}" not in words} == set(), command


BEFORE: dict[str, dict[str, object]] = {
    "stream": {
        "name": "E", "subjects": ["s.>"], "description": "before", "max_msgs": 7,
        "subject_transform": {"src": "s.x", "dest": "s.y"},
        "republish": {"src": "s.>", "dest": "again.>"},
    },
    "consumer": {"name": "C", "durable_name": "C", "ack_policy": "explicit", "description": "was"},
}  # fmt: skip
FILES = {
    "stream": {"subjects": ["s.>"], "max_msgs": 42},
    "consumer": {"durable_name": "X", "ack_policy": "explicit", "max_deliver": 42},
}


@pytest.fixture
def shell(account: Account, tmp_path: Path) -> Shell:
    shell = Shell(account.url, tmp_path)
    for kind, words in (("stream", ("E",)), ("consumer", ("E", "C"))):
        (tmp_path / f"{kind}.json").write_text(json.dumps(FILES[kind]))
        file = tmp_path / "before.json"
        file.write_text(json.dumps(BEFORE[kind]))
        shell.ok(kind, "add", *words, "--file", str(file))
    return shell


def made_of(shell: Shell, kind: AssetKind, verb: str, row: str) -> tuple[dict[str, object], str]:
    """Return the configuration that words make, as the server would keep it, and what was said."""
    file = str(shell.folder / f"{kind}.json")
    words = [file if word == "FILE" else word for word in row.split("|")]
    names = ["E"] if kind == "consumer" or verb == "edit" else ["N"]
    names += [] if kind == "stream" else ["C" if verb == "edit" else "N"]
    done = shell.run(kind, verb, *names, *words, "--dry-run", "--json")
    said = done.stdout + done.stderr
    if done.returncode not in (0, 1):
        return {}, said
    found = json.loads(done.stdout)
    if isinstance(found, dict):
        return normalize_config(kind, found), said
    config = normalize_config(kind, BEFORE[kind])
    for difference in found:
        field = next(one for one in fields_of(kind) if one.path == difference["path"])
        config = with_field(config, field, parse_field(field, difference["after"]))
    return normalize_config(kind, config), said


@pytest.mark.parametrize(("kind", "verb"), list(ROWS))
def test_every_flag_of_the_nats_cli_means_the_same_or_is_refused(
    shell: Shell, kind: AssetKind, verb: str
) -> None:
    wrong = []
    for row, expected in ROWS[kind, verb]:
        config, said = made_of(shell, kind, verb, row)
        if isinstance(expected, str):
            right = expected in said
        else:
            got = {path: read(config, path) for path in expected}
            right = bool(config) and got == expected
            said = f"{got} {said}"
        wrong += [] if right else [f"{row}: {said}"]
    assert wrong == []


@pytest.mark.parametrize("kind", list(EMPTIED))
def test_an_edit_with_an_empty_value_says_that_the_nats_cli_would_do_nothing(
    shell: Shell, kind: AssetKind
) -> None:
    wrong = []
    for flag in EMPTIED[kind]:
        _, said = made_of(shell, kind, "edit", f"{flag}|")
        sentence = f"natstui: {flag} '' takes it away here and does nothing in the NATS CLI\n"
        wrong += [] if said.count(sentence) == 1 else [f"{flag}: {said}"]
    assert wrong == []
    config, said = made_of(shell, kind, "edit", "--description|")
    assert read(config, "description") == ""
    same = "--tag|" if kind == "stream" else "--filter|"
    for verb, row in (("edit", same), ("edit", "--description|mine"), ("add", "--description|")):
        assert "takes it away here" not in made_of(shell, kind, verb, row)[1]


def test_a_pause_needs_the_zone_of_its_time(shell: Shell) -> None:
    before = shell.config("consumer", "info", "E", "C")
    for text in ("2030-01-31 12:00:00", "2030-01-31T12:00:00", "2030-01-31"):
        done = shell.run("consumer", "pause", "E", "C", text)
        clock = "00:00:00" if text.endswith("31") else "12:00:00"
        assert f"the NATS CLI reads {text!r} as UTC: write 2030-01-31T{clock}Z" in done.stderr
        assert shell.config("consumer", "info", "E", "C") == before
    shell.ok("consumer", "pause", "E", "C", "2030-01-31T12:00:00+02:00")
    assert shell.config("consumer", "info", "E", "C")["pause_until"] == "2030-01-31T10:00:00Z"


def test_what_is_no_subject_is_refused(shell: Shell) -> None:
    for text in ("a..b", "a b", ">.a"):
        for words in (
            ("purge", "E", "--force", "--subject"), ("ls", "--subject"),
            ("get", "E", "--last-for"),
        ):  # fmt: skip
            done = shell.run("stream", *words, text)
            assert f"Subject: {text!r} is not a valid subject" in done.stderr, words
    assert "0 messages of E removed" in shell.ok("stream", "purge", "E", "--subject", "a.b", "-f")


def test_a_subject_with_a_comma_goes_into_a_file(shell: Shell) -> None:
    refused = shell.run("consumer", "edit", "E", "C", "--filter", "s.a,b")
    assert "a value with such a character belongs in --file FILE" in refused.stderr
    file = shell.folder / "comma.json"
    file.write_text('{"filter_subjects": ["s.a,b"]}')
    shell.ok("consumer", "edit", "E", "C", "--file", str(file))
    assert shell.config("consumer", "info", "E", "C")["filter_subject"] == "s.a,b"


def test_a_switch_takes_what_follows_only_when_it_is_a_word_of_a_switch(shell: Shell) -> None:
    for words in (
        ("edit", "--deny-delete", "E"), ("edit", "E", "--deny-delete", "yes"),
        ("edit", "--deny-delete=true", "E"), ("edit", "--no-deny-delete", "--deny-delete", "E"),
    ):  # fmt: skip
        done = shell.run("stream", *words, "--dry-run")
        assert done.stdout == "Deny delete: no → yes\n", (words, done.stderr)
    done = shell.run("stream", "edit", "E", "--description=--deny-delete", "--dry-run")
    assert done.stdout == "Description: before → --deny-delete\n"
    done = shell.run("stream", "edit", "E", "--description", "--deny-delete", "--dry-run")
    assert done.returncode == 2 and "--description needs a value before --deny-d" in done.stderr
    done = shell.run("stream", "edit", "E", "--deny-delete=maybe")
    assert "Deny delete must be yes or no, not 'maybe'" in done.stderr


def test_a_time_may_be_said_from_now(shell: Shell) -> None:
    hour = timedelta(hours=1)
    for words, distance in (
        (("--deliver", "1h"), -hour),
        (("--deliver", "1h ago"), -hour),
        (("--deliver-policy", "by_start_time", "--opt-start-time", "60m ago"), -hour),
        (("--pause", "1h"), hour),
        (("--pause-until", "in 1h"), hour),
    ):
        done = shell.run("consumer", "add", "E", "N", *words, "--dry-run", "--json")
        config = json.loads(done.stdout)
        text = config.get("opt_start_time") or config["pause_until"]
        away = datetime.fromisoformat(text) - datetime.now(UTC)
        assert abs(away - distance) < timedelta(minutes=10), words
    shell.ok("consumer", "pause", "E", "C", "in 2h")
    paused = datetime.fromisoformat(str(shell.config("consumer", "info", "E", "C")["pause_until"]))
    assert timedelta(minutes=110) < paused - datetime.now(UTC) <= timedelta(hours=2)


def test_what_config_is_in_the_nats_cli_is_no_file_of_settings(shell: Shell) -> None:
    settings = shell.folder / "settings.toml"
    settings.write_text("[connection]\nread_only = true\n")
    refused = shell.run("stream", "edit", "E", "--config", str(settings))
    assert "--settings for the settings of natstui" in refused.stderr
    refused = shell.run("stream", "edit", "E", "--max-msgs", "9", "--settings", str(settings))
    assert refused.returncode != 0
    assert shell.config("stream", "info", "E")["max_msgs"] == 7
    whole = str(shell.folder / "stream.json")
    shell.ok("stream", "edit", "E", "--config", whole, "-f")
    config = shell.config("stream", "info", "E")
    assert (config["max_msgs"], config.get("description"), config.get("republish")) == (
        42, None, None,
    )  # fmt: skip
    loose = shell.folder / "loose.json"
    loose.write_text('{"ack_policy": "explicit"}')
    refused = shell.run("consumer", "add", "E", "N", "--config", str(loose))
    assert "has no durable_name" in refused.stderr


def test_other_commands_take_the_words_of_the_nats_cli_too(shell: Shell) -> None:
    shell.ok("consumer", "reset", "E", "C", "--sequence", "1", "--force")
    shell.ok("stream", "purge", "E", "--subject", "s.x", "-f")
    shell.ok("consumer", "rm", "E", "C", "-f")
    shell.ok("stream", "rm", "E", "--force")


@pytest.mark.parametrize("is_production", ["true", "false"])
def test_a_consumer_without_a_name_is_confirmed_with_that_of_its_stream(
    shell: Shell, is_production: str
) -> None:
    shell.environment["NATSTUI_CONNECTION_PRODUCTION"] = is_production
    words = ("consumer", "add", "E", "--ephemeral", "--pull", "--confirm")
    created_text = shell.ok(*words, "E")
    refused = shell.run(*words, "C")
    assert refused.returncode == 5 and "'C' is not 'E'" in refused.stderr
    rows = json.loads(shell.ok("consumer", "ls", "E", "--json"))
    (name,) = (row["name"] for row in rows if "durable_name" not in row["config"])
    assert created_text == f"consumer {name} created\n"


def test_an_ephemeral_consumer_may_be_without_a_name(shell: Shell) -> None:
    refused = shell.run("consumer", "add", "E")
    assert (
        refused.stderr
        == "natstui: the consumer has no name: add NAME, a name in the file, or --ephemeral\n"
    )
    plan = shell.run("consumer", "add", "E", "--ephemeral", "--dry-run", "--json")
    assert (plan.returncode, "name" in json.loads(plan.stdout)) == (1, False)
    assert "nats consumer add E --ack=explicit" in plan.stderr
    created_text = shell.ok("consumer", "add", "E", "--ephemeral", "--pull")
    rows = json.loads(shell.ok("consumer", "ls", "E", "--json"))
    assert sorted("durable_name" in row["config"] for row in rows) == [False, True]
    (name,) = (row["name"] for row in rows if "durable_name" not in row["config"])
    assert created_text == f"consumer {name} created\n"
    shell.ok("undo", "-f")
    (kept,) = json.loads(shell.ok("consumer", "ls", "E", "--json"))
    assert kept["name"] != name, "undo deletes the consumer that was created last"
