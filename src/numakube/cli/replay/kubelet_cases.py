"""``numakube replay kubelet``: what the kubelet's managers answered to a sequence of pods."""

from __future__ import annotations

from typing import Any

from numakube.cli.replay.case_loop import Format, replay_command


def _load() -> Format:
    from numakube.kubelet.kubelet_replay import answer

    required = ("id", "machine", "kubelet", "steps")
    return Format(answer=answer, recorded=_recorded, required=required)


def _recorded(row: dict[str, Any]) -> dict[str, Any]:
    if row.get("noAnswer"):
        return {}
    return {key: row[key] for key in ("id", "expect", "startError") if key in row}


command = replay_command(
    "kubelet", "Answer recorded sequences of pods with the model of the kubelet.", _load
)
