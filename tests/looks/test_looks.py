"""Every screen looks as it did when somebody looked at it last, in three sizes."""

from __future__ import annotations

from difflib import unified_diff

import pytest

from tests.looks.showing import (
    MAKE_ANEW,
    PICTURES,
    SCREENS,
    SIZES,
    every_picture,
    file_of,
    fixed,
    same_picture,
)

SMALLEST = SIZES[0]
"""Where most is cut, folded or moved; `make long` looks at the others too."""


def difference(name: str, size: tuple[int, int], now: str) -> list[str]:
    """Return how a picture differs from the one that is kept; nothing when it does not."""
    file = file_of(name, size)
    kept = file.read_text(encoding="utf-8") if file.exists() else ""
    if same_picture(kept, now):
        return []
    lines = unified_diff(kept.split("\n"), now.split("\n"), file.name, "now", n=0, lineterm="")
    return list(lines)


@pytest.mark.slow
@pytest.mark.parametrize(
    "size",
    [
        pytest.param(
            size, id=f"{size[0]}x{size[1]}", marks=() if size == SMALLEST else pytest.mark.long
        )
        for size in SIZES
    ],
)
async def test_every_screen_looks_as_it_did(size: tuple[int, int]) -> None:
    with fixed():
        pictures = await every_picture(size)
    different = [line for name, now in pictures.items() for line in difference(name, size, now)]
    hint = f"look at them, and when they shall be so: {MAKE_ANEW} [FOLDER FOR SVGS]"
    assert not different, "\n".join(["screens look otherwise:", *different, hint])


def test_no_picture_is_kept_of_what_is_not_shown() -> None:
    expected = {file_of(name, size) for name in SCREENS for size in SIZES}
    assert set(PICTURES.iterdir()) == expected


def test_colours_count_only_where_the_same_textual_drew_them() -> None:
    kept = "Textual 1\nORDERS  12 │abcd\nsame    │0000\n"
    assert same_picture(kept, kept)
    assert not same_picture(kept, kept.replace("abcd", "dcba"))
    assert same_picture(kept, kept.replace("abcd", "dcba").replace("Textual 1", "Textual 2"))
    assert not same_picture(kept, kept.replace("12", "13").replace("Textual 1", "Textual 2"))
