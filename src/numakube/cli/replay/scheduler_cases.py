"""``numakube replay scheduler``: what kube-scheduler's plugins said of pods and nodes."""

from __future__ import annotations

from typing import Any, Final

from numakube.cli.replay.case_loop import Format, replay_command

_IN_ORDER: Final = (
    "Too many pods",
    "Insufficient cpu",
    "Insufficient memory",
    "Insufficient ephemeral-storage",
)


def _load() -> Format:
    from numakube.scheduling.scheduler_replay import answer

    return Format(answer=answer, recorded=_recorded, required=("id", "nodes", "pods"))


def _recorded(row: dict[str, Any]) -> dict[str, Any]:
    expect = {pod: _without(answer) for pod, answer in row["expect"].items()}
    return {"id": row["id"], "expect": expect}


def _without(answer: dict[str, Any]) -> dict[str, Any]:
    if "nodes" not in answer:
        return answer
    return {**answer, "nodes": {name: _verdict(one) for name, one in answer["nodes"].items()}}


def _verdict(recorded: dict[str, Any]) -> dict[str, Any]:
    verdict = dict(recorded)
    if verdict.get("plugin") == "NodeResourcesFit":
        # kube-scheduler lists what is lacking of several extended resources in random order.
        reasons = verdict["reasons"]
        special = sorted(one for one in reasons if one not in _IN_ORDER)
        verdict["reasons"] = [*(one for one in reasons if one in _IN_ORDER), *special]
    return verdict


command = replay_command(
    "scheduler", "Answer recorded pods with the plugins of the default profile.", _load
)
