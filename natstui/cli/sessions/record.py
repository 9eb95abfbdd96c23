"""`natstui record`: record without a viewer, in a terminal or as a service."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import click

from natstui.clean import clean_line
from natstui.cli.options import ConnectionFlags, OutputPath, several_accounts_flags
from natstui.cli.sections import command
from natstui.cli.sessions.options import print_recording_summary
from natstui.config.contexts import parse_context_name
from natstui.engine.record_server import ConnectionLog, record_server
from natstui.engine.stopping import make_timed_stop_event
from natstui.errors import NatstuiError, UsageError
from natstui.files import open_log, translate_write_errors
from natstui.paths import expand_user_path
from natstui.session.library import sessions_folder
from natstui.session.write.settings import RecorderSettings


@dataclass
class _SystemRecording:
    """The recording of one system: its folder once it has begun, and the error that ended it, if
    any.
    """

    folder: Path | None = None
    failure: NatstuiError | None = None


class SystemRecordings:
    """The recordings of several systems; a failed one does not stop the others.

    A failure is logged when it happens, and printed at the end.
    """

    def __init__(
        self,
        systems: Mapping[str, ConnectionFlags],
        log_sentence: Callable[[str], None],
        sessions: str | None,
        recorder_options: Mapping[str, Any],
        *,
        as_json: bool,
    ) -> None:
        """Create the recordings; `log_sentence` logs a sentence, `recorder_options` are settings
        of the recorder by name.
        """
        self._systems, self._log, self._sessions = systems, log_sentence, sessions
        self._recorder_options, self._as_json = recorder_options, as_json
        self._recordings = {name: _SystemRecording() for name in systems}

    def record(self, duration_s: float | None) -> int:
        """Record until a signal, or for `duration_s`; return the exit code of the first failure,
        or 0.

        Prints a summary of each recording with --json.
        """
        try:
            asyncio.run(self._record_systems(duration_s))
        finally:
            # A failed recording is printed, too: its folder exists.
            for name, recording in self._recordings.items():
                if self._as_json and recording.folder is not None:
                    print_recording_summary(recording.folder, system=name)
        failures = [
            (name, recording.failure)
            for name, recording in self._recordings.items()
            if recording.failure is not None
        ]
        for name, error in failures:
            click.echo(f"natstui: {clean_line(name)}: {clean_line(str(error))}", err=True)
        return next((error.exit_code for _, error in failures), 0)

    async def _record_systems(self, duration_s: float | None) -> None:
        stop_event = make_timed_stop_event(duration_s)
        async with asyncio.TaskGroup() as group:
            for name in self._systems:
                group.create_task(self._record_system(name, stop_event))

    async def _record_system(self, name: str, stop_event: asyncio.Event) -> None:
        settings, connection = self._systems[name].resolve()
        folder = (
            expand_user_path(self._sessions)
            if self._sessions
            else sessions_folder(settings.session)
        )
        # So that people can tell them apart in the library.
        system_options = {
            **self._recorder_options,
            "name": f"{self._recorder_options['name']} {parse_context_name(name)}".strip(),
        }
        log = ConnectionLog(partial(self._log_sentence, name))
        recording = RecorderSettings(folder, **system_options)
        on_begin = partial(self._on_recording_begin, name, log)
        try:
            await record_server(settings, connection, recording, stop_event, log, on_begin)
        except NatstuiError as error:
            self._recordings[name].failure = error
            log.log(str(error))

    def _on_recording_begin(self, name: str, log: ConnectionLog, folder: str) -> None:
        self._recordings[name].folder = Path(folder)
        if self._as_json:
            log.log(f"recording into {folder}")
            return
        try:
            click.echo(f"{clean_line(name)}: {folder}")
        except OSError as error:
            # The other systems are being recorded.
            reason = error.strerror or error
            log.log(f"recording into {folder}, which cannot be printed: {reason}")

    def _log_sentence(self, name: str, text: str) -> None:
        self._log(f"{name}: {text}")


def _parse_duration_s(
    ctx: click.Context, _parameter: click.Parameter, text: str | None
) -> float | None:
    from natstui.units import parse_duration_ns

    if text is None:
        return None
    try:
        return parse_duration_ns(text) / 1e9
    except ValueError as error:
        raise click.BadParameter(str(error), ctx) from error


def _parse_bytes(ctx: click.Context, _parameter: click.Parameter, text: str | None) -> int | None:
    from natstui.units import parse_bytes

    if text is None:
        return None
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx) from error


@command()
@several_accounts_flags
@click.option("--name", default="", help="A readable name for the recording.")
@click.option(
    "--duration",
    "duration_s",
    callback=_parse_duration_s,
    metavar="TIME",
    help="Stop after, as 2h30m.",
)
@click.option(
    "--retain",
    "retain_s",
    callback=_parse_duration_s,
    metavar="TIME",
    help="Delete records older than this, as 48h.",
)
@click.option(
    "--max-bytes",
    "max_bytes",
    callback=_parse_bytes,
    metavar="SIZE",
    help="Delete the oldest records above this size, as 2GB.",
)
@click.option("--payloads", is_flag=True, help="Also record the messages in replies to requests.")
@click.option("--sessions", metavar="DIR", help="Folder of the recordings.")
@click.option(
    "--log-file",
    metavar="FILE",
    type=OutputPath(Path),
    help="Write the log to this file, not to stderr.",
)
@click.option(
    "--metrics",
    metavar="HOST:PORT",
    help="Also serve metrics at this address, as `natstui metrics`.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
def record(
    flags: ConnectionFlags,
    duration_s: float | None,
    sessions: str | None,
    log_file: Path | None,
    metrics: str | None,
    as_json: bool,
    **recorder_options: Any,
) -> None:
    """Record everything that can be watched.

    Runs until Ctrl-C, SIGTERM or the end of --duration. Prints the folder of the recording on
    stdout at the start; with --json a summary at the end. Problems with the server or the disk do
    not end the recording; they are logged to stderr or --log-file. --context A,B,C records several
    systems (or --profile A,B,C), and --account A,B,C other accounts of one system, each into a
    recording of its own; every line names its system.
    """
    if metrics is not None and flags.names_several_systems:
        raise UsageError("--metrics serves one system: leave it out to record several")
    with _open_log(log_file) as log:
        log_sentence = _create_logger(log)
        if flags.names_several_systems:
            recordings = SystemRecordings(
                flags.flags_by_system(), log_sentence, sessions, recorder_options, as_json=as_json
            )
            sys.exit(recordings.record(duration_s))
        _record_single_system(
            flags, duration_s, sessions, recorder_options, metrics, log_sentence, as_json
        )


def _record_single_system(
    flags: ConnectionFlags,
    duration_s: float | None,
    sessions: str | None,
    recorder_options: dict[str, Any],
    metrics: str | None,
    log_sentence: Callable[[str], None],
    as_json: bool,
) -> None:
    import asyncio

    from natstui.cli.metrics.exposition import LatestState
    from natstui.cli.metrics.serving import serve_metrics
    from natstui.engine.record_server import ConnectionLog, record_server
    from natstui.engine.stopping import make_timed_stop_event
    from natstui.session.library import sessions_folder
    from natstui.session.write.settings import RecorderSettings

    settings, connection = flags.resolve()
    folder = expand_user_path(sessions) if sessions else sessions_folder(settings.session)
    recording = RecorderSettings(folder, **recorder_options)
    log = ConnectionLog(log_sentence)
    on_begin = _FolderPrinter(log.log if as_json else None)
    latest_state = LatestState()
    extra_sinks = [latest_state] if metrics is not None else []

    async def work() -> None:
        stop_event = make_timed_stop_event(duration_s)
        await record_server(
            settings, connection, recording, stop_event, log, on_begin, extra_sinks
        )

    try:
        with serve_metrics(metrics, "--metrics", lambda: latest_state.state):
            asyncio.run(work())
    finally:
        # A failed recording is printed, too: its folder exists.
        if as_json and on_begin.folder is not None:
            print_recording_summary(on_begin.folder)


class _FolderPrinter:
    """A callback that prints or logs the folder of a recording when it begins."""

    def __init__(self, log_sentence: Callable[[str], None] | None) -> None:
        """Create the callback; if `log_sentence` is None, it prints the folder to stdout."""
        self.folder: Path | None = None
        self._log = log_sentence

    def __call__(self, folder: str) -> None:
        self.folder = Path(folder)
        if self._log is None:
            click.echo(folder)
        else:
            self._log(f"recording into {folder}")


@contextmanager
def _open_log(path: Path | None) -> Iterator[IO[str]]:
    """Yield the log file, which is written line by line and closed at the end; stderr if `path` is
    None.
    """
    if path is None:
        yield sys.stderr
        return
    with translate_write_errors(path):
        log_descriptor = open_log(path)
    file = open(log_descriptor, "a", encoding="utf-8", buffering=1)  # noqa: SIM115 - closed below
    try:
        yield file
    finally:
        # A line that could not be written is in its buffer, and closing it fails as well.
        with suppress(OSError):
            file.close()


def _create_logger(log: IO[str]) -> Callable[[str], None]:
    def log_sentence(text: str) -> None:
        time_text = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        log.write(f"{time_text} {clean_line(text)}\n")
        log.flush()

    return log_sentence
