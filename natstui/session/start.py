"""Beginning a recording: first finish what a killed recorder left, then make the folder."""

from __future__ import annotations

from collections.abc import Callable

from natstui.model.recording import RecordingChanged
from natstui.session.clock import wall_us
from natstui.session.disk import RecorderSettings
from natstui.session.keyframe import Memory
from natstui.session.library import seal_left_open
from natstui.session.recorder import Recorder


def start_recording(
    settings: RecorderSettings, memory: Memory, on_change: Callable[[RecordingChanged], None]
) -> Recorder:
    """Record from now on, beginning with what is known.

    `on_change` is called in the recorder's thread. Raises SessionError when it cannot begin.
    """
    seal_left_open(settings.sessions)
    return Recorder(settings, memory.keyframe(wall_us()), on_change)
