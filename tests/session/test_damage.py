"""Cut, damaged and hostile recordings: a sentence, no traceback, nothing written outside."""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from platformdirs import user_state_path

from natstui.errors import SessionError
from natstui.lines import SCHEMA_VERSION
from natstui.model.live.snapshot import Snapshot
from natstui.model.records.record import Noted
from natstui.model.records.recording import ClockStepped
from natstui.session.files import segment
from natstui.session.files.folder import is_recording, list_segments, segment_path
from natstui.session.files.index import read_index
from natstui.session.files.info import (
    DroppedSegments,
    create_info,
    info_json,
    parse_info,
    read_info,
)
from natstui.session.files.keyframe import KeyframeBuilder
from natstui.session.files.segment import read_content
from natstui.session.library import add_note, rename_session, seal_unfinished_sessions, summaries
from natstui.session.read.recording import Recording
from natstui.session.read.seek import lines_until
from natstui.session.share import pack as ustar
from natstui.session.share.export_tables import export
from natstui.session.share.pack import pack, unpack
from natstui.session.share.verify import verify
from natstui.session.write.recording_folder import RecordingFolder
from natstui.session.write.settings import RecorderSettings
from natstui.values import replace
from tests.session.making import Maker, made
from tests.session.scenario import START_US, Scenario

QUIET = lambda done, total: None  # noqa: E731


def cut_off(sessions: Path, polls: int = 3) -> Path:
    """Return a session whose recorder vanished: nobody holds it, one segment is open."""
    scenario = Scenario(streams=1, consumers=2)
    maker = Maker(sessions, polls_per_segment=2)
    for record in [*scenario.beginning(), *scenario.records(0, polls)]:
        maker.add(record)
    maker.disk.abandon()
    return maker.disk.folder


@pytest.mark.slow
def test_a_cut_at_any_byte_of_the_last_segment_is_survived(tmp_path: Path) -> None:
    folder = cut_off(tmp_path)
    whole = list(Recording(folder).records())
    path = list_segments(folder)[-1].path
    content = path.read_bytes()
    ends = [n + 1 for n, byte in enumerate(content) if byte == 10]
    before = len(whole) - (len(ends) - 1)
    near_ends = {end + by for end in (0, *ends) for by in range(-3, 4)}
    for size in sorted({*range(0, len(content), 17), *near_ends} & {*range(len(content) + 1)}):
        path.write_bytes(content[:size])
        entries = read_content(path, sealed=False).entries
        # The first line is the keyframe, and the lines that are whole are there.
        complete = max(1, sum(end <= size for end in ends))
        assert [entry.record() for entry in entries] == whole[before : before + complete - 1]
        if size % 200 == 0 or size == len(content):
            assert list(Recording(folder).records()) == whole[: before + complete - 1]


def test_the_next_start_seals_what_was_left_open(tmp_path: Path) -> None:
    folder = cut_off(tmp_path)
    whole = list(Recording(folder).records())
    path = list_segments(folder)[-1].path
    path.write_bytes(path.read_bytes() + b'{"kind":"noted","at_us":17')
    notes = [finding.text for finding in verify(folder).findings]
    assert "of a record that was being written; it is left out" in notes[0]
    assert "the recorder was cut off: the last record is of" in notes[1]
    assert seal_unfinished_sessions(tmp_path) == [folder]
    assert all(segment.sealed for segment in list_segments(folder))
    assert list(Recording(folder).records()) == whole
    info = read_info(folder)
    assert info.cut_off and info.ended_at_us == Recording(folder).end_us
    assert not verify(folder).damaged
    assert seal_unfinished_sessions(tmp_path) == []


