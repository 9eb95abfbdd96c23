"""Every command of the command line, what a lying server tells it, and what it may do then."""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import nats
from click.testing import CliRunner
from msgspec import Struct
from nats.js import api

from natstui.cli.root import COMMANDS, root
from natstui.errors import NatstuiError
from tests.hostile_server import ENDLESS, TRUTH, Lie, Wire, at, each_leaf, is_change, leaves_of

LONGEST_S = 20.0
"""A command that takes longer with a lying server hangs."""
MOST_MB = 500
"""Memory that a command may take for replies of a megabyte."""


class Use(Struct, frozen=True):
    """How a command is used."""

    words: str
    changes: str = ""
    """The subjects of its own changes, as a regular expression; empty: it only reads."""
    as_system: bool = False
    most_s: float = LONGEST_S
    """After so long it hangs."""


_NONE = ("analyze", "config", "context", "demo", "export", "help", "journal", "replay",
         "replay-engine", "serve", "sessions", "bench compare", "bench merge", "bench oldjs",
         "bench runs", "bench scenarios", "bench show", "bench vs", "bench worker")  # fmt: skip
"""Commands that read no server; a demo reads its own, and an analysis recordings."""
PROCESSES = {
    "alert": "alert --json",
    "engine": "engine",
    "metrics": "metrics --listen 127.0.0.1:0 --interval 300ms",
    "watch": "watch --json --interval 300ms",
    "record": "record --duration 10m --sessions {folder}",
}
"""Commands that go on until they are stopped, in a process of their own."""

REPLY = "reply"
"""Answers requests: it is tried with lies about these."""


def bench(words: str, changes: str = "") -> tuple[Use, ...]:
    """Return a use of a benchmark: it ends by itself some time after a server falls silent."""
    return (Use(f"bench {words} --no-save", changes, most_s=90.0),)


BENCHMARKS = {
    "bench js consume": bench("js consume --stream S --duration 1s"),
    "bench js fetch": bench("js fetch --stream S --duration 1s"),
    "bench js get": bench("js get --stream T --msgs 6"),
    "bench js get-batch": bench("js get-batch --stream T --msgs 6"),
    "bench js ordered": bench("js ordered --stream S --duration 1s"),
    "bench js push": bench("js push --stream S --duration 1s"),
    "bench js pub async": bench("js pub async s.b --stream S --msgs 6", r"s\.b"),
    "bench js pub atomic": bench("js pub atomic s.b --stream S --msgs 6", r"s\.b"),
    "bench js pub batch": bench("js pub batch s.b --stream S --msgs 6", r"s\.b"),
    "bench js pub fast": bench("js pub fast s.b --stream S --msgs 6", r"s\.b"),
    "bench js pub sync": bench("js pub sync s.b --stream S --msgs 6", r"s\.b"),
    "bench js pubsub": bench("js pubsub s.b --stream S --msgs 6", r"s\.b"),
    "bench kv get": bench("kv get --bucket B --msgs 6"),
    "bench kv put": bench("kv put --bucket B --msgs 6", r"\$KV\.B\..*"),
    "bench pub": bench("pub p.b --msgs 20", r"p\.b"),
    "bench pubsub": bench("pubsub p.b --msgs 20", r"p\.b"),
    "bench request": bench("request q.b --msgs 3", r"q\.b"),
    "bench run": bench("run fanout --duration 1s", "bench"),
    "bench serve": bench("serve q.b --duration 1s"),
    "bench service request": bench("service request q.b --msgs 3", r"q\.b"),
    "bench service serve": bench("service serve q.b --duration 1s"),
    "bench sub": bench("sub p.b --duration 1s"),
}
"""They start processes, and take seconds each."""

