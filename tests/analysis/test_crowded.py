"""A stream that is nearly full is told, however much else is worse at the moment."""

from __future__ import annotations

import pytest

from tests.analysis.crowded import CROWDED, NEAR_CODE, NEARLY_FULL, WORSE_CODES
from tests.analysis.locally import Answers

pytestmark = pytest.mark.spark


def test_a_stream_that_is_nearly_full_is_among_ten_findings_of_thirteen(answers: Answers) -> None:
    told = answers.of(CROWDED).rows("verdict")
    assert len(told) == 10
    assert {row["code"] for row in told} <= {*WORSE_CODES, NEAR_CODE}
    (near,) = (row for row in told if row["subject"] == NEARLY_FULL)
    assert (near["code"], near["harm"]) == (NEAR_CODE, "soon")