def test_the_end_of_a_killed_recorder_is_on_its_clock_which_was_set_back(tmp_path: Path) -> None:
    scenario, maker, last_us = Scenario(), Maker(tmp_path), START_US - 3_595_000_000
    maker.add(scenario.poll(1))
    maker.rotate()
    maker.add(ClockStepped(last_us - 1_000_000, -3_600_000_000))
    maker.add(replace(scenario.poll(5), taken_at_us=last_us))
    maker.disk.abandon()
    folder = maker.disk.folder
    keyframe, settings = KeyframeBuilder().keyframe(last_us), RecorderSettings(tmp_path)
    continued = RecordingFolder(settings, keyframe, last_us, continued_folder=folder)
    assert continued.continued_from_us == last_us
    continued.abandon()
    assert seal_unfinished_sessions(tmp_path) == [folder]
    assert read_info(folder).ended_at_us == last_us
    texts = [finding.text for finding in verify(folder).findings]
    assert not [text for text in texts if "could not write any more" in text]


def test_a_kill_between_sealing_and_removing_the_plain_file_does_no_harm(tmp_path: Path) -> None:
    folder = made(tmp_path, Scenario().records(0, 5), polls_per_segment=2)
    whole = list(Recording(folder).records())
    sealed = list_segments(folder)[0].path
    sealed.with_suffix("").write_bytes(gzip.decompress(sealed.read_bytes())[:100])
    assert list(Recording(folder).records()) == whole


def test_verify_names_the_segment_that_is_missing(tmp_path: Path) -> None:
    folder = made(tmp_path, Scenario().records(0, 9), polls_per_segment=2)
    list_segments(folder)[2].path.unlink()
    verdict = verify(folder)
    assert verdict.damaged
    assert verdict.findings[0].text == "segment 3 is missing"


@pytest.mark.parametrize("known", ["index", "session.json"])
def test_verify_notices_that_the_last_segments_are_gone(tmp_path: Path, known: str) -> None:
    folder = made(tmp_path, Scenario().records(0, 9), polls_per_segment=2)
    written = sum(read_info(folder).records_count.values())
    assert not verify(folder).damaged
    for segment_file in list_segments(folder)[-2:]:
        segment_file.path.unlink()
    sentence = "segments 4–5 are missing"
    if known == "session.json":
        (folder / "index.jsonl").unlink()
        lost = written - verify(folder).records_count
        assert lost > 0
        sentence = f"{lost} records of {written} that were written are missing"
    verdict = verify(folder)
    assert verdict.damaged
    assert verdict.findings[0].text == sentence


def test_verify_finds_a_byte_that_changed(tmp_path: Path) -> None:
    folder = made(tmp_path, Scenario().records(0, 9), polls_per_segment=20)
    path = list_segments(folder)[0].path
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert verify(folder).damaged


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("cut_bytes", [1, 40, 400])
def test_what_is_left_of_a_cut_segment_is_read(
    tmp_path: Path, cut_bytes: int, indexed: bool
) -> None:
    scenario = Scenario()
    folder = made(tmp_path / "sessions", [*scenario.beginning(), *scenario.records(0, 30)], 10)
    all_records = list(Recording(folder).records())
    path = list_segments(folder)[1].path
    path.write_bytes(path.read_bytes()[:-cut_bytes])
    if not indexed:
        (folder / "index.jsonl").unlink()
    read = list(Recording(folder, skips_unreadable_parts=True).records())
    left_out = [record for record in all_records if record not in read]
    # Only what was in the last parts of the segment is missing.
    assert len(left_out) < (2 if cut_bytes == 1 else 10)
    assert [record for record in all_records if record in read] == read
    verdict = verify(folder)
    assert verdict.damaged and verdict.records_count == len(read)
    text = verdict.findings[0].text
    assert "is damaged: it ends in the middle; " in text
    assert ("of its " in text) is indexed
    reported: list[str] = []
    counts = export(folder, tmp_path / "tables", "jsonl", QUIET, reported.append)
    assert reported == [finding.text for finding in verdict.findings if finding.damage]
    polls = [record for record in read if isinstance(record, Snapshot)]
    assert counts["stream_sample"] == sum(len(poll.streams.name) for poll in polls)
    with pytest.raises(SessionError, match="it ends in the middle"):
        list(Recording(folder).records())


