"""What a resource is: the collection of objects of a kind that an API path serves.

The built-in resources of Kubernetes 1.35: the groups and versions that are on by default. Beside
them there are DeviceTaintRules, of 1.37, without being told of: a kube-scheduler of that version
does nothing before it has listed them.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

from kube_lab_server.kind_names import GVK
from kube_lab_server.wire.refusals import qualified

if TYPE_CHECKING:
    from collections.abc import Iterator


SCALE: Final = GVK("autoscaling", "v1", "Scale")


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Where an object has its numbers of replicas and its selector."""

    wanted: str = ".spec.replicas"
    actual: str = ".status.replicas"
    selector: str = ""


EVERY_VERB: Final = (
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
)


class Orphaning(Enum):
    """What happens to dependents if a deletion does not say."""

    BACKGROUND = "background"
    ORPHAN = "orphan"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True)
class Subresource:
    """A part of an object with a path of its own; *kind* is what is read and written there."""

    name: str
    kind: GVK
    verbs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Habits:
    """How a resource departs from what most resources do.

    Attributes:
        create_on_update: a PUT of a missing object creates it.
        unconditional_update: a PUT without resourceVersion overwrites.
        returns_deleted: a deletion is answered with the object instead of a Status.
        orphaning: what a deletion without propagation policy does to dependents.
    """

    create_on_update: bool = False
    unconditional_update: bool = True
    returns_deleted: bool = False
    orphaning: Orphaning = Orphaning.BACKGROUND


@dataclass(frozen=True, slots=True)
class VersionedResource:
    """A resource in one of its versions.

    Attributes:
        shelf: where the store keeps the objects, the same for all versions.
        stored_version: group and version that objects are stored in.
        custom: whether a CustomResourceDefinition made it.
        listed: whether discovery tells of it.
    """

    kind: GVK
    plural: str
    singular: str
    list_kind: str
    namespaced: bool
    shelf: str
    stored_as: GVK
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = EVERY_VERB
    subresources: tuple[Subresource, ...] = ()
    habits: Habits = field(default_factory=Habits)
    custom: bool = False
    listed: bool = True

    @property
    def group(self) -> str:
        """The API group."""
        return self.kind.group

    @property
    def version(self) -> str:
        """The API version."""
        return self.kind.version

    @property
    def title(self) -> str:
        """The resource as messages name it."""
        return qualified(self.group, self.plural)

    def subresource(self, name: str) -> Subresource | None:
        """Return the subresource called *name*."""
        for sub in self.subresources:
            if sub.name == name:
                return sub
        return None


# Resources whose objects are stored elsewhere than under their own names.
_REGISTRY_PLACES: Final = {
    "endpoints": "services/endpoints",
    "networking.k8s.io/ingresses": "ingress",
    "nodes": "minions",
    "replicationcontrollers": "controllers",
    "services": "services/specs",
}


def registry_path(resource: VersionedResource, namespace: str, name: str) -> str:
    """Return the key under which a real server stores an object: some messages name it."""
    place = _REGISTRY_PLACES.get(resource.shelf, resource.plural)
    if resource.custom or resource.group in ("apiextensions.k8s.io", "apiregistration.k8s.io"):
        place = f"{resource.group}/{resource.plural}"
    return "/".join(part for part in ("/registry", place, namespace, name) if part)


def storage_version_hash(stored_as: GVK) -> str:
    """Return the opaque value by which discovery tells which version objects are stored in."""
    text = f"{stored_as.group}/{stored_as.version}/{stored_as.kind}"
    return base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()


