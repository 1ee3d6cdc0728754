"""What a flight recorder writes down: one value for each thing that happens to a pod.

Notes hold references to values that exist anyway and are never bigger than a few kilobytes; texts
and documents are made of them only when they are read (`flight_documents`). Every note tells about
how many bytes it keeps alive, so that its owner can stay within a limit. Times are seconds of the
process's monotonic clock.
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from numakube.scheduling.numa.alignment_rejection import Rejection
from numakube.scheduling.numa.caches.mispredictions import Refusal, Severity
from numakube.values.resources import Amounts

ZoneUse: TypeAlias = Mapping[tuple[int, ...], Amounts]
"""As in `numakube.scheduling.numa.caches.mispredictions`."""

_NOTE_BYTES: Final = 160
"""A small object with its slots, its numbers and its place in a list."""
_TEXT_BYTES: Final = 64
_ZONE_BYTES: Final = 512
"""One zone of a use: a tuple, a dict, and amounts that are not shared."""
_GROUP_BYTES: Final = 512
_NAME_BYTES: Final = 8
"""Names of nodes are those of the cluster's own objects."""
_ARRAY_BYTES: Final = 128


def bytes_of_text(text: str) -> int:
    """Return about how many bytes *text* takes."""
    return _TEXT_BYTES + len(text)


def bytes_of_use(use: ZoneUse | Refusal | None) -> int:
    """Return about how many bytes a use of zones takes."""
    if use is None:
        return 0
    if isinstance(use, Refusal):
        return 2 * _TEXT_BYTES + len(use.reason) + len(use.message)
    return _ZONE_BYTES * (1 + len(use))


class Group(Struct, frozen=True, gc=False):
    """Nodes that refused the pod for the same reason.

    Attributes:
        nodes: how many.
        examples: names of the first few.
        rejection: the refusal as a value, with the numbers of the node that came closest.
        confirmed: whether the counts allowed it and only the final check, by the kubelet model,
            did not.
        hopeless: whether no eviction would help.
    """

    plugin: str
    reasons: tuple[str, ...]
    nodes: int
    examples: tuple[str, ...] = ()
    rejection: Rejection | None = None
    confirmed: bool = False
    hopeless: bool = False

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        detail = self.rejection.detail if self.rejection is not None else ""
        texts = sum(map(len, self.reasons)) + len(detail)
        return _GROUP_BYTES + texts + _NAME_BYTES * len(self.examples)


class Candidates(Struct, frozen=True, gc=False):
    """The best of the nodes that could have taken the pod, in any order.

    Attributes:
        nodes: their names.
        totals: for each of them.
        plugins: who rated them.
        scores: of each plugin, weighted, for each of the nodes.
    """

    nodes: tuple[str, ...]
    totals: npt.NDArray[np.int64]
    plugins: tuple[str, ...]
    scores: Sequence[npt.NDArray[np.integer]]

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return _NOTE_BYTES + (_ARRAY_BYTES + 8 * len(self.nodes)) * (2 + len(self.plugins))


class Nominated(Struct, frozen=True, gc=False):
    """Where room is made for the pod, and whose."""

    node: str
    victims: tuple[str, ...]


class Tried(Struct, frozen=True, kw_only=True, gc=False):
    """The pod was tried on the nodes of the cluster.

    Attributes:
        seconds: how long deciding took.
        evaluated: nodes that were looked at.
        feasible: nodes that passed every filter.
        node: the chosen one; empty if there is none.
        groups: who refused it, and why.
        others: refusals that are not in ``groups``, of which there were too many.
        message: what was told to users.
        nominated: where room is being made.
        remembered: nothing had changed since a pod like this was refused; it was not tried again.
        unfinished: not every node was looked at; it is tried again soon.
        by: the call that asked, if another program decides.
    """

    at: float
    seconds: float
    evaluated: int = 0
    feasible: int = 0
    node: str = ""
    groups: tuple[Group, ...] = ()
    others: int = 0
    candidates: Candidates | None = None
    message: str = ""
    nominated: Nominated | None = None
    remembered: bool = False
    unfinished: bool = False
    by: str = ""

    @property
    def size(self) -> int:
        """About how many bytes it keeps alive."""
        size = 2 * _NOTE_BYTES + len(self.message)
        for group in self.groups:
            size += group.size
        if self.candidates is not None:
            size += self.candidates.size
        if self.nominated is not None:
            size += _NOTE_BYTES + sum(map(bytes_of_text, self.nominated.victims))
        return size


