"""Configurations and flags as other tools write them: understood, or one sentence that helps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.accounts import Account
from tests.cli.test_manage import Shell

pytestmark = pytest.mark.server

STREAM = {"name": "READINGS", "subjects": ["readings.>"], "max_age": 3_600_000_000_000,
          "max_msgs": -1, "num_replicas": 1}  # fmt: skip
CONSUMER = {"durable_name": "archive", "ack_policy": "explicit", "max_ack_pending": 50,
            "filter_subjects": ["readings.north", "readings.south"]}  # fmt: skip
MANIFEST = """\
apiVersion: jetstream.nats.io/v1beta2
kind: Stream
metadata:
  name: payments
spec:
  name: PAYMENTS
  maxAge: 72h
---
apiVersion: jetstream.nats.io/v1beta2
kind: Consumer
"""


@pytest.fixture
def shell(account: Account, tmp_path: Path) -> Shell:
    return Shell(account.url, tmp_path)


def written(shell: Shell, name: str, text: str) -> str:
    (shell.folder / name).write_text(text)
    return str(shell.folder / name)


def test_the_name_may_be_in_the_file_alone(shell: Shell) -> None:
    shell.ok("stream", "add", "--config", written(shell, "s.json", json.dumps(STREAM)))
    shell.ok("consumer", "add", "READINGS", "--config",
             written(shell, "c.json", json.dumps(CONSUMER)))  # fmt: skip
    config = shell.config("consumer", "info", "READINGS", "archive")
    assert (config["durable_name"], config["max_ack_pending"]) == ("archive", 50)
    no_name = written(shell, "n.json", '{"subjects": ["a"]}')
    refused = shell.run("stream", "add", "--file", no_name)
    assert refused.returncode == 2 and "the stream has no name" in refused.stderr


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (
            "s.yaml",
            "max_msgs: 010",
            "line 1: max_msgs: 010: some programs read a leading zero as octal",
        ),
        ("s.yaml", "num_replicas: yes", "line 1: num_replicas: a number is missing"),
        ("s.yaml", "max_age: 1:30", "line 1: max_age: Maximum age: '1:30' is not a duration"),
        ("s.yaml", "max_msgs: 1\nmax_msgs: 2", "max_msgs is given twice"),
        ("s.yaml", "placement:\n  cluster: a\n  cluster: b", "cluster is given twice"),
        ("s.json", '{"max_msgs": 1, "max_msgs": 2}', "max_msgs is given twice"),
        ("s", '{"max_msgs": 1, "max_msgs": 2}', "max_msgs is given twice"),
    ],
)
def test_what_readers_of_files_read_differently_is_refused(
    shell: Shell, name: str, text: str, said: str
) -> None:
    refused = shell.run("stream", "add", "X", "--file", written(shell, name, text))
    assert (refused.returncode, said in refused.stderr) == (2, True), refused.stderr


def test_numbers_and_switches_of_yaml_are_read_as_everybody_reads_them(shell: Shell) -> None:
    text = "subjects: [a]\nmax_msgs: 1_000\nmax_bytes: 0x400\nmax_age: 1h\nallow_direct: yes\n"
    shell.ok("stream", "add", "X", "--file", written(shell, "s.yaml", text))
    config = shell.config("stream", "info", "X")
    limits = (config["max_msgs"], config["max_bytes"], config["max_age"])
    assert (limits, config["allow_direct"]) == ((1000, 1024, 3_600_000_000_000), True)


def test_names_and_subjects_of_yaml_are_read_as_they_were_written(shell: Shell) -> None:
    shell.ok("stream", "add", "yes", "--subjects", "origin")
    text = (
        "name: on\ndescription: 1.50\nsubjects: [on, off, yes, 1e3, 007, true]\nallow_direct: on\n"
        "sources: [{name: yes, filter_subject: no}]\n"
        "metadata: {switch: off, on: Yes, version: 1.10, count: 5}\n"
    )
    shell.ok("stream", "add", "--file", written(shell, "s.yaml", text))
    config = shell.config("stream", "info", "on")
    assert config["subjects"] == ["on", "off", "yes", "1e3", "007", "true"]
    assert (config["description"], config["allow_direct"]) == ("1.50", True)
    assert config["sources"] == [{"name": "yes", "filter_subject": "no"}]
    metadata = config["metadata"]
    assert isinstance(metadata, dict)
    own = {key: text for key, text in metadata.items() if not key.startswith("_nats.")}
    assert own == {"switch": "off", "on": "Yes", "version": "1.10", "count": "5"}
    text = "durable_name: off\nfilter_subjects: [on]\nsample_freq: 10\nmax_deliver: 3\n"
    shell.ok("consumer", "add", "on", "--file", written(shell, "c.yaml", text))
    config = shell.config("consumer", "info", "on", "off")
    assert (config["filter_subject"], config["sample_freq"]) == ("on", "10")
    refused = shell.run("stream", "add", "X", "--file", written(shell, "u.yaml", "on: 1\n"))
    assert "line 1: unknown field on" in refused.stderr


def test_unknown_fields_are_named_with_line_and_nearest_name(shell: Shell) -> None:
    text = "name: READINGS\nsubjects: [readings.>]\nmax_agee: 1h\nmax_byte: 100MB\n"
    refused = shell.run("stream", "add", "X", "--file", written(shell, "s.yaml", text))
    assert refused.returncode == 2
    assert "line 3: unknown field max_agee, did you mean max_age" in refused.stderr
    assert "line 4: unknown field max_byte, did you mean max_bytes" in refused.stderr
    nested = '{"name": "X", "placement": {"cluster": "a", "tagz": ["b"]}}'
    refused = shell.run("stream", "add", "--file", written(shell, "p.json", nested))
    assert "unknown field tagz, did you mean tags" in refused.stderr
    assert json.loads(shell.ok("stream", "ls", "--json")) == []


def test_durations_and_sizes_may_be_text(shell: Shell) -> None:
    text = ("subjects: [r.>]\nmax_age: 1h\nmax_bytes: 100MB\nduplicate_window: 30s\n"
            "consumer_limits: {inactive_threshold: 5m}\n")  # fmt: skip
    shell.ok("stream", "add", "R", "--file", written(shell, "r.yaml", text))
    config = shell.config("stream", "info", "R")
    assert (config["max_age"], config["max_bytes"]) == (3_600_000_000_000, 100 * 1024 * 1024)
    limits = config["consumer_limits"]
    assert isinstance(limits, dict) and limits["inactive_threshold"] == 300_000_000_000
    wrong = written(shell, "w.yaml", "subjects: [w]\nmax_age: soon\n")
    refused = shell.run("stream", "add", "W", "--file", wrong)
    assert refused.returncode == 2 and "line 2: max_age" in refused.stderr
    file = written(shell, "c.yaml", "ack_wait: 1m\nbackoff: [1s, 5s]\nmax_deliver: 3\n")
    shell.ok("consumer", "add", "R", "c", "--file", file)
    assert shell.config("consumer", "info", "R", "c")["backoff"] == [10**9, 5 * 10**9]


@pytest.mark.parametrize("flag", ["--file", "--config"])
def test_a_manifest_of_kubernetes_is_recognised(shell: Shell, flag: str) -> None:
    for kind in (("stream", "add", "X"), ("consumer", "add", "X", "c")):
        refused = shell.run(*kind, flag, written(shell, "nack.yaml", MANIFEST))
        assert refused.returncode == 2
        assert "manifest of the Kubernetes controller" in refused.stderr
        assert "kubectl apply -f" in refused.stderr


def test_every_field_that_a_server_prints_is_known(shell: Shell) -> None:
    shell.ok("stream", "add", "S", "--subjects", "s.>", "--max-age", "1h")
    shell.ok("consumer", "add", "S", "c", "--filter", "s.a")
    for kind, words in (("stream", ("S",)), ("consumer", ("S", "c"))):
        config = shell.config(kind, "info", *words)
        file = written(shell, f"{kind}.json", json.dumps(config))
        assert shell.run(kind, "edit", *words, "--file", file, "--dry-run").returncode == 0


def test_flags_of_the_nats_cli_are_understood_or_answered(shell: Shell, account: Account) -> None:
    assert "READINGS" not in shell.ok("stream", "ls", "-s", account.url)
    for flag in ("--user", "--creds", "--nkey", "--password"):
        refused = shell.run("stream", "ls", flag, "x")
        assert refused.returncode == 2 and f"natstui context add NAME --server URL {flag}" in (
            refused.stderr
        )
    shell.ok("context", "add", "here", "-s", account.url)
    shell.ok("stream", "ls", "--context", "here")
    other = shell.run("stream", "ls", "--js-api-prefix", "$JS.elsewhere.API")
    assert other.returncode != 0 and "$JS.elsewhere.API" in other.stderr
    shell.ok("stream", "ls", "--js-api-prefix", "$JS.API")


def test_the_old_form_of_nats_bench_is_answered_with_the_new_one(shell: Shell) -> None:
    refused = shell.run("bench", "orders", "--pub", "2", "--js")
    assert refused.returncode == 2
    assert "natstui bench js pub async orders --clients 2" in refused.stderr
    refused = shell.run("bench", "orders", "--pub", "1", "--sub", "3")
    assert "natstui bench pub orders --clients 1 and natstui bench sub orders" in refused.stderr


def test_what_is_too_deep_or_too_much_is_refused_at_once(shell: Shell) -> None:
    lines = ["a0: &a0 [1, 2, 3, 4, 5, 6, 7, 8, 9]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    bomb = written(shell, "bomb.yaml", "\n".join(lines))
    deep = written(shell, "deep.toml", "a=" + "[" * 50_000 + "]" * 50_000)
    for words, why in (
        (("stream", "add", "S", "--file", bomb), "more than 100,000 values"),
        (("stream", "add", "S", "--file", "/dev/zero"), "it is larger than"),
        (("stream", "ls", "--config", "/dev/zero"), "it is larger than"),
        (("stream", "ls", "--config", deep), "nested more than 100 levels deep"),
        (("bench", "run", deep), "nested more than 100 levels deep"),
    ):
        refused = shell.run(*words)
        assert refused.returncode == 2 and why in refused.stderr, refused.stderr
