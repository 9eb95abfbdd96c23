"""What came of a benchmark, wrapped for the room there is."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from natstui.model.benchmark import BenchmarkSummed
from natstui.tui.present.benchmark import hanging
from natstui.tui.text import safe, safe_lines


class RunSummary(Static):
    """The sentence at the end of a run, and its table below."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, markup=False)
        self._shown: tuple[BenchmarkSummed | None, str, int] = (None, "", 0)

    def show(self, summed: BenchmarkSummed | None, instead: str = "") -> None:
        """Show what came of the run, or `instead` while nothing has."""
        shown = (summed, instead, self.content_size.width)
        if shown != self._shown:
            self._shown = shown
            self.update(_drawn(*shown))

    def on_resize(self) -> None:
        """Wrap for the new width, which is another as soon as the run is over."""
        self.show(*self._shown[:2])


def _drawn(summed: BenchmarkSummed | None, instead: str, width: int) -> Content:
    if summed is None:
        return Content(instead)
    sentence, _, rest = summed.text.partition("\n")
    body = safe_lines("\n" + hanging(rest, width) if rest and width else "")
    return Content.assemble(safe(sentence, "$text-error" if summed.failed else ""), body)
