"""Check for a Java that Spark can use before Spark starts: its own error is a stack trace."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from natstui.errors import AnalysisError

LEAST_VERSION = 17
_HOW = (
    f"install Java {LEAST_VERSION} or later (apt install openjdk-17-jre-headless, "
    "brew install openjdk@21, or adoptium.net)"
)


def check_java() -> int:
    """Return the major version of the Java that Spark will start.

    Raises AnalysisError, which names what was looked for, when there is none or it is too old.
    """
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if program is None:
        raise AnalysisError(
            "an analysis runs on Java, and there is neither JAVA_HOME nor java on the PATH: "
            + _HOW
        )
    try:
        asked = subprocess.run(
            [program, "-version"], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        where = f"JAVA_HOME={home}" if home else program
        raise AnalysisError(f"the Java at {where} does not start: {_HOW}") from error
    version = java_version(asked.stderr + asked.stdout)
    if version is None or version < LEAST_VERSION:
        raise AnalysisError(f"{program} is Java {version or 'of an unknown version'}: {_HOW}")
    return version


def java_version(text: str) -> int | None:
    """Return the major version in what `java -version` prints: 17 of "17.0.15", 8 of "1.8.0"."""
    match = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if match is None:
        return None
    return int(match[2] or 1) if match[1] == "1" else int(match[1])
