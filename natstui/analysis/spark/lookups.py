"""What Python asks the JVM about names, asked once; and when it lets go of the JVM's objects.

py4j asks anew with each `F.col`: which class is meant, which member of it, and at last the call
itself. A short name like `functions` is looked for in each import and so in every jar. A list
goes over item by item. It also tells the JVM of each object that Python does not need any more:
two of five commands of a run.
"""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaClass, JavaMember, JavaObject, JVMView, is_magic_member
from py4j.protocol import (
    INPUT_CONVERTER,
    REFERENCE_TYPE,
    STATIC_PREFIX,
    register_input_converter,
    register_output_converter,
)
from pyspark import SparkContext

_MOST_AT_ONCE = 10
"""`List.of` and `Map.of` take so many, each as an argument of its own."""
_PLAIN = frozenset({str, int, float, bool, bytes, bytearray})
_FUNCTIONS = "org.apache.spark.sql.functions"
_OF_A_VALUE = frozenset({"col", "lit"})
"""Functions that return the same for the same value, which nobody can change."""


def remember_lookups(*, keep_objects: bool) -> None:
    """Keep the answers of the JVM that was started; nothing to do over Spark Connect.

    `keep_objects`: the JVM keeps what Python does not need any more until it ends itself. Only for
    little to read, and for a process that analyses once: objects would fill the memory otherwise.
    """
    jvm, gateway = SparkContext._jvm, SparkContext._gateway
    if type(jvm) is JVMView:
        # Many parts of pyspark hold this very object, so it has to stay the same.
        jvm.__class__ = _Names
    if keep_objects and gateway is not None:
        gateway._gateway_client.gateway_property.enable_memory_management = False


def convert_quickly() -> None:
    """Send values to the JVM, and let go of its objects, with less ado; before one is started."""
    register_output_converter(REFERENCE_TYPE, _Object)
    if _VALUES not in INPUT_CONVERTER:
        register_input_converter(_VALUES, prepend=True)


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
            if self._fqn == _FUNCTIONS and name in _OF_A_VALUE:
                found = _OfAValue(found)
            self.__dict__[name] = found
        return found


class _OfAValue:
    """A function that the JVM is asked for each value once."""

    def __init__(self, member: JavaMember) -> None:
        self._member = member
        self._known: dict[tuple[type, object], JavaObject] = {}

    def __call__(self, value: Any) -> JavaObject:
        # A fraction is equal to its negative where it is 0.
        if not isinstance(value, str | int):
            return self._member(value)
        key = (type(value), value)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._member(value)
        return found


class _Values:
    """Sends texts and numbers as they are, and what is in a list or a map together.

    pyspark looks at each of them, and at first whether it comes from numpy, pandas or pyarrow: to
    import them takes a third of a second. Nobody changes a list that was sent.
    """

    def can_convert(self, value: object) -> bool:
        """Return whether it is such a value: `List.of` and `Map.of` know no null."""
        if type(value) is list:
            return all(item is not None for item in value)
        if type(value) is dict:
            return all(item is not None for item in value.values())
        return value is None or type(value) in _PLAIN

    def convert(self, value: Any, client: Any) -> Any:
        """Return a value as it is; a list or a map as one of the JVM."""
        if type(value) is list:
            return _list(value, client)
        return _map(value, client) if type(value) is dict else value


def _list(items: list[Any], client: Any) -> JavaObject:
    if len(items) <= _MOST_AT_ONCE:
        return _call(client, f"{STATIC_PREFIX}java.util.List", "of", items)
    found = JavaClass("java.util.ArrayList", client)()
    for start in range(0, len(items), _MOST_AT_ONCE):
        _call(client, found._target_id, "addAll", [items[start : start + _MOST_AT_ONCE]])
    return found


def _map(items: dict[Any, Any], client: Any) -> JavaObject:
    found, pairs = JavaClass("java.util.HashMap", client)(), list(items.items())
    for start in range(0, len(pairs), _MOST_AT_ONCE):
        parts = [part for pair in pairs[start : start + _MOST_AT_ONCE] for part in pair]
        some = _call(client, f"{STATIC_PREFIX}java.util.Map", "of", parts)
        _call(client, found._target_id, "putAll", [some])
        # A map of py4j's has itself: it would stay until Python looks for rings.
        some._detach()
    return found


def _call(client: Any, target: str, name: str, arguments: list[Any]) -> Any:
    # Not through the object: a list of py4j's keeps the method, and so itself.
    return JavaMember(name, None, target, client)(*arguments)


_VALUES = _Values()
