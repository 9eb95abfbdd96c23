"""Decoders of JSON that several threads may ask for.

What msgspec learns of a class it keeps on the class before it knows all of it. A thread that makes
or uses a decoder meanwhile reads what is not there yet, and the process is gone. So they are made
one at a time, and only finished ones are given out.
"""

from __future__ import annotations

from threading import Lock
from typing import Any, TypeVar, overload

import msgspec

T = TypeVar("T")
_making = Lock()
_made: dict[tuple[Any, bool], msgspec.json.Decoder[Any]] = {}


@overload
def decoder_of(kind: type[T], *, strict: bool = True) -> msgspec.json.Decoder[T]: ...


@overload
def decoder_of(kind: Any, *, strict: bool = True) -> msgspec.json.Decoder[Any]: ...


def decoder_of(kind: Any, *, strict: bool = True) -> msgspec.json.Decoder[Any]:
    """Return the decoder of a type; not strict, it takes a number in a string for the number."""
    with _making:
        if (kind, strict) not in _made:
            _made[kind, strict] = msgspec.json.Decoder(kind, strict=strict)
        return _made[kind, strict]
