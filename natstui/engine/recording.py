"""The engine's recorder: keeps the current state, so that a recording can begin at any time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from natstui.errors import ActionRefusal
from natstui.model.records.findings import FindingsSoFar
from natstui.model.records.record import Record
from natstui.model.records.recording import RecordingChanged
from natstui.session.files.folder import check_recording_name
from natstui.session.files.keyframe import KeyframeBuilder
from natstui.session.library import seal_unfinished_sessions
from natstui.session.write.recorder import Recorder
from natstui.session.write.settings import RecorderSettings
from natstui.values import replace


class EngineRecorder:
    """A sink, the first of the feed, that passes records to a recorder while a recording runs."""

    def __init__(
        self,
        sessions_folder: Path,
        make_settings: Callable[[str], RecorderSettings],
        on_change: Callable[[RecordingChanged], None],
    ) -> None:
        """Create without a recording; `sessions_folder` is the folder of all recordings.

        `make_settings` returns the recorder settings for the name of a session. `on_change` is
        called in the recorder's thread.
        """
        self.sessions_folder = sessions_folder
        self._make_settings = make_settings
        self._on_change = on_change
        self._keyframes = KeyframeBuilder()
        self._recorder: Recorder | None = None

    def add(self, record: Record) -> None:
        """Add a record to the state, and to the running recording, if any; returns at once."""
        self._keyframes.add(record)
        if self._recorder is not None:
            self._recorder.add(record)

    def current_records(self) -> list[Record]:
        """Return the current state as records: configurations and the newest values."""
        return self._keyframes.keyframe(time.time_ns() // 1000).records()

    def seal_unfinished_sessions(self) -> None:
        """Complete the recordings that killed recorders left open; may take long."""
        seal_unfinished_sessions(self.sessions_folder)

    def start(self, name: str, findings: FindingsSoFar | None = None) -> Recorder:
        """Start a recording, and return its recorder; `findings` are the open findings.

        Raises ActionRefusal while one runs, UsageError for an invalid name, and SessionError if
        the folder cannot be created.
        """
        if self._recorder is not None:
            raise ActionRefusal(f"already recording into {self._recorder.folder}")
        check_recording_name(name)
        keyframe = self._keyframes.keyframe(time.time_ns() // 1000)
        keyframe = replace(keyframe, findings=findings)
        self._recorder = Recorder(self._make_settings(name), keyframe, self._on_change)
        return self._recorder

    def resume(self, folder: Path) -> Recorder:
        """Continue a recording that a killed engine left open, and return its recorder.

        Raises SessionError if that is not possible.
        """
        keyframe = self._keyframes.keyframe(time.time_ns() // 1000)
        self._recorder = Recorder(
            self._make_settings(""), keyframe, self._on_change, continued_folder=folder
        )
        return self._recorder

    async def stop(self) -> str:
        """Complete the recording, and return a sentence with its size and folder.

        Raises ActionRefusal if none runs, and SessionError if the recording is not complete.
        """
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            raise ActionRefusal("nothing is being recorded")
        # In a thread, so that polls continue meanwhile.
        return await asyncio.to_thread(recorder.stop)

    async def close(self) -> None:
        """Complete the running recording, if any."""
        if self._recorder is not None:
            await self.stop()
