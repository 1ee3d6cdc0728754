"""A pod of which some containers really run and the others are simulated.

Init containers come one after the other, sidecars stay beside all that start after them, and the
app containers start when that is done. Simulated containers follow the pod's script from the moment
on at which it is their turn.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from numakube.api.pod_resources import is_sidecar
from numakube.values.times import parse_time
from numakube_lab.nodes.container_timeline import (
    ContainerRun,
    Ended,
    Look,
    PodRun,
    Stop,
    app_run,
    deadline_of,
    grace_of,
    init_policy,
    init_run,
    restarts,
)
from numakube_lab.nodes.pod_scripts import start_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from numakube.api.pod import Container, ContainerStatus, Pod
    from numakube_lab.processes.process_container import ContainerProcess

_LOST = 255
"""The exit of a container whose end was not seen."""


class PodProcesses:
    """The containers of one pod."""

    def __init__(self, processes: Mapping[str, ContainerProcess]) -> None:
        self.processes = processes
        # When the app containers could start; never taken back.
        self._initialized: datetime | None = None

    def observe(self, pod: Pod, *, begun: datetime, now: datetime, stop: Stop | None) -> PodRun:
        """Do what is due, and return how all containers are doing."""
        deadline = deadline_of(pod, begun)
        exceeded = deadline is not None and deadline <= (min(now, stop.since) if stop else now)
        if deadline is not None and exceeded:
            stop = Stop(since=deadline, grace_seconds=grace_of(pod))
        turn: datetime | None = begun + timedelta(seconds=start_seconds(pod))
        ahead = [moment for moment in (turn, deadline) if moment is not None and stop is None]
        look = Look(now, stop, ahead)
        init: dict[str, ContainerRun] = {}
        for one in pod.spec.init_containers:
            init[one.name], turn = self._initialize(pod, one, turn, look)
        if self._initialized is None and turn is not None and turn <= now:
            self._initialized = turn
        containers = {one.name: self._run(pod, one, look) for one in pod.spec.containers}
        self._end_sidecars(pod, init, containers, now=now, stop=stop)
        ahead += [one.next_change for one in self.processes.values() if one.next_change]
        return PodRun(
            containers=containers,
            init=init,
            next_change=min((moment for moment in ahead if moment > now), default=None),
            deadline_exceeded=exceeded,
        )

    def _initialize(
        self, pod: Pod, container: Container, turn: datetime | None, look: Look
    ) -> tuple[ContainerRun, datetime | None]:
        """Return an init container, and when it is the turn of the next one, if it is."""
        stop = look.stop
        if turn is None or look.now < turn:
            return self._untouched(container, stop), None
        process = self.processes.get(container.name)
        if process is None:
            return init_run(pod, container, turn, look)
        if is_sidecar(container):
            # Those that are stopped wait for the app containers.
            run = process.run if stop and process.is_alive else _move(process, look)
            return run, run.started
        run = _move(process, look)
        done = run.ended is not None and run.ended.exit_code == 0
        return run, run.ended.finished if run.ended is not None and done else None

    def _run(self, pod: Pod, container: Container, look: Look) -> ContainerRun:
        """Return an app container."""
        if self._initialized is None:
            return self._untouched(container, look.stop)
        process = self.processes.get(container.name)
        if process is not None:
            return _move(process, look)
        return app_run(pod, container, self._initialized, look)

    def _untouched(self, container: Container, stop: Stop | None) -> ContainerRun:
        """Return a container whose turn it is not: it runs on if it did, but it is not started."""
        process = self.processes.get(container.name)
        if process is None:
            return ContainerRun()
        return process.run if stop is None else process.end(_deadline(stop))

    def _end_sidecars(
        self,
        pod: Pod,
        init: dict[str, ContainerRun],
        containers: Mapping[str, ContainerRun],
        *,
        now: datetime,
        stop: Stop | None,
    ) -> None:
        """Let sidecars end once they are needed no more."""
        runs = containers.values()
        if any(run.started for run in runs) or not (stop or all(run.ended for run in runs)):
            return
        last = max(run.ended.finished if run.ended else now for run in runs)
        deadline = _deadline(stop) if stop else last + timedelta(seconds=grace_of(pod))
        for one in pod.spec.init_containers:
            started = init[one.name].started
            if is_sidecar(one) and one.name in self.processes:
                init[one.name] = self.processes[one.name].end(deadline)
            elif is_sidecar(one) and started is not None:
                init[one.name] = ContainerRun(ended=Ended(started=started, finished=last))


def past_of(status: ContainerStatus | None, policy: str, *, now: datetime) -> ContainerRun:
    """Return the state of a container that does not run here, by what the API remembers of it.

    What was running has been lost with the machine.
    """
    state = status.state if status is not None else None
    if status is None or state is None:
        return ContainerRun()
    if (ended := state.terminated) is not None:
        started, finished = parse_time(ended.started_at or ""), parse_time(ended.finished_at or "")
        past = Ended(started=started, finished=finished, exit_code=ended.exit_code)
        if not restarts(policy, ended.exit_code):
            return ContainerRun(ended=past, restarts=status.restart_count)
        return ContainerRun(last=past, restarts=status.restart_count)
    if state.running is not None and state.running.started_at:
        lost = Ended(started=parse_time(state.running.started_at), finished=now, exit_code=_LOST)
        return ContainerRun(last=lost, restarts=status.restart_count)
    return ContainerRun()


def policy_of(pod: Pod, container: Container) -> str:
    """Return the restart policy of a container: init containers are done when they succeed."""
    if is_sidecar(container):
        return "Always"
    if any(one.name == container.name for one in pod.spec.init_containers):
        return init_policy(pod)
    return pod.spec.restart_policy or "Always"


def _move(process: ContainerProcess, look: Look) -> ContainerRun:
    return process.observe(look.now) if look.stop is None else process.end(_deadline(look.stop))


def _deadline(stop: Stop) -> datetime:
    return stop.since + timedelta(seconds=stop.grace_seconds)
