"""Text of a fixed height is drawn when it changes, and moves nothing else."""

from __future__ import annotations

from typing import Any

from textual.app import App, ComposeResult

from natstui.tui.kit.fixed_text import FixedText
from natstui.tui.kit.text import safe


class CountedText(FixedText):
    """Keeps what was asked of the screen with each change."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[dict[str, Any]] = []

    def refresh(self, *regions: Any, **options: Any) -> Any:
        self.asked.append(options)
        return super().refresh(*regions, **options)


class TextApp(App[None]):
    def compose(self) -> ComposeResult:
        yield CountedText()


async def test_only_another_text_is_drawn_and_nothing_is_laid_out() -> None:
    app = TextApp()
    async with app.run_test(size=(40, 5)):
        text = app.query_one(CountedText)
        text.update(safe("one"))
        for content, drawn in (
            (safe("one"), []),
            (safe("one", "bad"), [{"layout": False}]),
            (safe("two", "bad"), [{"layout": False}]),
        ):
            text.asked.clear()
            text.update(content)
            assert text.asked == drawn, content
