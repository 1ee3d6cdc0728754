"""The kinds that the random requests are about, and random objects of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

Json = dict[str, Any]
T = TypeVar("T")


class Chooser(Protocol):
    """What decides how an object looks, such as `random.Random`."""

    def choice(self, seq: Sequence[T], /) -> T:
        """Return one of *seq*."""
        ...

    def random(self) -> float:
        """Return a number from 0 to 1."""
        ...


PRUNED_GROUP: Final = "differential.numakube.io"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of objects.

    Attributes:
        root: path of the group and version.
        resource: the name in paths.
        kind: the name in objects.
        make: makes the parts of an object other than its metadata.
        edits: places that a change may touch, and values for them; some are not allowed.
        fields: field selectors, right and wrong ones.
        namespaced: whether objects are in a namespace.
        status: values for ``status``, if it has that sub-resource.
        scale: whether it has a ``scale`` sub-resource.
    """

    root: str
    resource: str
    kind: str
    make: Callable[[Chooser], Json]
    edits: tuple[tuple[str, tuple[Any, ...]], ...]
    fields: tuple[str, ...] = ()
    namespaced: bool = True
    status: tuple[Json, ...] = ()
    scale: bool = False

    @property
    def api_version(self) -> str:
        """Return the value of ``apiVersion``."""
        return self.root.removeprefix("/apis/").removeprefix("/api/")

    @property
    def collection(self) -> str:
        """Return the path of the collection."""
        return f"{self.root}/namespaces/${{ns}}/{self.resource}" if self.namespaced else self.all

    @property
    def all(self) -> str:
        """Return the path of the collection in all namespaces."""
        return f"{self.root}/{self.resource}"

    def name(self, short: str) -> str:
        """Return the name of an object; those without namespace carry the sequence's."""
        return short if self.namespaced else f"${{ns}}-{short}"

    def object(self, rng: Chooser, metadata: Json) -> Json:
        """Return a random object with *metadata*."""
        body = {"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata}
        return body | self.make(rng)


def _sometimes(rng: Chooser, **choices: tuple[Any, ...]) -> Json:
    """Return about half of the fields, each with one of its values."""
    return {name: rng.choice(values) for name, values in choices.items() if rng.random() < 0.5}


def _config_map(rng: Chooser) -> Json:
    return _sometimes(
        rng,
        data=({"k": "1"}, {"k": "2", "l": "x"}, {}, {"a.b_c-d": ""}),
        binaryData=({"b": "AAE="}, {"b": ""}),
        immutable=(True, False),
    )


def _resources(rng: Chooser) -> Json:
    return _sometimes(
        rng,
        requests=({"cpu": "100m"}, {"cpu": 1, "memory": "64Mi"}, {"memory": "0.5Gi"}, {}),
        limits=({"cpu": "2"}, {"cpu": "1000m", "memory": "128Mi"}, {"example.com/gpu": "1"}),
    )


def _container(rng: Chooser, name: str) -> Json:
    return {
        "name": name,
        "image": rng.choice(("img", "img:1", "reg.example/img:latest", "img@sha256:" + "a" * 64)),
    } | _sometimes(
        rng,
        resources=(_resources(rng),),
        env=([{"name": "A", "value": "1"}], [{"name": "A"}, {"name": "B", "value": "$(A)"}]),
        ports=([{"containerPort": 80}], [{"containerPort": 80, "protocol": "UDP", "name": "p"}]),
        command=(["sh", "-c", "true"], []),
        livenessProbe=({"httpGet": {"port": 80}}, {"exec": {"command": ["x"]}, "periodSeconds": 3}),
        securityContext=({}, {"runAsUser": 1000}, {"privileged": True}),
    )


def _pod_spec(rng: Chooser) -> Json:
    containers = [_container(rng, name) for name in ("c", "d")[: rng.choice((1, 1, 2))]]
    return {"containers": containers} | _sometimes(
        rng,
        priorityClassName=("system-node-critical", "no-such-class", ""),
        tolerations=([{"operator": "Exists"}], [{"key": "a", "effect": "NoExecute"}]),
        terminationGracePeriodSeconds=(0, 5),
        nodeSelector=({"a": "b"}, {}),
        schedulerName=("other",),
        initContainers=([{"name": "i", "image": "x", "restartPolicy": "Always"}],),
        volumes=([{"name": "v"}], [{"name": "v", "configMap": {"name": "a"}}]),
        topologySpreadConstraints=(
            [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}],
        ),
        hostNetwork=(True, False),
    )


def _pod(rng: Chooser) -> Json:
    spec = _pod_spec(rng) | _sometimes(
        rng,
        nodeName=("n1",),
        restartPolicy=("Never", "OnFailure"),
        schedulingGates=([{"name": "g"}],),
    )
    if "nodeName" in spec:
        spec.pop("schedulingGates", None)
    return {"spec": spec}


def _template(rng: Chooser) -> Json:
    labels = rng.choice(({"app": "a"}, {"app": "a"}, {"app": "a", "x": "y"}, {"app": "b"}))
    return {"metadata": {"labels": labels}, "spec": _pod_spec(rng)}