class Reserved(Struct, frozen=True, gc=False):
    """The pod was booked on a node.

    Attributes:
        predicted: the zones that the kubelet is expected to give it; ``None`` without exact data.
        anywhere: NUMA nodes on which it may be, if that is all that is known.
    """

    at: float
    node: str
    predicted: ZoneUse | Refusal | None = None
    anywhere: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """About how many bytes it keeps alive."""
        return _NOTE_BYTES + bytes_of_use(self.predicted) + _NAME_BYTES * len(self.anywhere)


class Bound(Struct, frozen=True, gc=False):
    """The API server accepted the binding."""

    at: float
    node: str

    @property
    def size(self) -> int:
        """About how many bytes it keeps alive."""
        return _NOTE_BYTES


class NotBound(Struct, frozen=True, gc=False):
    """The pod was not bound after all, or the attempt failed for another reason."""

    at: float
    reason: str

    @property
    def size(self) -> int:
        """About how many bytes it keeps alive."""
        return _NOTE_BYTES + bytes_of_text(self.reason)


class Admitted(Struct, frozen=True, gc=False):
    """The kubelet took the pod."""

    at: float
    node: str

    @property
    def size(self) -> int:
        """About how many bytes it keeps alive."""
        return _NOTE_BYTES


class Rejected(Struct, frozen=True, gc=False):
    """The kubelet refused the pod."""

    at: float
    node: str
    reason: str
    message: str

    @property
    def size(self) -> int:
        """About how many bytes it keeps alive."""
        return _NOTE_BYTES + bytes_of_text(self.reason) + bytes_of_text(self.message)


class Observed(Struct, frozen=True, gc=False):
    """A report of the node contains the pod for the first time, with the zones that it got."""

    at: float
    node: str
    zones: ZoneUse

    @property
    def size(self) -> int:
        """About how many bytes it keeps alive."""
        return _NOTE_BYTES + bytes_of_use(self.zones)


class Mispredicted(Struct, frozen=True, gc=False):
    """The pod got something else than was predicted: both views."""

    at: float
    node: str
    severity: Severity
    predicted: ZoneUse | Refusal
    reported: ZoneUse | Refusal

    @property
    def size(self) -> int:
        """About how many bytes it keeps alive."""
        return _NOTE_BYTES + bytes_of_use(self.predicted) + bytes_of_use(self.reported)


class Ended(Struct, frozen=True, gc=False):
    """The pod has ended, or was deleted."""

    at: float
    how: str

    @property
    def size(self) -> int:
        """About how many bytes it keeps alive."""
        return _NOTE_BYTES + bytes_of_text(self.how)


class Told(Struct, frozen=True, gc=False):
    """Something else that is worth knowing, with its values."""

    at: float
    what: str
    values: Mapping[str, str | int]

    @property
    def size(self) -> int:
        """About how many bytes it keeps alive."""
        texts = (bytes_of_text(str(value)) for value in self.values.values())
        return _NOTE_BYTES + bytes_of_text(self.what) + 64 * len(self.values) + sum(texts)


Note: TypeAlias = (
    Tried
    | Reserved
    | Bound
    | NotBound
    | Admitted
    | Rejected
    | Observed
    | Mispredicted
    | Ended
    | Told
)


class Subject(Struct, frozen=True, gc=False):
    """The pod that a flight is of."""

    uid: str
    namespace: str
    name: str
    scheduler: str = ""

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


class Queued(Struct, frozen=True, gc=False):
    """Why an attempt was made.

    Attributes:
        at: when the pod came to the queue, or was woken.
        why: what brought it there.
    """

    at: float
    why: str = ""

    @property
    def size(self) -> int:
        """About how many bytes it keeps alive."""
        return _NOTE_BYTES + bytes_of_text(self.why)
