"""The user's settings for Spark: `--conf`, `--packages`, `--jars`.

They are checked before Spark starts, because its errors come later and are unclear. Imports no
pyspark.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from natstui.analysis.folders import is_url
from natstui.clean import clean_line
from natstui.errors import AnalysisError

_REFUSED_SETTINGS = {
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
"""Setting that is refused → the reason, or what to use instead."""
_MAVEN_COORDINATES_PATTERN = re.compile(r"[\w.-]+:[\w.-]+:[\w.+-]+")
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
"""Setting whose value is appended to that of natstui; all others replace natstui's value."""


class UserSparkConf(Struct, frozen=True):
    """Settings, Maven coordinates and jars for Spark."""

    settings: tuple[tuple[str, str], ...] = ()
    packages: tuple[str, ...] = ()
    jars: tuple[str, ...] = ()

    def start_settings(self) -> dict[str, str]:
        """Return settings, packages and jars as the settings of a new Spark session."""
        settings = dict(self.settings)
        if self.packages:
            settings["spark.jars.packages"] = ",".join(self.packages)
        if self.jars:
            settings["spark.jars"] = ",".join(self.jars)
        return settings


NO_CONF = UserSparkConf()


def read_conf(conf: Sequence[str], packages: Sequence[str], jars: Sequence[str]) -> UserSparkConf:
    """Return the validated options; packages and jars may be lists with commas, as in Spark.

    Raises AnalysisError for the first invalid option.
    """
    settings = dict(map(_parse_setting, conf))
    coordinates = tuple(map(_check_package, _split_options(packages)))
    return UserSparkConf(
        tuple(settings.items()), coordinates, tuple(map(_resolve_jar, _split_options(jars)))
    )


def check_conf_has_effect(conf: UserSparkConf, *, is_remote: bool, is_submitted: bool) -> None:
    """Raise AnalysisError for settings that would have no effect, because Spark already runs.

    `is_remote`: it runs in a Spark Connect server; `is_submitted`: spark-submit has started it.
    """
    if is_submitted and conf != NO_CONF:
        raise AnalysisError(
            "spark-submit starts Spark: write --conf, --packages and --jars before the name of "
            "the program"
        )
    if is_remote and (conf.packages or conf.jars):
        raise AnalysisError(
            "--packages and --jars have no effect on a Spark Connect server: it has its own jars"
        )


def _split_options(options: Sequence[str]) -> list[str]:
    return [part.strip() for option in options for part in option.split(",")]


def _parse_setting(option: str) -> tuple[str, str]:
    key, equals, value = option.partition("=")
    shown_option = clean_line(option)[:80]
    if not equals or not key.strip():
        raise AnalysisError(
            f"--conf takes KEY=VALUE, for example spark.task.maxFailures=1, not {shown_option!r}"
        )
    key = key.strip()
    if not re.fullmatch(r"spark\.[\w.$-]+", key):
        raise AnalysisError(f"--conf {clean_line(key)[:80]!r}: Spark's settings begin with spark.")
    if key in _REFUSED_SETTINGS:
        raise AnalysisError(f"--conf {key} is not accepted: {_REFUSED_SETTINGS[key]}")
    if re.search(r"[\x00-\x1f\x7f]", value):
        raise AnalysisError(f"--conf {key}: its value has a control character")
    return key, value


def _check_package(coordinates: str) -> str:
    if not _MAVEN_COORDINATES_PATTERN.fullmatch(coordinates):
        raise AnalysisError(
            f"--packages takes group:artifact:version, for example "
            f"org.apache.hadoop:hadoop-aws:3.5.0, not {clean_line(coordinates)[:80]!r}"
        )
    return coordinates


def _resolve_jar(path: str) -> str:
    if not path.endswith(".jar"):
        raise AnalysisError(
            f"--jars takes files that end with .jar, not {clean_line(path)[:80]!r}"
        )
    if is_url(path):
        return path
    if not Path(path).is_file():
        raise AnalysisError(f"--jars: there is no file {clean_line(path)[:200]}")
    return str(Path(path).absolute())
