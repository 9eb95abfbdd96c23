"""How each situation is made: one story per situation, in three parts.

A story is an asynchronous generator: it prepares what works, yields, breaks it, yields, and fixes
it. A story that ends after its second yield cannot be fixed, or not simply.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

Story = Callable[[Any], AsyncIterator[None]]

STORIES: dict[str, Story] = {}
"""Each story by the keys of the situations that it makes."""

LASTING: set[str] = set()
"""The situations that their stories do not fix."""


def makes(*keys: str, lasting: bool = False) -> Callable[[Story], Story]:
    """Return a decorator that keeps a story under the keys of its situations."""

    def keep(story: Story) -> Story:
        for key in keys:
            assert key not in STORIES, key
            STORIES[key] = story
        LASTING.update(keys if lasting else ())
        return story

    return keep
