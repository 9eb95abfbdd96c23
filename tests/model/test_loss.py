"""What an edit removes, of the configurations before and after it."""

from __future__ import annotations

import pytest

from natstui.model.assets.loss import StoredMessages, stream_edit_loss

_HELD = StoredMessages(total_msgs=10, total_bytes=1000)


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        (3, 1, ("2 of 3 copies are removed: one server then has the only copy",)),
        (3, 2, ("1 of 3 copies is removed, 2 are left",)),
        (5, 3, ("2 of 5 copies are removed, 3 are left",)),
        (1, 3, ()),
        (3, 3, ()),
        (1, 0, ()),
    ],
)
def test_copies_that_an_edit_gives_up_are_a_loss(
    before: int, after: int, lines: tuple[str, ...]
) -> None:
    replicas = ({"name": "S", "num_replicas": count} for count in (before, after))
    loss = stream_edit_loss(*replicas, _HELD)
    assert (loss.lines_restored_by_undo, loss.shown_lines) == (lines, lines)
    assert (loss.lines, loss.text, loss.most_msgs) == ((), "", 0)


def test_a_mirror_that_an_edit_ends_is_a_loss() -> None:
    before = {"name": "S", "mirror": {"name": "ORIGIN"}}
    loss = stream_edit_loss(before, {"name": "S"}, _HELD)
    assert loss.lines == ("it stops mirroring ORIGIN, and cannot become its mirror again",)
    assert stream_edit_loss(before, before, _HELD).lines == ()