USES: dict[str, tuple[Use, ...]] = {
    "backup": (Use("backup {folder}/backup"), Use("backup {folder}/backup --consumers --json")),
    "balance": (Use("balance --dry-run"), Use("balance --json"),
                Use("balance", as_system=True)),
    "check": (Use("check"), Use("check --json")),
    "connections": (Use("connections", as_system=True), Use("connections --json", as_system=True),
                    Use("connections")),
    "consumer add": (Use("consumer add S NEW --dry-run"),
                     Use("consumer add S NEW", r"\$JS\.API\.CONSUMER\.CREATE\.S\.NEW(\..*)?")),
    "consumer clients": (Use("consumer clients S C --for 1s", as_system=True),),
    "consumer copy": (Use("consumer copy S C D --dry-run"),),
    "consumer edit": (Use("consumer edit S C --description x --dry-run"),
                      Use("consumer edit S C --description x",
                          r"\$JS\.API\.CONSUMER\.(DURABLE\.)?CREATE\.S\.C(\..*)?")),
    "consumer find": (Use("consumer find"), Use("consumer find --json"),
                      Use("consumer find S --names")),
    "consumer info": (Use("consumer info S C"), Use("consumer info S C --json")),
    "consumer ls": (Use("consumer ls S"), Use("consumer ls S --json")),
    "consumer next": (Use("consumer next S C --wait 1s --no-ack",
                          r"\$JS\.API\.CONSUMER\.MSG\.NEXT\.S\.C"),),
    "consumer pause": (Use("consumer pause S C 1h", r"\$JS\.API\.CONSUMER\.PAUSE\.S\.C"),),
    "consumer report": (Use("consumer report S"), Use("consumer report S --json")),
    "consumer reset": (Use("consumer reset S C"),),
    "consumer resume": (Use("consumer resume S C", r"\$JS\.API\.CONSUMER\.PAUSE\.S\.C"),),
    "consumer rm": (Use("consumer rm S C"),
                    Use("consumer rm S C --confirm C", r"\$JS\.API\.CONSUMER\.DELETE\.S\.C")),
    "consumer step-down": (Use("consumer step-down S C",
                               r"\$JS\.API\.CONSUMER\.LEADER\.STEPDOWN\.S\.C"),),
    "consumer sub": (Use("consumer sub S C --no-ack --duration 1s",
                         r"\$JS\.API\.CONSUMER\.MSG\.NEXT\.S\.C"),),
    "consumer unpin": (Use("consumer unpin S C g", r"\$JS\.API\.CONSUMER\.UNPIN\.S\.C"),),
    "health": (Use("health --for 200ms"), Use("health --for 200ms --json"),
               Use("health --for 200ms --format nagios"),
               Use("health --for 200ms --format openmetrics"),
               Use("health --stream S --for 200ms"), Use("health --for 200ms", as_system=True)),
    "kick": (Use("kick N 5", as_system=True),),
    "kv add": (Use("kv add NEW", r"\$JS\.API\.STREAM\.CREATE\.KV_NEW"),),
    "kv create": (Use("kv create B new value", r"\$KV\.B\.new"),),
    "kv del": (Use("kv del B k", r"\$KV\.B\.k"), Use("kv del B k --yes", r"\$KV\.B\.k")),
    "kv get": (Use("kv get B k"), Use("kv get B k --json"), Use("kv get B k --revision 1 --raw")),
    "kv history": (Use("kv history B k"), Use("kv history B k --json")),
    "kv keys": (Use("kv keys B"), Use("kv keys B --json")),
    "kv ls": (Use("kv ls"), Use("kv ls B"), Use("kv ls --json"), Use("kv ls B --json")),
    "kv purge": (Use("kv purge B k"), Use("kv purge B k --yes", r"\$KV\.B\.k")),
    "kv put": (Use("kv put B k value", r"\$KV\.B\.k"),
               Use("kv put B k value --if-revision 1", r"\$KV\.B\.k")),
    "kv rm": (Use("kv rm B"), Use("kv rm B --confirm B", r"\$JS\.API\.STREAM\.DELETE\.KV_B")),
    "kv watch": (Use("kv watch B --wait 1s --count 3"), Use("kv watch B --wait 1s --json")),
    "messages copy": (Use("messages copy S --to-file {folder}/copy"),
                      Use("messages copy S --to-subject x.{{subject}} --dry-run"),
                      Use("messages copy S --given-up C --to-file {folder}/given-up"),
                      Use("messages copy S --unacknowledged C --to-file {folder}/unacked"),
                      Use("messages copy S --to-stream T --to-subject t.x", r"t\.x")),
    "meta peer-remove": (Use("meta peer-remove N", as_system=True),),
    "meta step-down": (Use("meta step-down", as_system=True),),
    "object add": (Use("object add NEW", r"\$JS\.API\.STREAM\.CREATE\.OBJ_NEW"),),
    "object get": (Use("object get F f -O {folder}/got"),
                   Use("object get F f -O {folder}/got --json"),
                   Use("object get F link -O {folder}/got --no-verify"), Use("object get F f")),
    "object info": (Use("object info F"), Use("object info F f"), Use("object info F f --json")),
    "object link": (Use("object link F other F/f", r"\$O\.F\.M\.b3RoZXI="),),
    "object ls": (Use("object ls"), Use("object ls F"), Use("object ls --json"),
                  Use("object ls F --json")),
    "object put": (Use("object put F {folder}/file --name f", r"\$O\.F\.(C\.\w+|M\.Zg==)"),
                   Use("object put F {folder}/file --name f --yes",
                       r"\$O\.F\.(C\.\w+|M\.Zg==)|\$JS\.API\.STREAM\.PURGE\.OBJ_F")),
    "object rm": (Use("object rm F f"),
                  Use("object rm F f --confirm f",
                      r"\$O\.F\.M\.Zg==|\$JS\.API\.STREAM\.PURGE\.OBJ_F"),
                  Use("object rm F f --yes", r"\$O\.F\.M\.Zg==|\$JS\.API\.STREAM\.PURGE\.OBJ_F"),
                  Use("object rm F")),
    "object seal": (Use("object seal F"),),
    "overview": (Use("overview --for 200ms"), Use("overview --for 200ms --json")),
    "pub": (Use("pub s.a hello", r"s\.a"), Use("pub s.a hello --jetstream", r"s\.a")),
    "request": (Use("request q.a hello", r"q\.a"),),
    "restore": (Use("restore {whole}", r"\$JS\.API\.STREAM\.RESTORE\..*"),),
    "servers": (Use("servers", as_system=True), Use("servers --json", as_system=True),
                Use("servers")),
    "stream add": (Use("stream add NEW --subjects new.> --dry-run"),
                   Use("stream add NEW --subjects new.>", r"\$JS\.API\.STREAM\.CREATE\.NEW")),
    "stream backup": (Use("stream backup S {folder}/backup"),
                      Use("stream backup S {folder}/backup --consumers --json")),
    "stream copy": (Use("stream copy S NEW --dry-run"),),
    "stream edit": (Use("stream edit S --max-age 1h --dry-run"), Use("stream edit S --max-msgs 1"),
                    Use("stream edit S --description x", r"\$JS\.API\.STREAM\.UPDATE\.S")),
    "stream find": (Use("stream find"), Use("stream find --json"), Use("stream find --names")),
    "stream gaps": (Use("stream gaps S"), Use("stream gaps S --json")),
    "stream get": (Use("stream get S 1"), Use("stream get S --last-for s.a --json")),
    "stream info": (Use("stream info S"), Use("stream info S --json")),
    "stream ls": (Use("stream ls"), Use("stream ls --json"), Use("stream ls --subject s.a")),
    "stream move": (Use("stream move S --tag x", r"\$JS\.API\.STREAM\.UPDATE\.S"),),
    "stream peer-remove": (Use("stream peer-remove S --peer n"),),
    "stream publishers": (Use("stream publishers S --for 1s", as_system=True),),
    "stream purge": (Use("stream purge S"), Use("stream purge S --filter s.a"),
                     Use("stream purge S --confirm S", r"\$JS\.API\.STREAM\.PURGE\.S")),
    "stream report": (Use("stream report"), Use("stream report --json")),
    "stream restore": (Use("stream restore {whole}/S --as NEW",
                           r"\$JS\.API\.STREAM\.RESTORE\.NEW"),),
    "stream rm": (Use("stream rm S"),
                  Use("stream rm S --confirm S", r"\$JS\.API\.STREAM\.DELETE\.S")),
    "stream rmm": (Use("stream rmm S 1"),),
    "stream scale": (Use("stream scale S 3", r"\$JS\.API\.STREAM\.UPDATE\.S"),),
    "stream seal": (Use("stream seal S"),),
    # Of one that exists it waits ten seconds for another leader.
    "stream step-down": (Use("stream step-down NONE"),),
    "stream subjects": (Use("stream subjects S"), Use("stream subjects S --json")),
    "stream view": (Use("stream view S"), Use("stream view S --json"), Use("stream view T 5"),
                    Use("stream view S --since 1h --subject s.a"),
                    Use("stream view S --last-per-subject"), Use("stream view S --headers-only")),
    "stuck": (Use("stuck S C --for 200ms"), Use("stuck S C --for 200ms --json")),
    "sub": (Use("sub s.a --all --wait 1s"), Use("sub --stream S --last --wait 1s"),
            Use("sub s.a --all --wait 1s --json"), Use("sub s.> --last-per-subject --wait 1s")),
    "undo": (Use("undo"),),
    "watch": (Use("watch --once"), Use("watch --once --json")),
}  # fmt: skip


