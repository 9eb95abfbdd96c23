"""Whatever a terminal can send, by chance: keys, bytes, pastes, the mouse, and other sizes."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable

Size = tuple[int, int]
"""Columns and lines."""
Input = bytes | list[Size]
"""Bytes to type, or the sizes that the window takes in a row."""

LEFT_OUT = b"qb\x10\x11\x1a"
"""Never sent outside a visit: q and ctrl+q leave, ctrl+z suspends, ctrl+p leads to a way out, and
b, b, enter starts minutes of load."""
ESCAPE = b"\x1b[27u"
"""The key, as terminals send it that cannot be misread: what follows is no part of it."""
PASTE, PASTED = b"\x1b[200~", b"\x1b[201~"
KEYS = tuple(bytes([code]) for code in range(0x20, 0x7F))
CONTROLS = tuple(bytes([code]) for code in (*range(0x20), 0x7F))
ARROWS = (b"\x1b[A", b"\x1b[B", b"\x1b[C", b"\x1b[D", b"\x1b[H", b"\x1b[F", b"\r", b"\t")
FUNCTIONS = (
    b"\x1bOP", b"\x1bOQ", b"\x1b[15~", b"\x1b[3~", b"\x1b[5~", b"\x1b[6~", b"\x1b[Z", b"\x1b[2~",
    b"\x1b[1;5C", b"\x1b[1;2D", b"\x1b[1;3A", b"\x1bb", b"\x1bf", b"\x1b\r", b"\x1b[24~", ESCAPE,
)  # fmt: skip
REPLIES = (
    b"\x1b[I", b"\x1b[O", b"\x1b[?62;4c", b"\x1b[0n", b"\x1b[24;80R", b"\x1b[?2026;2$y",
    b"\x1b[?2048;1$y", b"\x1b]11;rgb:0000/1111/ffff\x07", b"\x1bP1$r0m\x1b\\", b"\x1b[8;24;80t",
    b"\x1b[48;24;80;480;800t", b"\x1b[M !!",
)  # fmt: skip
NUMBERS = (0, 1, 5, 9, 13, 27, 97, 127, 255, 256, 57344, 57358, 57441, 65535, 1114111, 1114112)
BROKEN = (b"\x80", b"\xff\xfe", b"\xc3", b"\xe2\x82", b"\xed\xa0\x80", b"\xf5\x80\x80\x80")
WORDS = (
    "kept",
    "7",
    "5m",
    "latin \xe9",
    "漢字",
    "🙂🏽",
    "\u202eback",
    "a\u0301",
    "x" * 60,
    "\x00",
)
COMMANDS = (
    b"streams", b"con", b"events", b"server", b"bench", b"runs", b"stream KEPT1", b"con KEPT2",
    b"consumer KEPT1 one", b"journal", b"undo", b"add", b"interval 1s", b"interval 2s", b"pause",
    b"refresh", b"note \xc3\xa9", b"record", b"sessions", b"export", b"live", b"seek +5s",
    b"theme nord", b"theme textual-light", b"help", b"nothing", b"stream NONE", b"interval x",
)  # fmt: skip
VISITS = (
    b"\x10journal\x1b[B\x1b[B",  # the palette: `Quit` stands in it
    b"\x10kept\x1b[B\x1b[6~",
    b"\x10the\x7f\x7f\x7f\x00\xff",
    b":bench\rb\x1b[B\x1b[Bxyz\t12",  # the scenarios: enter and ctrl+s run one
    b"1P\x13no\r",
    b"1\x04KEPT1\r",
    b"1PKEPT2\r",
    b"2\x04one\r",
)
"""Where a wrong key would lead out, or where only the right one leads on: in and out at once."""


class AnyInput:
    """Inputs in an order that a seed decides."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._heights = deque([40], maxlen=12)
        self._size = (120, 40)

    def next(self) -> Input:
        """Return one input more."""
        makers: dict[Callable[[], Input], float] = {
            self._key: 26,
            self._word: 1,
            self._move: 26,
            self._scroll: 12,
            self._press: 7,
            self._raw: 10,
            self._cut: 8,
            self._reply: 4,
            self._paste: 4,
            self._command: 1,
            self._visit: 0.5,
            self._resize: 1,
        }
        return self._chance.choices(list(makers), list(makers.values()))[0]()

    def number(self, most: int) -> int:
        """Return a number from 1 on."""
        return self._chance.randint(1, most)

    def _key(self) -> bytes:
        kind = self._chance.choice((KEYS, KEYS, CONTROLS, ARROWS, ARROWS, FUNCTIONS))
        return harmless(self._chance.choice(kind))

    def _word(self) -> bytes:
        return harmless(self._chance.choice(WORDS).encode())

    def _move(self) -> bytes:
        button = self._chance.choice((35, 35, 35, 32, 34, 43))
        return b"\x1b[<%d;%d;%dM" % (button, *self._place(beyond=2))

    def _scroll(self) -> bytes:
        at = self._place(beyond=2)
        return (
            b"\x1b[<%d;%d;%dM"
            % (64 + self._chance.randrange(4), *at)
            * self._chance.choice((1, 1, 3))
        )

    def _press(self) -> bytes:
        """A click, a double click, a drag, or one half of them."""
        if min(self._heights) < 5:
            return self._move()
        button = self._chance.choice((0, 0, 0, 0, 1, 2, 4, 8, 16))
        at, to = self._place(), self._place()
        down, up = b"\x1b[<%d;%d;%dM" % (button, *at), b"\x1b[<%d;%d;%dm" % (button, *at)
        drag = b"\x1b[<%d;%d;%dM" % (button + 32, *to) + b"\x1b[<%d;%d;%dm" % (button, *to)
        return self._chance.choice((down + up, down + up, (down + up) * 2, down + drag, down, up))

    def _place(self, beyond: int = 0) -> tuple[int, int]:
        """Return a column and a line; without `beyond` never the last ones, where `Quit` is.

        Sizes of late count, too: a click can be looked at before the size that came before it.
        """
        lines = min(self._heights) - 3 if not beyond else max(self._heights) + beyond
        return self._chance.randint(1, self._size[0] + beyond), self._chance.randint(1, lines)

    def _raw(self) -> bytes:
        if self._chance.random() < 0.4:
            return self._chance.choice(BROKEN)
        return harmless(self._chance.randbytes(self._chance.randint(1, 8)))

    def _cut(self) -> bytes:
        """The beginning of a sequence; what comes next is taken for its end."""
        if min(self._heights) >= 5 and self._chance.random() < 0.3:
            whole = b"\x1b[<0;%d;%d" % self._place() + b";" * 30
        else:
            whole = self._chance.choice((*ARROWS[:6], *FUNCTIONS, *REPLIES, PASTE, PASTED, ESCAPE))
        return harmless(whole[: self._chance.randint(1, len(whole) - 1)])

    def _reply(self) -> bytes:
        """What a terminal answers or tells unasked, and keys with numbers of any size."""
        if self._chance.random() < 0.5:
            return harmless(self._chance.choice(REPLIES))
        numbers = self._chance.choices(NUMBERS, k=self._chance.randint(1, 4))
        final = self._chance.choice("u~ABCDEFHPQRSt")
        return f"\x1b[{';'.join(map(str, numbers))}{final}".encode()

    def _paste(self) -> bytes:
        """One whole, one without its end, one with an end inside."""
        size = self._chance.choice((0, 10, 10, 200, 3000))
        text = harmless(
            self._chance.choice((self._chance.randbytes(size), b"line\none\xe9\t" * (size // 9)))
        )
        end = self._chance.choice((PASTED, PASTED, PASTED, PASTED, b"", PASTED * 2))
        return PASTE + text + end

    def _command(self) -> bytes:
        return PASTED + b":" + self._chance.choice(COMMANDS) + b"\r"

    def _visit(self) -> bytes:
        return PASTED + self._chance.choice(VISITS) + ESCAPE * 2

    def _resize(self) -> list[Size]:
        """Return the sizes of a window that is dragged; the last is another than the first."""
        sizes = []
        for _ in range(self._chance.choice((1, 1, 1, 1, 2, 5))):
            small = self._chance.random() < 0.2
            width = self._chance.randint(*((1, 59) if small else (60, 140)))
            height = self._chance.randint(*((1, 19) if small else (20, 45)))
            sizes.append((width, height))
        if sizes[-1] == self._size:
            sizes[-1] = (width + 1, height)
        self._size = sizes[-1]
        self._heights.extend(height for _, height in sizes)
        return sizes


def harmless(data: bytes) -> bytes:
    """Return bytes without what leaves the app."""
    return data.translate(None, LEFT_OUT)