# Groups with their versions in the order of discovery, the preferred version first. A line has the
# kind, the name in paths, and words:
#   cluster     objects are in no namespace
#   short=      short names
#   verbs=      the only verbs; -VERB: all but this one
#   all, ext    categories, ext for api-extensions
#   scale, status   has this subresource, beside those in _PARTS
#   upserts     a PUT of a missing object creates it
#   versioned   a PUT needs a resourceVersion
#   returns     a deletion is answered with the object
#   orphans     a deletion leaves dependents alone if it does not say otherwise
#   single      objects have no dependents
#   core        objects are stored in the core group
#   later       of a later version: discovery does not tell of it
_TABLE: Final = """
v1:
  Binding                bindings                verbs=create
  ComponentStatus        componentstatuses       cluster short=cs verbs=get,list
  ConfigMap              configmaps              short=cm
  Endpoints              endpoints               short=ep upserts
  Event                  events                  short=ev upserts single
  LimitRange             limitranges             short=limits upserts
  Namespace              namespaces              cluster short=ns -deletecollection status returns
  Node                   nodes                   cluster short=no status
  PersistentVolumeClaim  persistentvolumeclaims  short=pvc status returns
  PersistentVolume       persistentvolumes       cluster short=pv status returns
  Pod                    pods                    short=po all status returns
  PodTemplate            podtemplates            returns
  ReplicationController  replicationcontrollers  short=rc all scale status orphans
  ResourceQuota          resourcequotas          short=quota status returns
  Secret                 secrets
  ServiceAccount         serviceaccounts         short=sa returns
  Service                services                short=svc all status upserts returns
apiregistration.k8s.io/v1:
  APIService  apiservices  cluster ext status versioned
apps/v1:
  ControllerRevision  controllerrevisions
  DaemonSet           daemonsets           short=ds all status
  Deployment          deployments          short=deploy all scale status
  ReplicaSet          replicasets          short=rs all scale status
  StatefulSet         statefulsets         short=sts all scale status
events.k8s.io/v1:
  Event  events  short=ev upserts single core
authentication.k8s.io/v1:
  SelfSubjectReview  selfsubjectreviews  cluster verbs=create
  TokenReview        tokenreviews        cluster verbs=create
authorization.k8s.io/v1:
  LocalSubjectAccessReview  localsubjectaccessreviews  verbs=create
  SelfSubjectAccessReview   selfsubjectaccessreviews   cluster verbs=create
  SelfSubjectRulesReview    selfsubjectrulesreviews    cluster verbs=create
  SubjectAccessReview       subjectaccessreviews       cluster verbs=create
autoscaling/v2:
  HorizontalPodAutoscaler  horizontalpodautoscalers  short=hpa all status
autoscaling/v1:
  HorizontalPodAutoscaler  horizontalpodautoscalers  short=hpa all status
batch/v1:
  CronJob  cronjobs  short=cj all status
  Job      jobs      all status orphans
certificates.k8s.io/v1:
  CertificateSigningRequest  certificatesigningrequests  cluster short=csr status
networking.k8s.io/v1:
  IngressClass   ingressclasses   cluster
  Ingress        ingresses        short=ing status
  IPAddress      ipaddresses      cluster short=ip
  NetworkPolicy  networkpolicies  short=netpol
  ServiceCIDR    servicecidrs     cluster status
policy/v1:
  PodDisruptionBudget  poddisruptionbudgets  short=pdb status versioned
rbac.authorization.k8s.io/v1:
  ClusterRoleBinding  clusterrolebindings  cluster upserts
  ClusterRole         clusterroles         cluster upserts
  RoleBinding         rolebindings         upserts
  Role                roles                upserts
storage.k8s.io/v1:
  CSIDriver              csidrivers               cluster versioned returns
  CSINode                csinodes                 cluster versioned returns
  CSIStorageCapacity     csistoragecapacities     versioned
  StorageClass           storageclasses           cluster short=sc returns
  VolumeAttachment       volumeattachments        cluster status versioned returns
  VolumeAttributesClass  volumeattributesclasses  cluster short=vac returns
admissionregistration.k8s.io/v1:
  MutatingWebhookConfiguration      mutatingwebhookconfigurations      cluster ext versioned
  ValidatingAdmissionPolicy         validatingadmissionpolicies        cluster ext status versioned
  ValidatingAdmissionPolicyBinding  validatingadmissionpolicybindings  cluster ext versioned
  ValidatingWebhookConfiguration    validatingwebhookconfigurations    cluster ext versioned
apiextensions.k8s.io/v1:
  CustomResourceDefinition  customresourcedefinitions  cluster short=crd,crds ext status versioned
scheduling.k8s.io/v1:
  PriorityClass  priorityclasses  cluster short=pc
coordination.k8s.io/v1:
  Lease  leases  upserts versioned
node.k8s.io/v1:
  RuntimeClass  runtimeclasses  cluster upserts versioned
discovery.k8s.io/v1:
  EndpointSlice  endpointslices
resource.k8s.io/v1:
  DeviceClass            deviceclasses           cluster returns
  DeviceTaintRule        devicetaintrules        cluster status versioned later
  ResourceClaim          resourceclaims          status returns
  ResourceClaimTemplate  resourceclaimtemplates  returns
  ResourceSlice          resourceslices          cluster returns
flowcontrol.apiserver.k8s.io/v1:
  FlowSchema                  flowschemas                  cluster status
  PriorityLevelConfiguration  prioritylevelconfigurations  cluster status
"""

