"""The parts of the app, made and connected."""

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
    """What the app is composed of. A key names a part by its field here."""

    engines: Engines
    announcements: Announcements
    exporter: Exporter
    guide: Guide
    polling: Polling
    recording: Recording
    replay: ReplayControls
    systems: Systems

    @classmethod
    def of(
        cls,
        app: GuardedApp,
        opened: Sequence[OpenSystem],
        open_replay: Callable[[str], Link] | None,
        show_soon: Callable[[], None],
        in_view: Callable[[], str | None],
        *,
        guided: bool,
        contexts: Contexts,
    ) -> Parts:
        """Return the parts of an app on engines that have started."""
        announcements = Announcements(app)
        engines = Engines(app, opened, open_replay, show_soon, announcements, in_view)
        polling = Polling(app, engines, opened[0].started.interval_s, show_soon)
        return cls(
            engines,
            announcements,
            Exporter(app, engines),
            Guide(app, lambda: engines.state, show_soon, is_on=guided),
            polling,
            Recording(app, engines),
            ReplayControls(app, engines),
            Systems(app, engines, contexts, polling),
        )

    def newest(self) -> StateChanged:
        """Return what the screen in view should show now, the guide's next step as well."""
        self.guide.look()
        marked_a, shown = self.replay.marked_a, self.engines.shown
        a_at_us = shown_at_us(marked_a) if marked_a and self.engines.replaying else None
        paused = not self.polling.on and not self.engines.replaying
        # Nothing is late that nobody asks for.
        late_us = 0 if paused else shown.late_us
        newest = StateChanged(shown.state, late_us, a_at_us, paused, self.guide.text())
        several = self.engines.several()
        newest.systems = [replace(one, late_us=0) for one in several] if paused else several
        newest.acting = self.engines.acting.name
        newest.covers_another = shown is not self.engines.home
        return newest

    def act(self, part: str, action: str, *arguments: object) -> None:
        """Do what a key of a part says."""
        getattr(self._with_keys(part), f"action_{action}")(*arguments)

    def may(self, part: str, action: str, *, typing: bool) -> bool:
        """Return whether an action of a part is offered."""
        return self._with_keys(part).may(action, typing=typing)

    def _with_keys(self, name: str) -> Part:
        part = getattr(self, name)
        assert isinstance(part, Part)
        return part
