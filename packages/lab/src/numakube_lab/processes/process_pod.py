"""A pod of which some containers really run and the others are simulated.

Init containers come one after the other, sidecars stay beside all that start after them, and the
app containers start when that is done. Simulated containers follow the pod's script from the moment
on at which it is their turn.

One container that really runs: its process, its past and what comes next. It only moves when it
is looked at (`ContainerProcess.observe`, which a kubelet does) or when its process ends by
itself. So it runs on while the kubelet is away, and is not restarted then.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

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
    next_pause,
    restarts,
    start_seconds,
)
from numakube_lab.processes.container_output import CURRENT, ContainerOutput
from numakube_lab.processes.program_table import CannotStart, Process, Program

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from numakube.api.pod import Container, ContainerStatus, Pod
    from numakube.kube import Clock
    from numakube_lab.processes.program_table import Tasks


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
        containers = {
            container.name: self._run(pod, container, look) for container in pod.spec.containers
        }
        self._end_sidecars(pod, init, containers, now=now, stop=stop)
        ahead += [process.next_change for process in self.processes.values() if process.next_change]
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
        for container in pod.spec.init_containers:
            started = init[container.name].started
            if is_sidecar(container) and container.name in self.processes:
                init[container.name] = self.processes[container.name].end(deadline)
            elif is_sidecar(container) and started is not None:
                init[container.name] = ContainerRun(ended=Ended(started=started, finished=last))


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
    if any(other.name == container.name for other in pod.spec.init_containers):
        return init_policy(pod)
    return pod.spec.restart_policy or "Always"


def _move(process: ContainerProcess, look: Look) -> ContainerRun:
    return process.observe(look.now) if look.stop is None else process.end(_deadline(look.stop))


def _deadline(stop: Stop) -> datetime:
    return stop.since + timedelta(seconds=stop.grace_seconds)


Prepare: TypeAlias = Callable[[ContainerOutput, asyncio.Event], Awaitable[tuple[Program, Process]]]
"""Makes everything ready for a run that prints to an output and ends when the event is set."""

KILLED: Final = 137
_FAILED: Final = 1
_RETRY: Final = timedelta(seconds=10)


class ContainerProcess:
    """A container of numakube's image.

    Attributes:
        run: how it is doing.
        output: what its present or last run printed.
        previous: what the run before printed.
    """

    def __init__(
        self,
        name: str,
        *,
        policy: str,
        prepare: Prepare,
        tasks: Tasks,
        clock: Clock,
        changed: Callable[[], None],
        past: ContainerRun,
    ) -> None:
        """Prepare a container; it starts when it is looked at.

        Args:
            name: what its tasks are called.
            policy: the restart policy.
            prepare: makes a run ready.
            tasks: who owns its tasks.
            clock: the lab's clock.
            changed: called when it is doing otherwise than before.
            past: how it was doing according to the API.
        """
        self.run = past
        self.output: ContainerOutput | None = None
        self.previous: ContainerOutput | None = None
        self._name = name
        self._policy = policy
        self._prepare = prepare
        self._tasks = tasks
        self._clock = clock
        self._changed = changed
        self._task: asyncio.Task[None] | None = None
        self._killer: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._due: datetime | None = None
        self._kill_at: datetime | None = None
        # Whether it is to end for good.
        self._told = False
        self._back_off = 0.0

    @property
    def next_change(self) -> datetime | None:
        """When it is to be looked at again, if it waits to be started."""
        return self._due if self._task is None and self.run.ended is None else None

    @property
    def is_alive(self) -> bool:
        """Whether there is a process or one is about to start."""
        return self._task is not None

    def observe(self, now: datetime) -> ContainerRun:
        """Start it if it is time to, and return how it is doing."""
        due = self._due is None or now >= self._due
        if self._task is None and self.run.ended is None and due:
            self._stop = asyncio.Event()
            self._task = self._tasks.start(self._live(), name=self._name)
        return self.run

    def end(self, deadline: datetime) -> ContainerRun:
        """Tell it to end, and kill it at *deadline*; return how it is doing."""
        if self._task is None:
            # What waits to be restarted is not: its last end was its end.
            ended = self.run.ended or self.run.last
            self.run = replace(self.run, ended=ended, back_off=0.0, trouble=None)
        elif self.run.started is None:
            self._task.cancel()
        else:
            self._told = True
            self._stop.set()
            if self._kill_at is None or deadline < self._kill_at:
                self._kill_at = deadline
                self._kill_later(deadline)
        return self.run

    def kill(self) -> None:
        """End it on the spot."""
        self._told = True
        if self._task is not None:
            self._task.cancel()

    def _kill_later(self, deadline: datetime) -> None:
        if self._killer is not None:
            self._killer.cancel()
        seconds = (deadline - self._clock.now()).total_seconds()
        if seconds <= 0:
            self.kill()
        else:
            self._killer = self._tasks.start(self._kill_after(seconds), name=f"{self._name} kill")

    async def _kill_after(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
        self._killer = None
        self.kill()

    async def _live(self) -> None:
        """Run once, from the preparation to the end."""
        output = ContainerOutput(self._clock)
        CURRENT.set(output)
        try:
            program, process = await self._prepare(output, self._stop)
            self._begin(output)
            self._finish(await exit_code(program, process))
        except CannotStart as trouble:
            self._wait(trouble.reason, trouble.message)
        except asyncio.CancelledError:
            if self.run.started is not None:
                self._finish(KILLED)
        except Exception as error:  # the lab itself must not suffer from one container
            self._wait("CreateContainerError", f"{type(error).__name__}: {error}")
        finally:
            output.close()
            self._task = None
            if self._killer is not None:
                self._killer.cancel()
                self._killer = None
            self._changed()

    def _begin(self, output: ContainerOutput) -> None:
        self.previous, self.output = self.output, output
        again = int(self.run.last is not None)
        self.run = ContainerRun(
            started=self._clock.now(), last=self.run.last, restarts=self.run.restarts + again
        )
        self._changed()

    def _finish(self, code: int) -> None:
        started, now = self.run.started, self._clock.now()
        assert started is not None  # noqa: S101 - only what has begun comes to an end
        ended = Ended(started=started, finished=now, exit_code=code)
        if self._told or not restarts(self._policy, code):
            self.run = replace(self.run, started=None, ended=ended)
            return
        ran = (now - started).total_seconds()
        pause, self._back_off = next_pause(self._back_off, ran_seconds=ran)
        self.run = ContainerRun(last=ended, restarts=self.run.restarts, back_off=pause)
        self._due = now + timedelta(seconds=pause)

    def _wait(self, reason: str, message: str) -> None:
        self.run = replace(self.run, trouble=(reason, message))
        self._due = self._clock.now() + _RETRY


async def exit_code(program: Program, process: Process) -> int:
    """Run *program* and return what it ends with, whatever it does."""
    task = asyncio.current_task()
    try:
        return int(await program(process))
    except SystemExit as exit_:
        if exit_.code is None or isinstance(exit_.code, int):
            return exit_.code or 0
        process.log(str(exit_.code))
        return _FAILED
    except asyncio.CancelledError:
        if task is not None and task.cancelling():
            raise
        process.log(traceback.format_exc())
        return _FAILED
    except Exception:  # what a crash of a process is
        process.log(traceback.format_exc())
        return _FAILED
