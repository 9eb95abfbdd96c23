"""Text takes the cells it is given, and cannot steer the terminal."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.color import Color

import natstui.tui
from natstui.tui.kit.sections import Section, draw_sections, line
from natstui.tui.kit.styles import THEMES
from natstui.tui.kit.text import (
    ASCII_FILTER,
    HARMLESS_FILTER,
    SIXTEEN_COLORS_FILTER,
    ascii_of,
    fit,
    safe,
    safe_copy,
)

BLACK = Color(0, 0, 0)
any_text = st.text(st.characters(), max_size=40)


@given(any_text, st.integers(0, 30), st.sampled_from(["left", "right"]))
def test_fitted_text_is_exactly_as_wide_as_asked(text: str, width: int, align: str) -> None:
    assert cell_len(fit(text, width, align)) == width  # type: ignore[arg-type]


def test_text_that_is_cut_says_so_and_wide_characters_are_not_halved() -> None:
    assert fit("orders", 4) == "ord…"
    assert fit("注文注文", 6) == "注文… "
    assert fit("12", 5, "right") == "   12"
    assert fit("a👍🏽b", 5) == "a👍·b"
    assert fit("🇩🇪", 3) == "DE "


def test_markup_in_a_name_is_shown_and_not_obeyed() -> None:
    assert safe("[@click=app.quit]x[/]").plain == "[@click=app.quit]x[/]"
    assert safe("[/nope]", "strong").markup.count("nope") == 1


def test_what_is_copied_cannot_press_enter_through_an_escape() -> None:
    assert safe_copy("a\r\n\x1b[201~rm") == "a\n␛[201~rm"


@given(st.lists(any_text, max_size=5))
def test_the_filter_leaves_no_character_that_steers_a_terminal(texts: list[str]) -> None:
    line = [Segment(text, Style(bold=True)) for text in texts]
    out = HARMLESS_FILTER.apply(line, BLACK)
    for segment in out:
        assert not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in segment.text)
    assert [len(s.text) for s in out] == [len(t) for t in texts]


def test_the_filter_keeps_harmless_lines_as_they_are_and_drops_links() -> None:
    line = [Segment("● ok ▁▂▃ Straße", Style())]
    assert HARMLESS_FILTER.apply(line, BLACK) is line
    linked = [Segment("x", Style(link="https://evil.example"))]
    out = HARMLESS_FILTER.apply(linked, BLACK)[0]
    assert out.style is not None
    assert out.style.link is None


@given(any_text)
def test_ascii_mode_leaves_ascii_in_as_many_cells(text: str) -> None:
    line = HARMLESS_FILTER.apply([Segment(text, None)], BLACK)
    out = ASCII_FILTER.apply(line, BLACK)[0].text
    assert out.isascii()
    assert len(out) == cell_len(line[0].text)


def test_ascii_mode_keeps_the_shape_of_boxes_bars_and_marks() -> None:
    out = ASCII_FILTER.apply([Segment("┌─┬┐│╭▁▄█⣿● ▲ ✖ é 注", None)], BLACK)[0].text
    assert out == "+-++|+_=#@o ^ x e ??"


def test_ascii_mode_has_a_sign_for_each_that_the_screens_use() -> None:
    root = Path(natstui.tui.__file__).parents[1]
    used = {one for path in root.rglob("*.py") for one in path.read_text(encoding="utf-8")}
    # An escape that was made visible is a question there too.
    assert not {one for one in used - {"\u241b"} if ord(one) > 126 and "?" in ascii_of(one)}


def numbers(ink: str, ground: str) -> tuple[int | None, int | None]:
    style = Style.parse(f"{ink} on {ground}")
    out = SIXTEEN_COLORS_FILTER.apply([Segment("text", style)], BLACK)[0].style
    assert out is not None and out.color is not None and out.bgcolor is not None
    return out.color.number, out.bgcolor.number


def test_sixteen_colours_keep_text_apart_from_its_ground() -> None:
    for theme in THEMES:
        variables = theme.to_color_system().generate() | theme.variables
        grounds = ("background", "surface", "panel", "block-cursor-background")
        inks = ("foreground", "text-error", "text-warning", "text-success", "text-muted", "border")
        for ground in grounds:
            for ink in inks:
                seen = numbers(variables[ink], variables[ground])
                assert seen[0] != seen[1], (theme.name, ink, ground)
    # Red on the grey of the cursor is not read: its sign says the same.
    assert numbers("#ff8a8a", "#7f7f7f") == (15, 8)
    assert numbers("#ff8a8a", "#000000")[0] not in (0, 15)
    assert numbers("#101010", "#000000") == (8, 0)


def test_text_without_a_label_goes_on_below_its_words() -> None:
    texts = (
        "✖ NT-S26 nearly full, for 3s",
        "  1.74 MiB of 2.00 MiB",
        "  → raise its limits, or purge",
    )
    lines = tuple(line("", text) for text in texts)
    assert draw_sections((Section("FINDINGS", lines),), 18).plain.split("\n") == [
        "FINDINGS",
        "✖ NT-S26 nearly",
        "  full, for 3s",
        "  1.74 MiB of 2.00",
        "  MiB",
        "  → raise its",
        "    limits, or",
        "    purge",
    ]
