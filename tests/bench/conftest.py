"""One server per file, and a way to run roles on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from natstui.config.connection import Connection
from natstui.jetstream.testbed.broker import Broker
from natstui.model.bench.plan import Role
from natstui.model.bench.result import BenchmarkResult
from tests.bench.running import Run, plan, run_plan


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """One server for the tests of a file; each run makes and removes its own stream."""
    with Broker() as broker:
        yield broker


@pytest.fixture
def run(broker: Broker) -> Run:
    """Run roles on the file's server and return the result."""

    async def run_roles(*roles: Role, **others: object) -> BenchmarkResult:
        connection = Connection(servers=(broker.url,))
        result, _ = await run_plan(connection, plan(*roles, **others))  # type: ignore[arg-type]
        return result

    return run_roles
