"""Writes the zip for `spark-submit --py-files`.

    python -m natstui.analysis.submit_zip natstui.zip

The zip has every module of natstui that the job imports. Executors run no code of natstui; the
driver needs this zip, Spark and msgspec.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

_FILE_GLOBS = (
    "__init__.py",
    "children.py",
    "clean.py",
    "errors.py",
    "files.py",
    "output.py",
    "parsing.py",
    "paths.py",
    "units.py",
    "values.py",
    "analysis/**/*",
    "model/**/*",
)
"""Files of the zip, as globs below the package. A test imports the job from the zip alone."""


def write_zip(path: Path) -> Path:
    """Write the zip; returns its path."""
    root = Path(__file__).parent.parent
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for pattern in _FILE_GLOBS:
            for source in sorted(root.glob(pattern)):
                if source.is_file() and source.suffix != ".pyc":
                    archive.write(source, f"natstui/{source.relative_to(root)}")
    return path


if __name__ == "__main__":
    sys.stdout.write(f"{write_zip(Path(sys.argv[1]))}\n")
