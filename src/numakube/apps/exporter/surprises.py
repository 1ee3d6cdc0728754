"""Decides whether a report has to be written: only if it says what no scheduler foresaw.

What pods were expected to hold stands on them (`numakube.topology.foreseen_holdings`). A report is
not written if the last one, without the pods that ended since and with those that came as foreseen,
is the state of the kubelet. What readers cannot know is written at once:

* a pod holds something else than foreseen, or nothing was foreseen for it;
* a pod was deleted without having ended, or it holds nothing any more and has not ended;
* anything else has changed: devices, the configuration, the machine.

And something is written now and then in any case (`Silence.seconds`). A reader that was not there
when a pod ended learns of it by then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from numakube.api.pod import has_ended
from numakube.kube.clock import spread
from numakube.kube.store import Removed
from numakube.topology.exact_report import Holding, uid_hash
from numakube.topology.foreseen_holdings import read_foreseen, same_state, state_after
from numakube.topology.report_update import MOVING_ATTRIBUTES, lasting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from random import Random

    from numakube.api.nrt import Attribute, Zone
    from numakube.api.pod import Pod
    from numakube.apps.exporter.report import Report
    from numakube.kube.clock import Clock
    from numakube.kube.store import Change
    from numakube.topology.exact_report import ExactReport, UidHash

WAIT_SECONDS: Final = 2.0
"""How long the end of a pod may be known to the kubelet and not to the API."""


class Silence:
    """Knows what was written last and what has become of the node's pods since.

    Attributes:
        seconds: how long nothing is written at most.
    """

    def __init__(
        self, pods: Callable[[], Iterable[Pod]], *, seconds: float, clock: Clock, random: Random
    ) -> None:
        """Prepare; the first report is written in any case.

        Args:
            pods: returns the pods that the API has on the node.
            seconds: how long nothing is written at most.
            clock: tells the time.
            random: spreads the writes of many exporters.
        """
        self.seconds = seconds
        self._pods = pods
        self._clock = clock
        self._random = random
        self._written: Report | None = None
        self._due = 0.0
        self._ended: set[UidHash] = set()
        self._waits_since: float | None = None
        # Deletions of pods that had not ended: how many there were, and how many are written.
        self._deletions = self._judged = self._told = 0
        # How often what readers have was lost, and how often it was when a report was judged last.
        self._losses = self._losses_judged = 0

    def note(self, change: Change[Pod]) -> None:
        """Take note of what became of a pod."""
        uid = uid_hash(change.object.metadata.uid)
        if has_ended(change.object):
            self._ended.add(uid)
        elif isinstance(change, Removed) and uid not in self._ended:
            self._deletions += 1

    @property
    def is_over(self) -> bool:
        """Whether something has to be written by now, whatever it is."""
        return self._written is None or self._clock.monotonic() >= self._due

    @property
    def waits(self) -> bool:
        """Whether the API is about to tell of an end that the kubelet knows already."""
        return self._waits_since is not None

    def covers(self, report: Report) -> bool:
        """Tell whether readers know all of *report* already."""
        self._judged, self._losses_judged = self._deletions, self._losses
        written = self._written
        if written is None or self.is_over or self._deletions != self._told:
            return False
        if written.exact is None or report.exact is None:
            return False
        return _fixed(written) == _fixed(report) and self._foreseen(written.exact, report.exact)

    def wrote(self, report: Report) -> None:
        """Take note that *report*, which was judged last, is what readers have.

        Unless that was lost while it was being written: the object may be gone by now.
        """
        lost = self._losses != self._losses_judged
        self._written = None if lost else report
        self._told, self._waits_since = self._judged, None
        self._due = self._clock.monotonic() + spread(self.seconds, self._random)
        self._ended &= report.exact.pods.keys() if report.exact is not None else set()

    def end(self) -> None:
        """Have the next report written: what readers have is not known, or something else."""
        self._written = None
        self._losses += 1

    def _foreseen(self, written: ExactReport, now: ExactReport) -> bool:
        gone = written.pods.keys() - now.pods.keys()
        came = self._came(written, now)
        after = None if came is None else state_after(written, gone, came)
        if after is None or not same_state(after, now):
            return False
        return self._will_be_told(gone - self._ended)

    def _will_be_told(self, gone: set[UidHash]) -> bool:
        """Tell whether the API tells of the end of *gone*: a kubelet does so after a moment."""
        if not gone:
            self._waits_since = None
            return True
        if not gone <= {uid_hash(pod.metadata.uid) for pod in self._pods()}:
            return False  # the API does not know all of them any more
        now = self._clock.monotonic()
        since = self._waits_since = now if self._waits_since is None else self._waits_since
        return now - since < WAIT_SECONDS

    def _came(self, written: ExactReport, now: ExactReport) -> Mapping[UidHash, Holding] | None:
        """Return what was foreseen for the pods that came; ``None`` if that is missing for one."""
        new = {uid: held for uid, held in now.pods.items() if uid not in written.pods}
        came: dict[UidHash, Holding] = {}
        for pod in self._pods() if new else ():
            uid = pod.metadata.uid
            holding = read_foreseen(pod.metadata.annotations, uid, written)
            if holding is not None and uid_hash(uid) in new:
                came[uid_hash(uid)] = holding
        for uid in new.keys() - came.keys():
            if not new[uid].empty:
                return None
            came[uid] = Holding()
        return came


def _fixed(report: Report) -> tuple[object, ...]:
    """Return the part of *report* that pods do not change."""
    return (
        tuple(map(_empty, report.zones)),
        _lasting(report.attributes),
        lasting(report.annotations),
    )


def _empty(zone: Zone) -> Zone:
    resources = tuple(
        msgspec.structs.replace(resource, available="") for resource in zone.resources
    )
    attributes = _lasting(zone.attributes)
    return msgspec.structs.replace(zone, resources=resources, attributes=attributes)


def _lasting(attributes: Iterable[Attribute]) -> tuple[Attribute, ...]:
    return tuple(attribute for attribute in attributes if attribute.name not in MOVING_ATTRIBUTES)
