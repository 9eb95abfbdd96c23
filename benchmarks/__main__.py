"""Run every benchmark, or those named: `python -m benchmarks server_share`."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import benchmarks


def main(names: list[str]) -> None:
    """Run the `main()` of each module, in the order of their names."""
    known = sorted(module.name for module in pkgutil.iter_modules(benchmarks.__path__))
    runnable = [name for name in known if not name.startswith("_")]
    for name in names or runnable:
        if name not in runnable:
            sys.exit(f"no benchmark {name!r}: there are {', '.join(runnable)}")
        print(f"== {name}", flush=True)
        importlib.import_module(f"benchmarks.{name}").main()


if __name__ == "__main__":
    main(sys.argv[1:])
