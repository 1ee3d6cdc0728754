"""Tell where two servers answered differently, in a form that can be acted on."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from msgspec import UNSET
from tests.lab.differential.driving import Record
from tests.lab.differential.sequences import Sequence

from numakube_lab.replay.recorded_cases import Difference, Matcher, RecordedStep

SHOWN: Final = 12


@dataclass(frozen=True, slots=True)
class Disagreement:
    """The first request of a sequence that two servers answered differently.

    Attributes:
        step: the number of the request; None for the events of a watch.
        about: what was asked.
        differences: where the answers differ; ``wanted`` is what the real server says.
        real: the real answer as received.
        lab: the lab's answer as received.
    """

    step: int | None
    about: str
    differences: tuple[Difference, ...]
    real: str = ""
    lab: str = ""

    @property
    def signature(self) -> str:
        """Return what tells it from others of another cause, roughly."""
        method = self.about.partition(" ")[0]
        first = self.differences[0]
        path = "/".join("#" if part.isdigit() else part for part in first.path.split("/"))
        return f"{method} {path} {str(first.wanted)[:60]} {str(first.got)[:60]}"

    def __str__(self) -> str:
        lines = [self.about]
        lines += [f"    {difference}" for difference in self.differences[:SHOWN]]
        lines += [f"  real: {self.real[:1500]}", f"  lab:  {self.lab[:1500]}"]
        return "\n".join(lines)


def compare(sequence: Sequence, real: Record, lab: Record) -> Disagreement | None:
    """Return the first disagreement of two servers on *sequence*."""
    for number, step in enumerate(sequence.steps):
        found = _differences(real.answers[number], lab.answers[number])
        if found:
            return Disagreement(
                number, describe(step), found, real.texts[number], lab.texts[number]
            )
    for kind in sequence.kinds:
        wanted, got = real.events[kind.resource], lab.events[kind.resource]
        if found := _differences(wanted, got):
            shown = [json.dumps([_brief(event) for event in events]) for events in (wanted, got)]
            return Disagreement(None, f"WATCH {kind.collection}", found, *shown)
    return None


def describe(step: RecordedStep) -> str:
    """Return the request of *step* as text."""
    query = "&".join(f"{name}={value}" for name, value in step.query.items())
    parts = [step.method, f"{step.path}?{query}" if query else step.path]
    parts += [f"{name}: {value}" for name, value in step.headers.items()]
    if step.body is not UNSET:
        parts.append(json.dumps(step.body))
    return " ".join(parts)


def _brief(event: dict[str, Any]) -> str:
    metadata = event["object"].get("metadata", {})
    return f"{event['type']} {metadata.get('name')} {metadata.get('resourceVersion')}"


def _differences(real: Any, lab: Any) -> tuple[Difference, ...]:
    # The names in common stand on both sides, so nothing is a template here.
    return tuple(Matcher(frozenset(), managed_fields=True).differences(real, lab))
