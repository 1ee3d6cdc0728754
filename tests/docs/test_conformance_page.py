"""D17: the page about conformance has every rule."""

from __future__ import annotations

from tests.docs.pages import ROOT

from numakube.topology.conformance import RULES


def test_every_rule_is_in_the_table() -> None:
    """With its severity, and in the order of the checks."""
    lines = (ROOT / "docs" / "contribute" / "conformance.md").read_text().splitlines()
    rows = [line for line in lines if line.startswith("| NRT-")]
    assert rows == [f"| {rule.id} | {rule.severity} | {rule.title} |" for rule in RULES]
