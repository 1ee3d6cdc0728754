"""Where a pod's status says what its claims mean for the node's resources (KEP-5517).

Up to Kubernetes 1.37 that is ``nodeAllocatableResourceClaimStatuses``. 1.38 renames the field and
what names the claim in it; drafts have it in two forms. So nothing is assumed of such a server: its
own description of its types (OpenAPI) tells which form it serves.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final

import msgspec

from numakube.errors import NumakubeError
from numakube.kube.connection.transport import Request

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numakube.api.pod import NodeAllocatableResourceClaimStatus
    from numakube.kube.client import Client

RENAMED_IN: Final = 38
BY_CLAIM_FIELD: Final = "nodeAllocatableResourceClaimStatuses"
BY_SOURCE_FIELD: Final = "additionalNodeAllocatableResources"
_GROUP: Final = "resource.k8s.io"
_KIND: Final = "ResourceClaim"
_POD_STATUS: Final = "io.k8s.api.core.v1.PodStatus"


class Form(Enum):
    """How an entry names its claim."""

    CLAIM_NAME = "resourceClaimName"
    SOURCE = "source"
    SOURCE_NAME = "sourceName"

    @property
    def field(self) -> str:
        """The field of the status that has such entries."""
        return BY_CLAIM_FIELD if self is Form.CLAIM_NAME else BY_SOURCE_FIELD

    def entries(
        self, resources: Sequence[NodeAllocatableResourceClaimStatus]
    ) -> list[dict[str, Any]]:
        """Return *resources* as entries of this form."""
        return [self._entry(msgspec.to_builtins(one)) for one in resources]

    def _entry(self, tree: dict[str, Any]) -> dict[str, Any]:
        if self is Form.CLAIM_NAME:
            return tree
        name = tree.pop("resourceClaimName")
        if self is Form.SOURCE_NAME:
            return {"sourceKind": _KIND, "sourceName": name, **tree}
        return {"source": {"apiGroup": _GROUP, "kind": _KIND, "name": name}, **tree}


async def served_form(client: Client, minor: int) -> Form:
    """Return the form that the API server of Kubernetes 1.*minor* serves.

    Raises:
        NumakubeError: it cannot be asked, or serves none that is known.
    """
    if minor < RENAMED_IN:
        return Form.CLAIM_NAME
    answer = await client.request(Request(method="GET", path="/openapi/v3/api/v1"))
    return form_in(msgspec.json.decode(answer.body))


def form_in(document: Mapping[str, Any]) -> Form:
    """Return the form that the OpenAPI *document* of the core group describes."""
    schemas = document.get("components", {}).get("schemas", {})
    status = schemas.get(_POD_STATUS, {}).get("properties", {})
    entry = _entry_type(schemas, status.get(BY_SOURCE_FIELD, {}))
    for form in (Form.SOURCE, Form.SOURCE_NAME):
        if form.value in entry:
            return form
    if BY_CLAIM_FIELD in status:
        return Form.CLAIM_NAME
    raise NumakubeError(
        "the API server serves no field of a pod's status that says what claims mean for the "
        f"node's resources: neither {BY_SOURCE_FIELD}, in a form that is known, nor "
        f"{BY_CLAIM_FIELD}; turn the gate DRANodeAllocatableResources off, or upgrade numakube"
    )


def _entry_type(schemas: Mapping[str, Any], field: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of the entries of a list."""
    items = field.get("items", {})
    reference = next((one["$ref"] for one in (items, *items.get("allOf", ())) if "$ref" in one), "")
    entry: Mapping[str, Any] = schemas.get(reference.rpartition("/")[2], {}).get("properties", {})
    return entry
