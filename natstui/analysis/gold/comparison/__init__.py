"""The steps of a comparison of sessions: values per block, statistics, verdicts."""

from __future__ import annotations
