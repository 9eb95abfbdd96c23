"""Every command with a server that lies about any part of any reply, other lies with every run."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.cli.test_hostile_server import told, wires
from tests.hostile_commands import BENCHMARKS, USES, part_lies, whole_lies
from tests.hostile_server import TRUTH, Wire

pytestmark = [
    pytest.mark.server,
    pytest.mark.timeout(900),
    pytest.mark.xdist_group("hostile server"),
]

__all__ = ["wires"]
LIES_COUNT = 8
"""Of each kind, for each request of each use of a command."""
SLOW = ("STREAM.SNAPSHOT", "STREAM.RESTORE")
"""The first chunk of a snapshot may take a minute."""


EVERY = USES | BENCHMARKS


@pytest.mark.parametrize("command", EVERY)
def test_no_lie_about_any_part_does_harm(command: str, wires: tuple[Wire, Wire, Path]) -> None:
    seed = time.time_ns()
    chance, wrong = random.Random(seed), list[str]()
    for use in EVERY[command]:
        wire = wires[1] if use.as_system else wires[0]
        wire.replies.clear()
        told(use, TRUTH, wires)
        replies = {verb: list(bodies) for verb, bodies in wire.replies.items()}
        verbs, lies_count = sorted(replies), LIES_COUNT
        if command in BENCHMARKS:
            # Each use of them takes seconds.
            verbs, lies_count = chance.sample(verbs, min(3, len(verbs))), 1
        for verb in verbs:
            bodies = replies[verb]
            lies = whole_lies(verb)
            if verb in SLOW or verb == "deliver":
                del lies["silence"]
            parts = part_lies(verb, bodies[:3])
            names = chance.sample(sorted(lies), lies_count)
            names += chance.sample(sorted(parts), min(lies_count, len(parts)))
            for name in names:
                found = told(use, (lies | parts)[name], wires)[1]
                wrong += [f"{use.words}: {verb}: {name}: {one}" for one in found]
    assert not wrong, f"seed {seed}\n" + "\n".join(wrong)
