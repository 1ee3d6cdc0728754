"""Kinds of OpenShift and of the Operator Lifecycle Manager, for labs that ask for them.

As much as what we deploy there needs: objects can be created, read and watched, and fields that a
user must give are checked. There is nothing behind them: a Subscription installs no operator, and a
MachineConfigPool configures no machine. The pools ``master`` and ``worker`` exist, as everywhere.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

from numakube.errors import AlreadyExists
from numakube.kube import Resource
from numakube.kube.catalog import CUSTOM_RESOURCE_DEFINITIONS
from numakube_lab.exporters import established

if TYPE_CHECKING:
    from numakube.kube import Client

_OLM: Final = "operators.coreos.com"
_MACHINES: Final = "machineconfiguration.openshift.io"
_ROLE: Final = "node-role.kubernetes.io/"
_TEXT: Final = {"type": "string"}
_SUBSCRIPTION: Final = ("name", "source", "sourceNamespace")


def _kind(
    group: str,
    version: str,
    kind: str,
    *required: str,
    cluster: bool = False,
    plural: str = "",
    short: tuple[str, ...] = (),
    open_root: bool = False,
) -> dict[str, Any]:
    """Return the definition of a kind whose ``spec`` must have the fields *required*."""
    plural = plural or f"{kind.lower()}s"
    spec: dict[str, Any] = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        **({"required": list(required)} if required else {}),
        **({"properties": dict.fromkeys(required, _TEXT)} if required else {}),
    }
    open_object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"spec": spec, "status": open_object},
        **({"required": ["spec"]} if required else {}),
        **({"x-kubernetes-preserve-unknown-fields": True} if open_root else {}),
    }
    names: dict[str, Any] = {
        "kind": kind,
        "listKind": f"{kind}List",
        "plural": plural,
        "singular": kind.lower(),
        **({"shortNames": list(short)} if short else {}),
    }
    served = {
        "name": version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": names,
            "scope": "Cluster" if cluster else "Namespaced",
            "versions": [served],
        },
    }


DEFINITIONS: Final = (
    _kind(_OLM, "v1alpha1", "CatalogSource", "sourceType", short=("catsrc",)),
    _kind(_OLM, "v1alpha1", "Subscription", *_SUBSCRIPTION, short=("sub", "subs")),
    _kind(_OLM, "v1alpha1", "ClusterServiceVersion", short=("csv", "csvs")),
    _kind(_OLM, "v1", "OperatorGroup", short=("og",)),
    _kind(_MACHINES, "v1", "MachineConfigPool", cluster=True, short=("mcp",)),
    _kind(_MACHINES, "v1", "KubeletConfig", cluster=True),
    _kind(
        "security.openshift.io",
        "v1",
        "SecurityContextConstraints",
        cluster=True,
        plural="securitycontextconstraints",
        short=("scc",),
        # Its fields are beside its metadata.
        open_root=True,
    ),
)


MACHINE_CONFIG_POOLS: Final = Resource(
    group=_MACHINES,
    version="v1",
    plural="machineconfigpools",
    kind="MachineConfigPool",
    namespaced=False,
    object_type=dict[str, Any],
)


def pool(name: str) -> dict[str, Any]:
    """Return the pool of the nodes with a role, with the label that such pools have."""
    labels = {f"pools.operator.{_MACHINES}/{name}": "", f"{_MACHINES}/mco-built-in": ""}
    return {
        "apiVersion": f"{_MACHINES}/v1",
        "kind": "MachineConfigPool",
        "metadata": {"name": name, "labels": labels},
        "spec": {"nodeSelector": {"matchLabels": {f"{_ROLE}{name}": ""}}},
    }


async def install_openshift_kinds(client: Client) -> None:
    """Create the kinds and the two pools, unless they are there."""
    for definition in DEFINITIONS:
        with contextlib.suppress(AlreadyExists):
            await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
    for definition in DEFINITIONS:
        await established(client, definition["metadata"]["name"])
    for name in ("master", "worker"):
        with contextlib.suppress(AlreadyExists):
            await client.create(MACHINE_CONFIG_POOLS, pool(name))
