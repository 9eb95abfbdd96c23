"""What lies in the way of a command that writes a file, and what the command makes of it.

Run as a process without the rights of root: `python -m tests.write_cases URL FOLDER [CASE ...]`
prints a line of JSON for each case with what went wrong. A CASE is a command, as `backup`, or one
situation of it, as `backup::a FIFO`.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import resource
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import click
from click.testing import CliRunner
from msgspec import Struct

from natstui.cli.root import root
from natstui.errors import NatstuiError
from natstui.session.share.pack import pack
from tests.session.making import made
from tests.session.scenario import Scenario
from tests.tui.viewer import fed

LIMIT_BYTES = 4
"""How large a file may become on the full disk."""
WRITE_FAILED = 6
"""What a command ends with on the full disk."""
NOBODY = 65534


class Writing(Struct, frozen=True):
    """A command that writes `{target}`."""

    words: str
    is_folder: bool = False
    is_library: bool = False
    """Whether it adds a folder of its own to `{target}`, which may have others in it."""
    appends: bool = False
    """Whether it adds lines to `{target}`, which may have others in it."""
    replaces: bool = False
    """Whether a plain file in the way is replaced."""
    has_target: bool = False
    """Whether `{target}` is a folder that must be there before."""
    goes_on: bool = False
    """Whether a killed one leaves a private folder to continue from."""
    suffix: str = ""
    """Of the name of `{target}`."""
    kill_within_s: float = 0.15


WRITINGS = {
    "stream backup": Writing("stream backup S {target}", is_folder=True, goes_on=True),
    "backup": Writing("backup {target}", is_folder=True, goes_on=True),
    "object get": Writing("object get F f -O {target}"),
    "object get --force": Writing("object get F f -O {target} --force", replaces=True),
    "messages copy": Writing("messages copy S --to-file {target}", goes_on=True),
    "sessions pack": Writing("sessions pack {recording} {target}"),
    "sessions unpack": Writing("sessions unpack {pack} --sessions {target}", is_library=True),
    "export": Writing("export {recording} --to {target}", is_folder=True, goes_on=True),
    "context add": Writing("context add target --server nats://127.0.0.1:4222", suffix=".json"),
    "context edit": Writing(
        "context edit target --description new", replaces=True, suffix=".json"
    ),
    "context select": Writing("context select other", replaces=True, suffix=".txt"),
    "record": Writing(
        "record --duration 300ms --sessions {target}", is_library=True, kill_within_s=1.0
    ),
    "record --log-file": Writing(
        "record --duration 300ms --sessions {elsewhere} --log-file {target}",
        appends=True,
        kill_within_s=1.0,
    ),
    "bench --csv": Writing("bench pub x --msgs 10 --no-save --csv {target}", kill_within_s=3.0),
    "analyze --html": Writing("analyze {recording} --out {tables} --html {target}"),
    "analyze --html --force": Writing(
        "analyze {recording} --out {tables} --html {target} --force", replaces=True
    ),
    "analyze --notebook": Writing("analyze {recording} --out {tables} --notebook {target}"),
    "analyze --log": Writing("analyze {recording} --out {tables} --log {target}", appends=True),
    "analyze --scratch": Writing(
        "analyze {recording} --out {tables} --scratch {target}", is_library=True, has_target=True
    ),
    "analyze --out": Writing(
        "analyze {recording} --out {target}", is_library=True, kill_within_s=30.0
    ),
    "demo --store": Writing(
        "demo --headless --store {target}", is_library=True, kill_within_s=3.0
    ),
    "screenshot": Writing("screenshot {target}", kill_within_s=2.0),
}
NO_SPARK = (
    "a link to a file", "a link to nothing", "a link to itself", "a link to a device",
    "a hard link", "a FIFO", "a socket", "a plain file", "a read-only file", "a read-only folder",
    "a file for a parent", "a full disk",
)  # fmt: skip
"""What `analyze --out` refuses before Spark starts: seconds, where Spark takes half a minute."""
NO_SPARK_S = 20.0


@click.command()
@click.argument("target", type=click.Path(path_type=Path))
def screenshot(target: Path) -> None:
    """Save a picture of the screen, as the palette does."""
    sentence = asyncio.run(_save_screenshot(target))
    click.echo(sentence, err=True)
    sys.exit(0 if sentence.startswith("saved as") else 6)


async def _save_screenshot(target: Path) -> str:
    async with fed(*Scenario(streams=1, consumers=1).beginning()) as viewer:
        viewer.app.deliver_screenshot(target.name, str(target.parent))
        told = viewer.toasts
        await viewer.until(lambda: any(str(target) in toast for toast in told), "it is said")
        (sentence,) = (toast for toast in told if str(target) in toast)
        return sentence


@click.command()
@click.option("--store", required=True)
@click.option("--headless", is_flag=True)
def demo(store: str, headless: bool) -> None:
    """Run a demo until it says where it is."""
    words = [sys.executable, "-m", "natstui", "demo", "--store", store, *["--headless"] * headless]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        is_open = process.stdout.readline().startswith("nats://")
        process.terminate()
        _, said = process.communicate(timeout=60)
    click.echo(said, err=True)
    sys.exit(0 if is_open else process.returncode)


OTHERS = {"screenshot": screenshot, "demo": demo}
"""What is no command that ends by itself."""


@dataclass
class Site:
    """A folder with a target in it, and what must not change."""

    folder: Path
    target: Path
    precious: Path


def link_to_file(site: Site) -> None:
    site.target.symlink_to(site.precious)


def link_to_folder(site: Site) -> None:
    site.target.symlink_to(site.precious.parent)


def link_to_nothing(site: Site) -> None:
    site.target.symlink_to(site.precious.with_name("absent"))


def link_to_itself(site: Site) -> None:
    site.target.symlink_to(site.target)


def link_to_device(site: Site) -> None:
    site.target.symlink_to(os.devnull)


def fifo(site: Site) -> None:
    os.mkfifo(site.target)


def socket_file(site: Site) -> None:
    here = os.open(".", os.O_RDONLY)
    os.chdir(site.target.parent)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(site.target.name)
    os.chdir(here)
    os.close(here)


def plain_file(site: Site) -> None:
    site.target.write_text('{"url": "nats://127.0.0.1:4222", "description": "before"}')


def read_only_file(site: Site) -> None:
    plain_file(site)
    site.target.chmod(0o400)


def filled_folder(site: Site) -> None:
    site.target.mkdir()
    (site.target / "kept").write_text("kept")


def empty_folder(site: Site) -> None:
    site.target.mkdir()


def read_only_folder(site: Site) -> None:
    site.target.parent.chmod(0o555)


def missing_parent(site: Site) -> None:
    shutil.rmtree(site.target.parent)


def file_for_parent(site: Site) -> None:
    shutil.rmtree(site.target.parent)
    site.target.parent.write_text("kept")


def links_at_temporary_names(site: Site) -> None:
    name = site.target.name
    for other in (f".{name}.part", f".{name}.tmp", f"{name}.part", f"{name}.tmp", f"{name}~"):
        site.target.with_name(other).symlink_to(site.precious)


def hard_link(site: Site) -> None:
    os.link(site.precious, site.target)


def nothing(_site: Site) -> None:
    pass


IN_THE_WAY: dict[str, Callable[[Site], None]] = {
    "nothing": nothing,
    "a link to a file": link_to_file,
    "a link to a folder": link_to_folder,
    "a link to nothing": link_to_nothing,
    "a link to itself": link_to_itself,
    "a link to a device": link_to_device,
    "a hard link": hard_link,
    "a FIFO": fifo,
    "a socket": socket_file,
    "a plain file": plain_file,
    "a read-only file": read_only_file,
    "a folder with files": filled_folder,
    "an empty folder": empty_folder,
    "a read-only folder": read_only_folder,
    "no parent": missing_parent,
    "a file for a parent": file_for_parent,
    "links at temporary names": links_at_temporary_names,
}
COMPLETE = {
    "analyze --html": b"</html>", "analyze --html --force": b"</html>",
    "analyze --notebook": b"nbformat", "analyze --log": b"",
    "bench --csv": b"publish", "context select": b"other", "record --log-file": b"\n",
    "screenshot": b"</svg>",
}  # fmt: skip
"""What a complete file holds."""
FOREIGN = "a file of another owner"
"""In a folder of theirs, where everybody may write but replace only their own."""
EVENTS = ("a full disk", "two writers", "kill -9")
"""What happens while nothing is in the way."""


def site_in(folder: Path, name: str) -> Site:
    """Make a folder for a case of a command."""
    is_context = name.startswith("context")
    parent = folder / "parent" / "nats" / "context" if is_context else folder / "parent"
    parent.mkdir(parents=True)
    if name == "context select":
        (parent / "other.json").write_text('{"url": "nats://127.0.0.1:4222"}')
        parent = parent.parent
    others = folder / "others"
    others.mkdir()
    (others / "precious").write_text("precious")
    target = "context" if name == "context select" else "target"
    return Site(folder, parent / f"{target}{WRITINGS[name].suffix}", others / "precious")


def make_foreign(folder: Path) -> None:
    """Make the targets of another owner, which needs the rights of root."""
    for name in WRITINGS:
        site = site_in(folder / name, name)
        plain_file(site)
        site.target.chmod(0o644)
        os.chown(site.target, NOBODY, NOBODY)
        site.target.parent.chmod(0o1777)
        os.chown(site.target.parent, NOBODY, NOBODY)


def tree(folder: Path) -> dict[str, tuple[object, ...]]:
    """Return every path below a folder with what it is, whose it is and what it holds."""
    found = dict[str, tuple[object, ...]]()
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content: object = None
        if stat.S_ISREG(status.st_mode):
            content = path.read_bytes()
        elif stat.S_ISLNK(status.st_mode):
            content = os.readlink(path)
        mtime_ns = None if stat.S_ISDIR(status.st_mode) else status.st_mtime_ns
        found[str(path)] = (
            stat.S_IFMT(status.st_mode), stat.S_IMODE(status.st_mode), status.st_uid, content,
            mtime_ns,
        )  # fmt: skip
    return found


def last_tree(folder: Path) -> dict[str, tuple[object, ...]]:
    """Return the tree once nothing is removed any more: servers of a killed demo end by
    themselves.
    """
    give_up_s = time.monotonic() + 60
    while True:
        try:
            return tree(folder)
        except FileNotFoundError:
            if time.monotonic() > give_up_s:
                raise
            time.sleep(0.05)


class Cases:
    """The cases of one process."""

    def __init__(self, url: str, folder: Path) -> None:
        self._folder, self._foreign = folder / "cases", folder / "foreign"
        self._folder.mkdir()
        scenario = Scenario()
        self._recording = made(folder / "sessions", scenario.records(0, 30))
        self._places = {
            "recording": self._recording, "pack": folder / "pack.tar",
            "elsewhere": folder / "elsewhere", "tables": folder / "tables",
        }  # fmt: skip
        pack(self._recording, self._places["pack"], redact=False, progress=lambda *_: None)
        self._environment = {
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_DATA_HOME": str(folder / "data"),
            "NATSTUI_CONNECTION_SERVER": url,
            "NATSTUI_CONNECTION_REQUEST_TIMEOUT_S": "5",
        }

    def run(self, name: str, way: str) -> list[str]:
        """Return what went wrong in one case."""
        site = self._site(name, way)
        IN_THE_WAY.get(way, nothing)(site)
        if name == "context edit" and way in ("nothing", *EVENTS):
            plain_file(site)
        if WRITINGS[name].has_target and way in ("nothing", *EVENTS):
            empty_folder(site)
        before = tree(site.folder)
        if way == "kill -9":
            return self._killed(name, site, before)
        if way == "two writers":
            return self._two(name, site, before)
        if way == "a full disk":
            resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT_BYTES, resource.RLIM_INFINITY))
        try:
            code, said = self._write(name, site)
        finally:
            _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        problems = self._told(code, said)
        problems += [f"failed: {said}"] if code and way == "nothing" else []
        # The server of a demo says by itself what it cannot store.
        if way == "a full disk" and code and not name.startswith("demo"):
            problems += [f"ended with {code}: {said}"] if code != WRITE_FAILED else []
        problems += self._changed(name, site, before, code)
        if way == "a read-only folder":
            site.target.parent.chmod(0o755)
        return problems

    def _site(self, name: str, way: str) -> Site:
        if way != FOREIGN:
            return site_in(Path(tempfile.mkdtemp(dir=self._folder)), name)
        folder = self._foreign / name
        (target,) = (path for path in folder.rglob("*") if path.stem in ("target", "context")
                     and path.is_file())  # fmt: skip
        return Site(folder, target, folder / "others" / "precious")

    def _write(self, name: str, site: Site) -> tuple[int, str]:
        """Run a command; return its exit code and what it said of a failure."""
        words = WRITINGS[name].words.format(target=site.target, **self._places)
        environment = self._environment | {"XDG_CONFIG_HOME": str(site.folder / "parent")}
        first, *rest = words.split()
        other = OTHERS.get(first)
        done = CliRunner().invoke(
            other or root, rest if other else [first, *rest], env=environment
        )
        error = done.exception
        if isinstance(error, NatstuiError):
            return error.exit_code, str(error)
        if error is not None and not isinstance(error, SystemExit):
            return 99, "".join(traceback.format_exception(error)[-4:])
        return done.exit_code, done.stderr

    def _told(self, code: int, said: str) -> list[str]:
        if code == 99:
            return [said]
        return ["a failure without a sentence"] if code and not said.strip() else []

    def _changed(
        self, name: str, site: Site, before: dict[str, tuple[object, ...]], code: int
    ) -> list[str]:
        """Return what changed that must not, and what is not as the exit code says."""
        after, target = last_tree(site.folder), str(site.target)
        changed = {path for path in before.keys() | after.keys()
                   if before.get(path) != after.get(path)}  # fmt: skip
        # A context that is a link is written through, to where it points, and so is a library.
        writing = WRITINGS[name]
        is_through = (
            name.startswith("context") or writing.is_library
        ) and site.target.is_symlink()
        through = os.path.realpath(site.target) if is_through else target
        own = {path for path in changed
               if path in (target, through) or path.startswith(f"{target}/")}  # fmt: skip
        if writing.is_library:
            own |= {path for path in changed - before.keys() if path.startswith(f"{through}/")}
        if name == "context select":
            own |= {path for path in changed if path.endswith("/previous-context.txt")}
        free = {path for path in changed if path not in before and target.startswith(f"{path}/")}
        if code and WRITINGS[name].goes_on:
            # What it has so far lies in a folder of its own, for the next one.
            free |= {path for path in changed if self._left(site).match(path)}
        problems = [f"changed {path}" for path in sorted(changed - own - free)]
        if code and own and not writing.is_library and not writing.appends:
            problems.append(f"failed, and changed {sorted(own)}")
        if not code:
            problems += self._incomplete(name, site)
        return problems

    def _incomplete(self, name: str, site: Site) -> list[str]:
        """Return what is missing of a target that is said to be written."""
        target = site.target
        if name == "analyze --scratch":
            # The analysis of a killed command ends by itself, and removes what is its own.
            give_up_s = time.monotonic() + 120
            while any(target.glob("natstui-*")) and time.monotonic() < give_up_s:
                time.sleep(0.05)
            return [f"it left {path}" for path in target.glob("natstui-*")]
        if name == "analyze --out":
            is_there = (target / "gold" / "DICTIONARY.md").is_file()
            return [] if is_there else ["success without tables"]
        if name == "demo --store":
            return [] if any(target.rglob("*.blk")) else ["success without messages"]
        if WRITINGS[name].is_library:
            is_there = any(target.glob("*/session.json"))
            return [] if is_there else ["success without a session"]
        if WRITINGS[name].is_folder:
            wanted = {"stream backup": "stream.tar.s2", "backup": "natstui.json",
                      "export": "columns.csv"}[name]  # fmt: skip
            return [] if (target / wanted).is_file() else [f"success without {wanted}"]
        content = target.read_bytes() if target.is_file() else b""
        if name.startswith("object get"):
            is_complete = content == b"content" * 30_000
        elif name == "messages copy":
            is_complete = content.count(b"\n") >= 6 and content.endswith(b"\n")
        elif name == "sessions pack":
            is_complete = shutil.which("tar") is not None and len(content) > 1000
        elif name in COMPLETE:
            is_complete = COMPLETE[name] in content
        else:
            is_complete = b"nats://127.0.0.1:4222" in content and b"}" in content
        return [] if is_complete else [f"success, but it holds {content[:100]!r}"]

    def _left(self, site: Site) -> re.Pattern[str]:
        """Return what a command may leave that did not end well."""
        begin = re.escape(f"{site.target.parent}/.{site.target.name}.")
        return re.compile(rf"{begin}\w+\.part(/.*)?")

    def _start(self, name: str, site: Site) -> int:
        """Run a command in a process of its own; return its id."""
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            code = 98
            try:
                code = self._write(name, site)[0]
            finally:
                # Nothing of the parent's is flushed or closed twice.
                os._exit(code)
        return pid

    def _killed(self, name: str, site: Site, before: dict[str, tuple[object, ...]]) -> list[str]:
        """Kill a command at some moment, and run it again."""
        pid = self._start(name, site)
        time.sleep(random.Random(name).random() * WRITINGS[name].kill_within_s)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        left, target = last_tree(site.folder), str(site.target)
        hidden = re.compile(
            rf"{re.escape(str(site.target.parent))}/\.{re.escape(site.target.name)}\.\w+\.part"
        )
        problems = [f"a killed one changed {path}" for path in before if path != target
                    and before[path] != left.get(path)]  # fmt: skip
        problems += [f"a killed one left {path}" for path in left.keys() - before.keys()
                     if path != target and not path.startswith(f"{target}/")
                     and not hidden.match(path)]  # fmt: skip
        writing = WRITINGS[name]
        is_shared = writing.is_library or writing.appends
        if left.get(target) != before.get(target) and not is_shared:
            # It was complete before it was killed.
            return problems + self._incomplete(name, site)
        code, said = self._write(name, site)
        problems += self._told(code, said)
        if not code:
            problems += self._incomplete(name, site)
        elif "resume" not in said:
            problems.append(f"after a kill: {said}")
        if os.WIFSIGNALED(status) and writing.goes_on and not code:
            kept = [path for path in tree(site.folder) if hidden.match(path)]
            problems += [f"left for ever: {path}" for path in kept]
        return problems

    def _two(self, name: str, site: Site, before: dict[str, tuple[object, ...]]) -> list[str]:
        """Let two commands write to one target at once."""
        pids = [self._start(name, site) for _ in range(2)]
        codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
        problems = [f"ended with {code}" for code in codes if code in (98, 99) or code < 0]
        if 0 not in codes:
            problems.append(f"neither wrote: {codes}")
        return problems + self._changed(name, site, before, 0)


def main() -> None:
    """Run the cases that are named, or all."""
    url, folder, *names = sys.argv[1:]
    # On a full disk Python would leave a part of a compiled module, and read it ever after.
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    cases = Cases(url, Path(folder))
    foreign = (FOREIGN,) if (Path(folder) / "foreign").is_dir() else ()
    for case in names or WRITINGS:
        name, _, chosen = case.partition("::")
        for way in (chosen,) if chosen else (*IN_THE_WAY, *foreign, *EVENTS):
            began_s = time.monotonic()
            wrong = cases.run(name, way)
            took_s = round(time.monotonic() - began_s, 2)
            if name == "analyze --out" and way in NO_SPARK and took_s > NO_SPARK_S:
                wrong.append(f"it took {took_s} s, as if Spark had been started")
            line = {"command": name, "in_the_way": way, "wrong": wrong, "took_s": took_s}
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
