"""Spark's classes, loaded and checked once: a later start maps them from a file.

The JVM writes the file when it ends, which takes it about ten seconds that nobody waits for; the
next run puts it in its place. It saves a tenth of the CPU time of an hour's recording.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from pathlib import Path

import pyspark
from pyspark.find_spark_home import _find_spark_home

from natstui.analysis.spark.class_path import first_on_the_class_path
from natstui.paths import private_folder

_ABANDONED_S = 600.0
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"
_OWN_OPTIONS = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")


def archive_options(folder: Path) -> str:
    """Return options for the JVM to use what is kept in a folder, or to make it at its end.

    Empty where nothing can be kept: then a start takes as long as it takes.
    """
    if any(os.environ.get(name) for name in _OWN_OPTIONS):
        # Under other options the classes may not fit, and whoever sets them has reasons.
        return ""
    try:
        archive = folder / f"{_fingerprint()}.jsa"
        private_folder(folder)
        under_way = _put_in_place(archive)
        if archive.exists():
            return f'-XX:SharedArchiveFile="{archive}" {_QUIET}'
        if under_way or not os.access(folder, os.W_OK):
            return ""
    except OSError:
        # Neither a cache that cannot be had nor an unusual Spark is a reason not to analyse.
        return ""
    return f'-XX:ArchiveClassesAtExit="{archive}.{os.getpid()}.part" {_QUIET}'


def _put_in_place(archive: Path) -> bool:
    """Take over what an earlier run has written; return whether one may still be writing."""
    under_way = False
    for part in archive.parent.glob("*.part"):
        # Its head is written last.
        if part.name.startswith(archive.name) and _begins(part):
            for old in archive.parent.glob("*.jsa"):
                old.unlink(missing_ok=True)
            part.replace(archive)
        elif time.time() - part.stat().st_mtime > _ABANDONED_S:
            part.unlink(missing_ok=True)
        else:
            under_way = True
    return under_way


def _begins(part: Path) -> bool:
    with part.open("rb") as file:
        return any(file.read(8))


def _fingerprint() -> str:
    """Return what the archive depends on: the JVM refuses, in silence, one that does not fit."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else Path(shutil.which("java") or "java")
    jars = Path(_find_spark_home(), "jars")
    parts = [pyspark.__version__, os.environ.get("SPARK_CONF_DIR", "")]
    parts += first_on_the_class_path().values()
    for path in (java.resolve(), jars.resolve()):
        parts += [str(path), str(path.stat().st_mtime_ns)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
