"""A worker whose clock is wrong on purpose: what the clocks of two machines are to each other."""

from __future__ import annotations

import runpy
import sys
import time


def main(skew_ns: int) -> None:
    """Run a worker whose monotonic clock is so many ns ahead."""
    right = time.monotonic_ns

    def wrong() -> int:
        return right() + skew_ns

    time.monotonic_ns = wrong
    runpy.run_module("natstui.bench.worker.process", run_name="__main__")


if __name__ == "__main__":
    main(int(sys.argv[1]))
