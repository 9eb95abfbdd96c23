"""What Python asks the JVM about names, asked once.

py4j asks anew with each `F.col`: which class is meant, which member of it, and at last the call
itself. A short name like `functions` is looked for in each import and so in every jar.
"""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaClass, JavaMember, JVMView
from pyspark import SparkContext


def remember_lookups() -> None:
    """Keep the answers of the JVM that was started; nothing to do over Spark Connect."""
    jvm = SparkContext._jvm
    if type(jvm) is JVMView:
        # Many parts of pyspark hold this very object, so it has to stay the same.
        jvm.__class__ = _Names


class _Names(JVMView):  # type: ignore[misc]
    """A JVM view that asks for the class of a name once."""

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if type(found) is JavaClass:
            found.__class__ = _Members
            self.__dict__[name] = found
        return found


class _Members(JavaClass):  # type: ignore[misc]
    """A class that asks for each of its methods once. Fields may change: they are not kept."""

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if isinstance(found, JavaMember):
            self.__dict__[name] = found
        return found
