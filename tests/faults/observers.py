"""The natstui processes that watch the lab: one that records and is scraped, and fresh ones."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
import time
import urllib.request
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from natstui.jetstream.testbed.broker import ReservedPorts
from natstui.model.findings.catalogue.every import KINDS
from natstui.model.findings.catalogue.risky_settings import SETTING_KINDS
from tests.faults.judge import Poll, Seen

_STARTED_S = 180.0
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_FINDING = "natstui_finding_since_seconds{"


def environment(folder: Path) -> dict[str, str]:
    """Return an environment in which nothing of the developer's is read or written."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NATS")}
    own = {f"XDG_{kind}_HOME": str(folder / kind.lower()) for kind in ("CONFIG", "STATE", "DATA")}
    return kept | own


async def run_natstui(
    folder: Path, *arguments: str, timeout_s: float = 300
) -> tuple[int, str, str]:
    """Run natstui to its end; return its exit code and what it printed to stdout and stderr."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "natstui", *arguments, env=environment(folder),
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(timeout_s):
            out, err = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return -1, "", f"natstui {arguments[0]} did not end within {timeout_s:g} s"
    return process.returncode or 0, out.decode(), err.decode()


@cache
def _sentences(listed: str) -> dict[str, str]:
    return {kind["code"]: f"{kind['word']}: {kind['sentence']}" for kind in json.loads(listed)}


def seen_of_json(findings: list[dict[str, Any]]) -> tuple[Seen, ...]:
    """Return the findings of `natstui health --json`."""
    return tuple(
        Seen(
            each["code"],
            each["severity"],
            each["stream"] or "",
            each["consumer"] or "",
            each["part"] or "",
            f"{each['word']}: {each['sentence']} ({each['evidence']})",
        )
        for each in findings
    )


@dataclass
class System:
    """What one natstui process connects to, and what it reported of it."""

    name: str
    config: str
    """Its configuration file."""
    folder: Path
    polls: list[Poll] = field(default_factory=list)
    fresh: dict[str, tuple[Seen, ...]] = field(default_factory=dict)
    """What a process reported that was started afterwards, by how long it watched."""
    fresh_output: dict[str, str] = field(default_factory=dict)

    @property
    def config_path(self) -> Path:
        """Where its configuration file is written."""
        return self.folder / f"{self.name}.toml"


class Observer:
    """A natstui that records a system, and from which open findings are read each second."""

    def __init__(self, system: System, sentences: dict[str, str]) -> None:
        """`sentences` has the label and sentence of each code."""
        self.system = system
        self._sentences = sentences
        self._ports = ReservedPorts(1)
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start it and wait until it has polled once."""
        system = self.system
        system.config_path.write_text(system.config, encoding="utf-8")
        address = f"127.0.0.1:{self._ports.numbers[0]}"
        with (system.folder / f"{system.name}.log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "natstui", "record", "--config", str(system.config_path),
                "--sessions", str(system.folder / "sessions"), "--name", system.name,
                "--metrics", address, env=environment(system.folder),
                stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        self._reading = asyncio.create_task(self._read(f"http://{address}/metrics"))
        async with asyncio.timeout(_STARTED_S):
            # Another process cannot set our events: reading again is the only way.
            while not self.system.polls:
                await asyncio.sleep(0.1)

    async def _read(self, url: str) -> None:
        while True:
            began_s = time.monotonic()
            try:
                text = await asyncio.to_thread(_get, url)
            except OSError:
                await asyncio.sleep(0.2)
                continue
            if "jetstream_" in text or self.system.polls:
                self.system.polls.append(Poll(time.monotonic(), self._seen(text)))
            await asyncio.sleep(max(0.1, 1 - (time.monotonic() - began_s)))

    def _seen(self, text: str) -> tuple[Seen, ...]:
        seen = []
        for line in text.splitlines():
            if line.startswith(_FINDING):
                of = dict(_LABEL.findall(line))
                sentence = self._sentences.get(of["code"], of["finding"])
                seen.append(
                    Seen(
                        of["code"], of["severity"], of.get("stream_name", ""),
                        of.get("consumer_name", ""), of.get("part", ""),
                        f"{of['finding']}: {sentence}",
                    )
                )  # fmt: skip
        return tuple(seen)

    async def stop(self) -> None:
        """Stop reading, and end the process as a service manager would."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        process = self._process
        if process is not None and process.returncode is None:
            process.send_signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(30):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
        self._ports.close()


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=5) as reply:
        return str(reply.read().decode())


async def listed_sentences(folder: Path) -> dict[str, str]:
    """Return the label and sentence of each code, as natstui lists them."""
    _, out, err = await run_natstui(folder, "health", "--json", "--list")
    assert out, err
    return _sentences(out)


async def read_fresh(system: System, for_s: int | None) -> None:
    """Let a process that is started now judge the system, for as long as it does by itself."""
    arguments = ["health", "--json", "--min-severity", "info", "--config", str(system.config_path)]
    arguments += ["--for", f"{for_s}s"] if for_s is not None else []
    code, out, err = await run_natstui(system.folder, *arguments)
    key = "default" if for_s is None else f"{for_s}s"
    system.fresh_output[key] = f"exit {code}\n{out}{err}"
    if out.startswith("{"):
        system.fresh[key] = seen_of_json(json.loads(out)["findings"])
    else:
        # It cannot connect: that sentence is all a user gets.
        system.fresh[key] = (Seen("", "critical", "", "", "", err.strip()),)


async def read_recording(system: System) -> dict[str, Any]:
    """Return what `natstui health --session` says of what was recorded."""
    arguments = ["health", "--json", "--min-severity", "info", "--session", system.name]
    arguments += ["--sessions", str(system.folder / "sessions")]
    code, out, err = await run_natstui(system.folder, *arguments)
    assert out.startswith("{"), (code, out, err)
    return dict(json.loads(out))


async def compare_gold(folder: Path, recorded: dict[str, tuple[Seen, ...]]) -> str:
    """Analyse all recordings in one run; return how its findings differ from theirs."""
    sessions = [str(path) for path in sorted(folder.glob("*/sessions/2*")) if path.is_dir()]
    arguments = ["analyze", *sessions, "--out", str(folder / "gold"), "--json", "--rows", "100000"]
    code, out, err = await run_natstui(folder, *arguments, timeout_s=1200)
    if not out.startswith("{"):
        return f"gold: the analysis ended with {code}: {err[-500:]}"
    result = json.loads(out)["tables"]["findings"]
    names = [column["name"] for column in result["columns"]]
    rows = [dict(zip(names, row, strict=True)) for row in result["rows"]]
    gold = Counter((row["code"], row["stream"] or "", row["consumer"] or "") for row in rows)
    # Advice on settings is read from the configuration at any moment, and neither recorded nor in
    # the table.
    live = Counter(
        (seen.code, seen.stream, seen.consumer)
        for found in recorded.values()
        for seen in found
        if KINDS[seen.code] not in SETTING_KINDS
    )
    differ = sorted(set((gold - live) | (live - gold)))
    text = f"gold: {sum(gold.values())} findings, the recordings have {sum(live.values())}"
    return f"{text}; {len(differ)} differ: {differ[:10]}" if differ else f"{text}: the same"
