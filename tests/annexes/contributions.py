"""What the tests of annexes give to tests of the whole, and tests that need every annex.

A test of the whole has a table with a row for everything of some kind: programs, metrics, ways to
deploy. The rows of an annex are in its own folder, in ``tests/contribution.py``, so that they come
and go with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
from tests.annexes.manifests import FOLDERS, manifest_of

from numakube.annexes import annexes

ABSENT = [annex.name for annex in annexes() if not annex.is_installed]
needs_every_annex = pytest.mark.skipif(
    bool(ABSENT), reason=f"compares with a whole installation; missing: {', '.join(ABSENT)}"
)
"""For what is written down once for all of numakube: pages, the chart, promises."""


def contributed(table: str) -> Iterator[Any]:
    """Yield the *table* of each annex that has one and is installed."""
    for name, folder in FOLDERS.items():
        if manifest_of(name).is_installed and (folder / "tests" / "contribution.py").is_file():
            module = import_module(f"packages.{folder.name}.tests.contribution")
            if hasattr(module, table):
                yield getattr(module, table)


def rows(table: str) -> dict[str, Any]:
    """Return the rows of a table of all annexes by their names."""
    return {name: row for part in contributed(table) for name, row in part.items()}