def _deployment(rng: Chooser) -> Json:
    spec = {"selector": {"matchLabels": {"app": "a"}}, "template": _template(rng)}
    return {
        "spec": spec
        | _sometimes(
            rng,
            replicas=(0, 3),
            strategy=({"type": "Recreate"}, {"rollingUpdate": {"maxSurge": "50%"}}, {}),
            revisionHistoryLimit=(2,),
            paused=(True, False),
            minReadySeconds=(5, 0),
        )
    }


def _node(rng: Chooser) -> Json:
    return {
        "spec": _sometimes(
            rng,
            unschedulable=(True, False),
            podCIDR=("10.1.0.0/24",),
            taints=([{"key": "a", "effect": "NoSchedule"}], [{"key": "a", "effect": "Never"}]),
            providerID=("p://1",),
        )
    } | _sometimes(rng, status=({"capacity": {"cpu": "8", "memory": "32Gi"}},))


def _lease(rng: Chooser) -> Json:
    return {
        "spec": _sometimes(
            rng,
            holderIdentity=("me", "you", ""),
            leaseDurationSeconds=(15, 40, 0),
            renewTime=("2024-01-02T03:04:05.678901Z", "2024-01-02T03:04:05Z", "yesterday"),
            leaseTransitions=(1, -1),
        )
    }


def _priority_class(rng: Chooser) -> Json:
    return {"value": rng.choice((0, 1, 1000, 1000000000, 1000000001))} | _sometimes(
        rng, description=("d",), preemptionPolicy=("Never", "Sometimes")
    )


def _event(rng: Chooser) -> Json:
    return {
        "involvedObject": {"kind": "Pod", "name": "a", "namespace": "${ns}", "apiVersion": "v1"},
    } | _sometimes(
        rng,
        reason=("Started", "Killing"),
        message=("it did", ""),
        type=("Normal", "Warning", "Odd"),
        count=(1, 3),
        source=({"component": "kubelet", "host": "n1"},),
        firstTimestamp=("2024-01-02T03:04:05Z",),
        reportingComponent=("c",),
    )


def _namespace(_: Chooser) -> Json:
    return {}


def _widget(rng: Chooser) -> Json:
    return _sometimes(
        rng,
        spec=(
            {"size": 3},
            {"size": "3"},
            {"size": 11, "color": "red"},
            {"color": "blue", "unknown": 1},
            {"parts": [{"name": "x"}, {"name": "y", "weight": 2.5}]},
            {"parts": [{"name": "x"}, {"name": "x"}]},
            {"port": "http", "nested": {"a": None}},
        ),
        extra=({"free": {"form": [1, "a", None]}}, {}),
        status=({"ready": True},),
    )


def _disruption_budget(rng: Chooser) -> Json:
    return {
        "spec": {"selector": {"matchLabels": {"app": "a"}}}
        | rng.choice(({"minAvailable": 1}, {"maxUnavailable": "50%"}, {"minAvailable": 0}))
    }


Edits = tuple[tuple[str, tuple[Any, ...]], ...]

COMMON_EDITS: Final[Edits] = (
    ("/metadata/labels", ({"app": "a"}, {"app": "b", "x": "y"}, None, {"app": "-bad"})),
    ("/metadata/annotations", ({"note": "1"}, {"note": "2", "other": ""}, None)),
    ("/metadata/finalizers", (["test.io/hold"], [], ["not a finalizer"])),
)
_POD_EDITS: Final[Edits] = (
    ("/spec/activeDeadlineSeconds", (10, 5, -1)),
    ("/spec/tolerations", ([{"operator": "Exists"}], [])),
    ("/spec/containers/0/image", ("other:2", "")),
    ("/spec/nodeName", ("n2",)),
    ("/spec/schedulingGates", ([], [{"name": "h"}])),
    ("/spec/priority", (5,)),
    ("/spec/hostname", ("h",)),
)

WIDGET: Final = Kind(
    root=f"/apis/{PRUNED_GROUP}/v1",
    resource="widgets",
    kind="Widget",
    make=_widget,
    edits=(
        ("/spec/size", (1, 7, 100, "x")),
        ("/spec/color", ("red", "green", "mauve")),
        ("/spec/parts", ([{"name": "x"}], [{"name": "y", "weight": 1}], [], None)),
        ("/spec/unknown", (1,)),
        ("/extra", ({"free": 1}, None)),
    ),
    fields=("metadata.name=a", "spec.color=red", "spec.size=3"),
    status=({"ready": True, "count": 2}, {"ready": "no"}, {}),
    scale=True,
)

