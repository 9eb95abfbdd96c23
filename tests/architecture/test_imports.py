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


def loaded(script: str) -> set[str]:
    """Run a script in a fresh interpreter and return the top-level packages it loaded."""
    ending = "\nimport sys, json; sys.stderr.write(json.dumps(sorted(sys.modules)))"
    run = subprocess.run(
        [sys.executable, "-c", script + ending], capture_output=True, check=False, text=True
    )
    assert run.returncode == 0, run.stderr
    return {name.split(".")[0] for name in json.loads(run.stderr.splitlines()[-1])}


def importing(names: list[str]) -> str:
    """Return a script that imports modules, of which there must be some."""
    assert names
    return "\n".join(f"import {name}" for name in sorted(names))


def test_version_loads_nothing_but_itself() -> None:
    script = "import sys; sys.argv = ['natstui', '--version']\n"
    script += "from natstui.__main__ import main; main()"
    foreign = {"click", "nats", "pydantic", "numpy", "msgspec"}
    assert not loaded(script) & (SCREEN | SPARK | foreign)


def test_help_loads_no_command_and_nothing_that_a_command_needs() -> None:
    script = "import sys; sys.argv = ['natstui', '--help']\n"
    script += "from natstui.__main__ import main\ntry: main()\nexcept SystemExit: pass\n"
    script += "assert not {name for name in sys.modules if name.startswith('natstui.model')}"
    packages = loaded(script)
    assert not packages & (SCREEN | SPARK | {"nats", "pydantic", "numpy", "msgspec", "asyncio"})


def test_the_engine_starts_before_the_screen_is_imported() -> None:
    assert not loaded("import natstui.cli.open_viewer") & (
        SCREEN | {"asyncio", "msgspec", "click"}
    )


def test_the_first_screen_pays_for_no_other() -> None:
    script = "import natstui.tui.app.app, re, sys\n"
    script += "feature = re.compile(r'natstui[.]tui[.](?!kit|frame|app)\\w+[.]screen')\n"
    script += "found = sorted(filter(feature.fullmatch, sys.modules))\n"
    script += "assert found == ['natstui.tui.overview.screen'], found"
    loaded(script)


def test_no_command_pays_for_the_screen_or_spark_before_it_needs_them() -> None:
    names = ["natstui.cli.root", *{target.split(":")[0] for target in COMMANDS.values()}]
    assert not loaded(importing(names)) & (SCREEN | SPARK)


def test_engine_adapters_and_recordings_know_neither_screen_nor_spark() -> None:
    rooms = ("engine", "jetstream", "bench", "session", "model", "config", "lines", "feed")
    found = {room: [m.name for m in modules(f"natstui.{room}")] for room in rooms}
    assert [room for room, names in found.items() if not names] == []
    names = [name for names in found.values() for name in names]
    assert not loaded(importing(names)) & (SCREEN | SPARK)


def test_the_viewer_loads_neither_the_nats_client_nor_settings_nor_spark() -> None:
    names = [m.name for m in modules("natstui.tui")]
    assert not loaded(importing(names)) & (SPARK | {"nats", "nkeys", "pydantic", "click"})


def test_a_bench_worker_loads_the_nats_client_and_little_else() -> None:
    packages = loaded("import natstui.bench.worker.process")
    assert not packages & (SCREEN | SPARK | {"pydantic", "click"})
    assert "nats" in packages


def test_the_model_loads_the_standard_library_only() -> None:
    names = [m.name for m in modules("natstui.model")]
    foreign = loaded(importing(names)) - loaded("") - set(sys.stdlib_module_names) - {"natstui"}
    assert foreign == set()
