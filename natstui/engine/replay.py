"""The replay process: a recording takes the server's place; the same pipe, the same lines."""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from natstui.config.settings import Viewer
from natstui.defects import contained
from natstui.engine.analyzing import Analyzing
from natstui.engine.pipes import MOST_WAITING_LINES, lines_of
from natstui.errors import NatstuiError, Refused
from natstui.lines import BadLine, decode_command, encode_record
from natstui.model.records.analysis import AnalysisCommand
from natstui.model.records.messages import Answered
from natstui.model.records.record import Command, EngineStarted, Record
from natstui.model.records.recording import (
    ChangeSession,
    ChangeSpeed,
    ExportSelection,
    ListSessions,
    PauseReplay,
    Play,
    SeekMark,
    SeekTo,
    Step,
)
from natstui.output import write_all
from natstui.session.library import execute_change, listed_json
from natstui.session.read.player import Player
from natstui.session.read.recording import Recording
from natstui.session.share.export import execute_export

_STDIN, _STDOUT = 0, 1
_TICK_S = 0.1
_REFRESH_S = 1.0
_BATCH_BYTES = 256 * 1024


def _started(recording: Recording, viewer: Viewer) -> EngineStarted:
    """Return the first record: the recorded engine, read-only, with the user's screen settings."""
    info = recording.info
    return EngineStarted(
        at_us=recording.start_us,
        natstui_version=info.natstui_version,
        schema_version=info.schema_version,
        target=f"{info.target or info.name} (recorded)",
        read_only=True,
        production=False,
        interval_s=info.interval_s or 1.0,
        theme=viewer.theme,
        ascii_only=viewer.ascii,
        mouse=viewer.mouse,
        keys=viewer.keys,
    )


