"""Creates the parts of the app, and connects them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from natstui.model.live.state import shown_at_us
from natstui.tui.app.controls.export import Exporter
from natstui.tui.app.controls.guide import Guide
from natstui.tui.app.controls.live import Polling, Recording
from natstui.tui.app.controls.part import Part
from natstui.tui.app.controls.replay import ReplayControls
from natstui.tui.app.controls.systems import Contexts, Systems
from natstui.tui.app.engines import Announcements, Engines
from natstui.tui.app.guarded import GuardedApp
from natstui.tui.app.link import Link
from natstui.tui.app.live_system import OpenSystem
from natstui.tui.frame.messages import StateChanged

KEYS = [
    # `=` has two meanings, one live and one in a replay. Textual keeps both of one list; a list
    # of a subclass would replace that of its base.
    *Exporter.BINDINGS,
    *Guide.BINDINGS,
    *Polling.BINDINGS,
    *Recording.BINDINGS,
    *ReplayControls.BINDINGS,
    *Systems.BINDINGS,
]


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of the app; the action of a key names a part by its field."""

    engines: Engines
    announcements: Announcements
    exporter: Exporter
    guide: Guide
    polling: Polling
    recording: Recording
    replay: ReplayControls
    systems: Systems

    @classmethod
    def create(
        cls,
        app: GuardedApp,
        open_systems: Sequence[OpenSystem],
        open_replay: Callable[[str], Link] | None,
        show_state_soon: Callable[[], None],
        in_view: Callable[[], str | None],
        *,
        is_guided: bool,
        contexts: Contexts,
        may_change_host: bool,
    ) -> Parts:
        """Create the parts of an app with the running engines of `open_systems`."""
        announcements = Announcements(app)
        engines = Engines(
            app, open_systems, open_replay, show_state_soon, announcements, in_view,
            may_change_host=may_change_host,
        )  # fmt: skip
        polling = Polling(app, engines, open_systems[0].started.interval_s, show_state_soon)
        recording = Recording(app, engines)
        return cls(
            engines,
            announcements,
            Exporter(app, engines),
            Guide(app, lambda: engines.state, show_state_soon, is_on=is_guided),
            polling,
            recording,
            ReplayControls(app, engines),
            Systems(app, engines, contexts, polling, recording),
        )

    def state_message(self) -> StateChanged:
        """Return the message with the state that the screen in view must show, and the text of
        the guide.
        """
        self.guide.advance()
        marked_a, follower = self.replay.marked_a, self.engines.shown_follower
        a_at_us = shown_at_us(marked_a) if marked_a and self.engines.is_replaying else None
        is_paused = not self.polling.is_on and not self.engines.is_replaying
        # Without polling the age of the newest poll is no warning.
        poll_age_us = 0 if is_paused else follower.poll_age_us
        newest = StateChanged(follower.state, poll_age_us, a_at_us, is_paused, self.guide.text())
        several = self.engines.system_states()
        newest.systems = (
            [replace(system, poll_age_us=0) for system in several] if is_paused else several
        )
        newest.acting = self.engines.acting_system.name
        newest.can_leave_replay = follower is not self.engines.home_follower
        return newest

    def act(self, part: str, action: str, *arguments: object) -> None:
        """Execute the action of a key in a part."""
        getattr(self._find_part(part), f"action_{action}")(*arguments)

    def is_offered(self, part: str, action: str, *, typing: bool) -> bool:
        """Return whether an action of a part is offered."""
        return self._find_part(part).is_offered(action, typing=typing)

    def _find_part(self, name: str) -> Part:
        part = getattr(self, name)
        assert isinstance(part, Part)
        return part
