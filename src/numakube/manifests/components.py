"""What can be deployed, by name: the objects of each component, in the order of creation.

Components of annexes come last, in order of their annexes' names.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from numakube.annexes import Group, added_to, load
from numakube.api.crds import UPDATE_CRD, crd
from numakube.api.scheduler_config import SCHEDULER_NAME
from numakube.errors import ConfigError
from numakube.manifests.cluster_policies import flow_control
from numakube.manifests.exporter import ExporterManifest
from numakube.manifests.extender import ExtenderManifest
from numakube.manifests.operator import OperatorManifest
from numakube.manifests.other_exporters import NfdManifest, RteManifest
from numakube.manifests.rbac_rules import view_role
from numakube.manifests.release_image import IMAGE, pulled, told_gates
from numakube.manifests.scheduler import SchedulerManifest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

DEFAULT_NAMESPACE: Final = "numakube"
UPDATERS: Final = ("numakube", "rte", "nfd")
NRT_V1BETA1: Final = "nrt-v1beta1"
"""What an annex calls the definition of NodeResourceTopology with the proposed version."""
_PRIVILEGED: Final = {"pod-security.kubernetes.io/enforce": "privileged"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """How to deploy.

    Attributes:
        namespace: where our components live; the agents of others have namespaces of their own.
        image: ours.
        scheduler_name: what pods name in ``spec.schedulerName``; the lease is called so too.
        replicas: of the scheduler and the extender.
        shards: schedulers that share the nodes; each has that many replicas.
        updater: who fills the topologies.
        period: how often an updater looks; empty for its own default.
        koordinator: whether our exporter also publishes what koordlet does.
        measure: whether our exporter also measures what is really used.
        max_silence: how long our exporter may keep to itself what was foreseen; empty: it does not.
        tls: whether calls to the extender are encrypted, with a Secret that you provide.
        nrt_v1beta1: whether the definition of NodeResourceTopology has the proposed version, which
            the webhook converts.
        configuration: a KubeSchedulerConfiguration for the scheduler; else it has one profile.
        exporter_configuration: the text of a file of settings for our exporter.
        pools: PCI functions that nodes offer, as in a ``resourceList``; empty for examples or none.
        feature_gates: what our programs are told of them, as their flag has it.
    """

    namespace: str = DEFAULT_NAMESPACE
    image: str = IMAGE
    scheduler_name: str = SCHEDULER_NAME
    replicas: int = 2
    shards: int = 1
    updater: str = "numakube"
    period: str = ""
    fingerprint: bool = True
    pull_policy: str = "IfNotPresent"
    koordinator: bool = False
    measure: bool = False
    max_silence: str = ""
    tls: bool = True
    configuration: dict[str, Any] | None = None
    exporter_configuration: str = ""
    pools: tuple[dict[str, Any], ...] = ()
    nrt_v1beta1: bool = False
    feature_gates: str = ""


def objects_of(components: Iterable[str], choices: Choices) -> list[dict[str, Any]]:
    """Return the objects of *components*: kinds first, then namespaces, then the rest.

    Raises:
        ConfigError: there is no such component, or one is missing that another needs.
    """
    names = in_order(components)
    if choices.nrt_v1beta1 and "api" in names and "webhook" not in names:
        raise ConfigError("v1beta1 needs the component webhook beside api, which converts to it")
    documents: list[dict[str, Any]] = []
    for name in names:
        documents += component_objects(name, choices)
    kinds = _unique(
        document for document in documents if document["kind"] == "CustomResourceDefinition"
    )
    own = {
        document["metadata"]["name"]: document
        for document in documents
        if document["kind"] == "Namespace"
    }
    rest = _unique(
        document
        for document in documents
        if document["kind"] not in ("CustomResourceDefinition", "Namespace")
    )
    return [*kinds, *_namespaces(rest, own), *rest]


def component_objects(name: str, choices: Choices) -> list[dict[str, Any]]:
    """Return the objects of one component; our image is pulled as chosen wherever it runs."""
    documents = pulled(COMPONENTS[name](choices), choices.image, choices.pull_policy)
    return told_gates(documents, choices.image, choices.feature_gates)


def in_order(components: Iterable[str]) -> list[str]:
    """Return *components* by their own names, in the order of deployment.

    Raises:
        ConfigError: there is no such component.
    """
    asked = {ALIASES.get(name, name) for name in components}
    unknown = sorted(asked - COMPONENTS.keys() - {ALL})
    if unknown:
        known = ", ".join((*COMPONENTS, ALL))
        raise ConfigError(f"there is no component {unknown[0]!r}; there are {known}")
    everything = COMPONENTS.keys() - ON_REQUEST if ALL in asked else set()
    return [name for name in COMPONENTS if name in asked or name in everything]


def _unique(documents: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    by_key = {
        (
            document["kind"],
            document["metadata"].get("namespace", ""),
            document["metadata"]["name"],
        ): document
        for document in documents
    }
    return list(by_key.values())


def _namespaces(
    documents: list[dict[str, Any]], own: Mapping[str, dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the namespaces of *documents*, where agents of nodes may see their hosts.

    Even if there are none among them: they share the namespace with what is deployed after them,
    which would take the right from them. Those that a component has described itself, in *own*,
    keep their labels.
    """
    names = {document["metadata"].get("namespace", "") for document in documents} - {
        "",
        "kube-system",
    }
    namespaces = []
    for name in sorted(names):
        described = own[name]["metadata"].get("labels", {}) if name in own else {}
        metadata = {"name": name, "labels": {**described, **_PRIVILEGED}}
        namespaces.append({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    return namespaces


def _api(choices: Choices) -> list[dict[str, Any]]:
    definition = load(Group.DEFINITIONS, NRT_V1BETA1)(choices) if choices.nrt_v1beta1 else crd()
    return [definition, crd(UPDATE_CRD), view_role(), *flow_control(choices.namespace)]


def _exporter(choices: Choices) -> list[dict[str, Any]]:
    if choices.exporter_configuration and choices.updater != "numakube":
        raise ConfigError(f"a configuration is for our exporter, not for {choices.updater}'s")
    if choices.updater == "rte":
        return RteManifest(
            period=choices.period or "10s",
            fingerprint=choices.fingerprint,
            pull_policy=choices.pull_policy,
        ).objects()
    if choices.updater == "nfd":
        return NfdManifest(
            period=choices.period or "10s",
            fingerprint=choices.fingerprint,
            pull_policy=choices.pull_policy,
        ).objects()
    return ExporterManifest(
        namespace=choices.namespace,
        image=choices.image,
        pull_policy=choices.pull_policy,
        period=choices.period or "1m",
        fingerprint="with-exclusive-resources" if choices.fingerprint else None,
        koordinator=choices.koordinator,
        measure=choices.measure,
        max_silence=choices.max_silence,
        configuration=choices.exporter_configuration,
    ).objects()


def _scheduler(choices: Choices) -> list[dict[str, Any]]:
    return SchedulerManifest(
        namespace=choices.namespace,
        image=choices.image,
        scheduler_name=choices.scheduler_name,
        replicas=choices.replicas,
        shards=choices.shards,
        configuration=choices.configuration,
    ).objects()


def _extender(choices: Choices) -> list[dict[str, Any]]:
    return ExtenderManifest(
        namespace=choices.namespace,
        image=choices.image,
        replicas=choices.replicas,
        tls=choices.tls,
    ).objects()


def _operator(choices: Choices) -> list[dict[str, Any]]:
    return OperatorManifest(namespace=choices.namespace, image=choices.image).objects()


def _added(name: str, choices: Choices) -> list[dict[str, Any]]:
    """Return the objects of a component that an annex adds."""
    documents: list[dict[str, Any]] = load(Group.MANIFESTS, name)(choices)
    return documents


_ADDED: Final = added_to(Group.MANIFESTS)
COMPONENTS: Final[Mapping[str, Callable[[Choices], list[dict[str, Any]]]]] = MappingProxyType(
    {
        "api": _api,
        "exporter": _exporter,
        "scheduler": _scheduler,
        "extender": _extender,
        "operator": _operator,
        **{name: partial(_added, name) for name, annex in _ADDED.items() if annex.is_installed},
    }
)
ABSENT: Final = {name: annex for name, annex in _ADDED.items() if not annex.is_installed}
"""Components of annexes that are not installed."""
ALL: Final = "all"
ON_REQUEST: Final = frozenset(
    added.name for annex in _ADDED.values() for added in annex.manifests if added.on_request
)
"""What `ALL` leaves out: it changes how, where or when pods run, or rejects pods, unasked."""
WITHOUT_REPORTS: Final = frozenset({"api"}) | {
    added.name for annex in _ADDED.values() for added in annex.manifests if not added.uses_reports
}
"""Components that neither read nor write reports."""
DEFAULT: Final = ("api", "exporter", "scheduler")
ALIASES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "topology-updater": "exporter",
        "scheduler-plugin": "scheduler",
        "admission-check": "admission",
    }
)
"""Names that the topology-aware scheduling deployer has for the same, and that of a program."""
