"""What plugins of annexes have to say of a pod and a node, in their own words.

An annex that adds a scheduler plugin may add an explainer under the plugin's name
(`numakube.annexes.Group.PLUGIN_EXPLAINERS`). It answers what only the plugin's author knows: what
its refusals mean, by which rule it places a pod on a node, and what the pod could wish instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from numakube.api.pod import Pod
    from numakube.insight.explain.explanation_document import Change, Holder
    from numakube.scheduling.framework.plugins import Plugin
    from numakube.scheduling.framework.runtime import Runtime
    from numakube.scheduling.framework.status import Status
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.values.resources import Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginPlacement:
    """What a plugin says of a pod on one node.

    Attributes:
        decided_by: who decides where on the node the pod runs: ``kubelet``, ``scheduler`` or
            ``nobody``.
        policy: by which NUMA policy, if the plugin decides; empty if it aligns nothing.
        scope: likewise the scope.
        free: what each NUMA node has left by the plugin's books; empty if it does not decide.
        totals: what each of them has for pods.
        holders: who holds what by those books.
        words: the rule and the verdict, sentence by sentence.
    """

    decided_by: str
    policy: str = ""
    scope: str = ""
    free: Mapping[int, Amounts]
    totals: Mapping[int, Amounts]
    holders: tuple[Holder, ...]
    words: tuple[str, ...]

    @property
    def by_scheduler(self) -> bool:
        """Whether the plugin places the pod itself."""
        return self.decided_by == "scheduler"


class PluginExplainer(Protocol):
    """What an annex adds to `Group.PLUGIN_EXPLAINERS`, under the name of a plugin."""

    def asks(self, plugin: Plugin, pod: PodInfo) -> bool:
        """Tell whether *pod* wishes by settings of its own what no kubelet would give it."""
        ...

    def placement(self, plugin: Plugin, pod: PodInfo, node: NodeInfo) -> PluginPlacement | None:
        """Return what is to be said of *node*; ``None`` if nothing was asked for there."""
        ...

    def meaning(self, status: Status) -> str:
        """Say what a refusal means to who does not know the plugin; empty if it is not its own."""
        ...

    def changes(self, pod: Pod, fits: Callable[[Pod], str | None]) -> Iterator[Change]:
        """Yield what *pod*, which the plugin refuses, could wish otherwise so that it fits.

        *fits* returns a node that takes a changed pod, if there is one.
        """
        ...


@cache
def explainers() -> Mapping[str, PluginExplainer]:
    """Return the explainer of each plugin that has one, by the plugin's name."""
    from numakube.annexes import Group, loaded

    return loaded(Group.PLUGIN_EXPLAINERS)


def asks_plugin(runtime: Runtime, pod: PodInfo) -> bool:
    """Tell whether *pod* asks a plugin of *runtime* for alignment by settings of its own."""
    return any(explainer.asks(plugin, pod) for explainer, plugin in _explained(runtime))


def placement_by_plugin(runtime: Runtime, pod: PodInfo, node: NodeInfo) -> PluginPlacement | None:
    """Return what a plugin of *runtime* says of *pod* on *node*, if one has something to say."""
    said = (explainer.placement(plugin, pod, node) for explainer, plugin in _explained(runtime))
    return next((placement for placement in said if placement is not None), None)


def meaning_by_plugin(status: Status) -> str:
    """Say what a refusal by a plugin of an annex means; empty if it is none."""
    return next(
        filter(None, (explainer.meaning(status) for explainer in explainers().values())), ""
    )


def changes_by_plugins(
    pod: Pod, refusals: Iterable[Status], fits: Callable[[Pod], str | None]
) -> Iterator[Change]:
    """Yield what *pod* could wish otherwise of the plugins by which *refusals* are."""
    refusing = {status.plugin for status in refusals}
    return chain.from_iterable(
        explainer.changes(pod, fits) for name, explainer in explainers().items() if name in refusing
    )


def _explained(runtime: Runtime) -> Iterator[tuple[PluginExplainer, Plugin]]:
    plugins = runtime.profile.plugins()
    for name, explainer in explainers().items():
        if name in plugins:
            yield explainer, plugins[name]
