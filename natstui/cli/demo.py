"""`natstui demo`: starts a cluster with a busy shop, and the viewer on it."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import click
from msgspec import Struct

from natstui.children import module_command
from natstui.cli.options import OutputPath
from natstui.cli.sections import command
from natstui.cli.terminal_line import TerminalLine
from natstui.engine.stopping import ending_signals
from natstui.errors import EmbeddedServerError, UsageError
from natstui.files import create_write_error
from natstui.jetstream.testbed.broker import server_binary
from natstui.paths import create_private_folder

_STOP_TIMEOUT_S = 10.0
_END_CHECK_INTERVAL_S = 0.05


class DemoShop(Struct, frozen=True):
    """The address of a running demo shop, and the settings of its system account."""

    url: str
    """Address of one server, which sends clients the addresses of the others."""
    system_environment: Mapping[str, str]
    """Environment variables with the settings of its system account."""
    context_file: Path
    """Context with the address: user and TLS of the settings file are not used with a context."""


@contextmanager
def run_shop(store: Path | None) -> Iterator[DemoShop]:
    """Run cluster and traffic in a child process until the block ends; yields the running shop.

    `store` is the folder of its streams; None: a temporary folder, deleted at the end. The child
    ends when its stdin is closed, so also when this process is killed. Raises MissingExtra without
    nats-server, UsageError if `store` cannot be written, EmbeddedServerError if the shop does not
    start.
    """
    server_binary()
    store_arguments = [] if store is None else [str(_writable_folder(store))]
    scratch_folder = tempfile.mkdtemp(prefix="natstui-demo-")
    arguments = module_command(
        "natstui.jetstream.testbed.shop.process", scratch_folder, *store_arguments
    )
    try:
        with Path(scratch_folder, "demo.log").open("wb") as log:
            process = subprocess.Popen(
                arguments,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                # Everything temporary then lies in one folder, which both processes can remove.
                env={**os.environ, "TMPDIR": scratch_folder},
                # Ctrl-C is for the viewer; the child ends with its stdin.
                start_new_session=True,
            )
        try:
            yield _wait_until_ready(process, Path(scratch_folder))
        finally:
            _stop_process(process)
    finally:
        shutil.rmtree(scratch_folder, ignore_errors=True)


def _writable_folder(store: Path) -> Path:
    """Return the folder of the store, created if missing; raises UsageError if it is not
    writable.
    """
    try:
        create_private_folder(store)
        with tempfile.TemporaryFile(dir=store):
            return store.resolve()
    except OSError as error:
        raise create_write_error(store, error) from error


def _wait_until_ready(process: subprocess.Popen[bytes], scratch_folder: Path) -> DemoShop:
    """Wait until the shop is ready and return it; raises EmbeddedServerError with the reason."""
    assert process.stdout is not None
    _wait_for_output(process.stdout)
    line = process.stdout.readline()
    if not line:
        log = scratch_folder / "demo.log"
        log_lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        raise EmbeddedServerError(
            f"the demo did not start: {log_lines[-1] if log_lines else 'no reason'}"
        )
    ready_message = json.loads(line)
    if "error" in ready_message:
        raise EmbeddedServerError(ready_message["error"])
    user, password = ready_message["system_user"], ready_message["system_password"]
    system_variables = {"NATSTUI_SYSTEM_USER": user, "NATSTUI_SYSTEM_PASSWORD": password}
    url = ready_message["url"]
    return DemoShop(url, system_variables, write_context(scratch_folder, url))


def write_context(folder: Path, url: str) -> Path:
    """Write a NATS CLI context with an address into a folder, and return its file."""
    context_file = folder / "natstui-demo.json"
    context_file.write_text(json.dumps({"url": url}))
    return context_file


def _wait_for_output(stdout: IO[bytes]) -> None:
    """Wait until the demo writes to `stdout`; a terminal shows the seconds so far."""
    waited_s = 0
    with TerminalLine() as line:
        while not select.select([stdout], [], [], 1.0)[0]:
            waited_s += 1
            waiting_text = f"waiting for the servers to elect their leaders: {waited_s} s"
            line.show(f"{waiting_text} (Ctrl-C stops)")


def _stop_process(process: subprocess.Popen[bytes]) -> None:
    """Stop the process by closing its stdin; kill it after 10 s."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    try:
        process.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()
    _end_servers(process.pid)


def _end_servers(process_group_id: int) -> None:
    """End the servers of a killed shop, which would write into its folder again; kill them after
    10 s.
    """
    kill_at_mono_s = time.monotonic() + _STOP_TIMEOUT_S
    with suppress(ProcessLookupError):
        os.killpg(process_group_id, signal.SIGTERM)
        while time.monotonic() < kill_at_mono_s:
            time.sleep(_END_CHECK_INTERVAL_S)
            os.killpg(process_group_id, 0)
        os.killpg(process_group_id, signal.SIGKILL)


@command()
@click.option(
    "--store",
    type=OutputPath(Path, file_okay=False),
    help="Keep streams and messages in this folder, one subfolder per server (default: a "
    "temporary one).",
)
@click.option(
    "--headless", is_flag=True, help="Start without a screen: print one URL, run until Ctrl-C."
)
@click.option("--json", "-j", "as_json", is_flag=True, help="With --headless: print JSON.")
def demo(store: Path | None, headless: bool, as_json: bool) -> None:
    """Start a real cluster with a busy shop.

    Starts three nats-servers on free ports of this machine and opens the screen on them. Needs no
    settings and no network. A server that is killed starts again after 20 seconds. Leaving the
    screen stops everything that the demo started.

    With a folder of --store that was used before, the start takes about ten seconds longer: its
    servers elect their leaders again.
    """
    if as_json and not headless:
        raise UsageError("--json belongs to --headless: a screen prints nothing")
    with run_shop(store) as shop:
        if headless:
            click.echo(json.dumps({"url": shop.url}) if as_json else shop.url)
            _wait_for_stop()
            return
        from natstui.cli.open_viewer import ENGINE_COMMAND, open_viewer

        _remove_server_variables()
        # With the system account, every screen has content.
        os.environ.update(shop.system_environment)
        open_viewer((*ENGINE_COMMAND, "--context", str(shop.context_file)), is_guided=True)


def _remove_server_variables() -> None:
    """Remove the environment variables that name a server or user other than the demo's."""
    for name in list(os.environ):
        if name.startswith(("NATS_", "NATSTUI_CONNECTION", "NATSTUI_SYSTEM")):
            del os.environ[name]


def _wait_for_stop() -> None:
    """Sleep until Ctrl-C, SIGTERM or SIGHUP; raises EmbeddedServerError when the shop ends by
    itself.
    """
    signals = {*ending_signals(), signal.SIGCHLD}
    # Blocked only now: the child must not inherit blocked signals.
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    if signal.sigwait(signals) == signal.SIGCHLD:
        raise EmbeddedServerError("the servers or the traffic of the demo ended unexpectedly")
