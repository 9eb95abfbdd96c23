"""Whatever writes a file is tried with everything in the way of it: see `tests/write_cases.py`."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

import click
from click.testing import CliRunner

from natstui.cli.root import root
from tests.architecture.source import PACKAGE, modules
from tests.hostile_commands import commands
from tests.write_cases import WRITINGS

WRITERS: dict[str, tuple[str, ...] | str] = {
    "analysis/folders.py": ("analyze --out",),
    "analysis/job.py": ("analyze --scratch",),
    "analysis/result_cache.py": ("analyze --html", "analyze --out"),
    "analysis/progress.py": ("analyze --log",),
    "bench/worker.py": "a lock in the state folder",
    "bench/result/library.py": "the library of runs; complete, by files.py",
    "cli/bench/run.py": ("bench --csv",),
    "cli/core/sub.py": "/dev/null",
    "cli/demo.py": ("demo --store",),
    "cli/manage/consumer.py": "/dev/null",
    "cli/manage/stream.py": "/dev/null",
    "cli/root.py": "/dev/null",
    "cli/sessions/analyze.py": ("analyze --html", "analyze --html --force", "analyze --notebook"),
    "cli/sessions/record.py": ("record --log-file",),
    "cli/stores/kv.py": "/dev/null",
    "cli/watch/command.py": "/dev/null",
    "config/contexts.py": ("context add", "context edit", "context select"),
    "config/template_files.py": "templates of the user; complete, by files.py",
    "defects.py": "a new file in the folder of logs, exclusively",
    "files.py": tuple(WRITINGS),
    "jetstream/connection/journal.py": "the journal in the state folder",
    "jetstream/managing/backup.py": ("backup", "stream backup"),
    "jetstream/managing/backup_folder.py": ("backup", "stream backup"),
    "jetstream/messages/copying/account.py": "the state of a copy in the state folder",
    "jetstream/messages/copying/message_file.py": ("messages copy",),
    "jetstream/messages/objects.py": ("object get", "object get --force"),
    "jetstream/testbed/broker.py": "a temporary folder of its own",
    "jetstream/testbed/shop/process.py": "the lock of the store of a demo",
    "output.py": "/dev/null",
    "paths.py": tuple(WRITINGS),
    "session/files/folder.py": ("record",),
    "session/files/index.py": ("record",),
    "session/files/info.py": ("record", "sessions unpack"),
    "session/share/export_tables.py": ("export",),
    "session/share/pack.py": ("sessions pack", "sessions unpack"),
    "session/write/recording_folder.py": ("record",),
    "session/write/seal.py": ("record",),
    "tui/frame/stored_settings.py": "what a screen remembers, in the state folder",
    "tui/app/terminal_driver.py": "/dev/null",
    "tui/app/app.py": ("screenshot",),
    "tui/messages/message.py": "a payload saved on the screen; complete, by files.py",
    "tui/stores/put.py": "a temporary folder of its own",
}
"""Module → the cases that try it, or why there is none."""

ONLY_READ = frozenset((
    "--config", "--settings", "--file", "--from-file", "--payload", "--jars", "--resume-recording",
    "restore DIR", "stream restore DIR", "object put [FILE]", "sessions unpack FILE",
    "health --sessions", "alert --sessions", "replay --sessions", "replay-engine --sessions",
    "sessions ls --sessions", "sessions show --sessions", "sessions verify --sessions",
    "sessions pack --sessions", "export --sessions",
))  # fmt: skip
"""Files and folders that commands read, of every command or of one."""
CHANGED_INSIDE = frozenset((
    "sessions note --sessions", "sessions rename --sessions", "sessions rm --sessions",
    "object link [STORE/]FILE",
))  # fmt: skip
"""A session is changed in its own folder; a link is made on the server."""
REFUSED = frozenset(
    f"{kind} {verb} --output" for kind in ("stream", "consumer") for verb in ("add", "copy")
)
"""Flags of the NATS CLI that are answered with the form of here."""

_CALLS = frozenset((
    "open_atomic_file", "write_atomic_file", "create_atomic_folder", "partial_folder",
    "publish_file", "open_log", "open_lock", "write_text", "write_bytes", "mkdir", "mkdtemp",
    "TemporaryDirectory", "touch", "symlink_to",
))  # fmt: skip


def writes(call: ast.Call) -> bool:
    """Tell whether a call makes or changes a file."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
    if name != "open":
        return name in _CALLS
    text = ast.unparse(call)
    if text.startswith("os.open"):
        return any(flag in text for flag in ("O_WRONLY", "O_RDWR", "O_CREAT"))
    modes = [node.value for node in ast.walk(call) if isinstance(node, ast.Constant)]
    return any(str(mode) in ("w", "a", "x", "wb", "ab", "xb", "r+b", "w+b") for mode in modes)


def test_every_module_that_writes_is_tried_or_says_why_not() -> None:
    found = {
        str(module.path.relative_to(PACKAGE))
        for module in modules()
        if any(isinstance(node, ast.Call) and writes(node) for node in module.nodes())
    }
    assert found == set(WRITERS)
    named = {name for cases in WRITERS.values() if not isinstance(cases, str) for name in cases}
    assert named == set(WRITINGS)


def files_named() -> Iterator[tuple[str, str]]:
    """Yield each option and argument of a command that names a file or a folder."""
    for name in commands():
        command: click.Command = root
        for word in name.split():
            assert isinstance(command, click.Group)
            found = command.get_command(click.Context(command), word)
            assert found is not None
            command = found
        for option in command.params:
            metavar = option.metavar or ""
            if isinstance(option.type, click.Path) or "FILE" in metavar or "DIR" in metavar:
                is_option = isinstance(option, click.Option)
                yield name, option.opts[-1] if is_option else metavar or "FILE"


NOT_STDOUT = {
    "object get": "has - for stdout",
    "screenshot": "is no command",
    "context": "names no path",
    "--sessions": "is a folder that is read as well",
}
"""Cases, or their last option, where - is no mistake."""


def test_what_is_written_is_never_named_as_stdout_is() -> None:
    for name, case in WRITINGS.items():
        words = case.words.split()
        before = words[words.index("{target}") - 1] if "{target}" in words else words[0]
        if before in NOT_STDOUT or any(name.startswith(start) for start in NOT_STDOUT):
            continue
        places = defaultdict(lambda: "x", target="-")
        given = [word.format_map(places) for word in words]
        refused = CliRunner().invoke(root, given)
        assert refused.exit_code == 2 and "- is not stdout here" in refused.output, name


def test_every_file_that_a_command_can_be_given_is_written_in_a_case_or_only_read() -> None:
    written = set[str]()
    for case in WRITINGS.values():
        words = case.words.split()
        if "{target}" in words:
            before = words[words.index("{target}") - 1]
            written.add(f"{words[0]} {before}" if before.startswith("-") else words[0])
    unknown = [
        f"{name} {option}"
        for name, option in files_named()
        if not {option, f"{name} {option}"} & (ONLY_READ | CHANGED_INSIDE | REFUSED)
        and f"{name.split()[0]} {option}" not in written
        and not (not option.startswith("-") and name.split()[0] in written)
    ]
    assert unknown == []
