"""Which pods and CPUs a report leaves out: the exporter's filters on what the kubelet lists.

Filters apply in RTE's order: the shared pool of the reference container first, so that it is known
even if that container's pod is excluded; then excluded pods; then terminal ones.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numakube.apps.exporter.report_options import ContainerName, PodPattern, ReportOptions
    from numakube.apps.exporter.scan_inputs import NodeInputs
    from numakube.node.podresources_client import ContainerResources, PodResources

_NEVER = re.compile(r"(?!)")
# An escaped character, or any but those that cannot stand for themselves in brackets.
_MEMBER = r"(?:\\.|[^\\\]-])"
_TOKEN = re.compile(
    rf"(?P<many>\*)|(?P<one>\?)|\[(?P<not>\^|(?!\^))(?P<members>(?:{_MEMBER}(?:-{_MEMBER})?)+)\]"
    r"|\\(?P<escaped>.)|(?P<plain>[^\\\[])",
    re.DOTALL,
)
_SPAN = re.compile(rf"({_MEMBER})(?:-({_MEMBER}))?", re.DOTALL)


def listed_pods(inputs: NodeInputs, options: ReportOptions) -> tuple[PodResources, ...]:
    """Return the pods that the report is about, without the CPUs of the shared pool."""
    shared = shared_pool(inputs.pods, options.reference_container)
    return tuple(
        _without_cpus(pod, shared)
        for pod in inputs.pods
        if not is_excluded(pod, options.pod_exclude)
        and (pod.namespace, pod.name) not in inputs.terminal
    )


def shared_pool(pods: Iterable[PodResources], reference: ContainerName | None) -> frozenset[int]:
    """Return the CPUs of the first container that *reference* names."""
    if reference is None:
        return frozenset()
    containers = (
        container
        for pod in pods
        if (pod.namespace, pod.name) == (reference.namespace, reference.pod)
        for container in pod.containers
        if container.name == reference.container
    )
    return frozenset(next((one.cpu_ids for one in containers), ()))


def is_excluded(pod: PodResources, patterns: Iterable[PodPattern]) -> bool:
    """Tell whether namespace and name of *pod* match one of *patterns*."""
    return any(
        glob_matches(one.namespace, pod.namespace) and glob_matches(one.name, pod.name)
        for one in patterns
    )


def glob_matches(pattern: str, text: str) -> bool:
    """Tell whether *text* matches a shell pattern as Go's ``filepath.Match`` understands it.

    ``*`` and ``?`` do not match a slash, brackets are negated by ``^`` alone, a backslash escapes.
    A malformed pattern matches nothing.
    """
    return _compiled(pattern).fullmatch(text) is not None


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    chunks = [""]
    position = 0
    while position < len(pattern):
        token = _TOKEN.match(pattern, position)
        if token is None:
            return _NEVER
        if token["many"]:
            chunks.append("")
        else:
            chunks[-1] += _translated(token)
        position = token.end()
    first, *others = chunks
    if not others:
        return re.compile(first, re.DOTALL)
    # Between two stars the first fit is as good as any other. To try no other keeps a pattern
    # with many stars from taking for ever.
    middle = "".join(f"(?>[^/]*?{chunk})" for chunk in others[:-1])
    return re.compile(f"{first}{middle}[^/]*{others[-1]}", re.DOTALL)


def _translated(token: re.Match[str]) -> str:
    if token["one"]:
        return "[^/]"
    if token["members"]:
        return _bracket(token["members"], negated=bool(token["not"]))
    return re.escape(token["escaped"] or token["plain"])


def _bracket(members: str, *, negated: bool) -> str:
    spans = list(_spans(members))
    if not spans:
        return "." if negated else "(?!)"
    inside = "".join(f"{re.escape(low)}-{re.escape(high)}" for low, high in spans)
    return f"[{'^' if negated else ''}{inside}]"


def _spans(members: str) -> Iterator[tuple[str, str]]:
    """Yield first and last character of each span; an inverted one has no characters."""
    for span in _SPAN.finditer(members):
        low = span[1][-1]
        high = span[2][-1] if span[2] else low
        if low <= high:
            yield low, high


def _without_cpus(pod: PodResources, shared: frozenset[int]) -> PodResources:
    if not shared:
        return pod
    return replace(
        pod,
        containers=tuple(_container_without(one, shared) for one in pod.containers),
        cpu_ids=tuple(cpu for cpu in pod.cpu_ids if cpu not in shared),
    )


def _container_without(container: ContainerResources, shared: frozenset[int]) -> ContainerResources:
    cpus = tuple(cpu for cpu in container.cpu_ids if cpu not in shared)
    return replace(container, cpu_ids=cpus)
