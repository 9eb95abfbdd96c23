"""Errors of Spark and of the file system become one sentence each."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from natstui.analysis.conf import NO_CONF, UserSparkConf
from natstui.analysis.defaults import MAX_SMALL_DATA_BYTES, PARTITION_BYTES
from natstui.analysis.folders import (
    check_connect_server,
    escape_glob,
    recorded_bytes,
    resolve_sessions,
)
from natstui.analysis.progress import TextPrinter
from natstui.analysis.spark.failures import jvm_exit_error, to_start_error, to_user_error
from natstui.analysis.spark.session import (
    SparkSettings,
    open_session,
    set_partitions_count,
    settings_for_size,
)
from natstui.errors import AnalysisError, SessionError
from tests.analysis.conftest import unset


@pytest.mark.parametrize(
    ("spark_says", "sentence"),
    [
        ("Job aborted: java.io.IOException: No space left on device", "the disk is full"),
        ("AccessControlException: Permission denied: /data/x", "no permission"),
        (
            "java.lang.OutOfMemoryError: Java heap space",
            "ran out of memory (java.lang.OutOfMemoryError: Java heap space): increase it with "
            "--memory",
        ),
        # A larger heap leaves even less for threads.
        (
            "An error occurred.\n: java.lang.OutOfMemoryError: unable to create native thread",
            "Spark failed: java.lang.OutOfMemoryError: unable to create native thread",
        ),
        (
            "An error occurred.\n: java.net.ConnectException: Call From a/1.2.3.4 to b:9000 "
            "failed on connection exception: java.net.ConnectException: Connection refused\n"
            "\tat a.b(C)",
            "could not reach a host (java.net.ConnectException: Call From a/1.2.3.4 to b:9000",
        ),
        # Names of classes in a stack trace say nothing about the cause.
        (
            "An error occurred.\n: java.io.IOException: broken\n"
            "\tat org.apache.hadoop.security.AccessControlException.wrap(A.java:1)\n"
            "\tat java.io.FileNotFoundException.<init>(F.java:1)\n\t... 42 more",
            "Spark failed: java.io.IOException: broken",
        ),
        ("No FileSystem for scheme s3a", "hadoop-aws"),
        ("UNAUTHENTICATED: bad token", "refused the token"),
        ("something else\nat java.base", "Spark failed"),
        ("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: delta", "--packages"),
        (
            "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n"
            ": java.io.FileNotFoundException: File file:/tmp/spark-events does not exist\n"
            "\tat org.apache.spark.deploy.history.EventLogFileWriter.requireLogBaseDirAs",
            "Spark cannot write its event log (/tmp/spark-events): create that folder",
        ),
        (
            "An error occurred while calling o59.create.\n: java.io.IOException: first\n\tat a.b\n"
            "Caused by: java.io.IOException: Cannot run program",
            "Spark failed: java.io.IOException: Cannot run program",
        ),
    ],
)
def test_what_spark_says_becomes_a_sentence(spark_says: str, sentence: str) -> None:
    told = str(to_user_error(PySparkException(spark_says)))
    assert sentence in told
    assert "\n" not in told


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        (
            "Picked up JAVA_TOOL_OPTIONS: -Xmx9t\nError occurred during initialization of VM\n"
            "Could not reserve enough space for object heap\n",
            "Error occurred during initialization of VM: Could not reserve enough space for "
            "object heap",
        ),
        (
            "Invalid maximum heap size: -Xmxmuch\n"
            "Error: Could not create the Java Virtual Machine.\n",
            "Invalid maximum heap size: -Xmxmuch",
        ),
        (
            "\t---- anything\n:: loading settings ::\nan.invalid#b added as a dependency\n"
            'Exception in thread "main" java.lang.RuntimeException: [unresolved dependency: a#b]\n'
            "\tat org.apache.spark\n",
            'Exception in thread "main" java.lang.RuntimeException: [unresolved dependency: a#b]',
        ),
        (
            "26/11/26 10:40:30 ERROR Configuration: error parsing conf core-site.xml\n\tat a.b\n",
            "does not start: error parsing conf core-site.xml",
        ),
        ("", "its process printed nothing"),
    ],
)
def test_why_spark_does_not_start_is_what_its_process_said(
    printed: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", "/somewhere")
    monkeypatch.delenv("_JAVA_OPTIONS", raising=False)
    ended = PySparkException("[JAVA_GATEWAY_EXITED] Java gateway process exited")
    told = str(to_start_error(ended, UserSparkConf(packages=("a:b:1",)), printed))
    assert said in told and "a:b:1" in told
    assert "the environment sets" in told and "SPARK_CONF_DIR" in told
    assert "_JAVA_OPTIONS" not in told.replace("JDK_JAVA_OPTIONS", "")
    other = PySparkException("something else")
    assert to_start_error(other, NO_CONF, printed) is other


CRASH_REPORT = """#
# There is insufficient memory for the Java Runtime Environment to continue.
# Native memory allocation (mmap) failed to map 65536 bytes.
# An error report file with more information is saved as:
# /tmp/hs_err_pid7.log
"""


def test_a_jvm_that_has_ended_is_told_by_its_exit_code_and_its_last_words() -> None:
    for exit_code in (-signal.SIGKILL, 128 + signal.SIGKILL):
        assert "out of memory" in str(jvm_exit_error(exit_code, "26/12/01 WARN X: harmless"))
    out_of_memory = "java.lang.OutOfMemoryError: Java heap space"
    sentences = {
        f"26/12/01 INFO A: b\n{out_of_memory}\n\tat a.b(C.java:1)\n\n": f": {out_of_memory}",
        f"before\n{CRASH_REPORT}": ": There is insufficient memory for the Java Runtime "
        "Environment to continue. Native memory allocation (mmap) failed to map 65536 bytes.",
        # What this process says of its lost connection is not of the JVM.
        f"{out_of_memory}\nERROR:root:Exception while sending command.\nTraceback (most recent):\n"
        "py4j.protocol.Py4JNetworkError: Error\n": f": {out_of_memory}",
        "": ", and printed nothing",
    }
    for output, end in sentences.items():
        told = f"Spark's Java ended during the analysis (exit code 52){end}"
        assert str(jvm_exit_error(52, output)) == told
    assert "(SIGTERM)" in str(jvm_exit_error(128 + signal.SIGTERM, ""))
    assert jvm_exit_error(None, CRASH_REPORT) is None


def test_a_jvm_whose_connection_is_lost_is_no_host_that_cannot_be_reached() -> None:
    lost = Py4JNetworkError("An error occurred while trying to connect to the Java server")
    lost.__context__ = ConnectionRefusedError(111, "Connection refused")
    for error in (lost, lost.__context__):
        assert "the connection to Spark's Java was lost" in str(to_user_error(error))


def test_another_spark_than_that_of_pyspark_is_refused_by_its_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusal() -> str:
        with pytest.raises(AnalysisError) as caught:
            open_session(SparkSettings(tmp_path))
        return str(caught.value)

    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert f"SPARK_HOME={tmp_path} has no bin/spark-submit" in refusal()
    for name in ("bin/spark-submit", "jars/spark-core_2.13-3.5.1.jar"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    assert "is another version than pyspark" in refusal()
    monkeypatch.setenv("SPARK_REMOTE", "sc://127.0.0.1:1")
    assert refusal().startswith("SPARK_REMOTE is set")


def test_under_spark_submit_each_step_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    send = TextPrinter()
    for text in ("one", "one", "two", "two", "one"):
        send({"kind": "progress", "text": text})
    send({"kind": "failed", "text": "it failed"})
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["natstui: one", "natstui: two", "natstui: one", "natstui: it failed"]


def test_our_own_errors_stay_as_they_are() -> None:
    error = SessionError("the session is damaged")
    assert to_user_error(error) is error


def test_a_folder_with_the_signs_of_a_pattern_in_its_name_is_meant_literally(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "a[1]{b}"
    folder.mkdir()
    (folder / "session.json").write_text("{}")
    (folder / "records-000001.jsonl").write_text("{}\n")
    (found,) = resolve_sessions([str(folder)])
    assert found == escape_glob(str(folder))
    assert r"a\[1\]\{b\}" in found


def test_how_much_is_recorded_is_known_before_spark_starts_but_for_urls(tmp_path: Path) -> None:
    folder = tmp_path / "of [7]"
    folder.mkdir()
    sizes_bytes = {"session.json": 100, "records-000001.jsonl.gz": 10, "records-000002.jsonl": 40}
    for name, size_bytes in sizes_bytes.items():
        (folder / name).write_bytes(bytes(size_bytes))
    sessions = resolve_sessions([str(folder)])
    assert sessions == [escape_glob(str(folder))] != [str(folder)]
    size_bytes = recorded_bytes([*sessions, *sessions])
    assert size_bytes is not None
    # What is packed counts as what it holds.
    assert 2 * 240 <= size_bytes <= 2 * 340
    assert recorded_bytes([*sessions, "s3a://bucket/session"]) is None


SIZES = {
    None: None,
    0: "1",
    MAX_SMALL_DATA_BYTES: "1",
    MAX_SMALL_DATA_BYTES + 1: "3",
    PARTITION_BYTES * 1000: "1000",
}
"""What is read, and into how many parts it is cut; None where that is left to the cluster."""


@pytest.mark.parametrize(("size_bytes", "partitions"), SIZES.items())
def test_spark_plans_for_as_much_as_is_read(
    size_bytes: int | None, partitions: str | None, tmp_path: Path
) -> None:
    found = settings_for_size(SparkSettings(tmp_path, size_bytes=size_bytes))
    assert found.session_settings.get("spark.sql.shuffle.partitions") == partitions
    assert found.start_settings.get("spark.default.parallelism") == partitions
    is_small = partitions == "1"
    assert ("spark.sql.adaptive.enabled" in found.session_settings) is is_small
    # One compiler, and one thread that collects.
    assert ("-XX:TieredStopAtLevel=1" in found.java_options) is is_small
    assert ("-XX:+UseSerialGC" in found.java_options) is is_small
    assert ("-XX:+UseParallelGC" in found.java_options) is not is_small


@pytest.mark.spark
def test_where_no_number_is_set_the_size_of_the_files_sets_that_of_the_partitions(
    spark: SparkSession,
) -> None:
    name = "spark.sql.shuffle.partitions"
    with unset(spark, name):
        set_partitions_count(spark, PARTITION_BYTES * 499 + 1)
        assert spark.conf.get(name) == "500"
        # Now it is set, as by a user.
        set_partitions_count(spark, 0)
        assert spark.conf.get(name) == "500"


def test_urls_are_left_to_hadoop() -> None:
    assert resolve_sessions(["s3a://bucket/*"]) == ["s3a://bucket/*"]


def test_a_pattern_without_sessions_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AnalysisError, match="no recorded session matches"):
        resolve_sessions([str(tmp_path / "nothing*")])


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("spark://127.0.0.1:7077", "is not the address of a Spark Connect server"),
        ("sc://127.0.0.1:1/;token=x", "no Spark Connect server replies at sc://127.0.0.1:1"),
        ("sc://127.0.0.1:99999", "no Spark Connect server replies"),
    ],
)
def test_a_connect_server_that_is_not_there_is_said_at_once(address: str, sentence: str) -> None:
    with pytest.raises(AnalysisError, match=sentence) as caught:
        check_connect_server(address)
    assert "token" not in str(caught.value)


HOLDER = """
import sys, time
from natstui.analysis.defaults import MAX_SMALL_DATA_BYTES
from natstui.analysis.folders import lock_folder
with lock_folder(sys.argv[1], lambda: print("waits", flush=True)) as alone:
    print("alone" if alone else "shared", flush=True)
    sys.stdin.read()
"""
"""Has the folder of the tables until its stdin ends; Spark is not needed to hold it."""


def holder(out: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(out)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def told(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


@pytest.mark.slow
def test_a_second_analysis_waits_says_so_and_goes_on_when_the_first_is_killed(
    tmp_path: Path,
) -> None:
    with holder(tmp_path) as first:
        assert told(first) == "alone"
        with holder(tmp_path) as second:
            assert told(second) == "waits"
            with holder(tmp_path) as third:
                assert told(third) == "waits"
                first.send_signal(signal.SIGKILL)
                assert first.wait(60) == -signal.SIGKILL
                # One of the two goes on, and the other one only when that is done.
                assert second.stdin is not None and third.stdin is not None
                second.stdin.close()
                third.stdin.close()
                assert (told(second), told(third)) == ("alone", "alone")
                assert (second.wait(60), third.wait(60)) == (0, 0)


@pytest.mark.slow
def test_other_folders_are_held_at_the_same_time(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
    with holder(tmp_path / "a") as first, holder(tmp_path / "b") as second:
        assert (told(first), told(second)) == ("alone", "alone")
