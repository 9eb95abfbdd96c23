"""Files and folders appear complete or not at all, and nothing but the target ever changes."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import stat
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natstui import files
from natstui.files import (
    create_atomic_folder,
    file_name,
    has_partial_folder,
    open_atomic_file,
    open_regular_file,
    partial_folder,
    read_regular_file,
    write_atomic_file,
)


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def link_to_file(target: Path) -> None:
    target.with_name("precious").write_text("precious")
    target.symlink_to("precious")


def link_to_folder(target: Path) -> None:
    target.with_name("precious").mkdir()
    target.symlink_to("precious")


def link_to_nothing(target: Path) -> None:
    target.symlink_to("elsewhere")


def filled_folder(target: Path) -> None:
    target.mkdir()
    (target / "precious").write_text("precious")


def tree(folder: Path) -> dict[str, object]:
    """Return every path below a folder with what it is and holds."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(status.st_mode) else None
        found[str(path.relative_to(folder))] = (status.st_mode, status.st_ino, content)
    return found


IN_THE_WAY: dict[str, Callable[[Path], object]] = {
    "a link to a file": link_to_file,
    "a link to a folder": link_to_folder,
    "a link to nothing": link_to_nothing,
    "a FIFO": os.mkfifo,
    "a folder with files": filled_folder,
}


@pytest.mark.parametrize("in_the_way", IN_THE_WAY.values(), ids=IN_THE_WAY)
@pytest.mark.parametrize("replaces", [True, False])
def test_only_plain_files_are_replaced(
    folder: Path, in_the_way: Callable[[Path], object], replaces: bool
) -> None:
    target = folder / "target"
    in_the_way(target)
    before = tree(folder)
    with pytest.raises(OSError) as refused, open_atomic_file(target, replaces=replaces) as file:
        file.write(b"new")
    assert refused.value.strerror and "it is" in refused.value.strerror
    assert tree(folder) == before


def test_a_device_is_not_replaced() -> None:
    with pytest.raises(OSError, match="it is a device"):
        write_atomic_file(Path(os.devnull), b"new")
    assert stat.S_ISCHR(os.lstat(os.devnull).st_mode)


def test_what_comes_in_the_way_meanwhile_is_not_replaced(folder: Path) -> None:
    target = folder / "target"
    with pytest.raises(OSError, match="it is a link"), open_atomic_file(target, replaces=True):
        link_to_file(target)
    other = folder / "other"
    with pytest.raises(OSError, match="exists already"), open_atomic_file(other, replaces=False):
        other.write_text("precious")
    assert (folder / "precious").read_text() == "precious"
    assert other.read_text() == "precious"
    assert sorted(path.name for path in folder.iterdir()) == ["other", "precious", "target"]


def test_a_file_that_is_not_finished_leaves_the_one_before(folder: Path) -> None:
    target = folder / "target"
    target.write_text("before")
    with pytest.raises(KeyError), open_atomic_file(target, replaces=True) as file:
        file.write(b"half")
        raise KeyError
    assert tree(folder).keys() == {"target"}
    assert target.read_text() == "before"


def test_predictable_temporary_names_are_not_followed(folder: Path) -> None:
    precious = folder / "precious"
    precious.write_text("precious")
    for name in (".target.part", ".target.tmp", "target.part", "target.tmp"):
        (folder / name).symlink_to("precious")
    before = tree(folder)
    write_atomic_file(folder / "target", b"new")
    after = tree(folder)
    assert after.pop("target")
    assert after == before


def test_two_writers_of_one_file_do_not_mix_their_bytes(folder: Path) -> None:
    target = folder / "target"
    with open_atomic_file(target, replaces=True) as first:
        first.write(b"a" * 10)
        with open_atomic_file(target, replaces=True) as second:
            second.write(b"b" * 20)
        first.write(b"a" * 10)
    assert target.read_bytes() == b"a" * 20


def test_the_mode_of_a_replaced_file_stays(folder: Path) -> None:
    target = folder / "target"
    target.write_text("before")
    target.chmod(0o640)
    write_atomic_file(target, b"new")
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    write_atomic_file(target, b"secret", mode=0o600)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


@pytest.mark.parametrize("in_the_way", IN_THE_WAY.values(), ids=IN_THE_WAY)
def test_a_folder_is_written_over_nothing(
    folder: Path, in_the_way: Callable[[Path], object]
) -> None:
    target = folder / "target"
    in_the_way(target)
    before = tree(folder)
    with pytest.raises(OSError, match="exists already"), create_atomic_folder(target):
        pass
    assert tree(folder) == before


def test_a_second_writer_of_a_folder_is_refused_and_the_first_one_finishes(folder: Path) -> None:
    target = folder / "target"
    with create_atomic_folder(target) as first:
        (first / "content").write_text("first")
        with pytest.raises(BlockingIOError, match="another process"), create_atomic_folder(target):
            pass
    assert tree(target).keys() == {"content"}
    assert tree(folder).keys() == {"target", "target/content"}


