"""Every text of our themes can be read, also on the cursor's line and by colour-blind people."""

import re

import pytest
from textual.color import Color
from textual.theme import Theme

from natstui.tui.app.guarded import GuardedApp
from natstui.tui.kit.styles import (
    DARK_THEME,
    LIGHT_THEME,
    STYLES,
    THEMES,
    footer_styles,
    series_colors,
)


def contrast(one: str, other: str) -> float:
    def luminance(color: Color) -> float:
        parts = [part / 255 for part in color.rgb]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(Color.parse(one)), luminance(Color.parse(other))))
    return (high + 0.05) / (low + 0.05)


def grounds(theme: Theme) -> list[str]:
    generated = theme.to_color_system().generate() | theme.variables
    names = ("background", "surface", "panel")
    cursors = ("block-cursor-background", "block-cursor-blurred-background")
    ground, accent = Color.parse(generated["background"]), Color.parse(generated["accent"])
    marked = ground.blend(accent, 0.15).hex
    return [marked, *(generated[name] for name in (*names, *cursors))]


def inks(theme: Theme) -> dict[str, str]:
    """Return every colour that text has somewhere: of the looks, the footer, and the theme."""
    generated = theme.to_color_system().generate() | theme.variables
    texts = (*STYLES.values(), *footer_styles(is_enabled=True, is_hovered=False))
    words = " ".join(text.partition(" on ")[0] for text in texts)
    names = set(re.findall(r"\$([a-z-]+)", words)) | {"foreground", "secondary", "border"}
    return {name: generated[name] for name in names}


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_text_stands_out_on_every_ground(theme: Theme) -> None:
    assert {"text-error", "text-warning", "text-success", "text-muted"} <= inks(theme).keys()
    for ground in grounds(theme):
        for name, ink in inks(theme).items():
            assert contrast(ink, ground) >= 4.5, (name, ink, ground)


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_what_stands_in_an_empty_field_can_be_read_and_is_fainter_than_what_is_typed(
    theme: Theme,
) -> None:
    generated = theme.to_color_system().generate() | theme.variables
    faint = generated["text-disabled"]
    for name in ("background", "surface", "panel"):
        ground = generated[name]
        assert 4.5 <= contrast(faint, ground) < contrast(generated["foreground"], ground) / 1.5


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_chart_lines_stand_out_and_differ(theme: Theme) -> None:
    assert theme.background is not None
    colors = series_colors(dark=theme.dark)
    assert len(set(colors)) == len(colors)
    for color in colors:
        assert contrast(color, theme.background) >= 3, color


async def test_styles_are_parsed_again_for_another_theme_only() -> None:
    app = GuardedApp()
    async with app.run_test() as pilot:
        rules = app.stylesheet.rules
        # As Textual does when a list is shown for the first time.
        app.refresh_css()
        assert app.stylesheet.rules is rules
        for theme in (LIGHT_THEME, DARK_THEME):
            app.theme = theme.name
            await pilot.pause()
            assert app.stylesheet.rules is not rules
            assert app.screen.styles.background == Color.parse(theme.background or "")
