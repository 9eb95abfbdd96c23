"""What a comparison of sessions is made of: values, statistics, verdicts."""

from __future__ import annotations