def fill_and_die(target: Path) -> None:
    with create_atomic_folder(target) as folder:
        (folder / "left").write_text("left by a killed process")
        os._exit(9)


def killed(target: Path) -> None:
    process = multiprocessing.get_context("spawn").Process(target=fill_and_die, args=(target,))
    process.start()
    process.join(30)
    assert process.exitcode == 9


@pytest.mark.slow
def test_what_a_killed_process_left_is_removed_and_nothing_else(folder: Path) -> None:
    target = folder / "target"
    (folder / ".target.part").mkdir()
    (folder / ".target.part" / "precious").write_text("precious")
    killed(target)
    assert has_partial_folder(target)
    with create_atomic_folder(target) as again:
        (again / "content").write_text("again")
    assert tree(target).keys() == {"content"}
    assert tree(folder).keys() == {
        ".target.part", ".target.part/precious", "target", "target/content",
    }  # fmt: skip
    assert not has_partial_folder(target)


def test_a_link_in_place_of_what_a_killed_process_left_is_not_followed(folder: Path) -> None:
    target = folder / "target"
    killed(target)
    (left,) = folder.iterdir()
    for path in left.iterdir():
        path.unlink()
    left.rmdir()
    precious = folder / "precious"
    filled_folder(precious)
    left.symlink_to("precious")
    with create_atomic_folder(target) as again:
        (again / "content").write_text("again")
    assert (precious / "precious").read_text() == "precious"
    assert left.is_symlink()


def killed_at_each_line(target: Path) -> None:
    """Kill a writer of a folder at its first line, the next at its second …; write after each."""
    for number in count(1):
        pid = os.fork()
        if not pid:
            sys.settrace(kill_at(number))
            with create_atomic_folder(target) as folder:
                (folder / "left").write_text("left")
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        if target.exists():  # it was killed behind the last thing it does
            shutil.rmtree(target)
        with create_atomic_folder(target) as again:
            (again / "content").write_text("again")
        assert os.listdir(target.parent) == [target.name], f"killed at line {number}"
        shutil.rmtree(target)
        if status == 0:
            assert number > 20
            return


def kill_at(number: int) -> Callable[[FrameType, str, object], object]:
    """Return what counts the lines of `natstui.files`, and kills this process at one of them."""
    lines = count(1)

    def trace(frame: FrameType, event: str, _argument: object) -> object:
        if frame.f_code.co_filename != files.__file__:
            return None
        if event == "line" and next(lines) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    return trace


@pytest.mark.slow
@pytest.mark.long
def test_a_writer_killed_at_any_line_leaves_nothing_that_the_next_does_not_remove(
    folder: Path,
) -> None:
    process = multiprocessing.get_context("spawn").Process(
        target=killed_at_each_line, args=(folder / "target",)
    )
    process.start()
    process.join(120)
    assert process.exitcode == 0


def test_a_folder_that_others_may_enter_is_not_continued(folder: Path) -> None:
    target = folder / "target"
    killed(target)
    (left,) = folder.iterdir()
    left.chmod(0o777)
    with partial_folder(target) as own:
        assert own != left
        assert stat.S_IMODE(own.stat().st_mode) == 0o700


def test_only_plain_files_are_read_and_in_bounded_time(folder: Path) -> None:
    os.mkfifo(folder / "fifo")
    (folder / "zero").symlink_to("/dev/zero")
    for name in ("fifo", "zero"):
        with pytest.raises(OSError, match="not a plain file"):
            open_regular_file(folder / name)
    (folder / "large").write_bytes(b"x" * 11)
    with pytest.raises(OSError, match="larger than 10 bytes"):
        read_regular_file(folder / "large", 10)
    assert read_regular_file(folder / "large", 11) == b"x" * 11


@given(st.text())
def test_a_name_from_a_server_is_never_a_path(name: str) -> None:
    made = file_name(name)
    assert "/" not in made and "\0" not in made
    assert made and not made.startswith(".")
    assert len(made.encode()) <= 255


@given(st.lists(st.text(max_size=300), min_size=2, max_size=2, unique=True))
def test_two_names_get_two_file_names(names: list[str]) -> None:
    assert len(set(map(file_name, names))) == 2


def test_a_name_too_long_for_a_file_is_cut_and_ends_with_a_checksum() -> None:
    longest = "é" * 49
    for name in ("a" * 300, f"{'a' * 299}b", "ü.bin" * 60, "/" * 100):
        beginning, checksum = file_name(name).split("~")
        assert len(checksum) == 16 and int(checksum, 16) >= 0
        assert len(file_name(name).encode()) <= 255 and len(beginning) > 80
        assert name.startswith(beginning) or beginning == ("%2F" * 100)[: len(beginning)]
    assert file_name("a" * 300) != file_name(f"{'a' * 299}b")
    assert file_name(longest) == longest


def test_ordinary_names_stay_as_they_are() -> None:
    for name in ("ORDERS", "KV_sessions", "a-b_c", "eu.orders", "ü.bin", "a file.txt"):
        assert file_name(name) == name
