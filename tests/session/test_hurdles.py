"""A disk that is full, or may not be written, is told at once; nothing stops, and it goes on."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from natstui.model.records.record import Noted
from natstui.model.records.recording import Gap
from natstui.session.read.recording import Recording
from natstui.session.share.verify import verify

pytestmark = pytest.mark.slow

OWN_MOUNTS = ["unshare", "--user", "--map-root-user", "--mount"]
ROOT = Path(__file__).resolve().parents[2]


def overcome(hurdle: str) -> tuple[list[str], Recording]:
    """Record across a hurdle; return what was told, and the recording."""
    command = [sys.executable, "-m", "tests.session.hurdles_child", hurdle]
    child = subprocess.run(
        [*OWN_MOUNTS, *command] if hurdle == "mounted" else command,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    lines = child.stdout.splitlines()
    reasons = [line.removeprefix("reason: ") for line in lines if line.startswith("reason")]
    return reasons, Recording(Path(lines[-1].removeprefix("folder: ")))


def full_disk() -> tuple[str, str]:
    """Return a real file system that is full, where one may mount it, else a quota."""
    may_mount = shutil.which("unshare") and not subprocess.run([*OWN_MOUNTS, "true"]).returncode
    return ("mounted", "No space left on device") if may_mount else ("quota", "File too large")


@pytest.mark.long
@pytest.mark.parametrize(
    ("hurdle", "reason"),
    [
        full_disk(),
        ("quota", "File too large"),
        ("permissions", "no permission to write"),
        ("segment_end", "no permission to write"),
    ],
)
def test_a_disk_that_refuses_is_told_at_once_and_recording_resumes(
    hurdle: str, reason: str
) -> None:
    reasons, recording = overcome(hurdle)
    assert reasons[0] == "None" and reasons[-1] == "None"
    reason = f"not recording: {reason}"
    assert reasons[1].startswith(reason)
    records = list(recording.records())
    gaps = [record for record in records if isinstance(record, Gap)]
    assert len(gaps) == 1 and gaps[0].lost_records_count == 0
    assert gaps[0].reason.startswith(reason)
    texts = [" ".join(r.text.split()[:2]) for r in records if isinstance(r, Noted)]
    wanted = [f"before {n}" for n in range(5)] + [f"meanwhile {n}" for n in range(20)]
    assert texts == wanted + [f"after {n}" for n in range(3)]
    assert not verify(recording.folder).damaged