def test_verify_finds_every_bit_of_the_description_that_changed(tmp_path: Path) -> None:
    folder = made(tmp_path, Scenario().records(0, 3))
    path = folder / "session.json"
    content, info = path.read_bytes(), read_info(folder)
    assert verify(folder).findings == ()
    for at in range(0, len(content), 7):
        changed = bytearray(content)
        changed[at] ^= 1
        path.write_bytes(changed)
        try:
            is_same = replace(read_info(folder), checksum=info.checksum) == info
        except SessionError:
            continue
        # A space that is none now changes nothing that is read.
        assert is_same or verify(folder).damaged, changed[at - 20 : at + 20]
    path.write_bytes(content.replace(b'"checksum"', b'"an older natstui has none"'))
    assert verify(folder).findings == ()
    # The description of a newer one has more fields, and of an older one fewer.
    for fields in ({"newer": 1}, {"notes": None}):
        known = {**json.loads(content), **fields}
        kept = {name: value for name, value in known.items() if value is not None}
        kept.pop("checksum")
        text = msgspec.json.encode(kept, order="sorted")
        kept["checksum"] = hashlib.sha256(text).hexdigest()
        path.write_text(json.dumps(kept))
        assert verify(folder).findings == ()


CHANGED_BY: dict[str, Callable[[Path], object]] = {
    "rename": lambda folder: rename_session(folder, "another"),
    "note": lambda folder: add_note(folder, "seen"),
    "pack": lambda folder: pack(folder, folder / "a", redact=False, progress=QUIET),
    "pack redacted": lambda folder: pack(folder, folder / "a", redact=True, progress=QUIET),
    "continue": lambda folder: RecordingFolder(
        RecorderSettings(folder.parent, ""), KeyframeBuilder().keyframe(START_US), START_US, folder
    ),
}
"""What writes session.json again, or a copy of it."""


def damage_description(folder: Path) -> bytes:
    """Change one letter of session.json, which stays readable, and return what it holds then."""
    path = folder / "session.json"
    content = path.read_bytes()
    assert b'"test"' in content
    path.write_bytes(content.replace(b'"test"', b'"tesu"'))
    return path.read_bytes()


@pytest.mark.parametrize("what", CHANGED_BY)
def test_nothing_gives_a_damaged_description_a_right_checksum(tmp_path: Path, what: str) -> None:
    folder = made(tmp_path, Scenario().records(0, 3))
    content = damage_description(folder)
    with pytest.raises(SessionError, match=r"session\.json is damaged, or was changed") as refused:
        CHANGED_BY[what](folder)
    assert "\n" not in str(refused.value)
    assert list(tmp_path.iterdir()) == [folder]
    assert (folder / "session.json").read_bytes() == content
    assert not (folder / "a").exists()
    assert verify(folder).damaged


def test_the_next_start_leaves_a_damaged_description_as_it_is(tmp_path: Path) -> None:
    folder = cut_off(tmp_path)
    content = damage_description(folder)
    assert seal_unfinished_sessions(tmp_path) == []
    assert (folder / "session.json").read_bytes() == content
    assert verify(folder).damaged


def test_a_pack_with_a_damaged_description_is_refused(tmp_path: Path) -> None:
    file, sessions = packed(tmp_path), tmp_path / "sessions"
    content = file.read_bytes()
    assert b'"test"' in content
    file.write_bytes(content.replace(b'"test"', b'"tesu"'))
    with pytest.raises(SessionError, match=r"a\.natstui is damaged: session\.json is damaged"):
        unpack(file, sessions)
    assert list(sessions.iterdir()) == []


@pytest.mark.parametrize("at_us", [10**17, -1, 2**63 - 1])
@pytest.mark.parametrize("name", ["started_at_us", "ended_at_us", "dropped"])
def test_a_description_with_a_time_that_is_not_possible_is_damaged(name: str, at_us: int) -> None:
    info = msgspec.to_builtins(create_info("test", START_US))
    of_dropped = {"segments_count": 1, "until_at_us": at_us, "reason": "x"}
    content = msgspec.json.encode(info | {name: of_dropped if name == "dropped" else at_us})
    with pytest.raises(SessionError, match=r"session\.json is damaged: its .* is not possible"):
        parse_info(content, "session.json")