def commands() -> Iterator[str]:
    """Yield every command, as it is typed, from the tree of commands itself."""

    def below(command: click.Command, name: str) -> Iterator[str]:
        if not isinstance(command, click.Group):
            yield name
            return
        context = click.Context(command)
        for one in command.list_commands(context):
            found = command.get_command(context, one)
            assert found is not None
            yield from below(found, f"{name} {one}".strip())

    for name in COMMANDS:
        found = root.get_command(click.Context(root), name)
        assert found is not None
        yield from below(found, name)


def untested() -> set[str]:
    """Return the commands that no table here has."""
    known = {*USES, *BENCHMARKS, *PROCESSES, REPLY}
    return {one for one in commands()
            if one not in known and one not in _NONE and one.split()[0] not in _NONE}  # fmt: skip


def only_reads(command: str) -> bool:
    """Tell whether a command has no flag that refuses changes: it must not make any."""
    found: click.Command = root
    for word in command.split():
        assert isinstance(found, click.Group)
        one = found.get_command(click.Context(found), word)
        assert one is not None
        found = one
    return not any(option.name == "read_only" for option in found.params)


async def fill(url: str) -> None:
    """Put into an account what the commands ask for."""
    nc = await nats.connect(url)
    js = nc.jetstream()
    await js.add_stream(api.StreamConfig("S", subjects=["s.>"], max_msgs_per_subject=3))
    await js.add_stream(api.StreamConfig("T", subjects=["t.>"], allow_direct=True))
    for number in range(8):
        await js.publish(f"s.{'ab'[number % 2]}", b"{}", headers={"Name": "value"})
        await js.publish("t.a", b"text")
    await js.add_consumer("S", api.ConsumerConfig("C", ack_policy=api.AckPolicy.EXPLICIT))
    bucket = await js.create_key_value(bucket="B", history=3)
    for number in range(3):
        await bucket.put("k", b"%d" % number)
        await bucket.put(f"k{number}", b"value")
    store = await js.create_object_store("F")
    await store.put("f", b"content" * 30_000)
    options = api.ObjectMetaOptions(link=api.ObjectLink(bucket="F", name="f"))
    link = api.ObjectInfo(name="link", bucket="F", nuid="x", size=0, chunks=0, options=options)
    await js.publish("$O.F.M.bGluaw==", json.dumps(link.as_dict()).encode())
    await nc.close()


