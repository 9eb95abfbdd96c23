"""`dataclass` for frozen values, whose methods are made when the first of them is needed.

The library writes and compiles the source of six methods for each class when it is imported: for
the two hundred classes of the model that was a third of what a start of natstui computed. Of most
classes no value is made in a run, and fewer still are compared or printed.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NoReturn

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls: type | None = None, /, **options: bool) -> Any:
        """Return a class as `dataclasses.dataclass` does; a plain frozen one with slots lazily."""
        if cls is None:
            return lambda decorated: dataclass(decorated, **options)
        plain = cls.__bases__ == (object,) and not any(name in vars(cls) for name in _MADE)
        if plain and options == {"frozen": True, "slots": True}:
            return _lazy(cls)
        return dataclasses.dataclass(**options)(cls)


_LATER = object()
"""Stands for a value that is made anew for each value of the class."""
_MADE = ("__init__", "__repr__", "__eq__", "__hash__")


def _lazy(cls: type) -> type:
    """Return a dataclass whose methods are still to be made."""
    made: type = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    shared = {
        "__setattr__": _refuse_to_set,
        "__delattr__": _refuse_to_delete,
        "__getstate__": _state,
        "__setstate__": _set_state,
    }
    for name in _MADE:
        shared[name] = _maker(made, name)
    for name, method in shared.items():
        setattr(made, name, method)
    # Who asks whether values of the class can change, asks here.
    made.__dataclass_params__.frozen = True  # type: ignore[attr-defined]
    return made


def _maker(cls: type, name: str) -> Any:
    """Return a method that makes what the class needs, and then does what its own shall."""

    def method(self: Any, *arguments: Any, **named: Any) -> Any:
        _make_methods(cls, name)
        return getattr(cls, name)(self, *arguments, **named)

    return method


def _make_methods(cls: Any, needed: str) -> None:
    """Give the class the methods that the library makes for one with the same fields.

    Most values are made and never compared or printed: then the first of them makes one method.
    """
    if needed == "__init__":
        cls.__init__ = _quick_init(cls)
        return
    fields = {field.name: field for field in dataclasses.fields(cls)}
    body: dict[str, Any] = {"__module__": cls.__module__, "__qualname__": cls.__qualname__}
    body |= {"__doc__": cls.__doc__, "__annotations__": cls.__annotations__, **fields}
    bare = type(cls.__name__, (), body)
    dataclasses.dataclass(frozen=True, init=False)(bare)
    for name in _MADE[1:]:
        setattr(cls, name, vars(bare)[name])


def _quick_init(cls: Any) -> Any:
    """Return an `__init__` that fills the slots themselves.

    That of the library looks each field up by its name, which takes twice as long; a big server's
    first view makes values by the hundred thousand.
    """
    known: dict[str, Any] = {"later": _LATER}
    parameters, lines = ["self"], ["pass"]
    for field in dataclasses.fields(cls):
        name, value, default = field.name, field.name, ""
        known[f"set_{name}"] = vars(cls)[name].__set__
        if field.default is not dataclasses.MISSING:
            known[f"default_{name}"], default = field.default, f"default_{name}"
        elif field.default_factory is not dataclasses.MISSING:
            known[f"make_{name}"], default = field.default_factory, "later"
            value = f"make_{name}() if {name} is later else {name}"
        if field.init:
            parameters.append(f"{name}={default}" if default else name)
        elif default:
            value = f"make_{name}()" if default == "later" else default
        if field.init or default:
            lines.append(f"set_{name}(self, {value})")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    exec(f"def __init__({', '.join(parameters)}):\n " + "\n ".join(lines), known)
    made = known["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    types = {field.name: field.type for field in dataclasses.fields(cls) if field.init}
    made.__annotations__ = {**types, "return": None}
    return made


def _refuse_to_set(_self: object, name: str, _value: object) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(_self: object, name: str) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    """Return what is copied or pickled of a value."""
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    """Make a copied or pickled value whole."""
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
