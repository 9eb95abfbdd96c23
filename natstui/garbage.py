"""How often a process looks for garbage: seldom, where nearly all that it holds is needed."""

from __future__ import annotations

import gc

MANY_ROWS = 5_000
_SELDOM = (50_000, 4, 4)
"""New objects, and collections of the younger ones, before garbage is looked for.

A big server's rows are hundreds of thousands of objects, and no garbage: to look at all of them
takes a tenth of a second. Elsewhere it would let closed screens lie about for long.
"""


def collect_seldom() -> None:
    """Suit a process that may hold the rows of a big server, and makes little garbage."""
    gc.set_threshold(*_SELDOM)


def collect_for(rows_count: int) -> None:
    """Suit a process that holds so many rows; once it held many, it stays so."""
    if rows_count > MANY_ROWS and gc.get_threshold() != _SELDOM:
        collect_seldom()
