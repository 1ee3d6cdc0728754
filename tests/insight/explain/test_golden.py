"""What people read, for every way a pod can be refused; `UPDATE_GOLDEN=1` writes it again."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from tests.insight.explain.applying import can_apply, helps
from tests.insight.explain.cases import CASES

from numakube.insight.explain import explain, render
from numakube.insight.scheduler_engine import engine_of

GOLDEN = Path(__file__).parent / "golden"
BLOCK = re.compile(
    r'^<!-- golden="(?P<name>[^"]+)" -->\n```text\n(?P<body>.*?)^```$', re.MULTILINE | re.DOTALL
)


@pytest.mark.parametrize("name", CASES)
def test_the_text_is_the_one_that_was_reviewed(name: str) -> None:
    """A tired operator at night should know what to do."""
    case = CASES[name]()
    text = render(explain(case.facts, engine_of(case.facts), case.subject))
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_no_text_is_left_over() -> None:
    """Of a case that is gone."""
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(CASES)


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("eight-zones")])
def test_tables_of_large_machines_fit_the_screen(name: str) -> None:
    """Sentences are folded by the terminal, rows are not."""
    text = (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if re.search(r"\S {2,}\S", line.strip())]
    tables = [line for line in rows if line.startswith("  ") and "   [" not in line]
    assert tables
    assert max(map(len, tables)) <= 120


@pytest.mark.parametrize("name", CASES)
def test_every_suggested_change_helps(name: str) -> None:
    """Carried out on the objects themselves, the scheduler and the kubelet model take the pod."""
    case = CASES[name]()
    explanation = explain(case.facts, engine_of(case.facts), case.subject)
    for change in filter(can_apply, explanation.changes):
        assert helps(change, case.facts, case.subject.unbound()), change.text


def test_the_documentation_shows_real_texts() -> None:
    """Each block is the beginning of what is printed for its case."""
    docs = Path(__file__).parents[3] / "docs"
    pages = (docs / "how-to" / "why-is-my-pod-pending.md", docs / "reference" / "dra.md")
    blocks = [one for page in pages for one in BLOCK.findall(page.read_text(encoding="utf-8"))]
    assert len(blocks) == 4
    for name, body in blocks:
        assert (GOLDEN / f"{name}.txt").read_text(encoding="utf-8").startswith(body)
