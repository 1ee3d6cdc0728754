"""Do the versions in a cluster go together: our programs, the API server, the kubelets?

The rules are those of docs/how-to/upgrade.md. A program's version is the tag of its image: what has
another tag, or only a digest, is of an unknown version, and that is an answer.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from numakube.api.meta import release_of
from numakube.insight.deployed_programs import is_ours
from numakube.kubelet.kubelet_versions import NEWEST, OLDEST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.insight.facts import ClusterFacts

_OLDEST_API: Final = (1, 31)
_OLDEST_COUNTED: Final = (1, 21)
_TAG: Final = re.compile(r":v?(\d+\.\d+\.\d+[^/@]*)(?:@|$)")

Release = tuple[int, int]


class Standing(StrEnum):
    """Whether a version goes together with this program."""

    YES = "yes"
    PARTLY = "partly"
    UNKNOWN = "unknown"
    NO = "no"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundVersion:
    """A version that is there.

    Attributes:
        what: what has it, as kubectl names it: ``deployment/numakube-scheduler``.
        version: empty if it is not known.
        why: what follows, or what to do; empty if all is well.
    """

    what: str
    version: str
    supported: Standing
    why: str = ""


def versions_in(facts: ClusterFacts, own: str) -> tuple[FoundVersion, ...]:
    """Return every version in the cluster, and whether it goes together with version *own*."""
    return (
        _api_server(facts.version.git_version),
        *_kubelets(facts),
        *_programs(facts, own),
    )


def _api_server(text: str) -> FoundVersion:
    release = release_of(text)
    standing, why = Standing.YES, ""
    if release is None:
        standing, why = Standing.UNKNOWN, "it did not say"
    elif release < _OLDEST_API:
        standing, why = Standing.NO, f"the oldest is {_written(_OLDEST_API)}"
    elif release > NEWEST:
        standing, why = Standing.UNKNOWN, f"newer than {_written(NEWEST)}: not tried"
    return FoundVersion(what="API server", version=text, supported=standing, why=why)


def _kubelets(facts: ClusterFacts) -> Iterator[FoundVersion]:
    found = Counter(
        node.status.node_info.kubelet_version if node.status.node_info else ""
        for node in facts.nodes.values()
    )
    for text, count in sorted(found.items()):
        standing, why = _kubelet(release_of(text))
        what = "1 kubelet" if count == 1 else f"{count} kubelets"
        yield FoundVersion(what=what, version=text, supported=standing, why=why)


def _kubelet(release: Release | None) -> tuple[Standing, str]:
    if release is None:
        return Standing.UNKNOWN, "their nodes do not say"
    if release < _OLDEST_COUNTED:
        return Standing.NO, f"the oldest is {_written(_OLDEST_COUNTED)}"
    if release < OLDEST:
        return Standing.PARTLY, f"older than {_written(OLDEST)}: judged by counts"
    if release > NEWEST:
        return Standing.PARTLY, f"newer than {_written(NEWEST)}: taken for it"
    return Standing.YES, ""


def _programs(facts: ClusterFacts, own: str) -> Iterator[FoundVersion]:
    kinds = {"daemonset": facts.daemon_sets, "deployment": facts.deployments}
    for kind, workloads in kinds.items():
        for workload in workloads:
            images = {
                container.image
                for container in workload.spec.template.spec.containers
                if is_ours(container)
            }
            for image in sorted(images):
                version = version_of_image(image)
                standing, why = _program(release_of(version), release_of(own))
                what = f"{kind}/{workload.metadata.name}"
                yield FoundVersion(what=what, version=version, supported=standing, why=why)


def version_of_image(image: str) -> str:
    """Return the version that an image's tag says; empty if it has none, or one of another form."""
    found = _TAG.search(image)
    return found[1] if found else ""


def _program(release: Release | None, own: Release | None) -> tuple[Standing, str]:
    if release is None or own is None:
        return Standing.UNKNOWN, "the tag of its image is no version"
    if _are_neighbours(release, own):
        return Standing.YES, ""
    return Standing.NO, "more than one minor version away: upgrade by way of those in between"


def _are_neighbours(one: Release, other: Release) -> bool:
    """Tell whether they are the same minor version or neighbours; 1.0 follows 0.9."""
    first, second = sorted((one, other))
    return second == (first[0] + 1, 0) or (first[0] == second[0] and second[1] - first[1] <= 1)


def _written(release: Release) -> str:
    return f"{release[0]}.{release[1]}"
