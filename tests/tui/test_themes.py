"""Every text of our themes can be read, also on the cursor's line and by colour-blind people."""

import pytest
from textual.color import Color
from textual.theme import Theme

from natstui.tui.kit.looks import THEMES, series_colors


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


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_text_stands_out_on_every_ground(theme: Theme) -> None:
    for ground in grounds(theme):
        for ink in (theme.foreground, theme.primary, theme.secondary, theme.accent):
            assert ink is not None
            assert contrast(ink, ground) >= 4.5, (ink, ground)


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_a_status_stands_out_on_every_ground(theme: Theme) -> None:
    for ground in grounds(theme):
        for ink in (theme.success, theme.warning, theme.error):
            assert ink is not None
            assert contrast(ink, ground) >= 3, (ink, ground)


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_chart_lines_stand_out_and_differ(theme: Theme) -> None:
    assert theme.background is not None
    colors = series_colors(dark=theme.dark)
    assert len(set(colors)) == len(colors)
    for color in colors:
        assert contrast(color, theme.background) >= 3, color