def open_everything(folder: Path) -> None:
    """Do with a folder all that one can do."""
    verify(folder)
    recording = Recording(folder)
    recording.marks()
    list(recording.records())
    for at_us in (0, recording.start_us, recording.end_us, 2**62):
        list(lines_until(recording, at_us))


def mutated(content: bytes, chance: random.Random) -> bytes:
    """Return bytes with a few changes."""
    changed = bytearray(content)
    for _ in range(chance.randrange(1, 4)):
        place = chance.randrange(len(changed) or 1)
        match chance.randrange(5):
            case 0:
                del changed[place:]
            case 1:
                changed[place : place + 1] = bytes([chance.randrange(256)])
            case 2:
                changed[place:place] = chance.choice([b"9" * 30, b"null", b"\x00", b'"', b"[[[["])
            case 3:
                del changed[place : place + chance.randrange(40)]
            case 4:
                changed[place:place] = changed[max(0, place - 30) : place]
    return bytes(changed)


@pytest.fixture
def in_memory(tmp_path: Path) -> Iterator[Path]:
    """A folder for files that are written thousands of times; on a disk each costs 1 ms."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory, prefix="natstui-") as folder:
        yield Path(folder)


@pytest.mark.slow
@pytest.mark.parametrize("folders_count", [60, pytest.param(5_000, marks=pytest.mark.long)])
def test_fuzzed_folders_give_sentences(in_memory: Path, folders_count: int) -> None:
    chance = random.Random(5)
    scenario = Scenario(streams=1, consumers=1)
    source = made(in_memory / "source", [*scenario.beginning(), *scenario.records(3, 7)], 2)
    last = list_segments(source)[-1].path
    last.with_suffix("").write_bytes(gzip.decompress(last.read_bytes()))
    last.unlink()
    files = {path.name: path.read_bytes() for path in source.iterdir()}
    plain = {name: gzip.decompress(c) for name, c in files.items() if name.endswith(".gz")}
    folder = in_memory / "fuzzed"
    shutil.copytree(source, folder)
    refused = 0
    for number in range(folders_count):
        name = chance.choice(sorted(files))
        content = mutated(plain.get(name, files[name]), chance)
        if name in plain:
            content = gzip.compress(content, 1) if number % 2 else mutated(files[name], chance)
        (folder / name).write_bytes(content)
        try:
            open_everything(folder)
        except SessionError as error:
            refused += 1
            assert "\n" not in str(error)
        (folder / name).write_bytes(files[name])
    assert 0.05 < refused / folders_count < 0.95


def packed(tmp_path: Path) -> Path:
    folder = made(tmp_path / "packing", Scenario(streams=1, consumers=1).records(3, 7), 2)
    return pack(folder, tmp_path / "a.natstui", redact=False, progress=QUIET)


def test_a_packed_session_comes_back_the_same(tmp_path: Path) -> None:
    file = packed(tmp_path)
    with tarfile.open(file) as archive:
        assert "session.json" in archive.getnames()
    folder = unpack(file, tmp_path / "sessions")
    original = next((tmp_path / "packing").iterdir())
    assert list(Recording(folder).records()) == list(Recording(original).records())
    assert unpack(file, tmp_path / "sessions") != folder


def test_a_recording_that_goes_on_lacks_no_segment_that_was_only_created(tmp_path: Path) -> None:
    folder = cut_off(tmp_path)
    records = list(Recording(folder).records())
    next_number = list_segments(folder)[-1].number + 1
    segment_path(folder, next_number, sealed=False).touch()
    keyframe, settings = KeyframeBuilder().keyframe(START_US), RecorderSettings(tmp_path)
    RecordingFolder(settings, keyframe, START_US, continued_folder=folder).finish(START_US)
    assert not verify(folder).damaged
    assert list(Recording(folder).records()) == records


@pytest.mark.parametrize("first_line", [b"", b'{"kind":"keyfr'])
def test_a_segment_without_its_first_line_is_left_out_of_a_pack(
    tmp_path: Path, first_line: bytes
) -> None:
    folder = cut_off(tmp_path / "from")
    records = list(Recording(folder).records())
    next_number = list_segments(folder)[-1].number + 1
    segment_path(folder, next_number, sealed=False).write_bytes(first_line)
    file = pack(folder, tmp_path / "a.natstui", redact=False, progress=QUIET)
    assert list(Recording(unpack(file, tmp_path / "to")).records()) == records


@pytest.mark.parametrize("deleted_count", [0, 1])
def test_a_recording_goes_on_after_a_single_segment_that_was_only_created(
    tmp_path: Path, deleted_count: int
) -> None:
    maker, keyframe = Maker(tmp_path), KeyframeBuilder().keyframe(START_US)
    if deleted_count:
        maker.rotate()
        dropped = DroppedSegments(deleted_count, START_US, "--retain 1h")
        maker.disk.update_info(replace(maker.disk.info, dropped=dropped))
    maker.disk.abandon()
    folder = maker.disk.folder
    *deleted_segments, created = list_segments(folder)
    for segment_file in deleted_segments:
        segment_file.path.unlink()
    created.path.write_bytes(b"")
    settings = RecorderSettings(tmp_path)
    RecordingFolder(settings, keyframe, START_US, continued_folder=folder).finish(START_US)
    assert [segment.number for segment in list_segments(folder)] == [created.number]
    assert not verify(folder).damaged


@pytest.mark.parametrize("redact", [False, True])
@pytest.mark.parametrize("fate", ["running", "killed", "killed and sealed later", "finished"])
def test_what_was_cut_off_stays_cut_off_wherever_it_is_taken(
    tmp_path: Path, fate: str, redact: bool
) -> None:
    scenario = Scenario(streams=1, consumers=1)
    maker = Maker(tmp_path / "from", polls_per_segment=2)
    for record in [*scenario.beginning(), *scenario.records(0, 3)]:
        maker.add(record)
    folder = maker.disk.folder
    if fate == "finished":
        maker.disk.finish(START_US)
    elif fate != "running":
        maker.disk.abandon()
    if fate == "killed and sealed later":
        seal_unfinished_sessions(folder.parent)
    file = pack(folder, tmp_path / "a.natstui", redact=redact, progress=QUIET)
    again = pack(
        unpack(file, tmp_path / "to"), tmp_path / "b.natstui", redact=False, progress=QUIET
    )
    unpack(again, tmp_path / "to")
    shutil.copytree(folder, tmp_path / "to" / "copied")
    maker.disk.abandon()
    rename_session(folder, "renamed")
    is_cut_off = fate != "finished"
    found = [*summaries(tmp_path / "from"), *summaries(tmp_path / "to")]
    assert [one.status for one in found] == 4 * ["cut off" if is_cut_off else "complete"]
    assert {verify(Path(one.folder)).cut_off for one in found} == {is_cut_off}


def test_a_pack_without_an_end_is_cut_off(tmp_path: Path) -> None:
    folder = made(tmp_path / "from", Scenario(streams=1, consumers=1).records(0, 3))
    info = replace(read_info(folder), ended_at_us=None)
    files = {"session.json": info_json(info), GOOD: (folder / GOOD).read_bytes()}
    members = (
        ustar.member_header(name, len(data)) + data + ustar.member_padding(len(data))
        for name, data in files.items()
    )
    file = tmp_path / "a.natstui"
    file.write_bytes(b"".join(members) + ustar.pack_end())
    unpacked = unpack(file, tmp_path / "to")
    assert read_info(unpacked).ended_at_us is not None
    assert verify(unpacked).cut_off


@pytest.mark.slow
@pytest.mark.parametrize("packs_count", [80, pytest.param(5_000, marks=pytest.mark.long)])
def test_fuzzed_packs_leave_nothing_behind(in_memory: Path, packs_count: int) -> None:
    chance = random.Random(6)
    original = packed(in_memory).read_bytes()
    file, sessions = in_memory / "fuzzed.natstui", in_memory / "sessions"
    opened = 0
    for _ in range(packs_count):
        file.write_bytes(mutated(original, chance))
        try:
            shutil.rmtree(unpack(file, sessions))
            opened += 1
        except SessionError as error:
            assert "\n" not in str(error)
        assert list(sessions.iterdir()) == []
    assert opened < packs_count // 5


def member(name: str, content: bytes = b"x", **changes: object) -> bytes:
    """Return a tar member as Python's tarfile writes it, links and devices included."""
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for key, value in changes.items():
        setattr(info, key, value)
    if info.type != tarfile.REGTYPE:
        info.size, content = 0, b""
    return info.tobuf(tarfile.USTAR_FORMAT) + content + b"\0" * (-len(content) % 512)


