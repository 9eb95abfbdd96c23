"""What is loaded at run time: the static contracts cannot see when an import happens."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from natstui.cli.root import COMMANDS
from tests.architecture.source import modules

pytestmark = pytest.mark.slow

SCREEN = {"textual", "rich"}
SPARK = {"pyspark", "py4j"}
VALUES = {"msgspec", "typing_extensions"}
"""What frozen values are made of; msgspec loads the other one."""


def loaded(*scripts: str) -> list[set[str]]:
    """Run scripts one after the other in a fresh interpreter.

    Returns the top-level packages that are there after each of them.
    """
    telling = "import sys, json; sys.stderr.write(json.dumps(sorted(sys.modules)) + '\\n')"
    run = subprocess.run(
        [sys.executable, "-c", "\n".join(f"{script}\n{telling}" for script in scripts)],
        capture_output=True,
        check=False,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    lines = run.stderr.splitlines()[-len(scripts) :]
    return [{name.split(".")[0] for name in json.loads(line)} for line in lines]


def importing(*rooms: str) -> str:
    """Return a script that imports the modules of rooms, of which each has some."""
    found = {room: [m.name for m in modules(f"natstui.{room}")] for room in rooms}
    assert [room for room, names in found.items() if not names] == []
    return "\n".join(f"import {name}" for names in found.values() for name in sorted(names))


def test_help_loads_no_command_and_nothing_that_a_command_needs() -> None:
    script = "import sys; sys.argv = ['natstui', '--help']\n"
    script += "from natstui.__main__ import main\ntry: main()\nexcept SystemExit: pass\n"
    script += "assert not {name for name in sys.modules if name.startswith('natstui.model')}"
    (packages,) = loaded(script)
    assert not packages & (SCREEN | SPARK | {"nats", "pydantic", "numpy", "asyncio"})


@pytest.mark.long
def test_version_the_start_of_the_engine_and_the_screens_load_what_they_need_and_no_more() -> None:
    version = "import sys; sys.argv = ['natstui', '--version']\n"
    version += "from natstui.__main__ import main; main()"
    first = "import natstui.tui.app.app, re, sys\n"
    first += "feature = re.compile(r'natstui[.]tui[.](?!kit|frame|app)\\w+[.]screen')\n"
    first += "found = sorted(filter(feature.fullmatch, sys.modules))\n"
    first += "assert found == ['natstui.tui.overview.screen'], found"
    scripts = (version, "import natstui.cli.open_viewer", first, importing("tui"))
    of_version, of_start, _, of_screens = loaded(*scripts)
    foreign = {"click", "nats", "pydantic", "numpy"}
    assert not of_version & (SCREEN | SPARK | foreign)
    # The engine starts before the screen is imported.
    assert not of_start & (SCREEN | {"asyncio", "click"})
    assert not of_screens & (SPARK | {"nats", "nkeys", "pydantic", "click"})


def test_model_worker_engine_and_commands_load_what_they_need_and_no_more() -> None:
    commands = ["natstui.cli.root", *{target.split(":")[0] for target in COMMANDS.values()}]
    scripts = (
        "",
        importing("model"),
        "import natstui.bench.worker",
        importing("engine", "jetstream", "bench", "session", "config", "lines", "feed"),
        "\n".join(f"import {name}" for name in sorted(commands)),
    )
    before, of_model, of_worker, *others = loaded(*scripts)
    assert of_model - before - set(sys.stdlib_module_names) == {"natstui", *VALUES}
    assert not of_worker & (SCREEN | SPARK | {"pydantic", "click"})
    assert "nats" in of_worker
    # Neither engine, adapters and recordings nor a command before it needs them.
    for packages in others:
        assert not packages & (SCREEN | SPARK)