KINDS: Final = (
    Kind(
        "/api/v1",
        "configmaps",
        "ConfigMap",
        _config_map,
        (
            ("/data", ({"k": "9"}, {"m": "1", "k": "1"}, None)),
            ("/data/k", ("3", 4)),
            ("/immutable", (True, False)),
        ),
        ("metadata.name=a", "metadata.namespace!=x", "data=1"),
    ),
    Kind(
        "/api/v1",
        "pods",
        "Pod",
        _pod,
        _POD_EDITS,
        (
            "spec.nodeName=n1",
            "spec.nodeName=",
            "status.phase=Pending",
            "status.phase!=Running,spec.nodeName!=n1",
            "spec.priority=1",
        ),
        status=(
            {"phase": "Running", "podIP": "10.0.0.1"},
            {"phase": "Succeeded"},
            {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
            {"phase": "Odd"},
            {"conditions": [{"type": "Ready"}], "hostIP": "x"},
        ),
    ),
    Kind(
        "/apis/apps/v1",
        "deployments",
        "Deployment",
        _deployment,
        (
            ("/spec/replicas", (1, 2, -1)),
            ("/spec/template/spec/containers/0/image", ("v2", "v3")),
            ("/spec/selector/matchLabels/app", ("b",)),
            ("/spec/paused", (True, False)),
            ("/spec/strategy", ({"type": "RollingUpdate"}, {"type": "Recreate"}, None)),
        ),
        ("metadata.name=a", "status.replicas=1"),
        status=({"replicas": 1, "observedGeneration": 1}, {"replicas": -1}, {"readyReplicas": 3}),
        scale=True,
    ),
    Kind(
        "/api/v1",
        "nodes",
        "Node",
        _node,
        (
            ("/spec/unschedulable", (True, False)),
            ("/spec/taints", ([{"key": "b", "effect": "NoExecute"}], [])),
            ("/spec/podCIDR", ("10.2.0.0/24",)),
            ("/spec/providerID", ("p://2",)),
        ),
        ("spec.unschedulable=true", "metadata.name=x", "spec.podCIDR=1"),
        namespaced=False,
        status=(
            {"allocatable": {"cpu": "4"}, "capacity": {"cpu": "8"}},
            {"conditions": [{"type": "Ready", "status": "True"}]},
            {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]},
            {"allocatable": {"cpu": "1.5k"}},
        ),
    ),
    Kind(
        "/apis/coordination.k8s.io/v1",
        "leases",
        "Lease",
        _lease,
        (
            ("/spec/holderIdentity", ("she", None)),
            ("/spec/renewTime", ("2024-05-06T07:08:09.000001Z", None)),
            ("/spec/leaseDurationSeconds", (1, 0)),
        ),
        ("metadata.name=a", "spec.holderIdentity=me"),
    ),
    Kind(
        "/apis/scheduling.k8s.io/v1",
        "priorityclasses",
        "PriorityClass",
        _priority_class,
        (("/description", ("e",)), ("/value", (5,)), ("/preemptionPolicy", ("Never",))),
        ("metadata.name=a", "value=1"),
        namespaced=False,
    ),
    Kind(
        "/api/v1",
        "events",
        "Event",
        _event,
        (("/count", (2, 7)), ("/message", ("again",)), ("/type", ("Warning",))),
        ("involvedObject.name=a", "reason=Started,type!=Warning", "source=kubelet", "count=1"),
    ),
    Kind(
        "/api/v1",
        "namespaces",
        "Namespace",
        _namespace,
        (("/spec/finalizers", ([], ["a.io/b"])),),
        ("status.phase=Active", "metadata.name=x"),
        namespaced=False,
        status=({"phase": "Terminating"}, {"phase": "Active"}),
    ),
    Kind(
        "/apis/policy/v1",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        _disruption_budget,
        (("/spec/minAvailable", (2, "10%", None)), ("/spec/maxUnavailable", (1,))),
        ("metadata.name=a",),
        status=(
            {
                "disruptionsAllowed": 1,
                "observedGeneration": 1,
                "currentHealthy": 1,
                "desiredHealthy": 0,
                "expectedPods": 1,
            },
            {"disruptionsAllowed": -1},
        ),
    ),
    WIDGET,
)


def widget_definition() -> Json:
    """Return the definition of the custom kind."""
    spec: Json = {
        "type": "object",
        "properties": {
            "size": {"type": "integer", "minimum": 1, "maximum": 10, "default": 2},
            "color": {"type": "string", "enum": ["red", "green", "blue"]},
            "port": {"x-kubernetes-int-or-string": True},
            "replicas": {"type": "integer"},
            "nested": {
                "type": "object",
                "properties": {
                    "a": {"type": "string", "nullable": True},
                    "b": {"type": "string", "default": "x"},
                },
            },
            "parts": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {
                    "type": "object",
                    "required": ["name"],
                    "properties": {"name": {"type": "string"}, "weight": {"type": "number"}},
                },
            },
        },
    }
    status: Json = {
        "type": "object",
        "properties": {
            "ready": {"type": "boolean"},
            "count": {"type": "integer"},
            "replicas": {"type": "integer"},
        },
    }
    extra = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                "properties": {"spec": spec, "status": status, "extra": extra},
            }
        },
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
            },
        },
        "selectableFields": [{"jsonPath": ".spec.color"}],
        "additionalPrinterColumns": [
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{PRUNED_GROUP}"},
        "spec": {
            "group": PRUNED_GROUP,
            "scope": "Namespaced",
            "names": {
                "plural": "widgets",
                "kind": "Widget",
                "singular": "widget",
                "listKind": "WidgetList",
            },
            "versions": [version],
        },
    }
