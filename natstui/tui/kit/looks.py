"""Every colour and style: themes, the look of each kind of text, the colours of lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from textual.app import App
from textual.color import Color
from textual.css.stylesheet import Stylesheet
from textual.theme import Theme

Answer = TypeVar("Answer")


def _theme(name: str, *, dark: bool, faint: str, colors: dict[str, str]) -> Theme:
    """Return a theme whose text colours were checked for contrast.

    `faint` is the colour of placeholders in empty fields.
    """
    ground, primary = Color.parse(colors["background"]), Color.parse(colors["primary"])
    cursor, blurred_cursor = ground.blend(primary, 0.25).hex, ground.blend(primary, 0.12).hex
    variables = {
        "text-primary": colors["primary"],
        "text-secondary": colors["secondary"],
        "text-accent": colors["accent"],
        "text-success": colors["success"],
        "text-warning": colors["warning"],
        "text-error": colors["error"],
        "text-muted": colors["secondary"],
        "text-disabled": faint,
        "footer-key-foreground": colors["primary"],
        "block-cursor-background": cursor,
        "block-cursor-foreground": colors["foreground"],
        "block-cursor-blurred-background": blurred_cursor,
        "block-cursor-blurred-foreground": colors["foreground"],
        "block-hover-background": colors["panel"],
        "border": colors["primary"],
        "border-blurred": blurred_cursor,
        "scrollbar": blurred_cursor,
        "scrollbar-background": colors["background"],
        "scrollbar-corner-color": colors["background"],
    }
    return Theme(name=name, dark=dark, variables=variables, **colors)  # type: ignore[arg-type]


DARK = _theme(
    "natstui-dark",
    dark=True,
    faint="#8b97a7",
    colors={
        "background": "#10141b",
        "surface": "#161c25",
        "panel": "#1f2733",
        "foreground": "#dde4ee",
        "primary": "#6cb6ff",
        "secondary": "#a8b4c4",
        "accent": "#d2a8ff",
        "success": "#63d297",
        "warning": "#f2b950",
        "error": "#ff8a8a",
    },
)
LIGHT = _theme(
    "natstui-light",
    dark=False,
    faint="#5a6673",
    colors={
        "background": "#fbfcfd",
        "surface": "#f1f4f7",
        "panel": "#e4e9ef",
        "foreground": "#1b232d",
        "primary": "#0a569f",
        "secondary": "#4d5967",
        "accent": "#7434a8",
        "success": "#0a6532",
        "warning": "#7a4700",
        "error": "#ae1c28",
    },
)
COLOUR_BLIND = _theme(
    "natstui-cb",
    dark=True,
    faint="#8d97a3",
    colors={
        "background": "#0c0e11",
        "surface": "#14181d",
        "panel": "#1c2128",
        "foreground": "#f0f2f5",
        "primary": "#8ccbf2",
        "secondary": "#a5afbb",
        "accent": "#e3b3cf",
        "success": "#56b4e9",
        "warning": "#f0e442",
        "error": "#f58d49",
    },
)
THEMES = (DARK, LIGHT, COLOUR_BLIND)

_SERIES_ON_DARK = ("#56b4e9", "#e69f00", "#00b386", "#cc79a7", "#f0e442", "#d0d4da")
_SERIES_ON_LIGHT = ("#0072b2", "#b24a00", "#00735a", "#9c3f78", "#6b5d00", "#444c56")


def series_colors(*, dark: bool) -> tuple[str, ...]:
    """Return the colours of chart lines, which colour-blind people can distinguish too."""
    return _SERIES_ON_DARK if dark else _SERIES_ON_LIGHT


def register_themes(app: App[Answer]) -> None:
    """Register natstui's themes in an app; Textual's own stay available."""
    for theme in THEMES:
        app.register_theme(theme)


class ThemedStylesheet(Stylesheet):
    """A stylesheet that is parsed again only for another theme.

    Textual (8.2) parses every style again, twice, whenever a list is shown for the first time, and
    once more for the second time: a third of what it takes to show one.
    """

    def __init__(self, *, variables: dict[str, str]) -> None:
        super().__init__(variables=variables)
        self._newest = self._parsed_for = variables

    def set_variables(self, variables: dict[str, str]) -> None:
        """Set the variables; with others than before, forget what was parsed."""
        if variables != self._newest:
            self._newest = variables
            super().set_variables(variables)

    def reparse(self) -> None:
        """Parse all styles, unless they were parsed with the same variables."""
        if self._newest != self._parsed_for:
            super().reparse()
            self._parsed_for = self._newest


STYLES: Mapping[str, str] = {
    "": "",
    "strong": "bold",
    "title": "bold $text-accent",
    "accent": "$text-accent",
    "primary": "$primary",
    "ok": "$text-success",
    "warn": "$text-warning",
    "strong warn": "bold $text-warning",
    "error": "$text-error",
    "bad": "bold $text-error",
    "dim": "$text-muted",
    "frame": "$foreground 25%",
    "stale": "italic $text-muted",
    "lit": "bold $foreground on $primary 30%",
}
"""Look of texts, cells and lines → its style."""


def style_of(look: str) -> str:
    """Return the style of a look; `on red` is readable text on that background, `#56b4e9`
    a colour.
    """
    if look.startswith("#"):
        return look
    return f"auto {look}" if look.startswith("on ") else STYLES[look]


def footer_styles(*, is_enabled: bool, pointed_at: bool) -> tuple[str, str]:
    """Return the styles of a footer's key and label; dim for a disabled one."""
    ground = "$block-hover-background" if pointed_at else "$footer-background"
    dim = "" if is_enabled else "dim "
    return (
        f"{dim}bold $footer-key-foreground on {ground}",
        f"{dim}$footer-description-foreground on {ground}",
    )
