"""How the containers of a simulated pod fare: what runs, what has ended, and what comes next.

Nothing is executed. A pod's fate follows from when it was admitted, from its restart policy and
from its script, so it is computed for any moment, and a kubelet that was restarted or that
slept for an hour sees the same as one that watched all the time, as with real containers. Init
containers come one after the other, sidecars stay beside all that start after them.

Back-off between restarts is the kubelet's (1.35): the first restart comes at once, the next after
10 s, doubling up to 300 s, and from the beginning after 600 s of running.

What annotations say about the fate of a simulated pod.

* ``lab.numakube.dev/start-seconds``: how long after admission its containers start;
* ``lab.numakube.dev/run-seconds``: how long its app containers run; for ever if not given;
* ``lab.numakube.dev/exit-code``: what they end with;
* ``lab.numakube.dev/termination-seconds``: how long they take to end when told to.

All but the first may end in a dot and the name of a container, and are about that one then:
``lab.numakube.dev/run-seconds.setup``. That is also how an init container is given a life; without
one it is done at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

from numakube.api.pod_resources import is_sidecar

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from numakube.api.pod import Container, Pod


PREFIX: Final = "lab.numakube.dev/"
START_SECONDS: Final = f"{PREFIX}start-seconds"
RUN_SECONDS: Final = f"{PREFIX}run-seconds"
EXIT_CODE: Final = f"{PREFIX}exit-code"
TERMINATION_SECONDS: Final = f"{PREFIX}termination-seconds"

_OF_CONTAINERS: Final = (RUN_SECONDS, EXIT_CODE, TERMINATION_SECONDS)
_MAX_EXIT_CODE: Final = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """The fate of a container from its start on; times in seconds, ``None`` is for ever."""

    run_seconds: float | None = None
    exit_code: int = 0
    termination_seconds: float = 0.0


_FOR_EVER: Final = Script()
_AT_ONCE: Final = Script(run_seconds=0.0)


def start_seconds(pod: Pod) -> float:
    """Return how long after its admission the first container of *pod* starts."""
    return _usable(pod.metadata.annotations, START_SECONDS) or 0.0


def app_script(pod: Pod, container: Container) -> Script:
    """Return the fate of an app container: what is said of it, or of all of them."""
    annotations = pod.metadata.annotations
    return _read(annotations, container.name, _read(annotations, "", _FOR_EVER))


def init_script(pod: Pod, container: Container) -> Script:
    """Return the fate of an init container that is no sidecar: what is said of it by name."""
    return _read(pod.metadata.annotations, container.name, _AT_ONCE)


def problems_of(pod: Pod) -> tuple[str, ...]:
    """Name what makes no sense in the script of *pod*, and is left out."""
    spec = pod.spec
    sidecars = {container.name for container in spec.init_containers if is_sidecar(container)}
    containers = {
        container.name for container in (*spec.containers, *spec.init_containers)
    } - sidecars
    return tuple(
        f"annotation {name}: {problem}: ignored"
        for name, text in sorted(pod.metadata.annotations.items())
        if name.startswith(PREFIX) and (problem := _problem(name, text, containers))
    )


def _problem(name: str, text: str, containers: set[str]) -> str:
    about, _, container = name.removeprefix(PREFIX).partition(".")
    known = f"{PREFIX}{about}"
    if known not in (START_SECONDS, *_OF_CONTAINERS):
        return ""
    if _usable({known: text}, known) is None:
        return f"{text!r} is not usable"
    if container and (known == START_SECONDS or container not in containers):
        return f"there is no container {container!r} that it could be about"
    return ""


def _read(annotations: Mapping[str, str], container: str, default: Script) -> Script:
    """Return what is said about a container, or about all if it has no name."""
    if not annotations:
        return default
    suffix = f".{container}" if container else ""
    seconds = _usable(annotations, RUN_SECONDS, suffix)
    code = _usable(annotations, EXIT_CODE, suffix)
    termination = _usable(annotations, TERMINATION_SECONDS, suffix)
    if seconds is code is termination is None:
        return default
    return Script(
        run_seconds=default.run_seconds if seconds is None else seconds,
        exit_code=default.exit_code if code is None else int(code),
        termination_seconds=default.termination_seconds if termination is None else termination,
    )


def _usable(annotations: Mapping[str, str], name: str, suffix: str = "") -> float | None:
    """Return the number that an annotation gives, if it makes sense."""
    text = annotations.get(name + suffix)
    number = None if text is None else _number(text)
    if number is not None and name == EXIT_CODE and not _is_exit_code(number):
        return None
    return number


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    # Anything longer overflows a date; also excludes NaN.
    return number if 0 <= number <= 1e9 else None


def _is_exit_code(number: float) -> bool:
    return number.is_integer() and number <= _MAX_EXIT_CODE


FIRST_BACK_OFF: Final = 10.0
LONGEST_BACK_OFF: Final = 300.0
_FORGIVEN_AFTER: Final = 2 * LONGEST_BACK_OFF
_KILLED: Final = 137


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


@dataclass(frozen=True, slots=True)
class Look:
    """A look at the containers of a pod.

    Attributes:
        now: when it is taken.
        stop: the order to end them, if there is one.
        ahead: moments at which something will be otherwise, as they are found out.
    """

    now: datetime
    stop: Stop | None
    ahead: list[datetime]

    @property
    def until(self) -> datetime:
        """The moment up to which containers go their own ways."""
        return min(self.now, self.stop.since) if self.stop else self.now


class ContainerRuntime(Protocol):
    """What runs containers: the simulation here, or something that really does."""

    def observe(self, pod: Pod, *, begun: datetime, now: datetime, stop: Stop | None) -> PodRun:
        """Return how the containers of a pod that was admitted at *begun* are doing."""
        ...

    def forget(self, uid: str) -> None:
        """Drop everything about a pod that is gone; unknown uids are fine."""
        ...

    def retain(self, node: str, uids: Collection[str]) -> None:
        """Drop what runs on a node except *uids*: its kubelet did not see the rest go."""
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


def observe(pod: Pod, *, begun: datetime, now: datetime, stop: Stop | None = None) -> PodRun:
    """Return how the containers of *pod*, admitted at *begun*, are doing at *now*."""
    deadline = deadline_of(pod, begun)
    exceeded = deadline is not None and deadline <= (min(now, stop.since) if stop else now)
    if deadline is not None and exceeded:
        stop = Stop(since=deadline, grace_seconds=grace_of(pod))
    look = Look(now, stop, [] if deadline is None or stop else [deadline])
    init: dict[str, ContainerRun] = {}
    turn: datetime | None = begun + timedelta(seconds=start_seconds(pod))
    for one in pod.spec.init_containers:
        init[one.name], turn = init_run(pod, one, turn, look)
    containers = {
        container.name: app_run(pod, container, turn, look) for container in pod.spec.containers
    }
    _end_sidecars(pod, init, containers, stop)
    return PodRun(
        containers=containers,
        init=init,
        next_change=min((moment for moment in look.ahead if moment > now), default=None),
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


def app_run(pod: Pod, container: Container, turn: datetime | None, look: Look) -> ContainerRun:
    """Return an app container that starts at *turn*, if it is known when that is."""
    if turn is None:
        return ContainerRun()
    return _run(app_script(pod, container), turn, pod.spec.restart_policy or "Always", look)


def init_run(
    pod: Pod, container: Container, turn: datetime | None, look: Look
) -> tuple[ContainerRun, datetime | None]:
    """Return an init container that starts at *turn*, and when it is the turn of the next one.

    A sidecar runs on: what ends it is the fate of the others.
    """
    if turn is None:
        return ContainerRun(), None
    if is_sidecar(container):
        if look.until >= turn:
            return ContainerRun(started=turn), turn
        look.ahead.append(turn)
        return ContainerRun(), None
    script, policy = init_script(pod, container), init_policy(pod)
    # A container that is stopped lets nothing else begin.
    ended = _undisturbed(script, turn, look.until, policy)[0].ended
    done = ended is not None and not ended.exit_code
    return _run(script, turn, policy, look), ended.finished if ended and done else None


def init_policy(pod: Pod) -> str:
    """Return the restart policy of init containers: they are done when they succeed."""
    policy = pod.spec.restart_policy or "Always"
    return "OnFailure" if policy == "Always" else policy


def _end_sidecars(
    pod: Pod,
    init: dict[str, ContainerRun],
    containers: Mapping[str, ContainerRun],
    stop: Stop | None,
) -> None:
    """Let sidecars end with the last container that needs them."""
    sidecars = {container.name for container in pod.spec.init_containers if is_sidecar(container)}
    steps = [run for name, run in init.items() if name not in sidecars]
    every = [*steps, *containers.values()]
    failed = any(run.ended is not None and run.ended.exit_code for run in steps)
    over = failed or stop is not None or all(run.ended for run in containers.values())
    if not over or any(run.started for run in every):
        return
    ends = [run.ended.finished for run in every if run.ended is not None]
    ends += [stop.since] if stop is not None and not ends else []
    for name in sidecars:
        started = init[name].started
        if started is not None:
            ended = Ended(started=started, finished=max(started, *ends))
            init[name] = ContainerRun(ended=ended)


def _run(script: Script, start: datetime, policy: str, look: Look) -> ContainerRun:
    """Return a container that starts at *start*."""
    run, changes = _undisturbed(script, start, look.until, policy)
    if look.stop is not None:
        run, changes = _stopped(script, run, look.stop, look.now)
    look.ahead.extend(changes)
    return run


def _stopped(
    script: Script, before: ContainerRun, stop: Stop, now: datetime
) -> tuple[ContainerRun, list[datetime]]:
    """Return what becomes of a container that is stopped."""
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
    """Return a container that is not stopped, and moments at which it will change."""
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