class TookTooLong(BaseException):
    """A command did not end in time."""


@contextmanager
def in_time(most_s: float = LONGEST_S) -> Iterator[None]:
    """Raise TookTooLong where a command hangs."""

    def give_up(_number: int, _frame: object) -> None:
        raise TookTooLong

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, most_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _tree(folder: Path) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes() if path.is_file() else b""
        for path in sorted(folder.rglob("*"))
    }


def problems(use: Use, lie: Lie, wire: Wire, home: Path) -> list[str]:
    """Use a command on a lying server; return what it must not have done."""
    wire.lie, folder, before = lie, home / "folder", len(wire.requests)
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outside = home / "outside"
    for one in (folder, outside):
        one.mkdir(parents=True, exist_ok=True)
    (folder / "file").write_bytes(b"content")
    found = list[str]()
    here = os.getcwd()
    environment = {
        f"XDG_{name}_HOME": str(home / name) for name in ("STATE", "CONFIG", "DATA", "CACHE")
    } | {
        "NATSTUI_CONNECTION_SERVER": wire.url,
        "NATSTUI_CONNECTION_REQUEST_TIMEOUT_S": "0.6",
        "NATSTUI_MONITOR_LIST_TIMEOUT_S": "4.5",
        "NATSTUI_MONITOR_INTERVAL_S": "0.3",
    }
    os.chdir(folder)
    try:
        with in_time(use.most_s):
            words = use.words.format(folder=folder, whole=home.parent / "whole").split()
            done = CliRunner().invoke(root, words, env=environment)
    except TookTooLong:
        found.append(f"no end within {use.most_s:g} s")
        return found
    finally:
        os.chdir(here)
        wire.lie = TRUTH
    error = done.exception
    if error is not None and not isinstance(error, NatstuiError | SystemExit):
        found.append("".join(traceback.format_exception(error)[-3:]) + repr(error)[:300])
    elif isinstance(error, NatstuiError) and not str(error):
        found.append("an error without a sentence")
    if "Traceback" in done.stderr:
        found.append(done.stderr[-2000:])
    more_mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak_kib) / 1024
    if more_mb > MOST_MB:
        found.append(f"took {more_mb:.0f} MB")
    raw = re.findall("[\x1b\x07\u202e\x9b]", done.stdout + done.stderr)
    if raw and "--raw" not in use.words:
        found.append(f"raw escapes: {raw[:3]!r} in {done.output[:200]!r}")
    for subject in wire.requests[before:]:
        if is_change(subject) and not re.fullmatch(use.changes, subject):
            found.append(f"sent {subject!r}")
    if any(outside.iterdir()):
        found.append(f"wrote outside: {_tree(outside).keys()}")
    kept = {"folder", "outside", "STATE", "CONFIG", "DATA", "CACHE"}
    for path in home.iterdir():
        if path.name not in kept:
            found.append(f"wrote {path}")
    return found


