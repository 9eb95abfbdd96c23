"""Which screen shows what the user opens; imported then, so that no start pays for it."""

from __future__ import annotations

from natstui.tui.live import LiveScreen
from natstui.tui.messages import Open
from natstui.tui.screens.consumers import ConsumersScreen


def opened(message: Open) -> LiveScreen:
    """Return a new screen for what was opened."""
    match message.what:
        case "consumers":
            return ConsumersScreen(message.stream)
        case "stream":
            from natstui.tui.screens.stream_detail import StreamDetail

            return StreamDetail(message.stream)
        case "consumer":
            from natstui.tui.screens.consumer_detail import ConsumerDetail

            return ConsumerDetail(message.stream, message.consumer or "")
        case "scenarios":
            from natstui.tui.screens.scenarios import ScenariosScreen

            return ScenariosScreen()
        case "runs":
            from natstui.tui.screens.runs import RunsScreen

            return RunsScreen()
        case _:
            from natstui.tui.screens.raw import RawScreen

            return RawScreen(message.stream, message.consumer)
