"""Reads which metrics and labels an expression of Prometheus uses; no more of PromQL than that."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

TOKEN = re.compile(
    r"""
    (?P<blank>\s+)
  | (?P<text>"(?:[^"\\]|\\.)*")
  | (?P<range>\[[^\]]*\])
  | (?P<number>\d+(?:\.\d+)?)
  | (?P<name>[A-Za-z_:][A-Za-z0-9_:]*)
  | (?P<operator>=~|!~|!=|==|>=|<=|[-+*/%^(){},=<>])
    """,
    re.VERBOSE,
)
GROUPING = {"by", "without", "on", "ignoring", "group_left", "group_right"}
WORDS = {"and", "or", "unless", "bool", "offset"}
FUNCTIONS = {
    "sum", "max", "min", "count", "topk", "rate", "increase", "time", "histogram_quantile",
    "last_over_time", "label_values",
}  # fmt: skip


@dataclass(slots=True)
class Use:
    """What one expression uses.

    Attributes:
        metrics: names with the labels that each is matched by.
        grouping: labels of ``by``, ``on`` and the like.
    """

    metrics: list[tuple[str, frozenset[str]]] = field(default_factory=list)
    grouping: set[str] = field(default_factory=set)


def tokens_of(expression: str) -> list[str]:
    """Return the tokens; anything else is an error."""
    found, position = [], 0
    while position < len(expression):
        match = TOKEN.match(expression, position)
        assert match is not None, f"not PromQL at {expression[position:]!r}"
        position = match.end()
        if match.lastgroup != "blank":
            found.append(match[0])
    return found


def use_of(expression: str) -> Use:
    """Return the metrics and labels of *expression*, and check that its brackets match."""
    tokens = tokens_of(expression)
    for pair in ("()", "{}"):
        assert tokens.count(pair[0]) == tokens.count(pair[1]), expression
    use, place = Use(), 0
    while place < len(tokens):
        place = _take(tokens, place, use)
    return use


def _take(tokens: list[str], place: int, use: Use) -> int:
    token = tokens[place]
    following = tokens[place + 1] if place + 1 < len(tokens) else ""
    if token in GROUPING:
        end = tokens.index(")", place)
        use.grouping |= {token for token in tokens[place + 2 : end] if token != ","}
        return end + 1
    if token == "label_values":
        use.metrics.append((tokens[place + 2], frozenset({tokens[place + 4]})))
        return tokens.index(")", place) + 1
    if not token[0].isalpha() or token in WORDS or token in FUNCTIONS:
        return place + 1
    assert following != "(", f"unknown function {token}"
    if following != "{":
        use.metrics.append((token, frozenset()))
        return place + 1
    end = tokens.index("}", place)
    inside = tokens[place + 2 : end]
    use.metrics.append((token, frozenset(inside[0::4])))
    return end + 1
