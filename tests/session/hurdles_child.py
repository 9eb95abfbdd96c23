"""A process that records while its disk gets in its way; it prints what the recorder tells.

quota        no file may grow beyond 64 KiB for a while
permissions  the folder may not be written for a while
segment_end  the folder turns read-only just before a segment ends and needs another file
mounted      the folder is on a small file system; it is filled, then made read-only
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from natstui.clock import wall_us
from natstui.model.records.record import Noted
from natstui.model.records.recording import RecordingChanged
from natstui.session.files.keyframe import KeyframeBuilder
from natstui.session.library import seal_unfinished_sessions
from natstui.session.write.recorder import Recorder
from natstui.session.write.settings import RecorderSettings
from tests.session.making import wait_until

NOBODY = 65_534
BY_PERMISSIONS = ("permissions", "segment_end")
_told: list[RecordingChanged] = []


def in_trouble() -> bool:
    return bool(_told and _told[-1].reason)


def record(recorder: Recorder, text: str, notes: int = 20) -> None:
    for number in range(notes):
        recorder.add(Noted(time.time_ns() // 1000, f"{text} {number} " + "x" * 5000))


def tell(change: RecordingChanged) -> None:
    if not _told or _told[-1].reason != change.reason:
        print("reason:", change.reason, flush=True)
    _told.append(change)


def quota(recorder: Recorder) -> None:
    record(recorder, "before", 5)
    wait_until(lambda: not recorder.is_behind)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (65_536, limits[1]))
    record(recorder, "meanwhile")
    wait_until(in_trouble)
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def permissions(recorder: Recorder) -> None:
    record(recorder, "before", 5)
    wait_until(lambda: not recorder.is_behind)
    recorder.folder.chmod(0o500)
    wait_until(in_trouble)
    record(recorder, "meanwhile")
    recorder.folder.chmod(0o700)


def segment_end(recorder: Recorder) -> None:
    record(recorder, "before", 5)
    wait_until(lambda: not recorder.is_behind)
    begun = sorted(recorder.folder.glob("records-*"))
    recorder.folder.chmod(0o555)
    # Far more than a segment holds: the next one is due while no file can be made.
    record(recorder, "meanwhile")
    wait_until(in_trouble)
    wait_until(lambda: not recorder.is_behind)
    assert sorted(recorder.folder.glob("records-*")) == begun
    recorder.folder.chmod(0o700)


def mounted(recorder: Recorder) -> None:
    record(recorder, "before", 5)
    wait_until(lambda: not recorder.is_behind)
    filler = recorder.folder.parent / "filler"
    subprocess.run(["dd", "if=/dev/zero", f"of={filler}"], capture_output=True, check=False)
    record(recorder, "meanwhile")
    wait_until(in_trouble)
    filler.unlink()


def main(hurdle: str) -> None:
    if hurdle in BY_PERMISSIONS and os.getuid() == 0:
        # Permissions do not hold root back.
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    folder = Path(tempfile.mkdtemp())
    if hurdle == "mounted":
        size = ["-o", "size=400k"]
        subprocess.run(["mount", "-t", "tmpfs", *size, "tmpfs", str(folder)], check=True)
    small = 60_000 if hurdle == "segment_end" else 32 << 20
    settings = RecorderSettings(folder, segment_bytes=small)
    seal_unfinished_sessions(settings.sessions)
    recorder = Recorder(settings, KeyframeBuilder().keyframe(wall_us()), tell)
    globals()[hurdle](recorder)
    wait_until(lambda: not in_trouble())
    record(recorder, "after", 3)
    recorder.stop()
    # Out of what was mounted, which nobody else can see.
    result = shutil.copytree(recorder.folder, Path(tempfile.mkdtemp()) / recorder.folder.name)
    print("folder:", result, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
