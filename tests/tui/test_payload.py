from __future__ import annotations

import gzip
import json
import sys
import time

import pytest

from natstui.tui.kit.raw.payload import PayloadText, compact_payload, format_payload, hex_dump


def test_json_is_shown_indented() -> None:
    assert format_payload(b'{"a":[1]}') == PayloadText('{\n  "a": [\n    1\n  ]\n}', "json")


def test_json_keeps_every_digit_and_every_key_and_is_shown_at_once() -> None:
    payload = b'{"a":1.10,"a":12345678901234567890.5,"b":1E400,"c":"\xc3\xa9"}'
    lines = [
        "{",
        '  "a": 1.10,',
        '  "a": 12345678901234567890.5,',
        '  "b": 1E400,',
        '  "c": "é"',
        "}",
    ]
    assert format_payload(payload) == PayloadText("\n".join(lines), "json")
    large = json.dumps([{"id": n, "name": f"customer {n}"} for n in range(30_000)]).encode()

    def cost_s() -> float:
        began_s = time.process_time()
        assert format_payload(large).format == "json"
        return time.process_time() - began_s

    # What others left behind may be cleared away in the middle of any of them.
    assert min(cost_s() for _ in range(5)) < 0.1, "keys wait meanwhile"


def test_what_only_looks_like_json_stays_text() -> None:
    for payload in (b"[1,2", b'{"a": NaN}', b"{} x"):
        assert format_payload(payload) == PayloadText(payload.decode(), "text")
    assert format_payload(b"[" * 100_000).format == "text"


def test_text_stays_text_and_bytes_become_a_hex_dump() -> None:
    assert format_payload("grüß\n".encode()) == PayloadText("grüß\n", "text")
    assert format_payload(b"\x00\x01AB").text == (
        "00000000  00 01 41 42                                       ..AB"
    )
    assert format_payload(b"\xff{", "text").text == "\ufffd{"


def test_gzip_is_unpacked_and_said() -> None:
    assert format_payload(gzip.compress(b"[1]")) == PayloadText(
        "[\n  1\n]", "json", "unpacked from gzip"
    )
    assert format_payload(b"\x1f\x8bbroken").format == "hex"


def test_what_this_python_cannot_unpack_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = b"\x28\xb5\x2f\xfdpacked"
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    reason = "still compressed: zstd needs Python 3.14 or newer"
    assert format_payload(packed).format_text == f"as hex, {reason}"
    assert format_payload(packed, "hex").format_text == "as hex"


def test_a_bomb_is_unpacked_only_in_part() -> None:
    assert len(format_payload(gzip.compress(b"a" * 50_000_000)).text) == 16 * 1024 * 1024


def test_hex_shows_the_bytes_as_they_are_stored() -> None:
    packed = gzip.compress(b"x", mtime=0)
    assert format_payload(packed, "hex").text == hex_dump(packed)


def test_a_list_shows_one_line() -> None:
    assert compact_payload(b'{"a": 1,\n  "b": 2}') == '{"a": 1, "b": 2}'
    assert compact_payload(bytes(range(4)) + b"\xff" * 8) == "00 01 02 03 ff ff ff ff ff ff ff ff"
