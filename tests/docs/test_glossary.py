"""Words of the glossary that people mix up are used in their own sense in names.

A refusal is a scheduler's, a rejection a kubelet's.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.docs.pages import ROOT

KUBELETS = (ROOT / "packages/kubelet/src",)
SCHEDULERS = (
    ROOT / "src/numakube/scheduling",
    ROOT / "src/numakube/dra",
    ROOT / "src/numakube/apps/extender",
    ROOT / "src/numakube/apps/scheduler",
    ROOT / "packages/levels/src",
    ROOT / "packages/placement/src",
)
OF_KUBELETS = re.compile(
    r"(?i)kubelet|REJECTION_FORESEEN|Rejected(Note)?$|RejectionGuard|rejections?(_of)?$"
)
"""Names around schedulers that are about what a kubelet has said, or will say."""
OF_SETTINGS = re.compile(r"(alpha|beta)_refusal|_refuse_unknown_preset|(resize|room)_refusal")
"""Names around kubelets that are about settings; and two that are public since before the rule."""


def names(file: Path) -> Iterator[str]:
    """Yield what *file* gives names to."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                yield name
            case ast.AsyncFunctionDef(name=name) | ast.arg(arg=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case _:
                pass


@pytest.mark.parametrize(
    ("folders", "word", "allowed"),
    [(KUBELETS, "refus", OF_SETTINGS), (SCHEDULERS, "reject", OF_KUBELETS)],
)
def test_a_refusal_is_a_schedulers_and_a_rejection_a_kubelets(
    folders: tuple[Path, ...], word: str, allowed: re.Pattern[str]
) -> None:
    files = [file for folder in folders for file in folder.rglob("*.py")]
    assert len(files) > 20
    odd = {
        f"{file.name}: {name}"
        for file in files
        for name in names(file)
        if word in name.lower() and not allowed.search(name)
    }
    assert odd == set()
