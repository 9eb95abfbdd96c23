from __future__ import annotations

import gzip

from natstui.model.payload import Reading, hex_dump, one_line, reading


def test_json_is_shown_indented() -> None:
    assert reading(b'{"a":[1]}') == Reading('{\n  "a": [\n    1\n  ]\n}', "json", None)


def test_text_stays_text_and_bytes_become_a_hex_dump() -> None:
    assert reading("grüß\n".encode()) == Reading("grüß\n", "text", None)
    assert reading(b"\x00\x01AB").text == (
        "00000000  00 01 41 42                                       ..AB"
    )
    assert reading(b"\xff{", "text").text == "\ufffd{"


def test_gzip_is_unpacked_and_said() -> None:
    assert reading(gzip.compress(b"[1]")) == Reading("[\n  1\n]", "json", "gzip")
    assert reading(b"\x1f\x8bbroken").look == "hex"


def test_a_bomb_is_unpacked_only_in_part() -> None:
    assert len(reading(gzip.compress(b"a" * 50_000_000)).text) == 16 * 1024 * 1024


def test_hex_shows_the_bytes_as_they_are_stored() -> None:
    packed = gzip.compress(b"x", mtime=0)
    assert reading(packed, "hex").text == hex_dump(packed)


def test_a_list_shows_one_line() -> None:
    assert one_line(b'{"a": 1,\n  "b": 2}') == '{"a": 1, "b": 2}'
    assert one_line(bytes(range(4)) + b"\xff" * 8) == "00 01 02 03 ff ff ff ff ff ff ff ff"
