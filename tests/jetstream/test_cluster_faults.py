"""Nodes of a cluster fall and come back: what is shown stays true, fresh and free of alarms.

One cluster under load serves all cells; `python -m tests.jetstream.cluster_matrix` runs the rest.
"""

from __future__ import annotations

import pytest

from tests.jetstream.cluster_matrix import loaded_cluster, run_cell

pytestmark = [pytest.mark.cluster, pytest.mark.long]

_CELLS = (("kill", "connected"), ("quorum", "other"))


async def test_the_fall_and_return_of_nodes_is_told_as_it_is() -> None:
    reports = []
    async with loaded_cluster() as bench:
        for cell in _CELLS:
            reports.append(await run_cell(bench, *cell))
    text = "\n".join(map(str, reports))
    assert not [fault for report in reports for fault in report.faults], text
    assert all(report.rates_count > 20 for report in reports), text
