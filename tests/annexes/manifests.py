"""The annexes in this repository: their folders, and their manifests as the heart keeps them."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any

from numakube.annexes import Annex, Group

ROOT = Path(__file__).parents[2]
INDEX = ROOT / "src" / "numakube" / "annex_index.py"
_HEAD = '''\
"""The manifests of all annexes of this repository, for those who have not installed them.

Written by ``UPDATE_ANNEXES=1 pytest tests/annexes`` from the annexes themselves.
"""

# ruff: noqa: E501

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from numakube.annexes import Added, Annex
from numakube.programs import FeatureGate, ProgramEntry, Stage
'''


def project_of(folder: Path) -> dict[str, Any]:
    """Return what the distribution in *folder* says of itself."""
    project: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))
    return project["project"]  # type: ignore[no-any-return]


def claimed_points(folder: Path) -> dict[str, dict[str, str]]:
    """Return the entry points of the distribution in *folder*, by group."""
    return project_of(folder).get("entry-points", {})  # type: ignore[no-any-return]


FOLDERS = {
    folder.name: folder
    for folder in sorted(file.parent for file in ROOT.glob("packages/*/pyproject.toml"))
    if Group.ANNEXES in claimed_points(folder)
}
"""The folder of every annex, by name."""


def manifest_of(name: str) -> Annex:
    """Return what the annex *name* says of itself."""
    module, _, attribute = claimed_points(FOLDERS[name])[Group.ANNEXES][name].partition(":")
    manifest = getattr(import_module(module), attribute)
    assert isinstance(manifest, Annex)
    return manifest


def index_text() -> str:
    """Return the module of the heart that has all manifests."""
    manifests = [manifest_of(name) for name in FOLDERS]
    body = "".join(f"    {_source(manifest)},\n" for manifest in manifests)
    text = f"{_HEAD}\nANNEXES: Final = (\n{body})\n"
    ruff = [str(Path(sys.executable).with_name("ruff")), "format", "--stdin-filename", str(INDEX)]
    return subprocess.run(  # noqa: S603 - our own tool
        [*ruff, "-"], input=text, capture_output=True, text=True, check=True
    ).stdout


def _source(value: object) -> str:
    """Return *value* as Python."""
    if dataclasses.is_dataclass(value):
        given = [
            f"{field.name}={_source(getattr(value, field.name))}"
            for field in dataclasses.fields(value)
            if not _is_default(field, getattr(value, field.name))
        ]
        return f"{type(value).__name__}({', '.join(given)},)"
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, tuple):
        return f"({', '.join(map(_source, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, Mapping):
        rows = "".join(f"{key!r}: {_source(one)}, " for key, one in value.items())
        return f"MappingProxyType({{{rows}}})"
    return repr(value)


def _is_default(field: dataclasses.Field[Any], value: object) -> bool:
    if field.default_factory is not dataclasses.MISSING:
        return bool(value == field.default_factory())
    return field.default is not dataclasses.MISSING and bool(value == field.default)
