"""Claims of dynamic resource allocation, as far as their controller looks at them."""

from typing import Any

from numakube.api.meta import ObjectMeta
from numakube.api.wire import Wire, always
from numakube.kube.resource_types import Resource

GROUP = "resource.k8s.io"

FINALIZER = "resource.kubernetes.io/delete-protection"
"""Keeps a claim from going while it is allocated."""


class ConsumerReference(Wire, frozen=True):
    """A pod that a claim is reserved for."""

    resource: str = ""
    name: str = ""
    uid: str = ""
    api_group: str = ""


class ResourceClaimStatus(Wire, frozen=True):
    """The devices that a claim has, and the pods that may use them."""

    allocation: dict[str, Any] | None = None
    reserved_for: tuple[ConsumerReference, ...] = ()


class ResourceClaim(Wire, frozen=True):
    """A claim for devices."""

    metadata: ObjectMeta = ObjectMeta()
    status: ResourceClaimStatus = ResourceClaimStatus()
    api_version: str = always(f"{GROUP}/v1")
    kind: str = always("ResourceClaim")


class ClaimTemplateMeta(Wire, frozen=True):
    """Labels and annotations of the claims of a template."""

    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class ResourceClaimTemplateSpec(Wire, frozen=True):
    """What the claims of a template are like."""

    metadata: ClaimTemplateMeta = ClaimTemplateMeta()
    spec: dict[str, Any] = {}


class ResourceClaimTemplate(Wire, frozen=True):
    """A template for claims that are made for one pod each."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()
    api_version: str = always(f"{GROUP}/v1")
    kind: str = always("ResourceClaimTemplate")


RESOURCE_CLAIMS = Resource(
    group=GROUP,
    version="v1",
    plural="resourceclaims",
    kind="ResourceClaim",
    namespaced=True,
    object_type=ResourceClaim,
)
RESOURCE_CLAIM_TEMPLATES = Resource(
    group=GROUP,
    version="v1",
    plural="resourceclaimtemplates",
    kind="ResourceClaimTemplate",
    namespaced=True,
    object_type=ResourceClaimTemplate,
)
