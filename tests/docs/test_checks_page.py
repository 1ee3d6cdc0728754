"""The page of checks is what the doctor checks."""

from __future__ import annotations

import os

from tests.docs.pages import ROOT

from numakube.insight.doctor.all_checks import AREAS, BROKEN, RULES

PAGE = ROOT / "docs" / "reference" / "checks.md"
MARK = "<!-- checks -->\n"


def generated() -> str:
    """Return a table for every area."""
    areas = {title: area.RULES for title, area in AREAS.items()} | {"The doctor itself": (BROKEN,)}
    parts = []
    for title, rules in areas.items():
        rows = [f"| `{rule.id}` | {rule.severity} | {rule.title} | {rule.why} |" for rule in rules]
        head = "| id | severity | what | why it matters |\n|---|---|---|---|\n"
        parts.append(f"\n## {title}\n\n{head}" + "\n".join(rows) + "\n")
    return "".join(parts)


def test_the_page_has_every_check_and_nothing_else() -> None:
    """Run ``UPDATE_DOCS=1 pytest tests/docs`` after a change of checks."""
    written = PAGE.read_text(encoding="utf-8")
    real = written[: written.index(MARK) + len(MARK)] + generated()
    if os.environ.get("UPDATE_DOCS"):
        PAGE.write_text(real, encoding="utf-8")
    else:
        assert real == written


def test_every_rule_is_in_an_area() -> None:
    """So that the page is complete."""
    assert {rule.id for area in AREAS.values() for rule in area.RULES} | {BROKEN.id} == {
        rule.id for rule in RULES
    }
