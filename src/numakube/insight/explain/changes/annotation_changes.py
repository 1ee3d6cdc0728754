"""Wish for less by annotation: devices that are less close."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from numakube.api.strictness import CLOSENESS, RequiredCloseness
from numakube.insight.explain.explanation_document import Change

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.api.pod import Pod
    from numakube.insight.explain.node_verdicts import Judgement
    from numakube.insight.explain.what_if import Bench


def farther_apart(bench: Bench, judgement: Judgement) -> Iterator[Change]:
    """Yield the closest that the pod's devices can be, if they cannot be as close as it asks."""
    asked = bench.pod.metadata.annotations.get(CLOSENESS, "")
    words = tuple(RequiredCloseness)
    refused = any("not close enough" in refusal.status.message for refusal in judgement.refusals)
    if not refused or asked not in words:
        return
    for word in (*words[words.index(RequiredCloseness(asked)) + 1 :], ""):
        node = bench.taker(_asking(bench.pod, word))
        if node is not None:
            done = f"Set the annotation {CLOSENESS} to {word}" if word else f"Drop {CLOSENESS}"
            text = f"{done}: fits on {node}."
            yield Change(kind="closeness", text=text, node=node, was=asked, to=word)
            return


def _asking(pod: Pod, closeness: str) -> Pod:
    """Return *pod* with another required closeness, or none."""
    kept = {key: text for key, text in pod.metadata.annotations.items() if key != CLOSENESS}
    annotations = {**kept, CLOSENESS: closeness} if closeness else kept
    metadata = msgspec.structs.replace(pod.metadata, annotations=annotations)
    return msgspec.structs.replace(pod, metadata=metadata)
