"""Which screen shows what the user opens."""

from __future__ import annotations

from natstui.tui.live import LiveScreen
from natstui.tui.messages import Open
from natstui.tui.screens.consumer_detail import ConsumerDetail
from natstui.tui.screens.consumers import ConsumersScreen
from natstui.tui.screens.raw import RawScreen
from natstui.tui.screens.stream_detail import StreamDetail


def opened(message: Open) -> LiveScreen:
    """Return a new screen for what was opened."""
    match message.what:
        case "stream":
            return StreamDetail(message.stream)
        case "consumers":
            return ConsumersScreen(message.stream)
        case "consumer":
            return ConsumerDetail(message.stream, message.consumer or "")
        case "scenarios":
            from natstui.tui.screens.scenarios import ScenariosScreen

            return ScenariosScreen()
        case "runs":
            from natstui.tui.screens.runs import RunsScreen

            return RunsScreen()
        case _:
            return RawScreen(message.stream, message.consumer)