_PART: Final = ("get", "patch", "update")
_PROXY: Final = ("create", "delete", "get", "patch", "update")
_STREAM: Final = ("create", "get")
_CATEGORIES: Final = {"all": "all", "ext": "api-extensions"}
# Resources of which objects are stored in another version.
_STORED_VERSIONS: Final = {
    "customresourcedefinitions": "v1beta1",
    "horizontalpodautoscalers": "v2",
    "volumeattributesclasses": "v1beta1",
}


def _part(name: str, kind: str, verbs: tuple[str, ...], api_version: str = "v1") -> Subresource:
    return Subresource(name, GVK.of({"apiVersion": api_version, "kind": kind}), verbs)


_PARTS: Final = {
    "certificatesigningrequests": (
        _part("approval", "CertificateSigningRequest", _PART, "certificates.k8s.io/v1"),
    ),
    "namespaces": (_part("finalize", "Namespace", ("update",)),),
    "nodes": (_part("proxy", "NodeProxyOptions", _PROXY),),
    "pods": (
        _part("attach", "PodAttachOptions", _STREAM),
        _part("binding", "Binding", ("create",)),
        _part("ephemeralcontainers", "Pod", _PART),
        _part("eviction", "Eviction", ("create",), "policy/v1"),
        _part("exec", "PodExecOptions", _STREAM),
        _part("log", "Pod", ("get",)),
        _part("portforward", "PodPortForwardOptions", _STREAM),
        _part("proxy", "PodProxyOptions", _PROXY),
        _part("resize", "Pod", _PART),
    ),
    "serviceaccounts": (_part("token", "TokenRequest", ("create",), "authentication.k8s.io/v1"),),
    "services": (_part("proxy", "ServiceProxyOptions", _PROXY),),
}


def _resources(table: str) -> Iterator[VersionedResource]:
    group = version = ""
    for line in table.split("\n"):
        if line.endswith(":"):
            group, _, version = line[:-1].rpartition("/")
        elif line:
            kind, plural, *words = line.split()
            yield _resource(GVK(group, version, kind), plural, words)


def _resource(kind: GVK, plural: str, words: list[str]) -> VersionedResource:
    named = dict(word.split("=") for word in words if "=" in word)
    stored = GVK(kind.group, _STORED_VERSIONS.get(plural, kind.version), kind.kind)
    if "core" in words:
        stored = GVK("", "v1", kind.kind)
    return VersionedResource(
        kind=kind,
        plural=plural,
        singular=kind.kind.lower(),
        list_kind=f"{kind.kind}List",
        namespaced="cluster" not in words,
        shelf=f"{stored.group}/{plural}" if stored.group else plural,
        stored_as=stored,
        short_names=tuple(filter(None, named.get("short", "").split(","))),
        categories=tuple(_CATEGORIES[word] for word in words if word in _CATEGORIES),
        verbs=tuple(named["verbs"].split(",")) if "verbs" in named else _all_but(words),
        subresources=_subresources(kind, plural, words),
        habits=_habits(words),
        listed="later" not in words,
    )


def _all_but(words: list[str]) -> tuple[str, ...]:
    return tuple(verb for verb in EVERY_VERB if f"-{verb}" not in words)


def _subresources(kind: GVK, plural: str, words: list[str]) -> tuple[Subresource, ...]:
    parts = [*_PARTS.get(plural, ())]
    parts += [
        Subresource(name, of, _PART)
        for name, of in (("scale", SCALE), ("status", kind))
        if name in words
    ]
    return tuple(sorted(parts, key=lambda part: part.name))


def _habits(words: list[str]) -> Habits:
    orphaning = {"orphans": Orphaning.ORPHAN, "single": Orphaning.UNSUPPORTED}
    return Habits(
        create_on_update="upserts" in words,
        unconditional_update="versioned" not in words,
        returns_deleted="returns" in words,
        orphaning=next((orphaning[w] for w in words if w in orphaning), Orphaning.BACKGROUND),
    )


RESOURCES: Final = tuple(_resources(_TABLE))
"""Every built-in resource; within a group and version in the order of discovery."""

GROUPS: Final = tuple(
    (group, tuple(dict.fromkeys(r.version for r in RESOURCES if r.group == group)))
    for group in dict.fromkeys(resource.group for resource in RESOURCES)
    if group
)
"""The named groups in the order of discovery, each with its versions, the preferred one first."""
