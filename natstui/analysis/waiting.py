"""A run that starts Spark before it is told what to analyse: where somebody is about to ask.

Its stdin brings one line, the session as a JSON text. What it has started fits little to read: a
large session is left to a run that starts Spark for it, and so is one that comes too late.
"""

from __future__ import annotations

import argparse
import json
import queue
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from natstui.analysis.conf import NOTHING
from natstui.analysis.folders import check_sessions
from natstui.analysis.pipeline import is_small
from natstui.analysis.spark.cancel import end_jvm, end_starting
from natstui.analysis.spark.failures import explain, not_started
from natstui.analysis.spark.session import SparkSettings, open_session

UNUSED_S = 600.0
"""Spark is stopped when nobody has asked for so long: it holds some hundred megabytes."""


def session_asked_for(
    words: argparse.Namespace, scratch: Path, lines: queue.SimpleQueue[bytes]
) -> str | None:
    """Start Spark, then return the session to analyse; None where another run shall do it.

    Raises AnalysisError when Spark cannot be started.
    """
    settings = SparkSettings(
        scratch,
        memory=words.memory,
        partitions_count=words.partitions,
        small=True,
    )
    try:
        # The first query loads more classes than the start itself.
        open_session(settings).range(1).count()
    except KeyboardInterrupt:
        end_starting()
        raise
    except (PySparkException, Py4JError, OSError, ImportError) as error:
        raise explain(not_started(error, NOTHING)) from error
    session: str | None = None
    try:
        told: str = json.loads(lines.get(timeout=UNUSED_S))
        session = told if is_small(words, check_sessions([told])) else None
    except queue.Empty:
        pass
    finally:
        if session is None:
            end_jvm()
    return session
