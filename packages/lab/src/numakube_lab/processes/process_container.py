"""One container that really runs: its process, its past and what comes next.

It only moves when it is looked at (`ContainerProcess.observe`, which a kubelet does) or when its
process ends by itself. So it runs on while the kubelet is away, and is not restarted then.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

from numakube_lab.nodes.container_timeline import ContainerRun, Ended, next_pause, restarts
from numakube_lab.processes.container_output import CURRENT, Output
from numakube_lab.processes.container_programs import Process, Program
from numakube_lab.processes.container_tasks import CannotStart

if TYPE_CHECKING:
    from datetime import datetime

    from numakube.kube.clock import Clock
    from numakube_lab.processes.container_tasks import Tasks

Prepare: TypeAlias = Callable[[Output, asyncio.Event], Awaitable[tuple[Program, Process]]]
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
        self.output: Output | None = None
        self.previous: Output | None = None
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
        output = Output(self._clock)
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

    def _begin(self, output: Output) -> None:
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
