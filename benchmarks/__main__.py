"""Run every benchmark, or those named: `python -m benchmarks server_share`."""

from __future__ import annotations

import argparse
import importlib
import pkgutil

import benchmarks


def main() -> None:
    """Run the `main()` of each module, in the order of their names."""
    known = sorted(module.name for module in pkgutil.iter_modules(benchmarks.__path__))
    runnable = [name for name in known if not name.startswith("_")]
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measure, and print it against its limits."
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"all when none is named: {', '.join(runnable)}"
    )
    args = parser.parse_args()
    for name in args.names:
        if name not in runnable:
            parser.error(f"no benchmark {name!r}: there are {', '.join(runnable)}")
    for name in args.names or runnable:
        print(f"== {name}", flush=True)
        importlib.import_module(f"benchmarks.{name}").main()


if __name__ == "__main__":
    main()
