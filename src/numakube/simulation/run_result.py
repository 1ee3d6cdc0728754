"""What became of a workload in one run: one arm, one seed."""

from typing import Final

from numakube.api.codec import Wire

_TOPOLOGY_ERROR: Final = "TopologyAffinityError"


class Moment(Wire, frozen=True):
    """The cluster at one time.

    Attributes:
        at: seconds since the beginning.
        running: pods that run; ``waiting`` ones have no node.
        rejected: pods that kubelets have rejected so far.
        allocated: what running pods have requested, by resource, as a share of what there is.
    """

    at: float
    running: int = 0
    waiting: int = 0
    rejected: int = 0
    allocated: dict[str, float] = {}  # noqa: RUF012 - msgspec gives each instance its own


class RunResult(Wire, frozen=True, omit_defaults=False):
    """The answers of one run.

    A pod here is what its owner wants: replacements of a rejected pod are the same pod.

    Attributes:
        arm: the name of the arm.
        pods: how many came.
        ran: how many ran, be it for a while.
        never_placed: how many did not run until the end of the simulation.
        unplaced: why, and how many of them: the scheduler's last words, or the kubelets' reason.
        bound: how often a pod was bound, replacements included.
        rejections: how often kubelets rejected a bound pod, by reason.
        first_refused: pods whose first binding was rejected.
        given_up: pods that were rejected so often that they were not replaced any more.
        evictions: pods that were preempted.
        seconds_to_run: from the arrival of a pod until it ran: ``p50``, ``p90``, ``p99`` of those
            that ran.
        allocated: of each resource, the share that running pods have requested at the end.
        peak_allocated: the same at its highest.
        stranded: of each resource, the share that is free in a zone but cannot be used there.
        aligned: pods with resources of their own, all of which were on one NUMA node; of
            ``alignable`` ones.
        pairs_together: pods with devices of several resources, all on one NUMA node; of ``pairs``.
        ended_at: when nothing happened any more.
        moments: the course of the run.
        pods_by_node: how many pods ran on each node at the end, nodes in order.
    """

    arm: str
    seed: int
    pods: int = 0
    ran: int = 0
    never_placed: int = 0
    unplaced: dict[str, int] = {}  # noqa: RUF012
    bound: int = 0
    rejections: dict[str, int] = {}  # noqa: RUF012
    first_refused: int = 0
    given_up: int = 0
    evictions: int = 0
    seconds_to_run: dict[str, float] = {}  # noqa: RUF012
    allocated: dict[str, float] = {}  # noqa: RUF012
    peak_allocated: dict[str, float] = {}  # noqa: RUF012
    stranded: dict[str, float] = {}  # noqa: RUF012
    aligned: int = 0
    alignable: int = 0
    pairs_together: int = 0
    pairs: int = 0
    ended_at: float = 0.0
    moments: tuple[Moment, ...] = ()
    pods_by_node: tuple[int, ...] = ()

    @property
    def topology_errors_per_1000(self) -> float:
        """TopologyAffinityErrors per 1,000 bound pods."""
        return self._per_1000(self.rejections.get(_TOPOLOGY_ERROR, 0))

    @property
    def other_errors_per_1000(self) -> float:
        """Rejections for any other reason per 1,000 bound pods."""
        return self._per_1000(
            sum(self.rejections.values()) - self.rejections.get(_TOPOLOGY_ERROR, 0)
        )

    def _per_1000(self, errors: int) -> float:
        return 1000 * errors / self.bound if self.bound else 0.0
