"""What the NATS CLI documents of `stream|consumer add|edit`: its flags and their values.

Typed from its source of July 2026, to read a printed command back without our own code.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, field

S = 1_000_000_000
Config = dict[str, object]


class GrammarError(Exception):
    """The NATS CLI would end with this."""


_STREAM = {
    "subjects": "texts", "description": "text", "compression": "none|s2", "replicas": "int",
    "tag": "texts", "cluster": "text", "ack": "switch", "retention": "limits|interest|workq|work",
    "discard": "new|old", "discard-per-subject": "switch", "max-age": "duration",
    "max-bytes": "size", "max-consumers": "int", "max-msg-size": "size", "max-msgs": "int",
    "max-msgs-per-subject": "int", "dupe-window": "duration", "mirror": "text", "source": "texts",
    "allow-batch": "switch", "allow-fast": "switch", "allow-counter": "on",
    "allow-rollup": "switch", "deny-delete": "switch", "deny-purge": "switch",
    "allow-direct": "switch", "allow-mirror-direct": "switch", "allow-msg-ttl": "on",
    "allow-schedules": "switch", "subject-del-markers-ttl": "duration",
    "transform-source": "text", "transform-destination": "text", "metadata": "map",
    "republish-source": "text", "republish-destination": "text", "republish-headers": "on",
    "config": "text",
}  # fmt: skip
_CONSUMER = {
    "backoff": "linear|none", "description": "text", "filter": "texts", "headers-only": "switch",
    "max-deliver": "int", "max-pending": "int", "max-pull-batch": "int",
    "max-pull-expire": "duration", "max-pull-bytes": "int", "sample": "int", "target": "text",
    "wait": "duration", "inactive-threshold": "duration", "replicas": "int", "metadata": "map",
    "config": "text",
}  # fmt: skip
FLAGS: dict[str, dict[str, str]] = {
    "stream add": {
        **_STREAM, "storage": "file|f|memory|m", "first-sequence": "uint", "defaults": "on",
        "limit-consumer-inactive": "duration", "limit-consumer-max-pending": "int",
        "persist-mode": "default|async",
    },
    "stream edit": {
        **_STREAM, "no-mirror": "on", "no-transform": "on", "no-republish": "on", "force": "on",
    },
    "consumer add": {
        **_CONSUMER, "ack": "none|all|explicit|flow_control", "bps": "uint", "deliver": "text",
        "deliver-group": "text", "ephemeral": "on", "flow-control": "on", "heartbeat": "text",
        "max-waiting": "int", "pull": "on", "replay": "instant|original", "memory": "on",
        "pause": "text", "pinned-groups": "texts", "pinned-ttl": "duration",
        "overflow-groups": "texts", "prioritized-groups": "texts", "defaults": "on",
    },
    "consumer edit": {**_CONSUMER, "force": "on"},
}  # fmt: skip
"""Command → flag → what it takes: `switch` has a `--no-` form, `on` has none, `a|b` are words."""

_UNITS_S = {"w": 604_800, "W": 604_800, "d": 86_400, "D": 86_400, "M": 2_592_000,
            "y": 31_536_000, "Y": 31_536_000, "h": 3600, "m": 60, "s": 1}  # fmt: skip


def duration(text: str) -> int:
    """Return nanoseconds, read as the NATS CLI does."""
    if text == "0":
        return 0
    parts = re.findall(r"([-+]?)([\d.]+)([a-zA-Zµ]+)", text.strip())
    if not parts:
        raise GrammarError(f"invalid duration {text}")
    small = {"ns": 1, "us": 1000, "µs": 1000, "ms": 1_000_000}
    total_ns = 0
    for _, number, unit in parts:
        if unit not in _UNITS_S and unit not in small:
            raise GrammarError(f"invalid unit {unit}")
        total_ns += int(number) * (small.get(unit) or _UNITS_S[unit] * S)
    return -total_ns if parts[0][0] == "-" else total_ns


def size(text: str) -> int:
    """Return bytes; the digits are a number of 32 bits."""
    if text.startswith("-") or not text:
        return -1
    found = re.match(r"(\d+)(\w*)", text)
    powers = {"": 0, "B": 0, "K": 10, "KB": 10, "KIB": 10, "M": 20, "MB": 20, "MIB": 20,
              "G": 30, "GB": 30, "GIB": 30, "T": 40, "TB": 40, "TIB": 40}  # fmt: skip
    if found is None or found[2].upper() not in powers or int(found[1]) >= 2**31:
        raise GrammarError(f"invalid bytes specification {text}")
    return int(found[1]) << powers[found[2].upper()]


@dataclass
class Command:
    """A command line, parsed."""

    verb: str
    names: list[str] = field(default_factory=list)
    flags: dict[str, object] = field(default_factory=dict)
    config: Config | None = None

    def get(self, flag: str, default: object = None) -> object:
        return self.flags.get(flag, default)

    def text(self, flag: str) -> str:
        return str(self.flags.get(flag, ""))

    def number(self, flag: str, default: int = 0) -> int:
        value = self.flags.get(flag, default)
        assert isinstance(value, int)
        return value


def parsed_command(line: str) -> Command:
    """Return a printed command, or raise GrammarError as the NATS CLI would."""
    words = shlex.split(line)
    body = None
    if words[0] == "printf":
        body = json.loads(words[2])
        words = words[4:] if words[3] == "|" else words[6:]
    assert words[0] == "nats"
    command = Command(" ".join(words[1:3]), config=body)
    known = FLAGS[command.verb]
    rest = words[3:]
    while rest:
        word = rest.pop(0)
        if word == "--":
            command.names += rest
            break
        if word.startswith("@") or (word.startswith("-") and not word.startswith("--")):
            raise GrammarError(f"unexpected {word}")
        if not word.startswith("--"):
            command.names.append(word)
            continue
        name, sign, value = word[2:].partition("=")
        _set(command, known, name, value if sign else None, rest)
    if ("config" in command.flags) != (body is not None):
        raise GrammarError("a file and no --config, or the other way round")
    return command


def _set(
    command: Command, known: dict[str, str], name: str, value: str | None, rest: list[str]
) -> None:
    if name not in known and known.get(name.removeprefix("no-")) == "switch":
        command.flags[name.removeprefix("no-")] = False
        return
    if name not in known:
        raise GrammarError(f"unknown long flag --{name}")
    takes = known[name]
    if takes in ("switch", "on"):
        if value is not None:
            raise GrammarError(f"--{name} takes no value")
        command.flags[name] = True
        return
    text = rest.pop(0) if value is None else value
    if takes in ("texts", "map"):
        _add(command, name, takes, text)
    elif "|" in takes:
        if text not in takes.split("|"):
            raise GrammarError(f"--{name} must be one of {takes}")
        command.flags[name] = text
    else:
        command.flags[name] = _VALUES[takes](name, text)


def _add(command: Command, name: str, takes: str, text: str) -> None:
    if takes == "texts":
        list_ = command.flags.setdefault(name, [])
        assert isinstance(list_, list)
        list_.append(text)
        return
    parts = re.split("[:=]", text, maxsplit=1)
    if len(parts) != 2:
        raise GrammarError(f"expected KEY=VALUE got {text}")
    pairs = command.flags.setdefault(name, {})
    assert isinstance(pairs, dict)
    pairs[parts[0]] = parts[1]


def _whole(name: str, text: str) -> int:
    if not re.fullmatch(r"-?\d+", text):
        raise GrammarError(f"--{name} is a number, not {text}")
    return int(text)


def _positive(name: str, text: str) -> int:
    if not text.isdecimal():
        raise GrammarError(f"--{name} is a number, not {text}")
    return int(text)


_VALUES = {
    "text": lambda _name, text: text,
    "int": _whole,
    "uint": _positive,
    "duration": lambda _name, text: duration(text),
    "size": lambda _name, text: size(text),
}
