"""Claims of dynamic resource allocation, and templates as far as their controller looks at them."""

from typing import Any

from numakube.api.codec import Wire, always
from numakube.api.meta import ObjectMeta
from numakube.api.resource_claims import ResourceClaim
from numakube.kube.resource_types import Resource

GROUP = "resource.k8s.io"


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
