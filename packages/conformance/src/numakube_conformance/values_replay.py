"""Answers to the recorded rows about values: quantities, CPU lists, and what a pod amounts to.

A row of ``values.jsonl.gz`` has a question (``s`` or ``pod``) and the recorded answer in the same
object; `values_answer` gives our answer in the same shape, so that the two can be compared whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numakube.api.codec import convert
from numakube.api.pod import Pod
from numakube.api.pod_resources import compute_qos_class, effective_requests
from numakube.errors import InvalidValue, MalformedObject
from numakube.values.cpuset import format_cpu_list, parse_cpu_list
from numakube.values.quantity import parse_quantity

if TYPE_CHECKING:
    from collections.abc import Mapping


def values_answer(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return our answer to the question of *row*, in the recorded shape."""
    kind = row.get("kind")
    match kind:
        case "quantity":
            return {"kind": kind, "s": row["s"], **_quantity_answer(row["s"])}
        case "cpuset":
            return {"kind": kind, "s": row["s"], **_cpuset_answer(row["s"])}
        case "pod":
            return {"kind": kind, "pod": row["pod"], **_pod_answer(row["pod"])}
        case _:
            raise MalformedObject("values row", f"no such kind: {kind!r}", path="kind")


def _quantity_answer(text: str) -> dict[str, Any]:
    try:
        quantity = parse_quantity(text)
    except InvalidValue:
        return {"error": True}
    return {
        "canonical": str(quantity),
        "value": quantity.value(),
        "milli": quantity.milli_value(),
    }


def _cpuset_answer(text: str) -> dict[str, Any]:
    try:
        ranges = parse_cpu_list(text)
    except InvalidValue:
        return {"error": True}
    return {
        "canonical": format_cpu_list(ranges),
        "size": sum(last - first + 1 for first, last in ranges),
    }


def _pod_answer(tree: object) -> dict[str, Any]:
    pod = convert(Pod, tree)
    requests = effective_requests(pod)
    return {
        "qos": compute_qos_class(pod),
        "requests": {name: str(quantity) for name, quantity in requests.items()},
    }
