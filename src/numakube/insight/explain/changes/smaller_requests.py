"""Ask for less: the largest amount that fits, container by container and resource by resource."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

import msgspec

from numakube.insight.explain.explanation_document import Change
from numakube.insight.explain.what_if import Bench
from numakube.insight.planned_pods import all_containers, asked_by, step_of, text_of, with_amounts
from numakube.values.display import amount_text, held_text
from numakube.values.resources import CPU, MEMORY, MILLI_PER_CPU, is_extended, is_hugepages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numakube.api.pod import Pod
_GI: Final = 1 << 30
_TENTHS: Final = 10
_MOST_TRIED: Final = 512
"""Amounts that are tried one by one; more CPUs than any machine has."""


def smaller(bench: Bench) -> Iterator[Change]:
    """Yield the largest smaller request of each container that would fit, one resource at a time.

    If that is not enough anywhere, what the whole pod could ask for instead. What no node offers
    cannot be asked for in smaller amounts.
    """
    if bench.unoffered:
        yield from _offered(bench)
        return
    found = False
    for container, _ in all_containers(bench.pod):
        for resource, wanted in asked_by(container).items():
            change = _less_of(bench, container.name, resource, wanted)
            if change is not None:
                found = True
                yield change
    if not found:
        yield from _less_of_everything(bench)


def _offered(bench: Bench) -> Iterator[Change]:
    """Yield that a node has to offer what none does, and what else it takes."""
    pod, missing = bench.pod, bench.unoffered
    for container, _ in all_containers(pod):
        pod = with_amounts(pod, container.name, dict.fromkeys(missing, 0))
    text = f"Have {' and '.join(missing)} offered by a node, or do without"
    offer = Change(kind="offer", text=text, resource=",".join(missing))
    node = bench.taker(pod)
    if node is not None:
        text = f"{text}: all the rest fits on {node}."
        yield msgspec.structs.replace(offer, text=text, node=node)
        return
    rest = Bench(bench.engine, bench.runtime, pod, only=bench.only)
    rest.liked = bench.liked
    less = next(smaller(rest), None)
    if less is not None:
        text = f"{text}, and {less.text[0].lower()}{less.text[1:]}"
        yield Change(kind="combined", text=text, node=less.node, parts=(offer, less))


def _less_of(bench: Bench, container: str, resource: str, wanted: int) -> Change | None:
    nodes: dict[int, str] = {}

    def fits(amount: int) -> bool:
        taker = bench.taker(with_amounts(bench.pod, container, {resource: amount}))
        if taker is not None:
            nodes[amount] = taker
        return taker is not None

    # Beyond what the largest node has there is nothing to be found, except devices of claims.
    limit = wanted if bench.by_claims(resource) else min(wanted, bench.largest(resource) + 1)
    best = _largest(resource, limit, fits)
    if best is None:
        return None
    return Change(
        kind=_kind(resource),
        text=_text(container, resource, wanted, best, nodes[best]),
        node=nodes[best],
        container=container,
        resource=resource,
        was=text_of(resource, wanted),
        to=text_of(resource, best),
    )


def _largest(resource: str, wanted: int, fits: Callable[[int], bool]) -> int | None:
    """Return the largest amount below *wanted* that fits; ``None`` if none does."""
    step = step_of(resource)
    if resource == MEMORY or is_hugepages(resource) or wanted > _MOST_TRIED * step:
        return _bisected(wanted, step, fits)
    if resource == CPU and wanted <= step:
        step = 100  # below a CPU in tenths of one
    least = 0 if is_extended(resource) else step
    # Whole cores, and widths that a policy accepts, make sizes in between fail: no bisection. If
    # not even the least (or two, for whole cores) fits, the reason is another resource.
    if not (fits(least) or (resource == CPU and wanted > 2 * step and fits(2 * step))):
        return None
    top = (wanted - 1) // step * step
    return next((amount for amount in range(top, least - 1, -step) if fits(amount)), None)


def _bisected(wanted: int, step: int, fits: Callable[[int], bool]) -> int | None:
    low, high = 1, (wanted - 1) // step
    if high < 1 or not fits(step):
        return None
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle * step) else (low, middle - 1)
    best = low * step
    rounded = best // _GI * _GI
    # A round number is easier to keep in mind, if it costs little.
    if rounded * _TENTHS >= best * (_TENTHS - 1) and rounded and fits(rounded):
        return rounded
    return best if fits(best) else None


def _less_of_everything(bench: Bench) -> Iterator[Change]:
    """Yield what fits if every container asks for what the best zone has, or for a part of it."""
    scaled = (_scaled(bench.pod, tenths) for tenths in range(_TENTHS - 1, 0, -1))
    for pod in chain(_clamped(bench), scaled):
        node = bench.taker(pod) if _still_runs(bench.pod, pod) else None
        if node is None:
            continue
        before = {container.name: asked_by(container) for container, _ in all_containers(bench.pod)}
        parts = "; ".join(
            f"{container.name}: {_sizes(asked_by(container), before[container.name])}"
            for container, _ in all_containers(pod)
            if before[container.name]
        )
        text = f"Ask for less of everything, such as {parts}: fits on {node}."
        yield Change(kind="less-of-everything", text=text, node=node)
        return


def _still_runs(before: Pod, after: Pod) -> bool:
    """Tell whether no container is left without CPU or memory that it asked for."""
    pairs = zip(all_containers(before), all_containers(after), strict=True)
    return all(
        asked_by(now).keys() >= asked_by(then).keys() & {CPU, MEMORY}
        for (then, _), (now, _) in pairs
    )


def _clamped(bench: Bench) -> Iterator[Pod]:
    """Yield pods whose containers ask for no more than a zone, or the whole node, has free."""
    for name in bench.liked:
        node = bench.node(name)
        if node is None:
            continue
        free = {
            resource: max(0, amount - node.requested.get(resource, 0))
            for resource, amount in node.allocatable.items()
        }
        zones = node.numa.available if node.numa is not None else ()
        for zone in sorted(zones, key=lambda one: -one.get(CPU, 0)):
            yield _limited(bench.pod, {**free, **zone})
        yield _limited(bench.pod, free)


def _limited(pod: Pod, free: Mapping[str, int]) -> Pod:
    for container, _ in all_containers(pod):
        amounts = {
            name: min(wanted, free.get(name, 0) // step_of(name) * step_of(name))
            for name, wanted in asked_by(container).items()
        }
        pod = with_amounts(pod, container.name, amounts)
    return pod


def _scaled(pod: Pod, tenths: int) -> Pod:
    for container, _ in all_containers(pod):
        smaller = {
            name: max(step_of(name), amount * tenths // _TENTHS // step_of(name) * step_of(name))
            for name, amount in asked_by(container).items()
        }
        pod = with_amounts(pod, container.name, smaller)
    return pod


def _sizes(amounts: Mapping[str, int], before: Mapping[str, int]) -> str:
    """Return what a container asks for now, and what no longer."""
    dropped = [f"no {name}" for name in before if name not in amounts]
    return ", ".join(filter(None, (held_text(amounts), *dropped)))


def _kind(resource: str) -> str:
    if resource == CPU:
        return "fewer-cpus"
    if is_hugepages(resource):
        return "fewer-hugepages"
    return "less-memory" if resource == MEMORY else "fewer-devices"


def _text(container: str, resource: str, wanted: int, best: int, node: str) -> str:
    before = amount_text(resource, wanted)
    if not best:
        return f"Do without {resource} in container {container}: it then fits on {node}."
    now = amount_text(resource, best)
    what = resource
    if resource == CPU and best % MILLI_PER_CPU == 0:
        what = "CPU" if best == step_of(CPU) else "CPUs"
    return f"Ask for {now} {what} instead of {before} in container {container}: fits on {node}."
