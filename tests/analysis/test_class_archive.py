"""What a first run keeps of Spark's classes is what later ones start with."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from natstui.analysis.spark.class_archive import archive_options

pytestmark = pytest.mark.spark

SESSION = """
import sys, time
from pathlib import Path
from natstui.analysis.spark.session import SparkSettings, open_session
scratch, classes = map(Path, sys.argv[1:3])
small = sys.argv[3] == "small"
spark = open_session(SparkSettings(scratch, "local[1]", classes=classes, small=small))
jvm = spark.sparkContext._gateway.proc.pid
print(str(classes) in Path(f"/proc/{jvm}/maps").read_text())
spark.stop()
"""
PATIENCE_S = 90.0


@pytest.fixture(autouse=True)
def no_java_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_TOOL_OPTIONS", raising=False)


def maps_the_archive(scratch: Path, classes: Path, for_what: str) -> str:
    """Start and stop Spark; return whether its JVM had the archive mapped."""
    words = [sys.executable, "-c", SESSION, str(scratch), str(classes), for_what]
    ran = subprocess.run(words, capture_output=True, text=True, check=True)
    return ran.stdout.split()[-1]


def test_a_second_start_maps_what_the_first_has_kept(tmp_path: Path) -> None:
    classes = tmp_path / "with spaces" / "classes"
    # One for little does not prove its classes to be sound, and one for much asks for that.
    assert maps_the_archive(tmp_path, classes, "small") == "False"
    give_up_at = time.monotonic() + PATIENCE_S
    while "SharedArchiveFile" not in archive_options(classes):
        assert time.monotonic() < give_up_at, list(classes.iterdir())
        time.sleep(0.2)
    assert maps_the_archive(tmp_path, classes, "large") == "True"
    assert [path.suffix for path in classes.iterdir()] == [".jsa"]


def test_an_archive_that_is_still_written_is_neither_used_nor_made_twice(tmp_path: Path) -> None:
    making = archive_options(tmp_path).partition('"')[2].partition('"')[0]
    part = Path(making)
    part.write_bytes(bytes(4096))
    assert archive_options(tmp_path) == ""
    hour_ago = time.time() - 3600
    os.utime(part, (hour_ago, hour_ago))
    assert "ArchiveClassesAtExit" in archive_options(tmp_path)
    assert not part.exists()
    part.write_bytes(b"\xa8\xab\x0b\xf0" + bytes(4096))
    (tmp_path / "of-another-java.jsa").write_bytes(b"old")
    assert "SharedArchiveFile" in archive_options(tmp_path)
    assert len(list(tmp_path.iterdir())) == 1


def test_own_options_for_java_and_a_folder_that_cannot_be_made_keep_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    assert archive_options(tmp_path / "file" / "classes") == ""
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Xint")
    assert archive_options(tmp_path) == ""
