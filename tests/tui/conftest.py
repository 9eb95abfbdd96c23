"""One server and one viewer for the tests of a file that say so; each finds them as if new."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from natstui.jetstream.testbed.broker import Broker
from tests.conftest import keep_apart
from tests.tui.shared import Shared
from tests.tui.viewer import viewing


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(store=tmp_path_factory.mktemp("store"), name="server1") as broker:
        yield broker


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(
    shared_server: Broker, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Shared]:
    """Its tests run on the loop of the file: `tests.tui.shared.on_the_files_loop`."""
    with pytest.MonkeyPatch.context() as environ:
        keep_apart(environ, tmp_path_factory.mktemp("folders"))
        async with viewing(shared_server.url, "--interval", "250ms") as viewer:
            yield Shared(shared_server.url, viewer)
