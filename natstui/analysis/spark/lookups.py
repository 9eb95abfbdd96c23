"""What Python asks the JVM about names, asked once; and when it lets go of the JVM's objects.

py4j asks anew with each `F.col`: which class is meant, which member of it, and at last the call
itself. A short name like `functions` is looked for in each import and so in every jar. It also
tells the JVM of each object that Python does not need any more: two of five commands of a run.
"""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaClass, JavaMember, JavaObject, JVMView, is_magic_member
from py4j.protocol import REFERENCE_TYPE, register_output_converter
from pyspark import SparkContext


def remember_lookups(*, keep_objects: bool) -> None:
    """Keep the answers of the JVM that was started; nothing to do over Spark Connect.

    `keep_objects`: the JVM keeps what Python does not need any more until it ends itself. Only for
    little to read, and for a process that analyses once: objects would fill the memory otherwise.
    """
    jvm, gateway = SparkContext._jvm, SparkContext._gateway
    register_output_converter(REFERENCE_TYPE, _Object)
    if type(jvm) is JVMView:
        # Many parts of pyspark hold this very object, so it has to stay the same.
        jvm.__class__ = _Names
    if keep_objects and gateway is not None:
        gateway._gateway_client.gateway_property.enable_memory_management = False


class _Object(JavaObject):  # type: ignore[misc]
    """An object of the JVM of which Python lets go as soon as nobody has it any more.

    py4j's own keep each method that was asked for, and a method has its object: such a ring stays
    until Python looks for rings, and Python does not know how much memory hangs on it in the JVM.
    """

    def __getattr__(self, name: str) -> JavaMember:
        if is_magic_member(name):
            raise AttributeError(name)
        return JavaMember(name, self, self._target_id, self._gateway_client)


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
