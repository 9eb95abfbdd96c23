"""A recorder that is killed loses at most its last second, and nothing before it."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec import Struct

from natstui.model.records.record import Noted
from natstui.session.files.folder import list_segments
from natstui.session.library import seal_unfinished_sessions
from natstui.session.read.recording import Recording
from natstui.session.share.verify import verify

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
AT_ONCE = 4


class Killed(Struct, frozen=True):
    folder: Path
    added: list[tuple[int, int]]
    """Number of the newest note, and when it had been added."""


def killed(sessions: Path, after_steps: int) -> Killed:
    """Record, and kill -9 the recorder after some steps, each of 10 ms or more."""
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.session.recording_child", str(sessions), "2000"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    with child:
        assert child.stdout is not None
        folder = Path(child.stdout.readline().strip())
        lines = [child.stdout.readline().split() for _ in range(after_steps)]
        child.kill()
        lines += [line.split() for line in child.stdout.read().splitlines()]
    return Killed(folder, [(int(line[0]), int(line[1])) for line in lines if len(line) == 2])


@pytest.mark.long
@pytest.mark.parametrize("kills_count", [1, 50])
def test_a_kill_at_random_moments_loses_at_most_a_second(tmp_path: Path, kills_count: int) -> None:
    chance = random.Random(11)
    jobs = [(tmp_path / str(n), chance.randrange(120)) for n in range(kills_count)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        results = list(pool.map(lambda job: killed(*job), jobs))
    sealed_before = 0
    for result in results:
        before = list(Recording(result.folder).records())
        numbers = [int(record.text) for record in before if isinstance(record, Noted)]
        assert numbers == list(range(len(numbers))), "something in the middle is missing"
        last_us = result.added[-1][1] if result.added else 0
        owed = [number for number, at_us in result.added if at_us <= last_us - 1_000_000]
        assert len(numbers) > (owed[-1] if owed else -1)
        verdict = verify(result.folder)
        assert not verdict.damaged, verdict.findings
        assert any("was cut off: the last record is of" in f.text for f in verdict.findings)
        sealed_before += len(list_segments(result.folder)) > 1
        assert seal_unfinished_sessions(result.folder.parent) == [result.folder]
        assert list(Recording(result.folder).records()) == before
        assert all(segment.sealed for segment in list_segments(result.folder))
    assert sealed_before >= kills_count // 5
