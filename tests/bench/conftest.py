"""An account for each test and a way to run roles on it, or a server of a file's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from natstui.config.connection import Connection
from natstui.jetstream.testbed.broker import Broker
from natstui.model.bench.plan import Role
from natstui.model.bench.result import BenchmarkResult
from tests.accounts import Account
from tests.bench.here import Meanwhile, run_here
from tests.bench.running import Run, plan


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """One server for a file that stops it, looks at its process, or puts something before it."""
    with Broker() as broker:
        yield broker


@pytest.fixture
def run(account: Account) -> Run:
    """Run roles on the test's account, in this process, and return the result."""

    async def run_roles(
        *roles: Role, meanwhile: Meanwhile | None = None, **others: object
    ) -> BenchmarkResult:
        connection = Connection(servers=(account.url,))
        what = plan(*roles, **others)  # type: ignore[arg-type]
        return await run_here(connection, what, meanwhile)

    return run_roles
