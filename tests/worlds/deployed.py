"""Components that are deployed, again, and removed, alone and all: whose objects change by that.

A dry run changes nothing, and neither does what is done for the second time. What a component
brings goes with it, unless another one needs it; what users have stays, wherever it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from tests.worlds.oracles import Finding
from tests.worlds.virtual_lab import Lab

from numakube.apps.deployer.apply_and_remove import Deed, DeployEngine, DeployStep
from numakube.apps.deployer.still_used import StillUsed
from numakube.kube.catalog import CONFIG_MAPS, NAMESPACES, NODES, resource_of
from numakube.kube.resource_types import Document, Resource
from numakube.manifests.components import COMPONENTS, Choices, component_objects, objects_of

DEPLOYABLE: Final = (
    "api", "exporter", "scheduler", "extender", "enforcer", "operator", "rebalancer"
)  # fmt: skip
"""Components whose pods do nothing in a lab: they run, and no program is in them."""
_SPACE: Final = "numakube"
_USERS: Final = "a-users-own"
_WAIT_SECONDS: Final = 30
_CHANGING: Final = (Deed.CREATED, Deed.CONFIGURED, Deed.UPGRADED)

Objects = dict[tuple[str, str, str], str]
"""The uid of every object by kind, namespace and name."""


@dataclass(slots=True)
class Trial:
    """Components at trial in a lab.

    Attributes:
        findings: what does not hold.
    """

    lab: Lab
    findings: list[Finding] = field(default_factory=list)

    async def of(self, components: Sequence[str]) -> list[Finding]:
        """Deploy *components*, remove the first, and then everything."""
        choices = Choices(namespace=_SPACE)
        documents = objects_of(components, choices)
        before = await self._objects()
        await self._engine([], dry_run=True).deploy(documents)
        self._compare("a dry run of deploy", before, await self._objects())

        await self._engine([]).deploy(documents)
        await self.lab.pass_time(_WAIT_SECONDS)
        if ("Namespace", "", _SPACE) in map(_key, documents):
            note = {"metadata": {"name": _USERS}, "data": {"a": "b"}}
            await self.lab.client.create(CONFIG_MAPS.raw, note, namespace=_SPACE)
        deployed = await self._objects()
        again: list[DeployStep] = []
        await self._engine(again).deploy(documents)
        for step in again:
            if step.deed in _CHANGING:
                self._found(f"deployed for the second time: {step}")
        self._compare("to deploy for the second time", deployed, await self._objects())

        await self._remove(components, choices, dry_run=True)
        self._compare("a dry run of remove", deployed, await self._objects())
        if len(components) > 1:
            await self._remove_first(components, choices, deployed)
        await self._remove_all(components, choices, before)
        return self.findings

    async def _remove_first(
        self, components: Sequence[str], choices: Choices, deployed: Objects
    ) -> None:
        """Remove one component; everything of the others and of users has to stay."""
        first, *others = components
        # In a lab the kinds of `api` are there before: nothing but what it shares shows that it is.
        others = [] if others == ["api"] else others
        await self._remove([first], choices)
        its = {_key(one) for one in component_objects(first, choices)}
        needed = {_key(one) for name in others for one in component_objects(name, choices)}
        may_go = {key for key in deployed if key in its - needed or (key[0] == "Lease" and key[1])}
        there = await self._objects()
        for key in sorted(deployed.keys() - there.keys() - may_go):
            self._found(f"remove {first} took away {key}, which is not its own")

    async def _remove_all(
        self, components: Sequence[str], choices: Choices, before: Objects
    ) -> None:
        """Remove everything twice: with something of a user's in the namespace, and without."""
        everything = sorted({*components, "api", "exporter", "scheduler"})
        users = "ConfigMap", _SPACE, _USERS
        had_note = users in await self._objects()
        await self._remove(everything, choices)
        if had_note:
            if users not in await self._objects():
                self._found(f"remove {everything} took away what a user has in the namespace")
                return
            await self.lab.client.delete(CONFIG_MAPS.raw, _USERS, namespace=_SPACE)
            await self._remove(everything, choices)
        # A real namespace goes when its controller has emptied it, which takes its time.
        what = f"to deploy and remove {components}"
        self.findings += await self.lab.found_in_the_end(partial(self._changes, what, before))

    async def _remove(
        self, components: Sequence[str], choices: Choices, *, dry_run: bool = False
    ) -> None:
        documents = objects_of(components, choices)
        used = StillUsed.besides(components, choices, self.lab.client)
        engine = self._engine([], dry_run=dry_run)
        await self.lab.through(engine.remove(documents, used))
        await self.lab.pass_time(0 if dry_run else _WAIT_SECONDS)

    def _engine(self, steps: list[DeployStep], *, dry_run: bool = False) -> DeployEngine:
        return DeployEngine(client=self.lab.client, tell=steps.append, dry_run=dry_run)

    async def _objects(self) -> Objects:
        """Return everything of the kinds that components bring, and all nodes.

        Not pods: those of the components are more important than many, and take their place.
        """
        found: Objects = {}
        for resource in _RESOURCES:
            for item in (await self.lab.through(self.lab.client.list(resource))).items:
                metadata = item["metadata"]
                key = resource.kind, metadata.get("namespace", ""), metadata["name"]
                found[key] = metadata["uid"]
        return found

    def _compare(self, what: str, before: Objects, after: Objects) -> None:
        self.findings += _changes(what, before, after)

    async def _changes(self, what: str, before: Objects) -> list[Finding]:
        return _changes(what, before, await self._objects())

    def _found(self, text: str) -> None:
        self.findings.append(_trace(text))


def _changes(what: str, before: Objects, after: Objects) -> list[Finding]:
    """Return what is there no more, or for the first time, or anew."""
    found = [
        _trace(f"{what} has {'made' if key in after else 'taken away'} {key}")
        for key in sorted(before.keys() ^ after.keys())
    ]
    found += [
        _trace(f"{what} has made {key} anew")
        for key in sorted(before.keys() & after.keys())
        if before[key] != after[key]
    ]
    return found


def _trace(text: str) -> Finding:
    return Finding("components_leave_no_trace", text)


def _key(document: Document) -> tuple[str, str, str]:
    metadata = document["metadata"]
    return document["kind"], metadata.get("namespace", ""), metadata["name"]


def _resources() -> Iterator[Resource[Any]]:
    """Yield the kinds of all that components bring, and nodes."""
    kinds = {NAMESPACES.raw.kind: NAMESPACES.raw, NODES.raw.kind: NODES.raw}
    for name in COMPONENTS:
        for document in component_objects(name, Choices()):
            kinds.setdefault(document["kind"], resource_of(document))
    yield from kinds.values()


_RESOURCES: Final = tuple(_resources())