HOSTILE: dict[str, Any] = {
    "a path": "../../x",
    "an absolute path": "/tmp/natstui-hostile/x",
    "a wildcard": ">",
    "a star": "*",
    "escapes": "a\x1b]52;c;eA==\x07\x9b2J\r\n\u202eb\x00",
    "empty": "",
    "a huge number": 2**80,
    "a number beyond all others": 10**400,
    "an infinite number": float("inf"),
    "negative": -7,
    "very negative": -(2**63),
    "the largest": 2**63 - 1,
    "a fraction": 0.5,
    "null": None,
    "a truth": True,
    "a list": ["x", 1],
    "an object": {"x": {"y": 1}},
    "a text of a megabyte": "x" * 900_000,
    "a wrong time": "9999-99-99T99:99:99Z",
    "the last time": "9999-12-31T23:59:59.999999999Z",
    "the first time": "0001-01-01T00:00:01+23:59",
    "a lone surrogate": "\ud800",
    "zero": 0,
}
_STRINGS = {name for name, value in HOSTILE.items() if isinstance(value, str)}
_NUMBERS = {name for name, value in HOSTILE.items() if isinstance(value, int | float)}


def text_of(value: Any) -> bytes:
    """Return JSON as a hostile server writes it: 1e400 where Python has infinity."""
    return json.dumps(value).replace("Infinity", "1e400").encode()


def _always(body: bytes) -> Callable[[bytes], bytes | None]:
    return lambda _: body


def _on_json(exchange: Callable[[Any], Any]) -> Callable[[bytes], bytes | None]:
    def exchanged(body: bytes) -> bytes | None:
        try:
            value = json.loads(body)
        except ValueError:
            return body
        return text_of(exchange(value))

    return exchanged


def _same_kind(instead: Any) -> Callable[[Any], Any]:
    """Exchange texts by a text and numbers by a number, everywhere."""

    def exchange(value: Any) -> Any:
        if isinstance(instead, str):
            return instead if isinstance(value, str) else value
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return instead if is_number else value

    return lambda value: each_leaf(value, exchange)


def _endless(value: Any) -> Any:
    if not isinstance(value, dict) or "total" not in value:
        return value
    return value | {"total": ENDLESS, "limit": 1}


def _short(value: Any) -> Any:
    if not isinstance(value, dict) or "total" not in value:
        return value
    rows = {name: [] for name, part in value.items() if isinstance(part, list)}
    return value | rows | {"total": 5, "limit": 256}


