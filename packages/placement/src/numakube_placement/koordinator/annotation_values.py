"""The words of Koordinator's API that decide something, and how its JSON is read.

Every mistake in an annotation is reported with the key and the field: one line,
``metadata.annotations[<key>].<field>: <what is wrong>``, as Kubernetes names fields. Unknown fields
are allowed, since others may know them; a known field in the wrong case is a mistake, because Go
would read it and we would not.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from numakube.api.codec import decode
from numakube.errors import MalformedObject
from numakube.values.topology_policy import POLICY_BY_API_NAME, TopologyPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping


class Exclusive(StrEnum):
    """Whether pods on one NUMA node and pods across several keep away from each other."""

    NO = ""
    PREFERRED = "Preferred"
    REQUIRED = "Required"


class BindPolicy(StrEnum):
    """How CPUs are picked."""

    NONE = ""
    FULL_PCPUS = "FullPCPUs"
    SPREAD_BY_PCPUS = "SpreadByPCPUs"


class Strategy(StrEnum):
    """Which NUMA nodes are taken first: the fullest, the emptiest, or all in equal parts."""

    MOST_ALLOCATED = "MostAllocated"
    LEAST_ALLOCATED = "LeastAllocated"
    DISTRIBUTE_EVENLY = "DistributeEvenly"


class Arbiter(StrEnum):
    """Who decides where on the node a pod's resources come from."""

    NOBODY = "nobody"
    KUBELET = "kubelet"
    SCHEDULER = "scheduler"


T = TypeVar("T")
Word = TypeVar("Word", bound=StrEnum)

NO_POLICY_NAMES: Final = ("None", "none")
"""Words for the policy that aligns nothing."""


def annotation(key: str, field: str = "") -> str:
    """Return the place of an annotation, or of a field in its JSON."""
    place = f"metadata.annotations[{key}]"
    return f"{place}{field}" if field.startswith("[") or not field else f"{place}.{field}"


def label(key: str) -> str:
    """Return the place of a label."""
    return f"metadata.labels[{key}]"


def read_json(
    kind: type[T], annotations: Mapping[str, str], key: str, problems: list[str]
) -> T | None:
    """Return the annotation *key* as a *kind*; ``None`` if it is missing or cannot be read."""
    text = annotations.get(key)
    if text is None:
        return None
    try:
        value = decode(kind, text, key)
    except MalformedObject as error:
        problems.append(f"{annotation(key, error.path)}: {error.detail}")
        return None
    for found, meant in _in_wrong_case(kind, text):
        problems.append(f"{annotation(key, found)}: is spelled {meant}")
    return value


def read_word(
    kind: type[Word], text: str, place: str, problems: list[str], *, also: tuple[str, ...] = ()
) -> Word | None:
    """Return *text* as a *kind*; ``None`` if the word is unknown, which is noted.

    Args:
        kind: the words that are known.
        text: what was written.
        place: where it was written.
        problems: where to note it.
        also: further words to offer people, which the caller understands.
    """
    try:
        return kind(text)
    except ValueError:
        known = ", ".join((*filter(None, kind), *also))
        problems.append(f"{place}: unknown word {text!r}: use one of {known}")
        return None


def read_policy_name(text: str, place: str, problems: list[str]) -> TopologyPolicy | None:
    """Return the policy with Koordinator's name *text*; ``None`` if unknown, which is noted."""
    if text in NO_POLICY_NAMES:
        return TopologyPolicy.NONE
    if text not in POLICY_BY_API_NAME:
        known = ", ".join((*POLICY_BY_API_NAME, NO_POLICY_NAMES[0]))
        problems.append(f"{place}: unknown word {text!r}: use one of {known}")
    return POLICY_BY_API_NAME.get(text)


def _in_wrong_case(kind: type[object], text: str) -> list[tuple[str, str]]:
    """Return the fields in *text* that are those of *kind* but for upper and lower case."""
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return []
    names = [field.encode_name for field in msgspec.structs.fields(kind)]
    meant = {name.lower(): name for name in names}
    tree = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    return [
        (found, meant[found.lower()])
        for found in tree
        if found not in names and found.lower() in meant
    ]
