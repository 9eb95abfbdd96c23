"""Makes the recording that the pictures are drawn of: the demo's shop, and a load beside it.

`python -m tests.looks.make_recording`. Needed when records have changed so that the pictures
would miss something; every picture is another one then.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from natstui.cli.demo import run_shop
from natstui.model.bench.view import BenchmarkView
from natstui.tui.frame.messages import RunScenario
from tests.conftest import keep_apart
from tests.looks.showing import RECORDING
from tests.tui.viewer import viewing

LOAD = """
title = "orders with a slow backend"
duration = "10s"
warmup = "0s"
[stream]
name = "LOAD"
subjects = ["load.>"]
[[role]]
name = "publishers"
pattern = "js-publish-async"
subject = "load.x"
rate = 1500
workers = 2
[[role]]
name = "workers"
pattern = "js-consume"
workers = 6
"""


async def record() -> str:
    """Record the shop for some seconds, then a load until it is over; return the folder."""
    with run_shop(None) as shop:
        async with viewing(shop.url, "--interval", "1s", size=(120, 40)) as viewer:
            await asyncio.sleep(12)
            await viewer.type_command("note load begins")
            viewer.app.screen.post_message(RunScenario(LOAD))
            await viewer.until(
                lambda: (viewer.app.state.benchmark or BenchmarkView()).summed, "over", s=90
            )
            await asyncio.sleep(3)
            recording = viewer.app.state.recording
            assert recording is not None and recording.folder
            return recording.folder


def main() -> None:
    """Make it in a temporary home, and put it in place of the old one."""
    with pytest.MonkeyPatch.context() as environ, tempfile.TemporaryDirectory() as home:
        keep_apart(environ, Path(home))
        environ.setenv("NATSTUI_SESSION_RECORD", "true")
        folder = asyncio.run(record())
        shutil.rmtree(RECORDING, ignore_errors=True)
        shutil.copytree(folder, RECORDING)
    for file in RECORDING.iterdir():
        os.chmod(file, 0o644)
        print(f"{file.stat().st_size:9,} {file.name}")


if __name__ == "__main__":
    main()
