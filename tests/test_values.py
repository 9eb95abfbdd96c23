"""A frozen value whose methods are made late is like one of the library's."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from dataclasses import field
from typing import Any

import msgspec
import pytest

from natstui import values


class Plain:
    """A price, for tests."""

    name: str
    amount: int = 3
    tags: dict[str, str] = field(default_factory=dict, hash=False)
    shown: str = field(init=False, repr=False, default="")

    def __post_init__(self) -> None:
        object.__setattr__(self, "shown", f"{self.name} {self.amount}")


def _copied(name: str) -> type:
    body = {key: value for key, value in vars(Plain).items() if key not in _NOT_COPIED}
    return type(name, (), body | {"__qualname__": name, "__module__": __name__})


_NOT_COPIED = ("__dict__", "__weakref__")
Late: Any = values.dataclass(frozen=True, slots=True)(_copied("Late"))
Early: Any = dataclasses.dataclass(frozen=True, slots=True)(_copied("Early"))


def fresh() -> Any:
    """Return a class of which nothing was made yet."""
    return values.dataclass(frozen=True, slots=True)(_copied("Late"))


def test_it_is_made_compared_hashed_and_printed_as_one_of_the_library() -> None:
    first, second = fresh()("a", tags={"k": "v"}), fresh()("a", 3)
    late = type(first)
    assert (first.name, first.amount, first.tags, first.shown) == ("a", 3, {"k": "v"}, "a 3")
    assert first == late("a", 3, {"k": "v"})
    assert first != late("b", 3, {"k": "v"})
    assert first != second, "values of two classes"
    assert hash(first) == hash(late("a", tags={})) == hash(Early("a"))
    assert repr(first) == repr(Early("a", tags={"k": "v"})).replace("Early", "Late")


@pytest.mark.parametrize("wrong", [(), ("a", 1, {}, "x"), ("a", 1, {}, 2, 3)])
def test_it_refuses_the_same_arguments_at_the_first_call_too(wrong: tuple[object, ...]) -> None:
    for cls in (fresh(), Early):
        with pytest.raises(TypeError, match="argument"):
            cls(*wrong)


def test_it_cannot_be_changed() -> None:
    value = fresh()("a")
    for change in (lambda: setattr(value, "amount", 4), lambda: delattr(value, "amount")):
        with pytest.raises(dataclasses.FrozenInstanceError, match="'amount'"):
            change()
    with pytest.raises(dataclasses.FrozenInstanceError):
        value.other = 1
    assert dataclasses.replace(value, amount=5).shown == "a 5"


def test_it_has_slots_fields_and_patterns() -> None:
    assert Late.__slots__ == Early.__slots__
    assert Late.__match_args__ == Early.__match_args__
    assert Late.__dataclass_params__.frozen
    assert [one.name for one in dataclasses.fields(Late)] == ["name", "amount", "tags", "shown"]


def test_it_is_copied_pickled_and_read_from_json() -> None:
    value = Late("a", 7, {"k": "v"})
    assert copy.deepcopy(value) == copy.copy(value) == pickle.loads(pickle.dumps(value)) == value
    cls = fresh()
    read = msgspec.json.decode(b'{"name": "a", "amount": 7, "tags": {"k": "v"}}', type=cls)
    assert read == cls("a", 7, {"k": "v"}), "read before the first was made by a call"


def test_what_it_does_not_know_is_left_to_the_library() -> None:
    @values.dataclass(frozen=True, slots=True, order=True)
    class Ordered:
        """Can be sorted."""

        size: int

    @values.dataclass(frozen=True, slots=True)
    class Child(Early):  # type: ignore[misc]
        """Has what its base has."""

        more: int = 1

    assert Ordered(1) < Ordered(2)
    assert (Child("a").amount, Child("a", more=4).more) == (3, 4)
