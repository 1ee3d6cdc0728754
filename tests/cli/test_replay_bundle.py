"""``numakube replay bundle``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.insight.explain.bundling import collected_of
from tests.insight.test_redeciding import world

from numakube.apps.bundle import pack


def test_the_command_tells_what_differs(tmp_path: Path, numakube: Callable[..., Any]) -> None:
    """And ends with 1 if anything does."""
    file = tmp_path / "bundle.tgz"
    file.write_bytes(pack(collected_of(world().facts())))
    ended = numakube("replay", "bundle", file, "--check")
    assert ended.code == 1
    assert ended.out.splitlines()[-1] == "1 passed, 1 failed"
    assert "  now:       fits on node-a" in ended.out
    answers = [json.loads(line) for line in numakube("replay", "bundle", file).out.splitlines()]
    assert answers[0]["pod"] == "default/right"
