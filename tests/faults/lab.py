"""Runs grounds: prepares, breaks and fixes their situations while natstui watches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec import Struct

from tests.faults.grounds import OneSystemStage, Plan, Stage
from tests.faults.judge import Course, entity_of
from tests.faults.observers import Observer, System, listed_sentences, read_fresh
from tests.faults.situations import SITUATIONS, Situation
from tests.faults.stories import LASTING, STORIES, Story

_SITUATION_OF = {situation.key: situation for situation in SITUATIONS}
_ACT_S = 120.0
"""The longest that one part of a story may take."""
_FRESH_S = 50
_AT_ONCE_COUNT = 4
"""Processes that judge at a time: twenty would hold up the clients of the lab, which then lag."""

_HEALTHY_S = {
    "publisher-stopped": 70.0, "same-message-id": 70.0, "message-too-large": 70.0,
    "etl-missed": 25.0, "fine-slow-pace": 40.0, "fine-batches": 45.0,
}  # fmt: skip
"""How long natstui must have seen the pace of something before it can know what is unusual."""


class Times(Struct, frozen=True):
    """How long each part of a run lasts, in seconds."""

    healthy_s: float = 10.0
    """At least; everything works, and natstui watches."""
    broken_s: float = 100.0
    """At most; less when each situation's time to be named is shorter."""
    fresh_s: tuple[int | None, ...] = (None, _FRESH_S)
    """How long processes watch that are started while it is broken; None leaves it to them."""
    fixed_s: float = 45.0


@dataclass
class Run:
    """One ground from its beginning to its end."""

    stage: Stage
    times: Times
    say: Callable[[str], None]
    courses: dict[str, Course] = field(default_factory=dict)
    held_up_s: float = 0.0
    """How long the machine kept the clients of the lab from running, at most."""
    _acts: dict[str, AsyncIterator[None]] = field(default_factory=dict)

    async def to_its_end(self) -> None:
        """Run it; what could not be made says so in its course."""
        stage = self.stage
        measuring = asyncio.create_task(self._measure())
        try:
            await stage.open()
            await self._begin_stories()
            sentences = await listed_sentences(stage.folder)
            observers = [Observer(system, sentences) for system in stage.systems]
            try:
                await asyncio.gather(*(observer.start() for observer in observers))
                await self._watched()
            finally:
                await asyncio.gather(*(observer.stop() for observer in observers))
        finally:
            measuring.cancel()
            await stage.close()

    async def _measure(self) -> None:
        while True:
            began_s = time.monotonic()
            await asyncio.sleep(0.5)
            self.held_up_s = max(self.held_up_s, time.monotonic() - began_s - 0.5)

    async def _begin_stories(self) -> None:
        """Prepare what works."""
        for key in self.stage.keys:
            situation = _SITUATION_OF[key]
            siblings = tuple(
                _SITUATION_OF[other]
                for other in self.stage.keys
                if other != key and _same_entity(situation, _SITUATION_OF[other])
            )
            polls = self.stage.system_of(key).polls
            self.courses[key] = Course(situation, polls, siblings=siblings)
            story = STORIES[key]
            if _name_of(story) not in self._acts:
                ground: Any = self.stage
                if not isinstance(self.stage, OneSystemStage):
                    ground = self.stage.site(key)
                self._acts[_name_of(story)] = story(ground)
        await self._next_parts("preparing")

    async def _watched(self) -> None:
        """Break and fix everything while natstui watches."""
        say, times, name = self.say, self.times, self.stage.name
        needed_s = (_HEALTHY_S.get(key, 0.0) for key in self.courses)
        await asyncio.sleep(max(times.healthy_s, *needed_s))
        say(f"{name}: breaking")
        await self._next_parts("breaking")
        longest_s = max(course.situation.within_s for course in self.courses.values())
        await asyncio.sleep(min(times.broken_s, longest_s + 5))
        say(f"{name}: judged by fresh processes")
        places = asyncio.Semaphore(_AT_ONCE_COUNT)
        await asyncio.gather(
            *(
                self._read_fresh(system, for_s, places)
                for system in self.stage.systems
                for for_s in times.fresh_s
            )
        )
        for course in self.courses.values():
            course.ended_s = time.monotonic()
        say(f"{name}: fixing")
        await self._next_parts("fixing")
        await asyncio.sleep(times.fixed_s)
        say(f"{name}: the lab's clients reconnected {self.stage.reconnects_count} times")

    async def _read_fresh(
        self, system: System, for_s: int | None, places: asyncio.Semaphore
    ) -> None:
        async with places:
            await read_fresh(system, for_s)

    async def _next_parts(self, doing: str) -> None:
        await asyncio.gather(*(self._next_part(name, doing) for name in self._acts))

    async def _next_part(self, name: str, doing: str) -> None:
        keys = [key for key in self.stage.keys if _name_of(STORIES[key]) == name]
        courses = [self.courses[key] for key in keys]
        if any(course.failed for course in courses):
            return
        began_s = time.monotonic()
        if doing == "fixing":
            for course in courses:
                course.ended_s = began_s
        try:
            async with asyncio.timeout(_ACT_S):
                await anext(self._acts[name], None)
        except Exception as error:  # noqa: BLE001
            # Whatever a story raises: one that cannot be created must not end the other hundred.
            for course in courses:
                course.failed = f"{doing}: {type(error).__name__} {error}"
            self.say(f"{', '.join(keys)}: {courses[0].failed}")
            return
        for course in courses:
            if doing == "breaking":
                course.broken_s = began_s if course.situation.cause else time.monotonic()
            elif doing == "fixing" and course.situation.key not in LASTING:
                course.fixed_s = time.monotonic()


def _name_of(story: Story) -> str:
    return f"{story.__module__}.{story.__name__}"


def _same_entity(one: Situation, other: Situation) -> bool:
    return one.entity == other.entity and entity_of(one) == entity_of(other)


async def run_plans(
    groups: list[tuple[Plan, ...]], times: Times, folder: Path, say: Callable[[str], None]
) -> list[Run]:
    """Run groups of grounds one after the other; return every run."""
    runs = []
    for plans in groups:
        group = [Run(plan.make(folder), times, say) for plan in plans]
        results = await asyncio.gather(
            *(run.to_its_end() for run in group), return_exceptions=True
        )
        for run, result in zip(group, results, strict=True):
            if isinstance(result, BaseException):
                say(f"{run.stage.name}: {type(result).__name__} {result}")
            if isinstance(result, BaseException) and not isinstance(result, Exception):
                raise result
        runs += group
    return runs
