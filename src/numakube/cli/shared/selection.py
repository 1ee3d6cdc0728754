"""Which nodes and pods a command is about: names and label selectors, checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.errors import ConfigError, InvalidValue

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numakube.api.pod import Pod
    from numakube.insight.facts import ClusterFacts


def chosen_nodes(facts: ClusterFacts, names: Sequence[str], selector: str = "") -> list[str]:
    """Return the named nodes, or those with the labels; a name that is no node is an error.

    A node without data counts, and so does data without a node (which a bundle may have).
    """
    known = facts.nodes.keys() | facts.topologies.keys()
    for name in names:
        if name not in known:
            some = ", ".join(sorted(known)[:5])
            raise ConfigError(f"no node {name!r}; there are {some or 'none'}")
    if names and not selector:
        return list(dict.fromkeys(names))
    fits = matcher(selector)
    found = [name for name in sorted(known) if fits(_labels(facts, name))]
    if names:
        found = [name for name in dict.fromkeys(names) if name in found]
    if selector and not found:
        raise ConfigError(f"no node has the labels {selector!r}")
    return found


def _labels(facts: ClusterFacts, node: str) -> Mapping[str, str]:
    return facts.nodes[node].metadata.labels if node in facts.nodes else {}


def chosen_pods(facts: ClusterFacts, namespace: str, selector: str = "") -> list[Pod]:
    """Return the pods of a namespace, or of all if it is empty, that have the labels."""
    fits = matcher(selector)
    return [
        pod
        for pod in facts.pods
        if namespace in ("", pod.metadata.namespace) and fits(pod.metadata.labels)
    ]


def matcher(selector: str) -> Callable[[Mapping[str, str]], bool]:
    """Return a test of labels; the text is what kubectl takes for ``-l``."""
    if not selector:
        return lambda _labels: True
    from numakube.api.selector_text import parse_label_selector

    try:
        return parse_label_selector(selector).matches
    except InvalidValue as error:
        raise ConfigError(f"--selector {selector!r}: {error}") from None
