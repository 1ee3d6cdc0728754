"""Differences between two JSON values as kube-apiserver shows them in a refusal."""

from __future__ import annotations

import difflib
import json


def json_diff(old: object, new: object) -> str:
    """Return a unified diff of the two values printed with one space of indentation."""
    before, after = (
        json.dumps(value, indent=1, sort_keys=True).splitlines() for value in (old, new)
    )
    lines = list(difflib.unified_diff(before, after, lineterm=""))
    return "".join(f"{line}\n" for line in lines[2:])
