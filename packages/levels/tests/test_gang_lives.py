"""Whatever fails and whenever the scheduler dies, gangs have the levels that they ask for.

A campaign has ``LEVELS_LIVES=10000``, and ``LEVELS_SEED`` of its own.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Final

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from tests.apps.scheduler.gang_trials import GANG, GROUP_VERSIONS, RACK, GangTrial, gang_trial
from tests.apps.scheduler.test_gang_faults import DAYS, LABELS, Day, Group, calm

if TYPE_CHECKING:
    from numakube.api.pod import Pod

LIVES: Final = int(os.environ.get("LEVELS_LIVES", "6"))
SEED: Final = int(os.environ.get("LEVELS_SEED", "42"))
_NODES: Final = 6
_CALM_SECONDS: Final = 14
_SLICE: Final = 2
_WISHES: Final = (
    {"numakube.dev/gang-topology": RACK},
    {"numakube.dev/gang-topology": RACK, "numakube.dev/gang-disruption-mode": "all"},
    {"numakube.dev/gang-topology": RACK, "numakube.dev/gang-spare": "1"},
    {"numakube.dev/gang-slices": f"{RACK}={_SLICE}"},
    {"numakube.dev/gang-slices": f"{RACK}={_SLICE}", "numakube.dev/gang-slices-rest": "Allow"},
    {"numakube.dev/gang-preferred-topology": RACK, "numakube.dev/gang-balance": "Fewest"},
    {"numakube.dev/gang-preferred-topology": RACK, "numakube.dev/gang-replacement": "Inside"},
    {"numakube.dev/gang-topology": RACK, "numakube.dev/gang-replacement": "Elsewhere"},
    {"numakube.dev/gang-topology": RACK, "numakube.dev/gang-max-count": "3"},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelGroup(Group):
    """A gang that asks for levels."""

    wishes: dict[str, str] = field(default_factory=dict)

    @property
    def _asked(self) -> dict[str, str]:
        return self.wishes

    def member(self) -> dict[str, object]:
        """Return a pod of it, with the wishes if there is no object."""
        document = Group.member(self)
        if self.api == LABELS:
            document["metadata"]["annotations"] |= self.wishes
        return document


class LevelDay(Day):
    """A day on which gangs come that ask for levels.

    Attributes:
        asked: by the name of a gang.
    """

    def __init__(self, trial: GangTrial, rng: Random) -> None:
        super().__init__(trial, rng)
        self.asked: dict[str, dict[str, str]] = {}
        self._least: dict[str, int] = {}
        self._seen: dict[str, set[str]] = {}
        self._hurt: set[str] = set()

    async def happens(self, what: str) -> None:
        """Let *what* happen, and look."""
        await super().happens(what)
        self.look()

    async def _gang(self) -> None:
        rng = self._rng
        size = rng.choice((1, 2, 3, 4, 6))
        group = LevelGroup(
            name=f"g{len(self._groups)}",
            size=size,
            least=rng.randint(1, size) if rng.random() < 0.4 else size,
            cpu=rng.choice("1233"),
            api=rng.choice((LABELS, LABELS, *GROUP_VERSIONS)),
            urgent=rng.random() < 0.3,
            wishes=rng.choice(_WISHES),
        )
        self._groups.append(group)
        self.asked[group.name], self._least[group.name] = group.wishes, group.least
        late = rng.random() < 0.3
        await group.create(self._trial, size - late, object_first=rng.random() < 0.6, rng=rng)

    def look(self) -> None:
        """Note what does not hold of the pods that are bound."""
        members: dict[str, list[Pod]] = {}
        for pod in self._trial.pods:
            name = pod.metadata.labels.get(GANG)
            if name is not None:
                members.setdefault(name, []).append(pod)
        for name, wishes in self.asked.items():
            self._look_at(name, wishes, members.get(name, []))

    def _look_at(self, name: str, wishes: dict[str, str], pods: list[Pod]) -> None:
        there = {pod.metadata.uid for pod in pods if _is_alive(pod)}
        if self._seen.setdefault(name, set()) - there:
            self._hurt.add(name)
        self._seen[name] |= there
        racks = Counter(
            int(pod.spec.node_name[1:]) % 2 for pod in pods if _is_alive(pod) and pod.spec.node_name
        )
        free = wishes.get("numakube.dev/gang-replacement") == "Elsewhere" and name in self._hurt
        if "numakube.dev/gang-topology" in wishes and len(racks) > 1 and not free:
            self._trial.wrong.append(f"{name} has to be in one rack, and is in {dict(racks)}")
        # What is needed goes before the most that are wanted; it may have become less since.
        most = max(int(wishes.get("numakube.dev/gang-max-count", "99")), self._least[name])
        if racks.total() > most:
            self._trial.wrong.append(f"{name} has {racks.total()} pods, and wants {most}")
        if "numakube.dev/gang-slices" not in wishes or name in self._hurt:
            return
        broken = sum(count % _SLICE > 0 for count in racks.values())
        allowed = "numakube.dev/gang-slices-rest" in wishes
        if broken > allowed and not self._binds(pods):
            self._trial.wrong.append(f"{name} has parts of slices: {dict(racks)}")

    def _binds(self, pods: list[Pod]) -> bool:
        """Tell whether members are on their way to a node, or were when a scheduler died."""
        cluster = self._trial.process.parts.engine.cluster
        waiting = [pod for pod in pods if not pod.spec.node_name]
        return any(cluster.node_of(pod.metadata.uid) for pod in waiting) or bool(waiting)


def _is_alive(pod: Pod) -> bool:
    phase = pod.status.phase if pod.status is not None else ""
    return pod.metadata.deletion_timestamp is None and phase not in ("Failed", "Succeeded")


async def live_through(number: int, kinds: list[str]) -> None:
    """Let *kinds* of things happen, and look at what has become of the gangs."""
    rng = Random(number)
    async with gang_trial(_NODES, rng) as trial:
        day = LevelDay(trial, rng)
        for kind in kinds:
            await day.happens(kind)
        trial.calm_down()
        for _ in range(_CALM_SECONDS):
            await calm(trial, 1)
            day.look()
        assert not trial.wrong, trial.wrong
        assert not trial.halves(), trial.halves()
        assert not trial.process.mirror.assumed_count, "assumed"
        assert not trial.process.parts.gang_view.overlooked(), "overlooked"
        before = trial.placed()
        await trial.restart()
        await calm(trial, 3)
        day.look()
        assert trial.placed() <= before, "the next scheduler finds room that this one has missed"
        assert not trial.wrong, trial.wrong


@seed(SEED)
@settings(
    max_examples=LIVES,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    database=None,
    phases=(Phase.generate,),
)
@given(number=st.integers(0, 1 << 32), kinds=DAYS)
def test_gangs_have_their_levels_whatever_happens(number: int, kinds: list[str]) -> None:
    """In every step: one rack, whole slices, no more than the most; and none runs with too few."""
    asyncio.run(live_through(number, kinds))
