"""Runs benchmarks in the engine, one at a time, by commands of the viewer; saves their results."""

from __future__ import annotations

import asyncio
import json
import time
from typing import assert_never

from msgspec import to_builtins

from natstui.bench.plan.flags import with_changes
from natstui.bench.plan.scenario import built_in_scenarios, find_scenario, read_scenario
from natstui.bench.result import library
from natstui.bench.result.assertions import parse_checks
from natstui.bench.result.compare import compare
from natstui.bench.result.environment import read_environment
from natstui.bench.result.text import comparison_text, summary_text
from natstui.bench.run.controller import Benchmark, refuse_read_only
from natstui.config import Connection
from natstui.errors import ActionRefusal, BenchmarkError, NatstuiError, SessionError
from natstui.feed import Sink
from natstui.jetstream.connection.writer import MissingConfirmation
from natstui.model.bench.result import PreviousRun
from natstui.model.records.benchmark import (
    AddWorker,
    BenchmarkCommand,
    BenchmarkSummed,
    BuiltInScenario,
    ChangePayload,
    ChangeRate,
    CompareRuns,
    KillWorker,
    ListBenchmarks,
    PauseWorkers,
    StartBenchmark,
    StopBenchmark,
)
from natstui.units import counted

ReplyTextAndJson = tuple[str, str | None]
_MAX_LISTED_RUNS = 200


class BenchmarkRunner:
    """Runs the benchmarks that the viewer requests, one at a time; workers end with the engine."""

    def __init__(self, connection: Connection, sink: Sink, runs_folder: str | None) -> None:
        """Create without a run; `sink` receives the records of runs.

        `runs_folder` is the folder of saved runs in the settings; None: the default folder.
        """
        self._connection = connection
        self._sink = sink
        self._runs_folder = library.library_folder(runs_folder)
        self._benchmark: Benchmark | None = None
        self._is_started = False
        """Whether a run was requested that has not ended."""
        self._previous_run: PreviousRun | None = None
        """The figures of the previous run of the same plan, for comparison with the last one."""

    async def execute(self, command: BenchmarkCommand) -> ReplyTextAndJson:
        """Execute a command, and return the reply; for a start, when the run has ended.

        Raises ActionRefusal, NotFound, RunFailed and the errors of a run.
        """
        match command:
            case StartBenchmark():
                if self._is_started:
                    # Without a summary, which would be shown as that of the running benchmark.
                    raise ActionRefusal("a benchmark runs already")
                self._is_started = True
                try:
                    return await self._run_and_report(command)
                finally:
                    self._is_started = False
            case StopBenchmark():
                self._require_benchmark().stop()
                return "the benchmark ends", None
            case ChangeRate():
                sentence = self._require_benchmark().change_rate(
                    factor=command.factor_ratio, per_s=command.rate_per_s, role=command.role
                )
                return sentence, None
            case ChangePayload():
                return self._require_benchmark().change_payload(
                    command.payload, command.role
                ), None
            case KillWorker():
                return self._require_benchmark().kill_worker(command.role, command.worker_id), None
            case AddWorker():
                return await self._require_benchmark().add_worker(command.role), None
            case PauseWorkers():
                return self._require_benchmark().pause_or_resume(command.role), None
            case ListBenchmarks():
                return self._list_scenarios_and_runs()
            case CompareRuns():
                return self._compare_runs(command)
            case _:
                assert_never(command)

    def _require_benchmark(self) -> Benchmark:
        if self._benchmark is None:
            raise ActionRefusal("no benchmark runs")
        return self._benchmark

    async def _run_and_report(self, command: StartBenchmark) -> ReplyTextAndJson:
        """Run a benchmark, and add its summary or its error as a record; return the reply."""
        self._previous_run = None
        try:
            sentence, summary = await self._run_benchmark(command)
        except BenchmarkError as error:
            text = f"{error}\n{error.summary}\n"
            self._send_summary(text, failed=True)
            raise
        except MissingConfirmation:
            raise
        except NatstuiError as error:
            self._send_summary(str(error), failed=True)
            raise
        text = f"{sentence}\n{summary}\n"
        self._send_summary(text, failed=False)
        return sentence, json.dumps(summary)

    def _send_summary(self, text: str, *, failed: bool) -> None:
        now_us = time.time_ns() // 1000
        self._sink.add(BenchmarkSummed(now_us, text, failed, self._previous_run))

    async def _run_benchmark(self, command: StartBenchmark) -> tuple[str, str]:
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
        self._benchmark = benchmark
        try:
            result = await benchmark.run()
        finally:
            self._benchmark = None
        run = library.make_saved_run(
            benchmark.plan,
            (result,),
            read_environment(benchmark.link),
            () if benchmark.timeline is None else (benchmark.timeline,),
        )
        self._previous_run = library.previous_run(run, self._runs_folder)
        saved_text, is_saved = self._save_run(run)
        if benchmark.failure is not None:
            sentence = f"{benchmark.failure}; the partial result is {saved_text}"
            raise BenchmarkError(sentence, summary_text(run))
        failures = filter(None, (check.failure(run.metrics) for check in checks))
        if sentence := "; ".join(failures):
            raise BenchmarkError(f"{sentence}; the result is {saved_text}", summary_text(run))
        if not is_saved:
            raise BenchmarkError(f"the result is {saved_text}", summary_text(run))
        return f"the result is {saved_text}", summary_text(run)

    def _save_run(self, run: library.SavedRun) -> tuple[str, bool]:
        """Save a run; return a clause with its name or the error, and whether it was saved."""
        try:
            return f"saved as {library.save(run, self._runs_folder).stem}", True
        except SessionError as error:
            return f"not saved: {error}", False

    def _list_scenarios_and_runs(self) -> ReplyTextAndJson:
        scenarios = [
            BuiltInScenario(name, read_scenario(text, name).title, text)
            for name, text in built_in_scenarios().items()
        ]
        run_names = library.run_names(self._runs_folder)
        reply_body = {
            "scenarios": [to_builtins(scenario) for scenario in scenarios],
            "runs": run_names[: -_MAX_LISTED_RUNS - 1 : -1],
            "runs_count": len(run_names),
        }
        text = f"{counted(len(scenarios), 'scenario')}, {counted(len(run_names), 'run')}"
        return text, json.dumps(reply_body)

    def _compare_runs(self, command: CompareRuns) -> ReplyTextAndJson:
        first_run, *other_runs = (library.load(name, self._runs_folder) for name in command.names)
        comparison_texts = [
            comparison_text(first_run, other_run, compare(first_run, other_run))
            for other_run in other_runs
        ]
        time_text = time.strftime("%H:%M:%S")
        return f"compared at {time_text}", json.dumps(
            "\n".join(comparison_texts) or summary_text(first_run)
        )
