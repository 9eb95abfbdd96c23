"""The few file operations tables need, on any file system Hadoop knows."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


class Files:
    """The few file operations needed, on any file system Hadoop knows."""

    def __init__(self, jvm: Any, configuration: Any, root: str) -> None:
        self._jvm = jvm
        self._system = jvm.org.apache.hadoop.fs.Path(root).getFileSystem(configuration)

    def _path(self, text: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(text)

    def exists(self, path: str) -> bool:
        """Return whether there is such a path."""
        return bool(self._system.exists(self._path(path)))

    def delete(self, path: str) -> None:
        """Delete a path with all that is in it, if it is there."""
        self._system.delete(self._path(path), True)

    def rename(self, source: str, target: str) -> None:
        """Rename a folder; raises OSError."""
        if not self._system.rename(self._path(source), self._path(target)):
            raise OSError(f"cannot rename {source} to {target}")

    def glob(self, pattern: str) -> list[str]:
        """Return the paths that match."""
        found = self._system.globStatus(self._path(pattern))
        return [status.getPath().toString() for status in found or []]

    def write_text(self, path: str, text: str) -> None:
        """Write a small file."""
        stream = self._system.create(self._path(path), True)
        stream.write(bytearray(text.encode()))
        stream.close()


def file_system(spark: SparkSession, root: str) -> Files | None:
    """Return the file system of a path or URL; None over Spark Connect, which has no way to it."""
    jvm = getattr(spark, "_jvm", None)
    jsc = getattr(spark, "_jsc", None)
    return Files(jvm, jsc.hadoopConfiguration(), root) if jvm is not None and jsc else None