def _repeated(value: Any) -> Any:
    if not isinstance(value, dict) or "total" not in value:
        return value
    return value | {"total": 100_000, "limit": 1}


def _without(value: Any) -> Any:
    """Leave out the innermost fields."""
    if isinstance(value, dict):
        return {
            key: _without(part) for key, part in value.items() if isinstance(part, dict | list)
        }
    return [_without(part) for part in value] if isinstance(value, list) else value


def _many(value: Any) -> Any:
    """Repeat what is in lists, to near the largest reply."""
    if isinstance(value, dict):
        return {key: _many(part) for key, part in value.items()}
    if isinstance(value, list) and value:
        size = len(text_of(value[0]))
        return [value[0]] * min(5_000, 900_000 // size)
    return value


def headers_exchanged(instead: bytes) -> Callable[[bytes], bytes]:
    """Exchange the values of the server's own headers."""
    return lambda block: re.sub(rb"(?m)^(Nats-[\w-]+: )[^\r\n]*", rb"\g<1>" + instead, block)


def whole_lies(verb: str) -> dict[str, Lie]:
    """Return the lies about all of a reply."""
    lies = {
        f"everything {name}": Lie(verb, _on_json(_same_kind(value)))
        for name, value in HOSTILE.items()
        if name in _STRINGS or name in _NUMBERS - {"a truth"}
    }
    for name, body in {
        "nothing": b"", "no JSON": b"{", "no text": b"\xff\xfe", "a list": b"[]",
        "a text": b'"abc"', "a number": b"7", "an empty object": b"{}", "nul": b"null",
        "a deep list": b"[" * 50_000 + b"]" * 50_000,
        "a deep object": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
        "an unknown type": b'{"type":"io.nats.unknown.v9","x":[1]}',
        "an error that is a text": b'{"error":"no"}',
        "an error of nulls": b'{"error":{"code":null,"err_code":null,"description":null}}',
        "an error of escapes": json.dumps({"error": {"code": 500, "err_code": 10000,
                                           "description": HOSTILE["escapes"]}}).encode(),
        "an error without words": b'{"error":{}}',
    }.items():  # fmt: skip
        lies[name] = Lie(verb, _always(body))
    lies["silence"] = Lie(verb, lambda _: None)
    lies["no end"] = Lie(verb, _on_json(_endless))
    lies["fewer than it counts"] = Lie(verb, _on_json(_short))
    lies["a page again and again"] = Lie(verb, _on_json(_repeated))
    lies["missing fields"] = Lie(verb, _on_json(_without))
    lies["very many"] = Lie(verb, _on_json(_many))
    lies["null everywhere"] = Lie(verb, _on_json(lambda value: each_leaf(value, lambda _: None)))
    for instead in (b"x", b"-1", b"9" * 30, b"", b"\xff", b"../../x"):
        lies[f"headers {instead[:5]!r}"] = Lie(verb, lambda body: body, headers_exchanged(instead))
    return lies


def part_lies(verb: str, replies: list[bytes]) -> dict[str, Lie]:
    """Return the lies about each part of the replies that there were."""
    lies = dict[str, Lie]()
    for body in replies:
        try:
            value = json.loads(body)
        except ValueError:
            continue
        if not isinstance(value, dict):
            continue
        for path in leaves_of(value):
            words = ".".join(map(str, path))
            for name, instead in HOSTILE.items():
                lies.setdefault(f"{words} is {name}", Lie(verb, _on_json(_put(path, instead))))
            lies.setdefault(f"{words} is missing", Lie(verb, _on_json(_remove(path))))
    return lies


def _put(path: tuple[Any, ...], instead: Any) -> Callable[[Any], Any]:
    return lambda whole: at(whole, path, lambda _: instead)


def _remove(path: tuple[Any, ...]) -> Callable[[Any], Any]:
    def without(parent: Any) -> Any:
        if isinstance(parent, dict):
            return {key: part for key, part in parent.items() if key != path[-1]}
        return parent[1:] if isinstance(parent, list) else parent

    return lambda whole: at(whole, path[:-1], without)


def filled(url: str) -> None:
    """Put into an account what the commands ask for, from outside of a loop."""
    asyncio.run(fill(url))
