"""Garbage is looked for more seldom where many rows are held, and only there."""

import gc
from collections.abc import Iterator

import pytest

from natstui.garbage import MANY_ROWS, collect_for


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_a_process_that_once_held_many_rows_collects_seldom() -> None:
    gc.set_threshold(700, 10, 10)
    collect_for(MANY_ROWS)
    assert gc.get_threshold() == (700, 10, 10)
    collect_for(MANY_ROWS + 1)
    seldom = gc.get_threshold()
    assert seldom[0] > 700
    collect_for(0)
    assert gc.get_threshold() == seldom
