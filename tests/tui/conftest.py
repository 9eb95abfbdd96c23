"""One account and one viewer for the tests of a file that say so; each finds them as if new."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from tests.accounts import Account
from tests.conftest import keep_apart
from tests.tui.shared import Shared
from tests.tui.viewer import viewing


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(
    new_account: Callable[[], Account], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Shared]:
    """Its tests run on the loop of the file: `tests.tui.shared.on_the_files_loop`."""
    with pytest.MonkeyPatch.context() as environ:
        keep_apart(environ, tmp_path_factory.mktemp("folders"))
        account = new_account()
        async with viewing(account.url, "--interval", "500ms") as viewer:
            yield Shared(account.url, viewer)
