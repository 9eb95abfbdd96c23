"""The replay process: sends the records of a recording to the viewer, as an engine would."""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from natstui.config.settings import Viewer
from natstui.defects import report_defects
from natstui.engine.analyzing import AnalysisRunner
from natstui.engine.pipes import MAX_WAITING_LINES, read_lines
from natstui.errors import ActionRefusal, NatstuiError, SessionError
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
from natstui.session.library import execute_change, summaries_json
from natstui.session.read.player import Player
from natstui.session.read.recording import Recording
from natstui.session.share.export_tables import execute_export

_STDIN, _STDOUT = 0, 1
_TURN_INTERVAL_S = 0.1
_REFRESH_INTERVAL_S = 1.0
_BATCH_BYTES = 256 * 1024


def _make_engine_started(recording: Recording, viewer_settings: Viewer) -> EngineStarted:
    """Return the first record of a replay: read-only, with the user's settings of the screens."""
    recording_info = recording.info
    return EngineStarted(
        at_us=recording.start_us,
        natstui_version=recording_info.natstui_version,
        schema_version=recording_info.schema_version,
        target=f"{recording_info.target or recording_info.name} (recorded)",
        read_only=True,
        production=False,
        interval_s=recording_info.interval_s or 1.0,
        theme=viewer_settings.theme,
        ascii_only=viewer_settings.ascii,
        mouse=viewer_settings.mouse,
        keys=viewer_settings.keys,
    )


