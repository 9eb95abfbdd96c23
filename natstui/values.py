"""`replace` returns a copy of a value with other fields.

Values are `msgspec.Struct`, frozen: such a class is defined five times faster than a dataclass,
which the first frame waits for, and a record is decoded into it directly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # Type checkers know the fields that this one accepts, and have `Any` for the other one.
    from dataclasses import replace
else:
    from msgspec.structs import replace

__all__ = ["replace"]
