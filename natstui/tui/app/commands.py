"""The `:` command line: commands, their help, and their errors."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Literal

from msgspec import Struct
from textual.app import App

from natstui.errors import UsageError
from natstui.model.assets.buckets import KV, OBJECTS
from natstui.model.assets.subjects import is_valid_subject
from natstui.model.bench.payload_text import PAYLOAD_HELP
from natstui.model.live.state import State
from natstui.model.records.analysis import StartAnalysis
from natstui.model.records.benchmark import ChangePayload
from natstui.model.records.record import WriteNote
from natstui.tui.app.parts import AppParts
from natstui.tui.app.screens import open_mode
from natstui.tui.frame.action_keys import Target
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.messages import Manage, Open, RunScenario
from natstui.tui.frame.requests import SystemEngine, run_task
from natstui.units import parse_duration_ns

CommandFunction = Callable[[App[int], AppParts, list[str]], None]
"""Executes a command with its arguments; raises UsageError."""


class ViewerCommand(Struct, frozen=True):
    """A command of the `:` line: its names, arguments and help."""

    names: tuple[str, ...]
    usage: str
    help: str
    run: CommandFunction
    required_mode: Literal["server", "replay", None] = None
    """Whether the command needs a live server, or a replay."""


def _open_mode(app: App[int], parts: AppParts, mode: str) -> None:
    parts.systems.make_viewed_system_current()
    app.call_later(open_mode, app, mode)


def _create_open_mode_command(name: str) -> CommandFunction:
    def run(app: App[int], parts: AppParts, _arguments: list[str]) -> None:
        _open_mode(app, parts, name)

    return run


def _open_consumers(app: App[int], parts: AppParts, arguments: list[str]) -> None:
    if not arguments:
        _open_mode(app, parts, "consumers")
        return
    app.post_message(Open("consumers", _check_stream(parts.engines.state, arguments[0])))


def _open_stream(app: App[int], parts: AppParts, arguments: list[str]) -> None:
    if len(arguments) != 1:
        raise UsageError("write :stream STREAM")
    app.post_message(Open("stream", _check_stream(parts.engines.state, arguments[0])))


def _open_consumer(app: App[int], parts: AppParts, arguments: list[str]) -> None:
    if len(arguments) != 2:
        raise UsageError("write :consumer STREAM CONSUMER")
    stream, name = _check_stream(parts.engines.state, arguments[0]), arguments[1]
    consumer_names = {(key[0], key[1]) for key in parts.engines.state.consumers.roster.keys}
    if (stream, name) not in consumer_names:
        raise UsageError(f"stream {stream} has no consumer {name}")
    app.post_message(Open("consumer", stream, name))


def _open_buckets(app: App[int], parts: AppParts, arguments: list[str]) -> None:
    if not arguments:
        _open_mode(app, parts, "buckets")
        return
    streams = parts.engines.state.streams.roster.rows_of_stream
    bucket_streams = [
        prefix + arguments[0] for prefix in (KV, OBJECTS, "") if prefix + arguments[0] in streams
    ]
    if not bucket_streams:
        raise UsageError(f"there is no bucket {arguments[0]}")
    app.post_message(Open("bucket", bucket_streams[0]))


def _open_benchmark(app: App[int], parts: AppParts, arguments: list[str]) -> None:
    if arguments:
        app.post_message(RunScenario(arguments[0]))
    else:
        _open_mode(app, parts, "benchmark")


def _change_payload(app: App[int], _parts: AppParts, arguments: list[str]) -> None:
    if not arguments:
        raise UsageError(f"write :payload and {PAYLOAD_HELP}")
    SystemEngine(app, None).start(ChangePayload(0, " ".join(arguments)), "payload")


def _open_runs(app: App[int], parts: AppParts, _arguments: list[str]) -> None:
    app.post_message(Open("runs", ""))


def _check_stream(state: State, name: str) -> str:
    streams = state.streams.roster.rows_of_stream
    if name in streams:
        return name
    nearest_streams = difflib.get_close_matches(name, list(streams)[:10_000], 1)
    hint = f"; did you mean {nearest_streams[0]}?" if nearest_streams else ""
    raise UsageError(f"there is no stream {name}{hint}")


def _open_subscription(app: App[int], parts: AppParts, arguments: list[str]) -> None:
    for subject in arguments:
        if not is_valid_subject(subject):
            raise UsageError(
                f"{subject!r} is not a subject: write :sub [SUBJECT], as :sub orders.>"
            )
    app.post_message(Manage(" ".join(("sub", *(arguments or [">"])))))


def _open_backup(app: App[int], parts: AppParts, arguments: list[str]) -> None:
    screen = app.screen
    target = screen.asset() if isinstance(screen, LiveScreen) else None
    if arguments and arguments[0] != "*":
        target = Target(_check_stream(parts.engines.state, arguments[0]))
    elif arguments:
        target = None
    folder = " ".join(arguments[1:])
    app.post_message(Manage(f"backup {folder}", (Target(target.stream),) if target else ()))


def _open_restore(app: App[int], parts: AppParts, arguments: list[str]) -> None:
    app.post_message(Manage(f"restore {' '.join(arguments)}"))


def _set_interval(app: App[int], parts: AppParts, arguments: list[str]) -> None:
    try:
        seconds = parse_duration_ns(arguments[0] if arguments else "") / 1e9
    except ValueError as error:
        raise UsageError(f"write :interval 2s ({error})") from error
    if not 0.2 <= seconds <= 3600:
        raise UsageError("the interval must be between 200ms and 1h")
    parts.polling.poll_every(seconds)


def _set_theme(app: App[int], parts: AppParts, arguments: list[str]) -> None:
    if len(arguments) != 1 or arguments[0] not in app.available_themes:
        raise UsageError(f"write :theme THEME, one of {', '.join(sorted(app.available_themes))}")
    app.theme = arguments[0]


def _write_note(app: App[int], parts: AppParts, arguments: list[str]) -> None:
    if not arguments:
        raise UsageError("write :note TEXT")
    parts.engines.send(WriteNote(0, " ".join(arguments)))


def _toggle_recording(app: App[int], parts: AppParts, arguments: list[str]) -> None:
    parts.recording.start_or_stop(" ".join(arguments))


def _open_sessions(app: App[int], parts: AppParts, _arguments: list[str]) -> None:
    from natstui.tui.sessions.screen import SessionsScreen

    app.push_screen(SessionsScreen())


def _start_export(app: App[int], parts: AppParts, _arguments: list[str]) -> None:
    parts.exporter.action_export()


def _leave_replay(app: App[int], parts: AppParts, _arguments: list[str]) -> None:
    parts.replay.close_opened_replay()


def _seek_replay(app: App[int], parts: AppParts, arguments: list[str]) -> None:
    parts.replay.seek(" ".join(arguments))


def _open_analysis(app: App[int], parts: AppParts, arguments: list[str]) -> None:
    # Imported at its first use: few viewers ever analyse.
    from natstui.tui.analysis.run import AnalysisRun
    from natstui.tui.analysis.screen import AnalysisScreen

    # People name recordings with spaces.
    session = " ".join(arguments) or None
    follower = parts.engines.acting_follower
    run = follower.analysis
    if run is None or not run.is_unread(session):
        request = parts.engines.request(StartAnalysis(0, session))
        run = follower.analysis = AnalysisRun(app, request, session, follower.end_reason)
    elif session not in (None, run.session, run.session_name):
        app.notify("an analysis runs already: this is it", markup=False)
    app.push_screen(AnalysisScreen(run))


def _toggle_guide(_app: App[int], parts: AppParts, _arguments: list[str]) -> None:
    parts.guide.start_or_end()


def _change_systems(app: App[int], parts: AppParts, arguments: list[str]) -> None:
    if len(arguments) > 1:
        raise UsageError("write :ctx NAME to watch a system, or :ctx -NAME to stop watching")
    if not arguments:
        parts.systems.show_systems()
    elif arguments[0].startswith("-"):
        parts.systems.remove(arguments[0][1:])
    else:
        run_task(app, parts.systems.switch_to, arguments[0])


def _watch_account(app: App[int], parts: AppParts, arguments: list[str]) -> None:
    if len(arguments) != 1:
        raise UsageError("write :account NAME; the servers screen (4) lists accounts")
    run_task(app, parts.systems.switch_to_account, arguments[0])


def _create_manage_command(action: str) -> CommandFunction:
    def run(app: App[int], parts: AppParts, _arguments: list[str]) -> None:
        app.post_message(Manage(action))

    return run


def _create_action_command(name: str) -> CommandFunction:
    def run(app: App[int], parts: AppParts, _arguments: list[str]) -> None:
        app.call_later(app.run_action, name)

    return run


def _create_part_action_command(part: str, action: str) -> CommandFunction:
    return _create_action_command(f"part({part!r}, {action!r})")


COMMANDS: tuple[ViewerCommand, ...] = (
    ViewerCommand(
        ("overview", "ov"),
        "",
        "what is wrong, what moves, who leads",
        _create_open_mode_command("overview"),
    ),
    ViewerCommand(("streams", "str"), "", "every stream", _create_open_mode_command("streams")),
    ViewerCommand(
        ("consumers", "con"), "[STREAM]", "consumers of all streams, or of one", _open_consumers
    ),
    ViewerCommand(
        ("events", "ev"),
        "",
        "advisories, changes and notes as they happen",
        _create_open_mode_command("events"),
    ),
    ViewerCommand(
        ("servers", "server", "srv"),
        "",
        "servers and leaders; this account, permissions, cost of watching",
        _create_open_mode_command("server"),
    ),
    ViewerCommand(
        ("findings", "fi"),
        "",
        "what is wrong now, worst first",
        _create_open_mode_command("findings"),
    ),
    ViewerCommand(
        ("connections", "conn"),
        "",
        "who is connected, on every server",
        _create_open_mode_command("connections"),
    ),
    ViewerCommand(
        ("buckets", "kv"), "[BUCKET]", "key-value buckets and object stores", _open_buckets
    ),
    ViewerCommand(("bench", "be"), "[SCENARIO]", "benchmarks: run one, watch it", _open_benchmark),
    ViewerCommand(
        ("payload",),
        "SIZE",
        f"set what the senders of the running benchmark send from now on: {PAYLOAD_HELP}",
        _change_payload,
        "server",
    ),
    ViewerCommand(("runs",), "", "saved benchmark runs, compared", _open_runs),
    ViewerCommand(("stream",), "STREAM", "describe one stream", _open_stream),
    ViewerCommand(("consumer",), "STREAM CONSUMER", "describe one consumer", _open_consumer),
    ViewerCommand(
        ("journal", "jo"),
        "",
        "changes made from this machine, with undo",
        _create_manage_command("journal"),
        "server",
    ),
    ViewerCommand(("undo",), "", "undo the last change", _create_manage_command("undo"), "server"),
    ViewerCommand(("add",), "", "make a stream", _create_manage_command("add-stream"), "server"),
    ViewerCommand(
        ("subscribe", "sub"),
        "[SUBJECT]",
        "published messages, counted by subject, and the newest ones; > means all",
        _open_subscription,
        "server",
    ),
    ViewerCommand(
        ("backup",),
        "[STREAM] [FOLDER]",
        "back up the stream in view or NAME into a folder; * or none: every stream",
        _open_backup,
        "server",
    ),
    ViewerCommand(
        ("restore",),
        "[FOLDER]",
        "create streams from a backup; never replaces an existing one",
        _open_restore,
        "server",
    ),
    ViewerCommand(("interval",), "2s", "poll at this interval", _set_interval, "server"),
    ViewerCommand(
        ("pause",),
        "",
        "stop or resume polling",
        _create_part_action_command("polling", "pause"),
        "server",
    ),
    ViewerCommand(
        ("refresh",), "", "poll at once", _create_part_action_command("polling", "now"), "server"
    ),
    ViewerCommand(("note",), "TEXT", "add a note at this moment", _write_note, "server"),
    ViewerCommand(
        ("record", "rec"), "[NAME]", "start recording, or stop it", _toggle_recording, "server"
    ),
    ViewerCommand(
        ("sessions", "ses"), "", "recordings: replay, rename, note, pack, delete", _open_sessions
    ),
    ViewerCommand(
        ("export",), "", "write the streams or consumers in view to files", _start_export
    ),
    ViewerCommand(
        ("live",), "", "leave a replay and return to the server", _leave_replay, "replay"
    ),
    ViewerCommand(
        ("compare",),
        "",
        "what changed since the moment marked as A",
        _create_part_action_command("replay", "compare"),
        "replay",
    ),
    ViewerCommand(
        ("seek",), "TIME", "go to 14:30:05, +30s, -5m, 2026-11-20T14:30", _seek_replay, "replay"
    ),
    ViewerCommand(
        ("contexts", "ctx"),
        "[NAME]",
        "watched systems: show them; NAME adds one, -NAME removes one",
        _change_systems,
        "server",
    ),
    ViewerCommand(
        ("account", "acc"),
        "NAME",
        "watch another account of this system too, through the system account",
        _watch_account,
        "server",
    ),
    ViewerCommand(("theme",), "THEME", "choose another theme", _set_theme),
    ViewerCommand(
        ("analyze",), "[SESSION]", "analyse a recording: NAME, or the newest", _open_analysis
    ),
    ViewerCommand(
        ("guide",), "", "fourteen steps through natstui; a second :guide ends them", _toggle_guide
    ),
    ViewerCommand(
        ("help",), "", "keys and columns of this screen", _create_action_command("help")
    ),
    ViewerCommand(("quit", "q"), "", "leave", _create_action_command("quit")),
)
COMMAND_NAMES = [name for command in COMMANDS for name in command.names if len(name) > 3]


_REFUSAL_BY_REQUIRED_MODE = {
    "server": ":{word} needs a live server, but this is a recording",
    "replay": ":{word} needs a recording, but this is a live server: :sessions lists recordings",
}


def execute_line(app: App[int], parts: AppParts, line: str) -> None:
    """Execute a command line; raises UsageError if there is no such command, or it needs a live
    server or replay that is not shown.
    """
    command_name, *arguments = line.split() or [""]
    if not command_name:
        return
    for command in COMMANDS:
        if command_name in command.names:
            if command.required_mode == ("server" if parts.engines.is_replaying else "replay"):
                raise UsageError(
                    _REFUSAL_BY_REQUIRED_MODE[command.required_mode].format(word=command_name)
                )
            command.run(app, parts, arguments)
            return
    nearest_names = difflib.get_close_matches(
        command_name, [name for command in COMMANDS for name in command.names], 1
    )
    hint = f"; did you mean :{nearest_names[0]}?" if nearest_names else ""
    raise UsageError(f"there is no command :{command_name}{hint}")
