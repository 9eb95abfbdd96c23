"""Benchmarks in the engine: one at a time, controlled by commands, saved when it ends."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import asdict
from typing import assert_never

from natstui.bench.plan.flags import with_changes
from natstui.bench.plan.scenario import built_in_scenarios, find_scenario, read_scenario
from natstui.bench.result import library
from natstui.bench.result.assertions import parse_checks
from natstui.bench.result.compare import compare
from natstui.bench.result.environment import environment
from natstui.bench.result.text import comparison_text, summary_text
from natstui.bench.run.controller import Benchmark, refuse_read_only
from natstui.config import Connection
from natstui.errors import NatstuiError, Refused, RunFailed, SessionError
from natstui.feed import Sink
from natstui.jetstream.connection.writer import NotConfirmed
from natstui.model.bench.result import PreviousRun
from natstui.model.records.benchmark import (
    AddWorker,
    BenchmarkCommand,
    BenchmarkSummed,
    ChangePayload,
    ChangeRate,
    CompareRuns,
    HoldWorkers,
    KillWorker,
    ListBenchmarks,
    ReadyScenario,
    StartBenchmark,
    StopBenchmark,
)
from natstui.units import counted

Answer = tuple[str, str | None]
RUNS_LISTED = 200


class Benchmarking:
    """Runs the benchmarks that the viewer requests; workers end with the engine."""

    def __init__(self, connection: Connection, sink: Sink, runs_folder: str | None) -> None:
        """Create without a run; `runs_folder` is the folder of saved runs in the settings."""
        self._connection = connection
        self._sink = sink
        self._folder = library.library_folder(runs_folder)
        self._running: Benchmark | None = None
        self._is_started = False
        """Whether a run was requested that has not ended."""
        self._previous: PreviousRun | None = None
        """The previous run, with which the one that has just ended is compared."""

    async def execute(self, command: BenchmarkCommand) -> Answer:
        """Execute a command; the reply to a start comes when the run is over, with its summary."""
        match command:
            case StartBenchmark():
                if self._is_started:
                    # Not in a summary: it would be taken as that of the running one.
                    raise Refused("a benchmark runs already")
                self._is_started = True
                try:
                    return await self._run_and_report(command)
                finally:
                    self._is_started = False
            case StopBenchmark():
                self._current().stop()
                return "the benchmark ends", None
            case ChangeRate():
                sentence = self._current().change_rate(
                    factor=command.factor_ratio, per_s=command.rate_per_s, role=command.role
                )
                return sentence, None
            case ChangePayload():
                return self._current().change_payload(command.payload, command.role), None
            case KillWorker():
                return self._current().kill_worker(command.role, command.worker_id), None
            case AddWorker():
                return await self._current().add_worker(command.role), None
            case HoldWorkers():
                return self._current().pause_or_resume(command.role), None
            case ListBenchmarks():
                return self._list()
            case CompareRuns():
                return self._compare(command)
            case _:
                assert_never(command)

    def _current(self) -> Benchmark:
        if self._running is None:
            raise Refused("no benchmark runs")
        return self._running

    async def _run_and_report(self, command: StartBenchmark) -> Answer:
        """Run a benchmark, and add its summary or failure as a record."""
        self._previous = None
        try:
            sentence, summary = await self._start(command)
        except RunFailed as error:
            text = f"{error}\n{error.summary}\n"
            self._summed(text, failed=True)
            raise
        except NotConfirmed:
            raise
        except NatstuiError as error:
            self._summed(str(error), failed=True)
            raise
        text = f"{sentence}\n{summary}\n"
        self._summed(text, failed=False)
        return sentence, json.dumps(summary)

    def _summed(self, text: str, *, failed: bool) -> None:
        now_us = time.time_ns() // 1000
        self._sink.add(BenchmarkSummed(now_us, text, failed, self._previous))

    async def _start(self, command: StartBenchmark) -> tuple[str, str]:
        refuse_read_only(self._connection)
        text = command.scenario
        # In a thread: a pipe may have no writer.
        plan = (
            read_scenario(text, "as written")
            if "\n" in text
            else await asyncio.to_thread(find_scenario, text)
        )
        checks = parse_checks(plan.assertions)
        benchmark = Benchmark(
            with_changes(plan, command.overrides),
            self._connection,
            self._sink,
            command.confirmed,
            command.decided_on,
        )
        self._running = benchmark
        try:
            result = await benchmark.run()
        finally:
            self._running = None
        run = library.saved_run(
            benchmark.plan,
            (result,),
            environment(benchmark.link),
            () if benchmark.timeline is None else (benchmark.timeline,),
        )
        self._previous = library.previous_run(run, self._folder)
        saved_text, is_saved = self._save(run)
        if benchmark.failure is not None:
            sentence = f"{benchmark.failure}; the partial result is {saved_text}"
            raise RunFailed(sentence, summary_text(run))
        failures = filter(None, (check.failure(run.metrics) for check in checks))
        if sentence := "; ".join(failures):
            raise RunFailed(f"{sentence}; the result is {saved_text}", summary_text(run))
        if not is_saved:
            raise RunFailed(f"the result is {saved_text}", summary_text(run))
        return f"the result is {saved_text}", summary_text(run)

    def _save(self, run: library.SavedRun) -> tuple[str, bool]:
        """Save a run; return its path or the error, and whether it was saved."""
        try:
            return f"saved as {library.save(run, self._folder).stem}", True
        except SessionError as error:
            return f"not saved: {error}", False

    def _list(self) -> Answer:
        scenarios = [
            ReadyScenario(name, read_scenario(text, name).title, text)
            for name, text in built_in_scenarios().items()
        ]
        names = library.runs(self._folder)[-RUNS_LISTED:]
        body = {
            "scenarios": [asdict(scenario) for scenario in scenarios],
            "runs": list(reversed(names)),
        }
        text = f"{counted(len(scenarios), 'scenario')}, {counted(len(names), 'run')}"
        return text, json.dumps(body)

    def _compare(self, command: CompareRuns) -> Answer:
        first, *other_runs = (library.load(name, self._folder) for name in command.names)
        texts = [
            comparison_text(first, other_run, compare(first, other_run))
            for other_run in other_runs
        ]
        time_text = time.strftime("%H:%M:%S")
        return f"compared at {time_text}", json.dumps("\n".join(texts) or summary_text(first))