class ReplayProcess:
    """Executes the commands of a replay, and sends records as the replay time passes.

    After each command it sends the `ReplayPosition`, and before that an `Answered`, the reply, if
    there is something to report. An Outcome would appear among the events of the recording.
    """

    def __init__(
        self, recording: Recording, viewer_settings: Viewer, sessions_folder: Path
    ) -> None:
        """Create at the start of a recording; `sessions_folder` is the folder of all recordings.

        `viewer_settings` are the user's settings of the screens: theme, mouse, keys.
        """
        self._sessions_folder = sessions_folder
        self._first_record = _make_engine_started(recording, viewer_settings)
        self._recording = recording
        self._player = Player(recording)
        self._commands: queue.Queue[Command | None] = queue.Queue(MAX_WAITING_LINES)
        self._waiting_commands: list[Command | None] = []
        self._queued_records: queue.SimpleQueue[Record] = queue.SimpleQueue()
        self._analysis_runner = AnalysisRunner(
            sessions_folder, self, default_session_folder=recording.folder
        )
        self._advanced_at_s = 0.0
        self._refreshed_at_s = 0.0
        self._may_grow = recording.is_recording
        """Whether there may be records that are not read: also after the recording has ended,
        until the next refresh."""

    def run(self, *, playing: bool, at_us: int | None = None) -> None:
        """Send the state at `at_us`, then execute commands until a pipe to the viewer ends.

        Without `at_us` the state is that at the start of the recording. With `playing` the replay
        time passes from the beginning, without it after the command `Play`.
        """
        threading.Thread(target=self._read_commands, name="stdin", daemon=True).start()
        self._player.playing = playing
        try:
            self._send(iter([encode_record(self._first_record)]))
            self._send(self._player.marks())
            self._send(self._player.seek(self._player.at_us if at_us is None else at_us))
            self._send(self._player.new_damage_marks())
            self._send(iter([self._player.position()]))
            self._recording.cache_events()
            self._advanced_at_s = self._refreshed_at_s = time.monotonic()
            while True:
                self._run_turn()
        except BrokenPipeError:
            # The viewer has ended, or has closed our stdin.
            return

    def add(self, record: Record) -> None:
        """Queue a record from another thread; it is sent with the next turn."""
        self._queued_records.put(record)

    def _read_commands(self) -> None:
        """Read commands from stdin into the queue until it ends; runs in a thread of its own."""
        for line in read_lines(_STDIN):
            try:
                self._commands.put(decode_command(line))
            except BadLine as error:
                sys.stderr.write(f"natstui replay: {error}\n")
        self._commands.put(None)

    def _run_turn(self) -> None:
        """Execute the next command, if any, send queued records, and advance the replay.

        Raises SessionError for a complete recording that cannot be read. A running recording may
        delete an old segment before it is read: the next refresh finds the remaining segments.
        """
        command = self._next_command(_TURN_INTERVAL_S)
        try:
            if command is not None:
                self._execute(command)
                # While a command is executed nothing is played.
                self._advanced_at_s = time.monotonic()
            while not self._queued_records.empty():
                self._send(iter([encode_record(self._queued_records.get())]))
            now_s = time.monotonic()
            elapsed_s, self._advanced_at_s = now_s - self._advanced_at_s, now_s
            if now_s - self._refreshed_at_s > _REFRESH_INTERVAL_S:
                self._refresh_recording(now_s)
            if self._player.playing:
                self._advance(elapsed_s)
        except SessionError:
            if not self._may_grow:
                raise

    def _next_command(self, timeout_s: float) -> Command | None:
        """Return the next command, or None if none comes in time; raises BrokenPipeError at the
        end of stdin.
        """
        if not self._waiting_commands:
            try:
                self._waiting_commands.append(self._commands.get(timeout=timeout_s))
            except queue.Empty:
                return None
        command = self._waiting_commands.pop(0)
        if command is None:
            raise BrokenPipeError
        return command

    def _advance(self, elapsed_s: float) -> None:
        player = self._player
        until_us = player.at_us + round(elapsed_s * 1e6 * player.speed_ratio)
        self._send(player.play_until(until_us))
        self._send(player.new_damage_marks())
        if player.is_at_end() and not self._may_grow:
            player.playing = False
        self._send(iter([player.position()]))

    def _refresh_recording(self, now_s: float) -> None:
        self._refreshed_at_s = now_s
        # Read before the refresh: the recorder writes its last records before it ends.
        is_recording = self._recording.is_recording
        if not self._may_grow and not is_recording:
            return
        self._may_grow = is_recording
        if self._player.refresh() or not self._may_grow:
            self._send(self._player.marks())
            self._send(iter([self._player.position()]))

    def _execute(self, command: Command) -> None:
        if isinstance(command, AnalysisCommand):
            self._analysis_runner.execute(command)
            return
        try:
            with report_defects(
                "the command", lambda text: self._reply_failure(command, "failed", text)
            ):
                self._send(self._result_lines(command))
        except NatstuiError as error:
            status = "refused" if isinstance(error, ActionRefusal) else "failed"
            self._reply_failure(command, status, str(error))
        self._send(self._player.new_damage_marks())
        # A seek that was interrupted leaves half a state; the newer one reports the position.
        if not self._waiting_commands:
            self._send(iter([self._player.position()]))

    def _reply_failure(self, command: Command, status: str, text: str) -> None:
        at_us = time.time_ns() // 1000
        reply = Answered(at_us, command.command_id, status, text)  # type: ignore[arg-type]
        self._send(iter([encode_record(reply)]))

    def _result_lines(self, command: Command) -> Iterator[bytes]:
        player = self._player
        match command:
            case Play() | PauseReplay():
                player.playing = isinstance(command, Play)
                starts_again = player.playing and player.is_at_end() and not self._may_grow
                return player.seek(0) if starts_again else iter(())
            case ChangeSpeed():
                player.change_speed(command.speeds_count)
                return iter(())
            case Step():
                return player.step(command.polls_count)
            case SeekTo():
                return self._until_newer_seek(player.seek(command.at_us))
            case SeekMark():
                return player.seek_mark(forward=command.forward)
            case ListSessions():
                return _reply_lines(command, "listed", summaries_json(self._sessions_folder))
            case ExportSelection():
                return _reply_lines(command, execute_export(command, self._recording.records))
            case ChangeSession():
                return _reply_lines(command, self._change_session(command))
            case _:
                raise ActionRefusal("this is a recording: there is no server behind it")

    def _change_session(self, command: ChangeSession) -> str:
        is_current = Path(command.folder).resolve() == self._recording.folder.resolve()
        if is_current and command.action in ("rename", "delete"):
            raise ActionRefusal(
                f"{self._recording.folder.name} is shown now: leave its replay first"
            )
        return execute_change(command)

    def _until_newer_seek(self, lines: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the lines of a seek until a newer seek, or the end of stdin, is queued."""
        for line in lines:
            yield line
            while not self._commands.empty():
                self._waiting_commands.append(self._commands.get())
            if any(
                queued_command is None or isinstance(queued_command, SeekTo)
                for queued_command in self._waiting_commands
            ):
                return

    def _send(self, lines: Iterator[bytes]) -> None:
        """Write lines to stdout; a slow reader slows down the replay, and no line is dropped."""
        batch: list[bytes] = []
        size_bytes = 0
        for line in lines:
            batch.append(line)
            size_bytes += len(line)
            if size_bytes > _BATCH_BYTES:
                write_all(_STDOUT, b"".join(batch))
                batch, size_bytes = [], 0
        write_all(_STDOUT, b"".join(batch))


def _reply_lines(command: Command, text: str, body_json: str | None = None) -> Iterator[bytes]:
    at_us = time.time_ns() // 1000
    return iter([encode_record(Answered(at_us, command.command_id, "done", text, body_json))])
