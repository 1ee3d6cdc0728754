"""``numakube replay dra``: what kube-scheduler allocated to claims, and how its plugin went on."""

from __future__ import annotations

from typing import Any

from numakube.cli.replay.case_loop import Format, replay_command


def _load() -> Format:
    from numakube.scheduling.dra_replay import answer, comparable

    def compared(row: dict[str, Any]) -> dict[str, Any]:
        return comparable({"id": row["id"], "expect": row["expect"]})

    return Format(
        answer=answer,
        recorded=compared,
        required=("id", "layer", "nodes", "slices", "classes", "claims"),
        compared=comparable,
    )


command = replay_command("dra", "Answer recorded allocations of claims for devices (DRA).", _load)
