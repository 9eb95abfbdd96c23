"""Processes and folders that natstui makes: every place is known, and none is open to others."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.architecture.source import Module, modules
from tests.cli.test_current_folder import CHILDREN

HOME = "natstui.children"
STARTS = {
    "Popen", "run", "call", "check_call", "check_output", "getoutput", "create_subprocess_exec",
    "create_subprocess_shell", "system", "popen", "fork", "forkpty", "posix_spawn",
    "ProcessPoolExecutor", "Process",
}  # fmt: skip
HOLDERS = {"subprocess", "asyncio", "os", "pty", "multiprocessing", "futures"}
OTHER_PROGRAMS = {
    "natstui.jetstream.testbed.broker": "nats-server, found on the PATH or in its package",
}
READ = {
    "natstui.config.references": "op and nsc, found on the PATH",
    "natstui.analysis.spark.java": "java, of JAVA_HOME, of the PATH or of its package",
}
"""Programs whose output is read, which is bounded where they are started."""
HANDED_ON = {
    "natstui.cli.core.reply": "the user's --command, without a shell",
    "natstui.cli.alerts.sending": "the user's command of [alerts.NAME], without a shell",
    "natstui.tui.stores.put": "the user's editor, without a shell",
    "natstui.tui.app.engine_process": "our engine, or the user's --engine",
}


def called(node: ast.AST) -> tuple[str, str] | None:
    """Return holder and name of a call such as `subprocess.run(…)`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        holder = node.func.value
        name = holder.id if isinstance(holder, ast.Name) else getattr(holder, "attr", "")
        return name, node.func.attr
    return None


def starts(module: Module) -> bool:
    """Tell whether a module starts a process."""
    calls = filter(None, map(called, module.nodes()))
    return any(
        holder in HOLDERS and (name in STARTS or name.startswith(("exec", "spawn")))
        for holder, name in calls
        if (holder, name) != ("asyncio", "run")
    )


def own_programs(module: Module) -> Iterator[str]:
    """Yield the modules that a module starts through the one home of such starts."""
    for node in module.nodes():
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "module_command":
            words = [word.value for word in node.args[:2] if isinstance(word, ast.Constant)]
            yield " ".join(words)


def test_only_one_place_knows_how_python_is_started() -> None:
    knowing = {m.name for m in modules() if "sys.executable" in m.text}
    # Spark starts its own Python; the environment says which one.
    assert knowing <= {HOME, "natstui.analysis.spark.session"}


def test_every_start_of_a_process_is_known() -> None:
    found = {m.name for m in modules() if starts(m) or "start_process_session(" in m.text}
    own = {m.name for m in modules() if list(own_programs(m))}
    assert found - own == {HOME, *OTHER_PROGRAMS, *HANDED_ON}


def test_what_other_programs_print_is_read_in_one_place() -> None:
    assert {m.name for m in modules() if re.search(r"\brun_program\(", m.text)} == {HOME, *READ}
    unbounded = ("capture_output", "check_output", "getoutput")
    assert [m.name for m in modules() if any(word in m.text for word in unbounded)] == []


def test_every_program_of_ours_is_run_among_hostile_files() -> None:
    assert {word for m in modules() for word in own_programs(m)} == set(CHILDREN)


def test_no_import_hides_a_start() -> None:
    hidden = [
        (module.name, node.module)
        for module in modules()
        for node in module.nodes()
        if isinstance(node, ast.ImportFrom)
        and node.module in ("subprocess", "os", "multiprocessing", "asyncio.subprocess")
        and {alias.name for alias in node.names} & STARTS
    ]
    assert hidden == []


def test_every_folder_is_made_for_its_owner_alone() -> None:
    open_to_others = [
        (module.name, node.lineno)
        for module in modules()
        for node in module.nodes()
        if (found := called(node))
        and found[1] in ("mkdir", "makedirs")
        and isinstance(node, ast.Call)
        and not is_private(node)
    ]
    assert open_to_others == []


def is_private(call: ast.Call) -> bool:
    """Tell whether a call of mkdir gives the mode 0700, and makes no folders above."""
    words = {word.arg: getattr(word.value, "value", None) for word in call.keywords}
    return words.get("mode") == 0o700 and "parents" not in words
