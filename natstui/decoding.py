"""Decoders of JSON that several threads may share.

msgspec caches the description of a class on the class before it is complete. A thread that creates
or uses a decoder meanwhile reads incomplete data, and the process crashes. So decoders are created
one at a time, and only complete ones are returned.
"""

from __future__ import annotations

from threading import Lock
from typing import Any, TypeVar, overload

import msgspec

T = TypeVar("T")
_decoders_lock = Lock()
_decoders: dict[tuple[Any, bool], msgspec.json.Decoder[Any]] = {}


@overload
def decoder_of(kind: type[T], *, strict: bool = True) -> msgspec.json.Decoder[T]: ...


@overload
def decoder_of(kind: Any, *, strict: bool = True) -> msgspec.json.Decoder[Any]: ...


def decoder_of(kind: Any, *, strict: bool = True) -> msgspec.json.Decoder[Any]:
    """Return the decoder of a type; unless `strict`, it accepts a number written as a string."""
    with _decoders_lock:
        if (kind, strict) not in _decoders:
            _decoders[kind, strict] = msgspec.json.Decoder(kind, strict=strict)
        return _decoders[kind, strict]