class ReplayProcess:
    """Executes the commands of a replay, and sends records as the replay time passes.

    The reply to a command is the `ReplayPosition` it leads to; an `Answered` precedes it only when
    there is something to report. An Outcome would appear among the events of the recording.
    """

    def __init__(self, recording: Recording, viewer: Viewer, sessions: Path) -> None:
        """Create at the start of a recording; `viewer` are the user's settings, which replace
        recorded ones.

        `sessions` is the folder of all recordings.
        """
        self._sessions = sessions
        self._first = _started(recording, viewer)
        self._recording = recording
        self._player = Player(recording)
        self._commands: queue.Queue[Command | None] = queue.Queue(MOST_WAITING_LINES)
        self._waiting: list[Command] = []
        self._from_threads: queue.SimpleQueue[Record] = queue.SimpleQueue()
        self._analyzing = Analyzing(sessions, self, newest=recording.folder)
        self._shown_at_s = 0.0
        self._refreshed_at_s = 0.0

    def run(self, *, playing: bool, at_us: int | None = None) -> None:
        """Send the first moment, then execute commands until stdin ends or stdout has no
        reader.
        """
        threading.Thread(target=self._read, name="stdin", daemon=True).start()
        self._player.playing = playing
        try:
            self._send(iter([encode_record(self._first)]))
            self._send(self._player.marks())
            self._send(self._player.seek(self._player.at_us if at_us is None else at_us))
            self._send(self._player.new_damage())
            self._send(iter([self._player.position()]))
            self._recording.warm_up()
            self._shown_at_s = self._refreshed_at_s = time.monotonic()
            while True:
                self._turn()
        except BrokenPipeError:
            # The viewer is gone, or has ended our stdin.
            return

    def add(self, record: Record) -> None:
        """Queue a record from another thread; it is sent with the next turn."""
        self._from_threads.put(record)

    def _read(self) -> None:
        """Queue the commands on stdin, in a thread of its own."""
        for line in lines_of(_STDIN):
            try:
                self._commands.put(decode_command(line))
            except BadLine as error:
                sys.stderr.write(f"natstui replay: {error}\n")
        self._commands.put(None)

    def _turn(self) -> None:
        """Execute one command, or advance the replay by a step."""
        command = self._next_command(_TICK_S)
        if command is not None:
            self._execute(command)
        while not self._from_threads.empty():
            self._send(iter([encode_record(self._from_threads.get())]))
        now_s = time.monotonic()
        passed_s, self._shown_at_s = now_s - self._shown_at_s, now_s
        if now_s - self._refreshed_at_s > _REFRESH_S:
            self._refresh(now_s)
        if self._player.playing:
            self._play(passed_s)

    def _next_command(self, timeout_s: float) -> Command | None:
        if self._waiting:
            return self._waiting.pop(0)
        try:
            return self._taken(timeout_s)
        except queue.Empty:
            return None

    def _taken(self, timeout_s: float | None = None) -> Command:
        command = self._commands.get(timeout=timeout_s)
        if command is None:
            raise BrokenPipeError
        return command

    def _play(self, passed_s: float) -> None:
        player = self._player
        until_us = player.at_us + round(passed_s * 1e6 * player.speed_ratio)
        self._send(player.forward(until_us))
        self._send(player.new_damage())
        if player.at_end() and not self._recording.is_recording:
            player.playing = False
        self._send(iter([player.position()]))

    def _refresh(self, now_s: float) -> None:
        self._refreshed_at_s = now_s
        if self._recording.is_recording and self._player.refresh():
            self._send(self._player.marks())
            self._send(iter([self._player.position()]))

    def _execute(self, command: Command) -> None:
        if isinstance(command, AnalysisCommand):
            self._analyzing.execute(command)
            return
        try:
            with contained("the command", lambda text: self._fail(command, "failed", text)):
                self._send(self._lines(command))
        except NatstuiError as error:
            status = "refused" if isinstance(error, Refused) else "failed"
            self._fail(command, status, str(error))
        self._send(self._player.new_damage())
        # A seek that was interrupted leaves half a state; the newer one reports the position.
        if not self._waiting:
            self._send(iter([self._player.position()]))

    def _fail(self, command: Command, status: str, text: str) -> None:
        at_us = time.time_ns() // 1000
        reply = Answered(at_us, command.command_id, status, text)  # type: ignore[arg-type]
        self._send(iter([encode_record(reply)]))

    def _lines(self, command: Command) -> Iterator[bytes]:
        player = self._player
        match command:
            case Play() | PauseReplay():
                player.playing = isinstance(command, Play)
                self._shown_at_s = time.monotonic()
                return player.seek(0) if player.playing and player.at_end() else iter(())
            case ChangeSpeed():
                player.change_speed(command.speeds_count)
                return iter(())
            case Step():
                return player.step(command.polls_count)
            case SeekTo():
                return self._until_newer_seek(player.seek(command.at_us))
            case SeekMark():
                return player.to_mark(forward=command.forward)
            case ListSessions():
                return _answered(command, "listed", listed_json(self._sessions))
            case ExportSelection():
                return _answered(command, execute_export(command, self._recording.records))
            case ChangeSession():
                return _answered(command, self._changed(command))
            case _:
                raise Refused("this is a recording: there is no server behind it")

    def _changed(self, command: ChangeSession) -> str:
        is_current = Path(command.folder).resolve() == self._recording.folder.resolve()
        if is_current and command.action in ("rename", "delete"):
            raise Refused(f"{self._recording.folder.name} is shown now: leave its replay first")
        return execute_change(command)

    def _until_newer_seek(self, lines: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the lines of a seek, and stop when a newer seek waits, as while the timeline is
        dragged.
        """
        for line in lines:
            yield line
            while not self._commands.empty():
                self._waiting.append(self._taken())
            if any(isinstance(newer, SeekTo) for newer in self._waiting):
                return

    def _send(self, lines: Iterator[bytes]) -> None:
        """Write lines to stdout; a slow reader slows down the replay and loses nothing."""
        batch: list[bytes] = []
        size_bytes = 0
        for line in lines:
            batch.append(line)
            size_bytes += len(line)
            if size_bytes > _BATCH_BYTES:
                write_all(_STDOUT, b"".join(batch))
                batch, size_bytes = [], 0
        write_all(_STDOUT, b"".join(batch))


def _answered(command: Command, text: str, body_json: str | None = None) -> Iterator[bytes]:
    at_us = time.time_ns() // 1000
    return iter([encode_record(Answered(at_us, command.command_id, "done", text, body_json))])
