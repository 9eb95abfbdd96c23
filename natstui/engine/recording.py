"""The engine's recorder: keeps the current state, so that a recording can begin at any moment."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from natstui.errors import Refused
from natstui.model.records.findings import FindingsSoFar
from natstui.model.records.record import Record
from natstui.model.records.recording import RecordingChanged
from natstui.session.files.folder import check_name
from natstui.session.files.keyframe import KeyframeMaker
from natstui.session.library import seal_left_open
from natstui.session.write.recorder import Recorder
from natstui.session.write.settings import RecorderSettings


class EngineRecorder:
    """A sink, the first of the feed; passes records to the recorder while a recording runs."""

    def __init__(
        self,
        sessions: Path,
        settings: Callable[[str], RecorderSettings],
        on_change: Callable[[RecordingChanged], None],
    ) -> None:
        """Create without a recording; `settings` returns the recorder settings for a session name.

        `sessions` is the folder of all recordings. `on_change` is called in the recorder's thread.
        """
        self.sessions = sessions
        self._settings = settings
        self._on_change = on_change
        self._keyframes = KeyframeMaker()
        self._recorder: Recorder | None = None

    def add(self, record: Record) -> None:
        """Add a record to the state and the recording; returns at once."""
        self._keyframes.add(record)
        if self._recorder is not None:
            self._recorder.add(record)

    def known(self) -> list[Record]:
        """Return the current state as records: configurations, and the newest values of
        every row.
        """
        return self._keyframes.keyframe(time.time_ns() // 1000).records()

    def prepare(self) -> None:
        """Seal the segments that killed recorders left open; may take long."""
        seal_left_open(self.sessions)

    def start(self, name: str, findings: FindingsSoFar | None = None) -> Recorder:
        """Start a recording; raises Refused while one runs, UsageError or SessionError.

        `findings` are the findings that are open already.
        """
        if self._recorder is not None:
            raise Refused(f"already recording into {self._recorder.folder}")
        check_name(name)
        first = self._keyframes.keyframe(time.time_ns() // 1000)
        first = replace(first, findings=findings)
        self._recorder = Recorder(self._settings(name), first, self._on_change)
        return self._recorder

    def resume(self, folder: Path) -> Recorder:
        """Continue a recording that a killed engine left; raises SessionError when it cannot."""
        first = self._keyframes.keyframe(time.time_ns() // 1000)
        self._recorder = Recorder(self._settings(""), first, self._on_change, unfinished=folder)
        return self._recorder

    async def stop(self) -> Recorder:
        """Seal the recording and end it; raises Refused when there is none."""
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            raise Refused("nothing is being recorded")
        # In a thread: polls go on while it seals.
        await asyncio.to_thread(recorder.stop)
        return recorder

    async def close(self) -> None:
        """End a recording that runs."""
        if self._recorder is not None:
            await self.stop()
