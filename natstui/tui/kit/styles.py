"""Every colour and style: themes, the styles of texts by name, the colours of chart lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from textual.app import App
from textual.color import Color
from textual.css.stylesheet import Stylesheet
from textual.theme import Theme

AppResult = TypeVar("AppResult")


def _theme(name: str, *, dark: bool, faint_color: str, colors: dict[str, str]) -> Theme:
    """Return a theme with these colours; `faint_color` is the colour of placeholders in empty
    fields.
    """
    background_color, primary_color = (
        Color.parse(colors["background"]),
        Color.parse(colors["primary"]),
    )
    cursor_color, blurred_cursor_color = (
        background_color.blend(primary_color, 0.25).hex,
        background_color.blend(primary_color, 0.12).hex,
    )
    variables = {
        "text-primary": colors["primary"],
        "text-secondary": colors["secondary"],
        "text-accent": colors["accent"],
        "text-success": colors["success"],
        "text-warning": colors["warning"],
        "text-error": colors["error"],
        "text-muted": colors["secondary"],
        "text-disabled": faint_color,
        "footer-key-foreground": colors["primary"],
        "block-cursor-background": cursor_color,
        "block-cursor-foreground": colors["foreground"],
        "block-cursor-blurred-background": blurred_cursor_color,
        "block-cursor-blurred-foreground": colors["foreground"],
        "block-hover-background": colors["panel"],
        "border": colors["primary"],
        "border-blurred": blurred_cursor_color,
        "scrollbar": blurred_cursor_color,
        "scrollbar-background": colors["background"],
        "scrollbar-corner-color": colors["background"],
    }
    return Theme(name=name, dark=dark, variables=variables, **colors)  # type: ignore[arg-type]


DARK_THEME = _theme(
    "natstui-dark",
    dark=True,
    faint_color="#8b97a7",
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
LIGHT_THEME = _theme(
    "natstui-light",
    dark=False,
    faint_color="#5a6673",
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
COLOUR_BLIND_THEME = _theme(
    "natstui-cb",
    dark=True,
    faint_color="#8d97a3",
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
THEMES = (DARK_THEME, LIGHT_THEME, COLOUR_BLIND_THEME)

_SERIES_COLORS_ON_DARK = ("#56b4e9", "#e69f00", "#00b386", "#cc79a7", "#f0e442", "#d0d4da")
_SERIES_COLORS_ON_LIGHT = ("#0072b2", "#b24a00", "#00735a", "#9c3f78", "#6b5d00", "#444c56")


def series_colors(*, dark: bool) -> tuple[str, ...]:
    """Return the colours of chart lines, which colour-blind users can distinguish too."""
    return _SERIES_COLORS_ON_DARK if dark else _SERIES_COLORS_ON_LIGHT


def register_themes(app: App[AppResult]) -> None:
    """Register natstui's themes in an app; Textual's own stay available."""
    for theme in THEMES:
        app.register_theme(theme)


class ThemedStylesheet(Stylesheet):
    """A stylesheet that is parsed again only for another theme.

    Textual (8.2) parses every style twice when a list is shown for the first time, and once when
    it is shown for the second time: a third of the time to show a list.
    """

    def __init__(self, *, variables: dict[str, str]) -> None:
        super().__init__(variables=variables)
        self._variables = self._parsed_variables = variables

    def set_variables(self, variables: dict[str, str]) -> None:
        """Set the variables; if they differ from the previous ones, discard the parsed styles."""
        if variables != self._variables:
            self._variables = variables
            super().set_variables(variables)

    def reparse(self) -> None:
        """Parse all styles, unless they were parsed with the same variables."""
        if self._variables != self._parsed_variables:
            super().reparse()
            self._parsed_variables = self._variables


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
"""Style name → Textual style; cells, lines and texts have style names."""


def style_of(style_name: str) -> str:
    """Return the Textual style of a style name: one of `STYLES`, a colour such as `#56b4e9`, or
    `on red`, which is readable text on a red background.
    """
    if style_name.startswith("#"):
        return style_name
    return f"auto {style_name}" if style_name.startswith("on ") else STYLES[style_name]


def footer_styles(*, is_enabled: bool, is_hovered: bool) -> tuple[str, str]:
    """Return the styles of a key and its label in the footer; dim for a disabled key."""
    background_color = "$block-hover-background" if is_hovered else "$footer-background"
    dim_prefix = "" if is_enabled else "dim "
    return (
        f"{dim_prefix}bold $footer-key-foreground on {background_color}",
        f"{dim_prefix}$footer-description-foreground on {background_color}",
    )
