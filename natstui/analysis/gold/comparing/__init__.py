"""The parts of a comparison of sessions: values, statistics, verdicts."""

from __future__ import annotations
