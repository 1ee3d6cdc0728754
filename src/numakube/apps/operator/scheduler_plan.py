"""From a NUMAResourcesScheduler and the present state to a scheduler, and what goes with it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec

from numakube.api.nodes import CONTROL_PLANE
from numakube.api.numaresources import SCHEDULER_NAME, NamespacedName, RelatedObject
from numakube.api.scheduler_config import (
    DEFAULT_SCHEDULER,
    KubeSchedulerConfiguration,
    configuration_tree,
    numa_profile,
)
from numakube.api.yaml_text import dump_yaml
from numakube.apps.operator.exporters_plan import PAUSE
from numakube.apps.operator.node_pools import log_level, normalised_scheduler
from numakube.apps.operator.planned_actions import (
    DEDICATED_INFORMER,
    INTERNAL_ERROR,
    Apply,
    Extra,
    Made,
    OperatorPlan,
    degraded,
    leftovers,
    owned,
    verdict_of,
)
from numakube.errors import ConfigError, InvalidValue
from numakube.manifests.cluster_policies import API_PORTS, debugging_access
from numakube.manifests.controller_deployment import absent_companion, companions
from numakube.manifests.extender import ExtenderManifest
from numakube.manifests.operator import EXTENDER
from numakube.manifests.release_image import IMAGE, pulled, told_gates
from numakube.manifests.secondary_scheduler import DEFAULT_NAMES, NAME, SecondaryScheduler
from numakube.manifests.secondary_scheduler import NAME as SCHEDULER
from numakube.values.times import format_duration, parse_duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numakube.api.nodes import Node
    from numakube.api.numaresources import (
        ExtenderSpec,
        NUMAResourcesScheduler,
        SchedulerSpec,
    )
    from numakube.api.scheduler_config import ProfileConfig
    from numakube.api.workloads import Deployment
    from numakube.manifests.controller_deployment import ControllerManifest


# What a NUMAResourcesScheduler may ask for beside its scheduler.
#
# That is an extender for kube-schedulers, and the controllers of annexes. None of them is deployed
# unless it is asked for.


EXTENDER_KEY: Final = "kube-scheduler.yaml"
_REPLICAS: Final = 2


def companion_names(spec: SchedulerSpec) -> list[str]:
    """Return the names of the Deployments of what *spec* asks for."""
    extender = [EXTENDER] if spec.extender is not None else []
    return extender + [controller.name for controller in _controllers(spec, "")]


def companion_objects(
    spec: SchedulerSpec, namespace: str, pull_policy: str
) -> list[dict[str, Any]]:
    """Return everything that *spec* asks for."""
    documents = [one for each in _controllers(spec, namespace) for one in each.objects()]
    if spec.extender is not None:
        documents = [*_extender_objects(spec.extender, spec.image_spec, namespace), *documents]
    return pulled(documents, spec.image_spec, pull_policy)


def _extender_objects(spec: ExtenderSpec, image: str, namespace: str) -> list[dict[str, Any]]:
    """Return the extender and the configuration by which a kube-scheduler uses it."""
    manifest = ExtenderManifest(
        namespace=namespace,
        name=EXTENDER,
        image=image,
        replicas=_REPLICAS if spec.replicas is None else spec.replicas,
        tls=spec.tls != "Disabled",
        second=False,
    )
    configuration = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": EXTENDER, "namespace": namespace},
        "data": {EXTENDER_KEY: dump_yaml(manifest.configuration())},
    }
    workload = [*manifest.guards(), manifest.service(), manifest.deployment()]
    access = [*manifest.access(), *debugging_access(EXTENDER, namespace)]
    return [*access, configuration, *workload]


def _controllers(spec: SchedulerSpec, namespace: str) -> Iterator[ControllerManifest]:
    for kind in companions():
        manifest = kind.asked_by(
            spec, namespace=namespace, image=spec.image_spec, scheduler=SCHEDULER
        )
        if manifest is not None:
            yield manifest


QOS: Final = "config.numa-operator.openshift.io/scheduler-qos-request"
DIGESTS_VARIABLE: Final = "SCHEDULER_IMAGE_DIGESTS"

BAD_NAME: Final = "IncorrectNUMAResourcesSchedulerResourceName"
BAD_IMAGE: Final = "InvalidSchedulerImage"
BAD_PROFILES: Final = "InvalidSchedulerProfiles"

_SECOND: Final = 1_000_000_000
_MOST_REPLICAS: Final = 3
_DIGEST: Final = re.compile(r"sha256:[a-f0-9]{64}", re.ASCII)
_GO_SCHEDULERS: Final = ("scheduler-plugins", "noderesourcetopology-scheduler")
"""Parts of the names of images that the NUMA Resources Operator runs."""
_DETECTION: Final[Mapping[str, str]] = {"Relaxed": "OnlyExclusiveResources", "Aggressive": "All"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSetup:
    """What the operator itself was told.

    Attributes:
        trusted: digests of images that may run; ``None`` for any image.
    """

    namespace: str
    pull_policy: str = "IfNotPresent"
    feature_gates: str = ""
    trusted: frozenset[str] | None = None
    api_ports: tuple[int, ...] = API_PORTS


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSeen:
    """The present state.

    Attributes:
        deployment: the scheduler's.
        companions: Deployments of what goes with it, by their names.
        made: everything that operators have made.
    """

    object: NUMAResourcesScheduler
    nodes: tuple[Node, ...] = ()
    deployment: Deployment | None = None
    companions: Mapping[str, Deployment] = field(default_factory=dict)
    made: tuple[Made, ...] = ()


def plan_scheduler(seen: SchedulerSeen, setup: SchedulerSetup) -> OperatorPlan | None:
    """Return what to do; ``None`` if the user asked to leave everything alone."""
    wanted = seen.object
    if wanted.metadata.name != SCHEDULER_NAME:
        text = f"incorrect NUMAResourcesScheduler resource name: {wanted.metadata.name}"
        return _stopped(BAD_NAME, text)
    if wanted.metadata.annotations.get(PAUSE) == "enabled":
        return None
    problem = _image_problem(wanted.spec.image_spec, setup.trusted)
    if problem:
        return _stopped(BAD_IMAGE, problem)
    spec = normalised_scheduler(wanted.spec)
    if absent := absent_companion(spec):
        return _stopped(INTERNAL_ERROR, absent)
    try:
        seconds = whole_seconds(spec.cache_resync_period or "")
    except InvalidValue as error:
        return _stopped(INTERNAL_ERROR, f"spec.cacheResyncPeriod: {error}")
    replicas = _replicas(wanted.spec.replicas, seen.nodes)
    if isinstance(replicas, str):
        return _stopped(INTERNAL_ERROR, replicas)
    profiles = _profiles(spec, plugin_args(spec, seconds))
    if isinstance(profiles, str):
        return _stopped(BAD_PROFILES, profiles)
    manifest = SecondaryScheduler(
        namespace=setup.namespace,
        image=spec.image_spec,
        pull_policy=setup.pull_policy,
        replicas=replicas,
        log_level=log_level(spec.log_level),
        profiles=profiles,
        guaranteed=wanted.metadata.annotations.get(QOS) == "guaranteed",
        api_ports=setup.api_ports,
    )
    owner = msgspec.to_builtins(wanted)
    companions = companion_objects(spec, setup.namespace, setup.pull_policy)
    documents = told_gates([*manifest.objects(), *companions], spec.image_spec, setup.feature_gates)
    operands = [Apply(owned(document, owner)) for document in documents]
    return OperatorPlan(
        actions=(*leftovers(seen.made, wanted.metadata.uid, operands), *operands),
        verdict=verdict_of(
            updating=_updating(seen, spec, setup.namespace),
            extras=(Extra(type=DEDICATED_INFORMER, holds=spec.scheduler_informer == "Dedicated"),),
        ),
        status=_status(spec, setup.namespace, next(iter(profiles)), seconds),
    )


def _stopped(reason: str, message: str) -> OperatorPlan:
    return OperatorPlan(verdict=degraded(reason, message), status={})


def _image_problem(image: str, trusted: frozenset[str] | None) -> str:
    if not image:
        return "spec.imageSpec must name an image"
    if any(mark in image for mark in _GO_SCHEDULERS):
        return (
            f'image "{image}" is a Go scheduler, which does not take the arguments of numakube\'s:'
            f" write spec.imageSpec: {IMAGE}, or the name of your own copy of it"
        )
    if trusted is None:
        return ""
    _, at, digest = image.partition("@")
    if not at:
        return f'image "{image}" must be referenced by digest, not by tag'
    if not _DIGEST.fullmatch(digest):
        return f'image "{image}" has malformed digest "{digest}": expected sha256:<64 hex chars>'
    if digest not in trusted:
        return (
            f'image "{image}" digest "{digest}" is not in the trusted list. To extend the list,'
            f' update the environment variable "{DIGESTS_VARIABLE}" with comma separated list of'
            " digests"
        )
    return ""


def digests_of(text: str) -> frozenset[str]:
    """Return the digests in *text*, which separates them by commas; others are passed over."""
    words = (word.strip() for word in text.split(","))
    return frozenset(word for word in words if _DIGEST.fullmatch(word))


def _replicas(explicit: int | None, nodes: tuple[Node, ...]) -> int | str:
    """Return how many schedulers to run, or why that cannot be said.

    They prefer nodes of the control plane. Clusters whose control plane is elsewhere have none.
    """
    if explicit is not None:
        if explicit < 0:
            return "failed to compute scheduler replicas: replicas must not be negative"
        if explicit > len(nodes):
            return (
                "failed to compute scheduler replicas: explicitly set replicas count should not be"
                f" greater than the number of the nodes, which is {len(nodes)}"
            )
        return explicit
    control_plane = sum(1 for node in nodes if CONTROL_PLANE in node.metadata.labels)
    candidates = control_plane or len(nodes)
    return _MOST_REPLICAS if candidates >= _MOST_REPLICAS else 1


def whole_seconds(period: str) -> int:
    """Return a duration in seconds, rounded.

    Raises:
        InvalidValue: it is no duration.
    """
    return max(0, (parse_duration(period) + _SECOND // 2) // _SECOND)


def plugin_args(spec: SchedulerSpec, resync_seconds: int) -> dict[str, Any]:
    """Return the arguments of NodeResourceTopologyMatch that a complete *spec* amounts to."""
    scoring = spec.scoring_strategy
    args: dict[str, Any] = {
        "cache": {
            "resyncMethod": "Autodetect",
            "foreignPodsDetect": _DETECTION.get(spec.cache_resync_detection or "", "All"),
            "informerMode": spec.scheduler_informer,
        }
    }
    if resync_seconds:
        args["cacheResyncPeriodSeconds"] = resync_seconds
    if scoring is not None:
        resources = [
            {"name": resource.name, "weight": resource.weight or 1}
            for resource in scoring.resources
        ]
        args["scoringStrategy"] = {
            "type": scoring.type,
            **({"resources": resources} if resources else {}),
        }
    if spec.preemption_mode is not None:
        # Ours is on unless told otherwise, so that "Disabled" has to be said.
        args["preemptionMode"] = spec.preemption_mode
    return args


def _profiles(spec: SchedulerSpec, args: dict[str, Any]) -> dict[str, dict[str, Any]] | str:
    """Return the arguments of each profile by its name, or why a scheduler would not start."""
    names = (spec.scheduler_name,) if spec.scheduler_name else DEFAULT_NAMES
    found = dict.fromkeys(names, args)
    for place, one in enumerate(spec.profiles):
        if one.scheduler_name in found:
            name = one.scheduler_name
            return f"spec.profiles[{place}].schedulerName: {name} is in another profile already"
        found[one.scheduler_name] = _merged(args, one.args)
    if DEFAULT_SCHEDULER in found:
        return (
            f"{DEFAULT_SCHEDULER} cannot be a profile here: the operator gives no right to"
            " kube-scheduler's lease; use `numakube deploy scheduler` or a static pod for it"
        )
    profiles = tuple(numa_profile(name, each) for name, each in found.items())
    return (_refused(profiles) if spec.profiles else "") or found


def _refused(profiles: tuple[ProfileConfig, ...]) -> str:
    """Return why a scheduler would not start with *profiles*; empty if it would."""
    # An operator that needs none of the scheduler's plugins does without their memory.
    from numakube.insight.scheduler_engine import tried

    try:
        tried(configuration_tree(KubeSchedulerConfiguration(profiles=profiles)), "spec.profiles")
    except ConfigError as error:
        return str(error)
    return ""


def _merged(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return *base* with the fields of *more*; objects in both are merged."""
    both = {
        name: _merged(base[name], value)
        for name, value in more.items()
        if isinstance(value, dict) and isinstance(base.get(name), dict)
    }
    return {**base, **more, **both}


def _updating(seen: SchedulerSeen, spec: SchedulerSpec, namespace: str) -> str | None:
    """Return which Deployment is not available yet; the scheduler's own has no name here."""
    if not _is_available(seen.deployment):
        return ""
    late = (name for name in companion_names(spec) if not _is_available(seen.companions.get(name)))
    return next((f"{namespace}/{name}" for name in late), None)


def _is_available(deployment: Deployment | None) -> bool:
    return deployment is not None and deployment.is_available


def _status(
    spec: SchedulerSpec, namespace: str, scheduler_name: str, seconds: int
) -> dict[str, Any]:
    deployment = NamespacedName(namespace=namespace, name=NAME)
    names = [NAME, *companion_names(spec)]
    related = [
        RelatedObject(resource="namespaces", name=namespace),
        *(
            RelatedObject(group="apps", resource="deployments", namespace=namespace, name=name)
            for name in names
        ),
    ]
    document: dict[str, Any] = msgspec.to_builtins(
        {
            "deployment": deployment,
            "schedulerName": scheduler_name,
            "cacheResyncPeriod": format_duration(seconds * _SECOND),
            "relatedObjects": related,
        }
    )
    return document
