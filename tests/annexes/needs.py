"""Which annexes a file of tests needs: those that it imports, or that helpers of it import."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import Final

from numakube.annexes import annexes

ROOT = Path(__file__).parents[2]
_MODULE: Final = re.compile(r"numakube_\w+(\.\w+)*")


@cache
def imported_by(file: Path, *, or_named: bool = False) -> frozenset[str]:
    """Return the modules that *file* imports, wherever in it; *or_named*: or names in a string."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                found |= {name.name for name in names}
            case ast.ImportFrom(module=str(module), names=names):
                found |= {module, *(f"{module}.{name.name}" for name in names)}
            case ast.Constant(value=str(text)) if or_named and _MODULE.fullmatch(text):
                found.add(text)
    return frozenset(found)


@cache
def needed_by(file: Path) -> frozenset[str]:
    """Return the packages of annexes that *file* needs."""
    packages = {annex.package for annex in annexes()}
    needed, looked, ahead = set[str](), set[Path](), [file]
    while ahead:
        one = ahead.pop()
        looked.add(one)
        modules = imported_by(one)
        needed |= {module.partition(".")[0] for module in modules} & packages
        helpers = (ROOT / f"{name.replace('.', '/')}.py" for name in modules if _is_test(name))
        ahead += [helper for helper in helpers if helper not in looked and helper.is_file()]
    return frozenset(needed)


def is_without_its_annexes(path: Path) -> bool:
    """Tell whether the tests in *path*, a file or a folder, need an annex that is not installed."""
    absent = {annex.package for annex in annexes() if not annex.is_installed}
    file = path / "conftest.py" if path.is_dir() else path
    if not absent or file.suffix != ".py" or not file.is_file():
        return False
    return bool(needed_by(file) & absent)


def _is_test(module: str) -> bool:
    return module.partition(".")[0] in ("tests", "packages")
