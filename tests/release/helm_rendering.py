"""As much of Helm's rendering as our templates need: values, switches, lists, plain texts."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

_EXPRESSION = re.compile(r"\{\{-? *(.*?) *-?\}\}")
_CONTROL = re.compile(r"\{\{-? *(if|range|else|end)\b *(.*?) *\}\}\n?")


def render(template: str, values: dict[str, Any], *, namespace: str) -> str:
    """Return what *template* renders to."""
    scope = {".Values": values, ".Release": {"Namespace": namespace}}
    text, rest = _block(template.splitlines(keepends=True), scope)
    assert not rest, "an end without its if"
    return text


def _block(lines: list[str], scope: dict[str, Any]) -> tuple[str, list[str]]:
    """Return what *lines* render to up to the end of their block, and the lines from there on."""
    text = ""
    while lines:
        line, rest = lines[0], lines[1:]
        control = _CONTROL.fullmatch(line)
        if control is None:
            text += _EXPRESSION.sub(lambda m: str(_value(m[1], scope)), line)
            lines = rest
        elif control[1] in ("end", "else"):
            return text, lines
        else:
            inside = _scopes(control[1], control[2], scope)
            _, after = _block(rest, {**scope, ".": None, "$name": None, "$on": None})
            if _CONTROL.fullmatch(after[0])[1] == "else":  # type: ignore[index]
                other, after = _block(after[1:], scope)
                text += "" if inside else other
            text += "".join(_block(rest, one)[0] for one in inside)
            lines = after[1:]
    return text, []


def _scopes(word: str, rest: str, scope: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what a block is rendered with: once for each item of a range."""
    names, _, expression = rest.rpartition(" := ")
    found = _looked_up(expression, scope)
    if names:
        key, value = names.split(", ")
        return [{**scope, key: one, value: json.dumps(found[one])} for one in sorted(found)]
    if word == "range":
        return [{**scope, ".": item} for item in found]
    return [scope] if found else []


def _value(expression: str, scope: dict[str, Any]) -> Any:
    if expression.startswith("`"):
        return expression.strip("`")
    if expression.startswith("(") and expression.endswith(")"):
        return _value(expression[1:-1], scope)
    if expression.endswith(" | sha256sum"):
        text = _value(expression.removesuffix(" | sha256sum"), scope)
        return hashlib.sha256(text.encode()).hexdigest()
    if expression.startswith("list "):
        return [_looked_up(one, scope) for one in expression.split()[1:]]
    if expression.startswith("toJson "):
        value = _value(expression.removeprefix("toJson "), scope)
        return json.dumps(value, sort_keys=True, separators=(",", ":"))
    return _looked_up(expression, scope)


def _looked_up(expression: str, scope: dict[str, Any]) -> Any:
    if expression.startswith('include "numakube.isOurs" '):
        return True  # As helm template has it, which knows of no objects.
    if expression == "." or expression.startswith("$"):
        return scope[expression]
    first, *keys = expression.removeprefix(".").split(".")
    found: Any = scope[f".{first}"]
    for key in keys:
        found = found[key]
    return found
