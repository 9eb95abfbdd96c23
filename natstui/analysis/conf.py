"""What Spark is started with beside our own settings: `--conf`, `--packages`, `--jars`.

Checked before Spark starts, which takes seconds and says less. Imports no pyspark.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from natstui.analysis.folders import is_url
from natstui.clean import clean_line
from natstui.errors import AnalysisError

_INSTEAD = {
    "spark.master": "use --master",
    "spark.remote": "use --remote",
    "spark.jars": "use --jars",
    "spark.jars.packages": "use --packages",
    "spark.driver.memory": "use --memory",
    "spark.executor.memory": "use --memory",
    "spark.local.dir": "use --scratch",
    "spark.sql.session.timeZone": "all times are UTC",
    "spark.sql.ansi.enabled": "an impossible number must not end the analysis",
    "spark.sql.sources.partitionColumnTypeInference.enabled": (
        "a session named 0012 must not become the number 12"
    ),
}
"""Settings that are not taken, and why or what to use instead."""
_PACKAGE = re.compile(r"[\w.-]+:[\w.-]+:[\w.+-]+")
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
"""Added to ours: everything else replaces it."""


@dataclass(frozen=True, slots=True)
class Conf:
    """Settings, Maven coordinates and jars for Spark."""

    settings: tuple[tuple[str, str], ...] = ()
    packages: tuple[str, ...] = ()
    jars: tuple[str, ...] = ()

    def start_settings(self) -> dict[str, str]:
        """Return all of it as settings that a new Spark session takes."""
        found = dict(self.settings)
        if self.packages:
            found["spark.jars.packages"] = ",".join(self.packages)
        if self.jars:
            found["spark.jars"] = ",".join(self.jars)
        return found


NOTHING = Conf()


def read_conf(conf: Sequence[str], packages: Sequence[str], jars: Sequence[str]) -> Conf:
    """Return what was given, checked; lists may be cut by commas, as Spark's own are.

    Raises AnalysisError with the first that cannot be used.
    """
    settings = dict(map(_setting, conf))
    coordinates = tuple(map(_package, _parts(packages)))
    return Conf(tuple(settings.items()), coordinates, tuple(map(_jar, _parts(jars))))


def check_place(conf: Conf, *, remote: bool, submitted: bool) -> None:
    """Raise AnalysisError where Spark is already started, and cannot take them any more."""
    if submitted and conf != NOTHING:
        raise AnalysisError(
            "spark-submit starts Spark: write --conf, --packages and --jars before the name of "
            "the program"
        )
    if remote and (conf.packages or conf.jars):
        raise AnalysisError(
            "--packages and --jars have no effect on a Spark Connect server: it has its own jars"
        )


def _parts(words: Sequence[str]) -> list[str]:
    return [part.strip() for word in words for part in word.split(",")]


def _setting(word: str) -> tuple[str, str]:
    key, equals, value = word.partition("=")
    shown = clean_line(word)[:80]
    if not equals or not key.strip():
        raise AnalysisError(
            f"--conf takes KEY=VALUE, for example spark.task.maxFailures=1, not {shown!r}"
        )
    key = key.strip()
    if not re.fullmatch(r"spark\.[\w.$-]+", key):
        raise AnalysisError(f"--conf {clean_line(key)[:80]!r}: Spark's settings begin with spark.")
    if key in _INSTEAD:
        raise AnalysisError(f"--conf {key} is not taken: {_INSTEAD[key]}")
    if re.search(r"[\x00-\x1f\x7f]", value):
        raise AnalysisError(f"--conf {key}: its value has a control character")
    return key, value


def _package(word: str) -> str:
    if not _PACKAGE.fullmatch(word):
        raise AnalysisError(
            f"--packages takes group:artifact:version, for example "
            f"org.apache.hadoop:hadoop-aws:3.5.0, not {clean_line(word)[:80]!r}"
        )
    return word


def _jar(word: str) -> str:
    if not word.endswith(".jar"):
        raise AnalysisError(
            f"--jars takes files that end with .jar, not {clean_line(word)[:80]!r}"
        )
    if is_url(word):
        return word
    if not Path(word).is_file():
        raise AnalysisError(f"--jars: there is no file {clean_line(word)[:200]}")
    return str(Path(word).absolute())
