"""How the containers of a simulated pod fare: what runs, what has ended, and what comes next.

Nothing is executed. A pod's fate follows from when it was admitted, from its restart policy and
from four annotations, so it is computed for any moment, and a kubelet that was restarted or that
slept for an hour sees the same as one that watched all the time, as with real containers:

* ``lab.numakube.dev/start-seconds``: how long after admission its containers start;
* ``lab.numakube.dev/run-seconds``: how long its app containers run; for ever if not given;
* ``lab.numakube.dev/exit-code``: what they end with;
* ``lab.numakube.dev/termination-seconds``: how long they take to end when told to.

Back-off between restarts is the kubelet's (1.35): the first restart comes at once, the next after
10 s, doubling up to 300 s, and from the beginning after 600 s of running.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

from numakube.api.pods import is_sidecar

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from numakube.api.core import Pod

PREFIX: Final = "lab.numakube.dev/"
START_SECONDS: Final = f"{PREFIX}start-seconds"
RUN_SECONDS: Final = f"{PREFIX}run-seconds"
EXIT_CODE: Final = f"{PREFIX}exit-code"
TERMINATION_SECONDS: Final = f"{PREFIX}termination-seconds"

FIRST_BACK_OFF: Final = 10.0
LONGEST_BACK_OFF: Final = 300.0
_FORGIVEN_AFTER: Final = 2 * LONGEST_BACK_OFF
_KILLED: Final = 137
_MAX_EXIT_CODE: Final = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What a pod's annotations say about its fate; times in seconds."""

    start_seconds: float = 0.0
    run_seconds: float | None = None
    exit_code: int = 0
    termination_seconds: float = 0.0
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A container that ran and came to its end."""

    started: datetime
    finished: datetime
    exit_code: int = 0

    @property
    def reason(self) -> str:
        """The kubelet's word for it."""
        return "Error" if self.exit_code else "Completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRun:
    """One container at one moment: running, ended, or else waiting.

    Attributes:
        started: since when it runs; ``None`` if it does not.
        ended: how it ended, if it has and is not to be restarted.
        last: how it ended the time before.
        restarts: how often it was started again.
        back_off: the pause in seconds that it waits for to be restarted; 0 if it does not.
        trouble: why it cannot be started: the kubelet's reason and message.
    """

    started: datetime | None = None
    ended: Ended | None = None
    last: Ended | None = None
    restarts: int = 0
    back_off: float = 0.0
    trouble: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRun:
    """All containers of a pod at one moment.

    Attributes:
        containers: app containers, in the order of the pod's spec.
        init: init containers and sidecars.
        next_change: when something will be different; ``None`` if nothing will by itself.
        deadline_exceeded: it was ended because it was active for too long.
    """

    containers: Mapping[str, ContainerRun] = field(default_factory=lambda: MappingProxyType({}))
    init: Mapping[str, ContainerRun] = field(default_factory=lambda: MappingProxyType({}))
    next_change: datetime | None = None
    deadline_exceeded: bool = False

    @property
    def initialized(self) -> bool:
        """Whether the app containers may start."""
        return all(run.ended or run.started for run in self.init.values())

    @property
    def finished(self) -> bool:
        """Whether every app container has ended for good."""
        return all(run.ended for run in self.containers.values())

    @property
    def stopped(self) -> bool:
        """Whether nothing runs."""
        return not any(run.started for run in (*self.init.values(), *self.containers.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """The order to end a pod, when the kubelet saw it and how long the containers may take."""

    since: datetime
    grace_seconds: float


class Runtime(Protocol):
    """What runs containers: the simulation here, or something that really does."""

    def observe(self, pod: Pod, *, begun: datetime, now: datetime, stop: Stop | None) -> PodRun:
        """Return how the containers of a pod that was admitted at *begun* are doing."""
        ...

    def forget(self, uid: str) -> None:
        """Drop everything about a pod that is gone; unknown uids are fine."""
        ...

    def retain(self, node: str, uids: Collection[str]) -> None:
        """Drop what runs on a node and is none of *uids*: its kubelet did not see them go."""
        ...


class Simulation:
    """The runtime that only pretends."""

    def observe(self, pod: Pod, *, begun: datetime, now: datetime, stop: Stop | None) -> PodRun:
        """Return how the containers of *pod* are doing according to its script."""
        return observe(pod, begun=begun, now=now, stop=stop)

    def forget(self, uid: str) -> None:
        """Do nothing: there is nothing to remember."""

    def retain(self, node: str, uids: Collection[str]) -> None:
        """Do nothing."""


def script_of(annotations: Mapping[str, str]) -> Script:
    """Read a pod's script; what makes no sense is left out and named in ``problems``."""
    found: dict[str, float] = {}
    problems = []
    for name in (START_SECONDS, RUN_SECONDS, EXIT_CODE, TERMINATION_SECONDS):
        if name in annotations:
            number = _number(annotations[name])
            if number is None or (name == EXIT_CODE and not _is_exit_code(number)):
                problems.append(f"annotation {name}: {annotations[name]!r} is not usable: ignored")
            else:
                found[name] = number
    return Script(
        start_seconds=found.get(START_SECONDS, 0.0),
        run_seconds=found.get(RUN_SECONDS),
        exit_code=int(found.get(EXIT_CODE, 0)),
        termination_seconds=found.get(TERMINATION_SECONDS, 0.0),
        problems=tuple(problems),
    )


def observe(pod: Pod, *, begun: datetime, now: datetime, stop: Stop | None = None) -> PodRun:
    """Return how the containers of *pod*, admitted at *begun*, are doing at *now*."""
    script = script_of(pod.metadata.annotations)
    start = begun + timedelta(seconds=script.start_seconds)
    deadline = deadline_of(pod, begun)
    exceeded = deadline is not None and deadline <= (min(now, stop.since) if stop else now)
    if deadline is not None and exceeded:
        stop = Stop(since=deadline, grace_seconds=grace_of(pod))
    policy = pod.spec.restart_policy or "Always"
    app, changes = app_run(script, start, now, policy, stop)
    if not exceeded and deadline is not None and stop is None:
        changes.append(deadline)
    containers = {one.name: app for one in pod.spec.containers}
    init = {
        one.name: _init_run(start, now, app, sidecar=is_sidecar(one))
        for one in pod.spec.init_containers
    }
    upcoming = [moment for moment in changes if moment > now]
    return PodRun(
        containers=containers,
        init=init,
        next_change=min(upcoming, default=None),
        deadline_exceeded=exceeded,
    )


def blocked(run: PodRun, reason: str, message: str, *, again: datetime) -> PodRun:
    """Return *run* as it is if nothing could be started; the next attempt is at *again*."""
    waiting = ContainerRun(trouble=(reason, message))
    return PodRun(
        containers=dict.fromkeys(run.containers, waiting),
        init=dict.fromkeys(run.init, ContainerRun()),
        next_change=again,
    )


def app_run(
    script: Script, start: datetime, now: datetime, policy: str, stop: Stop | None
) -> tuple[ContainerRun, list[datetime]]:
    """Return the state of an app container, and moments at which it will change."""
    if stop is None or now < stop.since:
        return _undisturbed(script, start, now, policy)
    before, _ = _undisturbed(script, start, stop.since, policy)
    if before.started is None:
        # What waits to be restarted is not: its last end was its end.
        return replace(before, ended=before.ended or before.last, back_off=0.0), []
    in_time = script.termination_seconds < stop.grace_seconds or not script.termination_seconds
    seconds = script.termination_seconds if in_time else stop.grace_seconds
    end, code = stop.since + timedelta(seconds=seconds), 0 if in_time else _KILLED
    if script.run_seconds is not None:
        natural = before.started + timedelta(seconds=script.run_seconds)
        if natural <= end:
            end, code = natural, script.exit_code
    if now < end:
        return before, [end]
    ended = Ended(started=before.started, finished=end, exit_code=code)
    return replace(before, started=None, ended=ended), []


def _undisturbed(
    script: Script, start: datetime, now: datetime, policy: str
) -> tuple[ContainerRun, list[datetime]]:
    """Return the state of an app container that nobody stops."""
    run = ContainerRun()
    back_off = pause = 0.0
    while now >= start:
        if script.run_seconds is None:
            return replace(run, started=start), []
        end = start + timedelta(seconds=script.run_seconds)
        if now < end:
            return replace(run, started=start), [end]
        ended = Ended(started=start, finished=end, exit_code=script.exit_code)
        if not restarts(policy, script.exit_code):
            return replace(run, ended=ended), []
        pause, back_off = next_pause(back_off, ran_seconds=script.run_seconds)
        run = ContainerRun(last=ended, restarts=run.restarts + 1)
        start = end + timedelta(seconds=pause)
    # A container counts as restarted once it runs again.
    return replace(run, restarts=max(0, run.restarts - 1), back_off=pause), [start]


def _init_run(start: datetime, now: datetime, app: ContainerRun, *, sidecar: bool) -> ContainerRun:
    """Return the state of an init container: done at once; a sidecar ends with the pod."""
    if now < start:
        return ContainerRun()
    if not sidecar:
        return ContainerRun(ended=Ended(started=start, finished=start))
    if app.ended is not None:
        return ContainerRun(ended=Ended(started=start, finished=app.ended.finished))
    return ContainerRun(started=start)


def restarts(policy: str, exit_code: int) -> bool:
    """Tell whether a container that ended with *exit_code* is started again."""
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def next_pause(back_off: float, *, ran_seconds: float) -> tuple[float, float]:
    """Return the pause before the next restart, and the *back_off* to remember for the one after.

    Args:
        back_off: what was remembered the time before; 0 at first.
        ran_seconds: how long the container ran.
    """
    if ran_seconds > _FORGIVEN_AFTER:
        back_off = 0.0
    return back_off, min(max(2 * back_off, FIRST_BACK_OFF), LONGEST_BACK_OFF)


def deadline_of(pod: Pod, begun: datetime) -> datetime | None:
    """Return when a pod that was admitted at *begun* has been active for too long."""
    seconds = pod.spec.active_deadline_seconds
    return None if seconds is None else begun + timedelta(seconds=seconds)


def grace_of(pod: Pod) -> float:
    """Return the seconds that a pod's containers have to end."""
    seconds = pod.spec.termination_grace_period_seconds
    return 30.0 if seconds is None else float(seconds)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    # Anything longer overflows a date; also excludes NaN.
    return number if 0 <= number <= 1e9 else None


def _is_exit_code(number: float) -> bool:
    return number.is_integer() and number <= _MAX_EXIT_CODE
