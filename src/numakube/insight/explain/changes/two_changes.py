"""Two changes at once, where no single one helps: a rule about nodes lifted, and less asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.insight.explain.changes.lifted_rules import lifted_in_thought
from numakube.insight.explain.changes.smaller_requests import smaller
from numakube.insight.explain.explanation import Change
from numakube.insight.explain.what_if import Bench

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.insight.explain.node_verdicts import Judgement

_MOST: Final = 2


def combined(bench: Bench, judgement: Judgement) -> Iterator[Change]:
    """Yield pairs of changes that help together, for the nodes behind the first few rules."""
    found = 0
    for rule, node, pod in lifted_in_thought(bench, judgement):
        behind = Bench(bench.engine, bench.runtime, pod, only=(node,))
        less = next(smaller(behind), None)
        if less is None:
            continue
        text = f"{rule.text}, and {less.text[0].lower()}{less.text[1:]}"
        yield Change(kind="combined", text=text, node=node, parts=(rule, less))
        found += 1
        if found == _MOST:
            return
