"""A demo of its own for a test module, looked at with plain nats-py."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import nats
import nats.errors
from nats.aio.client import Client as Nats

PATIENCE_S = 60.0


@contextmanager
def headless_demo(*words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `natstui demo --headless` and give its process and URL."""
    command = [sys.executable, "-m", "natstui", "demo", "--headless", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().strip()
        finally:
            process.terminate()
            process.wait(20)


async def ask(nc: Nats, verb: str) -> dict[str, Any]:
    """Return a reply of the raw API.

    In a cluster only a leader replies, and while one is elected nobody does: it is asked again.
    """
    give_up_at = time.monotonic() + PATIENCE_S
    while True:
        try:
            reply = await nc.request(f"$JS.API.{verb}", b"", timeout=5)
        except (nats.errors.TimeoutError, nats.errors.NoRespondersError) as error:
            assert time.monotonic() < give_up_at, error
            await asyncio.sleep(0.2)
        else:
            answer: dict[str, Any] = json.loads(reply.data)
            return answer


async def eventually(
    url: str, verb: str, holds: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    """Ask until something holds, and return the answer in which it does."""
    nc = await nats.connect(url)
    give_up_at = time.monotonic() + PATIENCE_S
    try:
        while True:
            answer = await ask(nc, verb)
            if "error" not in answer and holds(answer):
                return answer
            assert time.monotonic() < give_up_at, answer
            await asyncio.sleep(0.2)
    finally:
        await nc.close()
