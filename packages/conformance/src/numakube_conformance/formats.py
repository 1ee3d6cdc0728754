"""The formats of `numakube replay` whose rows only have to be answered and compared.

What answers a row is loaded when the command runs, so that other commands do not pay for it.
"""

from __future__ import annotations

from typing import Any, Final

from numakube_conformance.case_loop import RecordingFormat, replay_command

_IN_ORDER: Final = (
    "Too many pods",
    "Insufficient cpu",
    "Insufficient memory",
    "Insufficient ephemeral-storage",
)


def _dra() -> RecordingFormat:
    from numakube_conformance.dra_replay import answer, comparable

    def compared(row: dict[str, Any]) -> dict[str, Any]:
        return comparable({"id": row["id"], "expect": row["expect"]})

    return RecordingFormat(
        answer=answer,
        recorded=compared,
        required=("id", "layer", "nodes", "slices", "classes", "claims"),
        compared=comparable,
    )


def _filter() -> RecordingFormat:
    from numakube_conformance.filter_replay import answer

    def recorded(row: dict[str, Any]) -> dict[str, Any]:
        return _some(row, "id", "verdicts")

    return RecordingFormat(
        answer=answer, recorded=recorded, required=("id", "nodes", "nrts", "pods")
    )


def _kubelet() -> RecordingFormat:
    from numakube_conformance.kubelet_replay import answer

    def recorded(row: dict[str, Any]) -> dict[str, Any]:
        return {} if row.get("noAnswer") else _some(row, "id", "expect", "startError")

    required = ("id", "machine", "kubelet", "steps")
    return RecordingFormat(answer=answer, recorded=recorded, required=required)


def _scheduler() -> RecordingFormat:
    from numakube_conformance.scheduler_replay import answer

    def recorded(row: dict[str, Any]) -> dict[str, Any]:
        expect = {pod: _with_reasons_in_order(one) for pod, one in row["expect"].items()}
        return {"id": row["id"], "expect": expect}

    return RecordingFormat(answer=answer, recorded=recorded, required=("id", "nodes", "pods"))


def _values() -> RecordingFormat:
    from numakube_conformance.values_replay import values_answer

    return RecordingFormat(answer=values_answer, recorded=dict, required=("kind",))


def _some(row: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: row[key] for key in keys if key in row}


def _with_reasons_in_order(answer: dict[str, Any]) -> dict[str, Any]:
    if "nodes" not in answer:
        return answer
    return {**answer, "nodes": {name: _verdict(one) for name, one in answer["nodes"].items()}}


def _verdict(recorded: dict[str, Any]) -> dict[str, Any]:
    verdict = dict(recorded)
    if verdict.get("plugin") == "NodeResourcesFit":
        # kube-scheduler lists what is lacking of several extended resources in random order.
        reasons = verdict["reasons"]
        special = sorted(reason for reason in reasons if reason not in _IN_ORDER)
        verdict["reasons"] = [*(reason for reason in reasons if reason in _IN_ORDER), *special]
    return verdict


dra = replay_command("dra", "Answer recorded allocations of claims for devices (DRA).", _dra)
filter_calls = replay_command(
    "filter", "Answer recorded filter and score calls of NodeResourceTopologyMatch.", _filter
)
kubelet = replay_command(
    "kubelet", "Answer recorded sequences of pods with the model of the kubelet.", _kubelet
)
scheduler = replay_command(
    "scheduler", "Answer recorded pods with the plugins of the default profile.", _scheduler
)
values = replay_command(
    "values", "Answer recorded questions about quantities, CPU lists and pods.", _values
)
