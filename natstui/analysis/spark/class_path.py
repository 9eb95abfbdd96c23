"""The order in which the JVM looks through Spark's jars: those that have the classes come first.

There are some 280 of them, and each class is looked for in one after another. In the order of the
folder that is a tenth of all that a small analysis does.
"""

from __future__ import annotations

import os
from pathlib import Path

from pyspark.find_spark_home import _find_spark_home

SETTING = "spark.driver.extraClassPath"
_FIRST = (
    "spark-catalyst_", "scala-library-", "spark-sql_", "spark-core_", "spark-sql-api_",
    "spark-common-utils_", "spark-network-common_", "spark-unsafe_", "spark-variant_",
    "spark-sketch_", "spark-kvstore_", "spark-launcher_", "spark-network-shuffle_",
    "spark-common-utils-java_", "hadoop-client-api-", "hadoop-client-runtime-", "parquet-column-",
    "parquet-hadoop-", "parquet-common-", "parquet-encoding-", "parquet-format-structures-",
    "py4j-", "json4s-", "jackson-", "antlr4-runtime-", "log4j-", "slf4j-api-", "netty-common-",
    "netty-buffer-", "netty-transport-4", "netty-handler-4", "kryo-", "xbean-asm9-shaded-",
    "metrics-core-", "commons-lang3-", "guava-",
)  # fmt: skip
"""How the names of those jars begin, the most used first."""


def first_on_the_class_path() -> dict[str, str]:
    """Return the setting that puts them first; nothing where somebody may have set another one."""
    home = Path(_find_spark_home())
    defaults = home / "conf" / "spark-defaults.conf"
    if "SPARK_CONF_DIR" in os.environ or defaults.exists() or os.pathsep in str(home):
        return {}
    try:
        names = sorted(path.name for path in (home / "jars").glob("*.jar"))
    except OSError:
        return {}
    found = [name for begin in _FIRST for name in names if name.startswith(begin)]
    paths = os.pathsep.join(str(home / "jars" / name) for name in found)
    return {SETTING: paths} if paths else {}
