"""Files of a user that are nested, long or huge beyond all measure: one sentence each."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cli.test_manage import Shell

DEEP, LONG = 50_000, 101_000
DIGITS = "9" * 5000


def nested(begin: str, end: str, levels_count: int) -> str:
    return begin * levels_count + "1" + end * levels_count


OBJECT = '{"a":'


def keys(levels_count: int) -> str:
    return ".".join(["a"] * levels_count)


def doubled(number: int) -> str:
    return f"a{number}: &a{number} [*a{number - 1}, *a{number - 1}]\n"


JSON = {
    "lists": nested("[", "]", DEEP),
    "objects": nested('{"a":', "}", DEEP),
    "a few hundred objects": nested('{"a":', "}", 400),
    "a list in a field": f'{{"subjects": {nested("[", "]", 400)}}}',
    "an object in a field": f'{{"metadata": {nested(OBJECT, "}", 400)}}}',
    "a long list": f'{{"subjects": [{"1," * LONG}1]}}',
    "a huge number": f'{{"max_msgs": {10**30}}}',
    "a number of thousands of digits": f'{{"max_msgs": {DIGITS}}}',
    "a number that is none": '{"max_msgs": NaN}',
    "a number without end": '{"max_msgs": 1e999}',
}  # fmt: skip
TOML = {
    "tables": f"[{keys(DEEP)}]",
    "a few hundred tables": f"[{keys(400)}]\nb = 1",
    "a dotted key": f"{keys(DEEP)} = 1",
    "lists": f"x = {nested('[', ']', DEEP)}",
    "a few hundred lists": f"x = {nested('[', ']', 400)}",
    "inline tables": f"x = {nested('{a=', '}', DEEP)}",
    "a long list": f"x = [{'1,' * LONG}]",
    "a huge number": f"max_msgs = {10**30}",
    "a number of thousands of digits": f"max_msgs = {DIGITS}",
    "a number that is none": "max_msgs = nan",
}
YAML = {
    "lists": nested("[", "]", DEEP),
    "mappings": nested("{a: ", "}", DEEP),
    "a few hundred mappings": f"metadata: {nested('{a: ', '}', 300)}",
    "lists by dashes": "- " * 400 + "1",
    "a huge number": f"max_msgs: {10**30}",
    "a number of thousands of digits": f"max_msgs: {DIGITS}",
    "a number that is none": "max_msgs: .nan",
    # As many values as a long list, which PyYAML reads for seconds.
    "what doubles": "a0: &a0 [1]\n" + "".join(map(doubled, range(1, 40))),
    "what is in itself": "metadata: &m {a: *m}",
}  # fmt: skip
TEXTS = {
    f"{ending}: {name}": (ending, text)
    for ending, texts in (("json", JSON), ("toml", TOML), ("yaml", YAML))
    for name, text in texts.items()
}
SLOW = ("a long list", "what doubles")


def one_sentence(shell: Shell, *words: str, codes: tuple[int, ...] = (2,)) -> str:
    done = shell.run(*words)
    assert done.returncode in codes, (done.returncode, done.stderr[:500])
    lines = done.stderr.strip().splitlines()
    if done.returncode == 0 and not lines:
        return ""
    assert len(lines) == 1 and lines[0].startswith("natstui: "), done.stderr[:500]
    said = lines[0]
    assert len(said) < 600, said[:600]
    assert "recursion" not in said and "integer string conversion" not in said, said
    return said


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    # Nobody is there: what is accepted ends with another code.
    return Shell("nats://127.0.0.1:1", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.long] * name.endswith("a long list"))
        for name in TEXTS
    ],
)
def test_a_configuration_is_refused(shell: Shell, tmp_path: Path, name: str) -> None:
    ending, text = TEXTS[name]
    ways = [
        (f".{ending}", ("stream", "add", "S")), (f".{ending}", ("consumer", "add", "S", "C")),
        ("", ("stream", "add", "S")),
    ]  # fmt: skip
    # What is read for long is read by the same for each of them.
    for ends, words in ways[:1] if name.endswith(SLOW) else ways:
        file = tmp_path / f"f{ends}"
        file.write_text(text)
        assert str(file) in one_sentence(shell, *words, "--file", str(file))
        if ending == "json":
            assert str(file) in one_sentence(shell, *words, "--config", str(file))


# A long list is no setting however long it is, and read for a second.
@pytest.mark.parametrize(
    "name", [name for name in TEXTS if name.startswith("toml") and name != "toml: a long list"]
)
def test_settings_and_scenarios_are_refused(shell: Shell, tmp_path: Path, name: str) -> None:
    file = tmp_path / "f.toml"
    file.write_text(TEXTS[name][1])
    for words in (("stream", "ls", "--settings", str(file)), ("bench", "run", str(file))):
        assert str(file) in one_sentence(shell, *words)
    for table in ("connection", "profiles.p", "alerts.a", "viewer", "viewer.keys"):
        file.write_text(f"[{table}]\n{TEXTS[name][1]}")
        one_sentence(shell, "stream", "ls", "--settings", str(file))


@pytest.mark.parametrize("name", [name for name in TEXTS if name.startswith("json")])
def test_contexts_and_variables_are_refused(shell: Shell, tmp_path: Path, name: str) -> None:
    text = TEXTS[name][1]
    contexts = tmp_path / "CONFIG" / "nats" / "context"
    contexts.mkdir(parents=True)
    # A field that no context has is kept as it is, and not read.
    for content in (text, f'{{"url": {text}}}', f'{{"user": {text}}}'):
        (contexts / "c.json").write_text(content)
        for words in (("stream", "ls", "--context", "c"), ("context", "edit", "c", "--user", "u")):
            one_sentence(shell, *words, codes=(0, 2, 3) if content is text else (2,))
    if len(text) < 100_000:  # more is no variable
        for variable in ("NATSTUI_VIEWER_KEYS", "NATSTUI_PROFILES", "NATSTUI_ALERTS"):
            shell.environment[variable] = text
            one_sentence(shell, "stream", "ls")
            del shell.environment[variable]


@pytest.mark.parametrize("name", [name for name in TEXTS if name.startswith("json")])
def test_options_and_files_in_json_are_refused(shell: Shell, tmp_path: Path, name: str) -> None:
    text = TEXTS[name][1]
    for words in (("--sources", text), ("--mirror", text)):
        one_sentence(shell, "stream", "add", "S", *words)
    # What stands in metadata becomes a text, however large its numbers are.
    is_text = name in ("json: a huge number", "json: a long list")
    words = ("stream", "add", "S", "--metadata", f'{{"a": {text}}}')
    one_sentence(shell, *words, codes=(2, 3) if is_text else (2,))
    folder = tmp_path / "kept"
    folder.mkdir()
    for file in ("backup.json", "natstui.json"):
        (folder / "backup.json").write_text(json.dumps({"config": {"name": "S"}}))
        (folder / file).write_text(text)
        (folder / "stream.tar.s2").touch()
        one_sentence(shell, "stream", "restore", str(folder), codes=(6,))
    messages = tmp_path / "messages"
    messages.write_text(text + os.linesep)
    one_sentence(shell, "bench", "show", str(messages), codes=(2, 4, 6))


@pytest.mark.parametrize(
    "words",
    [
        "replay NAME", "analyze NAME", "sessions verify NAME", "sessions pack NAME",
        "export NAME --to x.csv", "backup verify NAME", "stream restore NAME",
        "check --config NAME", "context rm NAME -f", "stream add S --config NAME",
    ],
)  # fmt: skip
def test_a_name_that_no_file_can_have_is_refused_in_one_sentence(shell: Shell, words: str) -> None:
    refused = shell.run(*words.replace("NAME", "x" * 300).split())
    assert refused.returncode in (2, 6), refused
    assert refused.stderr.startswith("natstui: ") and len(refused.stderr.splitlines()) == 1
