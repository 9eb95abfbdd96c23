"""What the JVM's slow compiler leaves alone: Spark's planner, which never runs for long.

Otherwise, in a run of a minute, it works for as long as it takes to compile that code, and gains
nothing: the code is hardly used afterwards. The form of the file: https://openjdk.org/jeps/165.
"""

from __future__ import annotations

import json
from pathlib import Path

_PLANNING = (
    "org/apache/spark/sql/catalyst/analysis/*",
    "org/apache/spark/sql/catalyst/optimizer/*",
    "org/apache/spark/sql/catalyst/parser/*",
    "org/apache/spark/sql/catalyst/plans/*",
    "org/apache/spark/sql/catalyst/rules/*",
    "org/apache/spark/sql/catalyst/trees/*",
    "org/apache/spark/sql/catalyst/expressions/codegen/Block*",
    "org/apache/spark/sql/catalyst/expressions/codegen/Code*",
    "org/apache/spark/scheduler/*",
    "org/apache/hadoop/conf/*",
)
_COMPILING = (
    "org/codehaus/janino/*",
    "org/codehaus/commons/*",
    "org/antlr/v4/runtime/*",
)
_INTERPRETING = (
    "org/apache/spark/sql/catalyst/expressions/AliasHelper*",
    "org/apache/spark/sql/catalyst/expressions/Interpreted*",
    "org/apache/spark/sql/execution/python/*",
    "jdk/internal/reflect/*",
    "py4j/*",
)
"""What short tables are made with."""
_LOADING = (
    "org/apache/xbean/*",
    "org/apache/hadoop/io/*",
    "org/apache/spark/util/SizeEstimator*",
    "net/razorvine/*",
    "scala/collection/generic/*",
    "scala/runtime/LambdaDeserializer*",
    "javax/management/*",
    "java/io/Object*",
    "java/lang/Class",
    "java/lang/invoke/*",
    "java/lang/reflect/*",
    "java/util/jar/*",
    "jdk/internal/loader/*",
    "jdk/internal/org/*",
)


def compiler_options(folder: Path) -> str:
    """Write what the compiler is told into a folder; return the options of the JVM for it."""
    told = [{
        "match": [f"{name}.*" for name in (*_PLANNING, *_COMPILING, *_INTERPRETING, *_LOADING)],
        "c2": {"Exclude": True, "Log": False},
    }]  # fmt: skip
    file = folder / "compilers.json"
    file.write_text(json.dumps(told))
    return f'-XX:+UnlockDiagnosticVMOptions -XX:CompilerDirectivesFile="{file}"'
