"""``numakube replay filter``: what the Go plugin NodeResourceTopologyMatch answered."""

from __future__ import annotations

from typing import Any

from numakube.cli.replay.case_loop import Format, replay_command


def _load() -> Format:
    from numakube.scheduling.numa.upstream.replay_filter import answer

    return Format(answer=answer, recorded=_recorded, required=("id", "nodes", "nrts", "pods"))


def _recorded(row: dict[str, Any]) -> dict[str, Any]:
    return {key: row[key] for key in ("id", "verdicts") if key in row}


command = replay_command(
    "filter", "Answer recorded filter and score calls of NodeResourceTopologyMatch.", _load
)
