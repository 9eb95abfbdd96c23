"""The zip `spark-submit --py-files` takes: `python -m natstui.analysis.package natstui.zip`.

Executors need no Python for it; the driver needs only what is in it and Spark's own.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

_PARTS = ("__init__.py", "errors.py", "units.py", "clean.py", "analysis/*")


def write_package(path: Path) -> Path:
    """Write the zip; return where it is."""
    root = Path(__file__).parent.parent
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for pattern in _PARTS:
            for source in sorted(root.glob(pattern)):
                if source.is_file():
                    archive.write(source, f"natstui/{source.relative_to(root)}")
    return path


if __name__ == "__main__":
    sys.stdout.write(f"{write_package(Path(sys.argv[1]))}\n")