def start(tmp_path: Path) -> bytes:
    """Return the good beginning of a pack: session.json."""
    size = int(packed(tmp_path).read_bytes()[124:135], 8)
    return (tmp_path / "a.natstui").read_bytes()[: 512 + size + -size % 512]


GOOD = "records-000001.jsonl.gz"


def repeated(text: bytes, times_count: int, head: bytes = b"") -> bytes:
    """Return the beginning of a gzip file of a text again and again, which is compressed once."""
    squeezer = zlib.compressobj(1, zlib.DEFLATED, 31)
    start = squeezer.compress(head) + squeezer.flush(zlib.Z_FULL_FLUSH)
    return start + (squeezer.compress(text) + squeezer.flush(zlib.Z_FULL_FLUSH)) * times_count


def bomb() -> bytes:
    """Return what becomes a little more than a segment may be."""
    return repeated(b"\n" * (1 << 20), segment.MAX_SEGMENT_BYTES // (1 << 20) + 1)


HOSTILE: dict[str, Callable[[], bytes]] = {
    "a path upwards": lambda: member("../../evil", b"x"),
    "an absolute path": lambda: member("/tmp/evil", b"x"),
    "a segment elsewhere": lambda: member("../records-000001.jsonl.gz", b"x"),
    "a symbolic link": lambda: member(GOOD, type=tarfile.SYMTYPE, linkname="/etc/passwd"),
    "a hard link": lambda: member(GOOD, type=tarfile.LNKTYPE, linkname="/etc/passwd"),
    "a device": lambda: member(GOOD, type=tarfile.CHRTYPE, devmajor=1, devminor=5),
    "a folder": lambda: member("records", type=tarfile.DIRTYPE),
    "another file": lambda: member("index.jsonl", b"x"),
    "the same name twice": lambda: ustar.member_header(GOOD, 0) * 2,
    "a huge size": lambda: ustar.member_header(GOOD, 8**11 - 1) + b"x",
    "many bombs": lambda: member(GOOD, gzip.compress(b"", 9) * 5000),
    "a long name": lambda: member("x" * 99, b"x"),
    "nothing at all": lambda: b"",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_pack_is_refused_with_a_sentence(tmp_path: Path, what: str) -> None:
    beginning = start(tmp_path)
    file, sessions = tmp_path / "evil.natstui", tmp_path / "deep" / "in" / "sessions"
    file.write_bytes(beginning + HOSTILE[what]() + ustar.pack_end())
    before = set(tmp_path.rglob("*"))
    with pytest.raises(SessionError):
        unpack(file, sessions)
    # What names an unfinished folder lies in natstui's own folder of states, and goes with it.
    assert [path for path in user_state_path("natstui").rglob("*") if path.is_file()] == []
    states = tmp_path / "folders"
    after = {path for path in tmp_path.rglob("*") if path != states and states not in path.parents}
    assert after - before - set(sessions.parents) == {sessions}


MEASURED = """
import resource, sys
from pathlib import Path
from natstui.errors import SessionError
from natstui.session.share.pack import unpack
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for file in sys.argv[2:]:
    try:
        unpack(Path(file), Path(sys.argv[1]))
    except SessionError as error:
        peak_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        print(peak_kb // 1024, error)
"""
BOMBS: dict[str, tuple[bytes, int, int]] = {
    "a little too many empty lines": (b"\n" * (1 << 20), 257, 0),
    "as many empty lines as bytes may be": (b"\n" * (1 << 20), 255, 0),
    "one line without an end": (b"0" * (1 << 20), 255, 0),
    "one line far too long": (b" " * (1 << 20), 300, 9),
}
"""What is repeated, how often, and how many bytes a line of a record begins with."""


def write_bomb(folder: Path, what: str, beginning: bytes) -> Path:
    """Write a pack with a segment that becomes too large."""
    text, times_count, head_bytes = BOMBS[what]
    packed = repeated(text, times_count, b'{"kind":"'[:head_bytes])
    file = folder / f"{what}.natstui"
    content = ustar.member_header(GOOD, len(packed)) + packed + ustar.member_padding(len(packed))
    file.write_bytes(beginning + content + ustar.pack_end())
    return file


@pytest.mark.slow
def test_bombs_are_refused_before_they_take_any_room(tmp_path: Path) -> None:
    beginning, sessions = start(tmp_path), tmp_path / "sessions"
    files = [str(write_bomb(tmp_path, what, beginning)) for what in BOMBS]
    command = [sys.executable, "-P", "-c", MEASURED, str(sessions), *files]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    # One after the other: the peak only grows.
    for what, line in zip(BOMBS, said.splitlines(), strict=True):
        peak_mb, _, sentence = line.partition(" ")
        assert "is too large for a segment when decompressed" in sentence, what
        assert int(peak_mb) < 200, what
    assert list(sessions.iterdir()) == []


def test_a_keyframe_of_100_000_consumers_can_be_read() -> None:
    keyframe_line = b'{"kind":"keyframe"' + b" " * (100_000 * 1_000) + b"}\n"
    (text,) = segment.inflate(gzip.compress(keyframe_line, 1), GOOD)
    assert text == keyframe_line


def test_a_session_of_a_newer_natstui_is_refused(tmp_path: Path) -> None:
    folder = made(tmp_path, [Noted(START_US, "x")])
    info = folder / "session.json"
    text = info.read_text().replace(f'"schema_version": {SCHEMA_VERSION}', '"schema_version": 99')
    info.write_text(text)
    with pytest.raises(SessionError, match=r"newer natstui \(schema 99\)"):
        Recording(folder)


def test_the_library_lists_damaged_sessions_too(tmp_path: Path) -> None:
    made(tmp_path, [Noted(START_US, "x")])
    broken = made(tmp_path, [Noted(START_US, "x")])
    (broken / "session.json").write_text("{")
    listed = list(summaries(tmp_path))
    assert [summary.problem is None for summary in listed].count(False) == 1


@pytest.mark.slow
def test_reading_needs_no_room_for_a_bomb(tmp_path: Path) -> None:
    folder = made(tmp_path, [Noted(START_US, "x")])
    path = list_segments(folder)[0].path
    path.write_bytes(bomb())
    with pytest.raises(SessionError, match="is too large for a segment when decompressed"):
        Recording(folder)


def test_nobody_records_a_finished_session(tmp_path: Path) -> None:
    assert not is_recording(made(tmp_path, [Noted(START_US, "x")]))


def test_an_index_of_any_size_is_read_and_a_line_that_is_too_long_is_left_out(
    tmp_path: Path,
) -> None:
    folder = made(tmp_path, Scenario().records(0, 9), polls_per_segment=2)
    path = folder / "index.jsonl"
    known = read_index(folder)
    assert known
    lines = path.read_bytes()
    with path.open("wb") as file:
        # As after months: one line as long as no segment has, and more than 64 MiB before ours.
        file.write(b"x" * (9 << 20) + b"\n")
        for _ in range(20):
            file.write(b"x" * (3 << 20) + b"\n")
        file.write(lines)
    assert path.stat().st_size > 64 << 20
    assert read_index(folder) == known


def test_what_cannot_be_written_when_a_pack_is_unpacked_is_not_called_unreadable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    file, sessions = packed(tmp_path), tmp_path / "sessions"
    monkeypatch.setattr(ustar, "write_atomic_file", full)
    with pytest.raises(SessionError) as told:
        unpack(file, sessions)
    assert str(told.value) == f"cannot write {sessions}: No space left on device"
    assert list(sessions.iterdir()) == []
