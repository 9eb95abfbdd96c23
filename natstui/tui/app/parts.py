"""Creates the parts of the app, and connects them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from natstui.model.live.state import shown_at_us
from natstui.tui.app.controls.export import Exporter
from natstui.tui.app.controls.guide import Guide
from natstui.tui.app.controls.live import PollingControls, RecordingControls
from natstui.tui.app.controls.part import AppPart
from natstui.tui.app.controls.replay import ReplayControls
from natstui.tui.app.controls.systems import Contexts, SystemControls
from natstui.tui.app.engines import Engines
from natstui.tui.app.guarded import GuardedApp
from natstui.tui.app.link import Link
from natstui.tui.app.live_system import OpenSystem
from natstui.tui.frame.messages import StateChanged
from natstui.tui.frame.systems import SystemState
from natstui.values import replace

APP_BINDINGS = [
    # `=` has two meanings, one live and one in a replay. Textual keeps both of one list; a list
    # of a subclass would replace that of its base.
    *Exporter.BINDINGS,
    *Guide.BINDINGS,
    *PollingControls.BINDINGS,
    *RecordingControls.BINDINGS,
    *ReplayControls.BINDINGS,
    *SystemControls.BINDINGS,
]


class AppParts(Struct, frozen=True):
    """The parts of the app; the action of a key names a part by its field."""

    engines: Engines
    exporter: Exporter
    guide: Guide
    polling: PollingControls
    recording: RecordingControls
    replay: ReplayControls
    systems: SystemControls

    @classmethod
    def create(
        cls,
        app: GuardedApp,
        open_systems: Sequence[OpenSystem],
        open_replay: Callable[[str], Link] | None,
        show_state_soon: Callable[[], None],
        *,
        is_guided: bool,
        contexts: Contexts,
        may_change_host: bool,
    ) -> AppParts:
        """Create the parts of an app with the running engines of `open_systems`."""
        engines = Engines(
            app, open_systems, open_replay, show_state_soon, may_change_host=may_change_host
        )
        polling = PollingControls(app, engines, open_systems[0].started.interval_s)
        recording = RecordingControls(app, engines)
        return cls(
            engines,
            Exporter(app, engines),
            Guide(app, lambda: engines.state, show_state_soon, is_on=is_guided),
            polling,
            recording,
            ReplayControls(app, engines),
            SystemControls(app, engines, contexts, polling, recording),
        )

    def state_message(self) -> StateChanged:
        """Return the message with the state that the screen in view must show, and the text of
        the guide.
        """
        self.guide.advance()
        acting_system = self.engines.acting_system
        follower = self.engines.shown_follower_of(acting_system)
        is_replaying = follower.state.replay is not None
        is_paused = not self.polling.is_on and not is_replaying
        marked_state = self.replay.marked_state if is_replaying else None
        systems = self.engines.system_states()
        # A single system, a removed one, and that of a replay are not among them.
        acting = systems.get(acting_system.name) or SystemState(
            acting_system.name, "", follower.state, follower.poll_age_us
        )
        if is_paused:
            # Without polling the age of the newest poll is no warning.
            acting = replace(acting, poll_age_us=0)
            systems = {name: replace(system, poll_age_us=0) for name, system in systems.items()}
        return StateChanged(
            acting,
            mark_a_at_us=None if marked_state is None else shown_at_us(marked_state),
            paused=is_paused,
            guide=self.guide.text(),
            systems=systems,
            can_leave_replay=self.engines.has_opened_replay,
        )

    def execute_action(self, part: str, action: str, *arguments: object) -> None:
        """Execute the action of a key in a part of the app."""
        getattr(self._find_part(part), f"action_{action}")(*arguments)

    def is_offered(self, part: str, action: str, *, is_typing: bool) -> bool:
        """Return whether an action of a part is offered."""
        return self._find_part(part).is_offered(action, is_typing=is_typing)

    def _find_part(self, name: str) -> AppPart:
        part = getattr(self, name)
        assert isinstance(part, AppPart)
        return part
