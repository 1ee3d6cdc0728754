"""As much of Helm's rendering as our templates need: values, switches, lists, plain texts."""

from __future__ import annotations

import json
import re
from typing import Any

_EXPRESSION = re.compile(r"\{\{-? *(.*?) *-?\}\}")
_CONTROL = re.compile(r"\{\{-? *(if|range|end)\b *(.*?) *\}\}\n?")


def render(template: str, values: dict[str, Any], *, namespace: str) -> str:
    """Return what *template* renders to."""
    scope = {".Values": values, ".Release": {"Namespace": namespace}}
    text, rest = _block(template.splitlines(keepends=True), scope)
    assert not rest, "an end without its if"
    return text


def _block(lines: list[str], scope: dict[str, Any]) -> tuple[str, list[str]]:
    """Return what *lines* render to up to the end of their block, and the lines after it."""
    text = ""
    while lines:
        line, lines = lines[0], lines[1:]
        control = _CONTROL.fullmatch(line)
        if control is None:
            text += _EXPRESSION.sub(lambda m: _value(m[1], scope), line)
        elif control[1] == "end":
            return text, lines
        else:
            inside = _scopes(control[1], _looked_up(control[2], scope), scope)
            _, after = _block(lines, {**scope, ".": None})
            text += "".join(_block(lines, one)[0] for one in inside)
            lines = after
    return text, []


def _scopes(word: str, found: Any, scope: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what a block is rendered with: once for each item of a range."""
    if word == "range":
        return [{**scope, ".": item} for item in found]
    return [scope] if found else []


def _value(expression: str, scope: dict[str, Any]) -> str:
    if expression.startswith("`"):
        return expression.strip("`")
    if expression.startswith("toJson "):
        return json.dumps(_looked_up(expression.removeprefix("toJson "), scope))
    return str(_looked_up(expression, scope))


def _looked_up(expression: str, scope: dict[str, Any]) -> Any:
    if expression == ".":
        return scope["."]
    first, *keys = expression.removeprefix(".").split(".")
    found: Any = scope[f".{first}"]
    for key in keys:
        found = found[key]
    return found
