"""As much of Helm's rendering as our templates need: values, switches, and texts as they are."""

from __future__ import annotations

import re
from typing import Any

_EXPRESSION = re.compile(r"\{\{-? *(.*?) *-?\}\}")
_CONTROL = re.compile(r"\{\{-? *(if|end)\b *(.*?) *\}\}\n?")


def render(template: str, values: dict[str, Any], *, namespace: str) -> str:
    """Return what *template* renders to."""
    lines = []
    kept = [True]
    for line in template.splitlines(keepends=True):
        control = _CONTROL.fullmatch(line)
        if control is None:
            if all(kept):
                lines.append(_EXPRESSION.sub(lambda m: _value(m[1], values, namespace), line))
        elif control[1] == "if":
            kept.append(_looked_up(control[2], values) is True)
        else:
            kept.pop()
    assert kept == [True], "an if without its end"
    return "".join(lines)


def _value(expression: str, values: dict[str, Any], namespace: str) -> str:
    if expression == ".Release.Namespace":
        return namespace
    if expression.startswith("`"):
        return expression.strip("`")
    return str(_looked_up(expression, values))


def _looked_up(expression: str, values: dict[str, Any]) -> Any:
    assert expression.startswith(".Values."), expression
    found: Any = values
    for key in expression.removeprefix(".Values.").split("."):
        found = found[key]
    return found
