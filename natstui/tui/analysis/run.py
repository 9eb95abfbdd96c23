"""An analysis that an engine runs: its progress and its result, also while no screen shows it."""

from __future__ import annotations

from collections.abc import Callable

from textual.app import App

from natstui.clock import steady_s
from natstui.model.records.analysis import AnalysisProgress
from natstui.model.records.messages import Answered
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.requests import ENGINE_ENDED, PendingRequest, run_task, show_reply
from natstui.values import replace


class AnalysisRun:
    """An analysis from its request to its reply; a toast shows the end if no screen shows it."""

    def __init__(
        self,
        app: App[int],
        request: PendingRequest,
        session: str | None,
        end_reason: Callable[[], str | None],
    ) -> None:
        """Follow the request that started the analysis; `session` is its argument.

        `end_reason` returns why the engine ended; None if the app closed it.
        """
        self._app, self._end_reason = app, end_reason
        self.session = session
        self.started_at_s = steady_s()
        """When the analysis was requested, on the steady clock."""
        self.progress: AnalysisProgress | None = None
        """The newest progress; None before the first."""
        self.reply: Answered | None = None
        """The reply with the result or an error; None while the analysis runs."""
        self.is_stop_requested = False
        self.was_reply_shown = False
        self.screens: set[LiveScreen] = set()
        """The open screens that show the analysis."""
        run_task(app, self._follow, request)

    @property
    def session_name(self) -> str:
        """Return the name of the session's folder; empty before the first progress."""
        return "" if self.progress is None else self.progress.session

    def is_unread(self, session: str | None) -> bool:
        """Return whether a request to analyse `session` must show this run instead of starting
        another: it is running, or its reply about that session was not shown yet.
        """
        if self.reply is None:
            return True
        is_of_session = session in (None, self.session, self.session_name)
        return is_of_session and not self.was_reply_shown and not self.is_stop_requested

    async def _follow(self, request: PendingRequest) -> None:
        async for record in request:
            if isinstance(record, Answered):
                self.reply = record
                break
            if isinstance(record, AnalysisProgress):
                self.progress = record
                self._refresh_screens()
        request.close()
        if self.reply is not None:
            self._show_end(self.reply)

    def _show_end(self, reply: Answered) -> None:
        """Show the reply on the open screens, or as a toast without one."""
        if reply.text == ENGINE_ENDED:
            reason = self._end_reason()
            if reason is None:
                return
            text = f"the analysis ended without a result: {reason}"
            self.reply = reply = replace(reply, text=text)
        if self.screens:
            self._refresh_screens()
        elif not self.is_stop_requested:
            hint = "; :analyze shows it" if reply.status == "done" else ""
            show_reply(self._app, replace(reply, text=f"{reply.text}{hint}"), "analysis")

    def _refresh_screens(self) -> None:
        for screen in self.screens:
            screen.call_next(screen.refresh_state)
