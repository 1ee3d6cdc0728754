"""The domains of a level as a document: for tools, on the facts of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.api.codec import Wire
from numakube.errors import ConfigError
from numakube.insight import engine_of
from numakube.insight.usage.largest_pod import parse_shape
from numakube.scheduling.framework.registry import Handle
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.values.resources import quantity_of
from numakube_levels.domain_protection import DomainProtection, DomainProtectionArgs, ShapeArgs
from numakube_levels.domain_states import STATES, summary_of

if TYPE_CHECKING:
    from numakube.insight import ClusterFacts
    from numakube_levels.domain_states import DomainState


class DomainRow(Wire, frozen=True):
    """One domain; see `DomainState`."""

    name: str
    nodes: int
    takes: int
    could_take: int
    state: str
    idle: int
    unreachable: int
    broken_by: tuple[str, ...] = ()


class ShapeReport(Wire, frozen=True):
    """The domains of a level, as gangs of one shape see them.

    Attributes:
        shape: what a pod requests, and how many belong together.
        resource: what is idle or unreachable.
        largest_gang: the most such pods that fit in one domain now.
    """

    level: str
    shape: str
    resource: str
    largest_gang: int
    idle: int
    unreachable: int
    summary: str
    states: dict[str, int]
    domains: tuple[DomainRow, ...]


def domain_report(
    facts: ClusterFacts, level: str = "", shape: str = "", size: int = 1
) -> list[ShapeReport]:
    """Return the domains of *level* for a shape, or for those of gangs; none if there are none.

    Raises:
        ConfigError: the shape cannot be read.
    """
    engine = engine_of(facts)
    runtime = next(iter(engine.runtimes.values()))
    shapes: tuple[ShapeArgs, ...] = ()
    if shape:
        amounts = parse_shape(shape)
        texts = {name: str(quantity_of(name, amount)) for name, amount in amounts.items()}
        shapes = (ShapeArgs(requests=texts, count=size),)
    handle = Handle(cluster=engine.cluster, nominations=engine.nominations, runtime=runtime)
    protection = DomainProtection(DomainProtectionArgs(level=level, shapes=shapes), handle)
    protection.waiting = tuple(PodInfo(pod) for pod in facts.pods if not pod.spec.node_name)
    found = [
        _report(name, one.name, one.device, states)
        for name, one, states in protection.states(engine.cluster.snapshot())
    ]
    if found and not any(report.domains for report in found):
        raise ConfigError(f"no node is in a domain of {level or found[0].level}")
    return found


def _report(level: str, shape: str, device: str, states: list[DomainState]) -> ShapeReport:
    total = summary_of(states)
    counts = ", ".join(f"{total.by_state[state]} {state}" for state in STATES)
    summary = (
        f"{level}, gangs of {shape}: {counts}; the largest gang is {total.largest};"
        f" {total.unreachable} of {total.idle} idle {device} are unreachable"
    )
    return ShapeReport(
        level=level,
        shape=shape,
        resource=device,
        largest_gang=total.largest,
        idle=total.idle,
        unreachable=total.unreachable,
        summary=summary,
        states=total.by_state,
        domains=tuple(
            DomainRow(
                name=one.name,
                nodes=one.nodes,
                takes=one.takes,
                could_take=one.could_take,
                state=one.state,
                idle=one.idle,
                unreachable=one.unreachable,
                broken_by=one.broken_by,
            )
            for one in states
        ),
    )
