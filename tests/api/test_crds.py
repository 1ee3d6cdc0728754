"""The NodeResourceTopology CRD: what upstream's objects need, and nothing that refuses them."""

import re
from typing import Any

import pytest

from numakube.api.codec import to_tree
from numakube.api.crds import crd, crd_text
from numakube.api.nrt import Attribute, Cost, NodeResourceTopology, Zone, ZoneResource
from numakube.api.yaml_text import load_yaml

QUANTITY = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|"
    r"([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)


def versions() -> dict[str, dict[str, Any]]:
    """Return the versions by name."""
    return {version["name"]: version for version in crd()["spec"]["versions"]}


def schema(version: str = "v1alpha2") -> dict[str, Any]:
    """Return the schema of a version."""
    tree: dict[str, Any] = versions()[version]["schema"]["openAPIV3Schema"]
    return tree


def test_identity_is_that_of_upstream() -> None:
    """Group, names and scope, and the approval that groups of k8s.io need."""
    definition = crd()

    assert definition["metadata"] == {
        "name": "noderesourcetopologies.topology.node.k8s.io",
        "annotations": {
            "api-approved.kubernetes.io": "https://github.com/kubernetes/enhancements/pull/1870"
        },
    }
    assert definition["spec"]["group"] == "topology.node.k8s.io"
    assert definition["spec"]["scope"] == "Cluster"
    assert definition["spec"]["names"] == {
        "kind": "NodeResourceTopology",
        "listKind": "NodeResourceTopologyList",
        "plural": "noderesourcetopologies",
        "singular": "noderesourcetopology",
        "shortNames": ["node-res-topo"],
    }
    assert "conversion" not in definition["spec"]


def test_both_versions_are_served_and_the_newer_is_stored() -> None:
    """Without subresources: the data lies at the root of the object."""
    found = {name: (version["served"], version["storage"]) for name, version in versions().items()}

    assert found == {"v1alpha1": (True, False), "v1alpha2": (True, True)}
    assert not any("subresources" in version for version in versions().values())


def test_required_fields_are_those_of_upstream() -> None:
    """A report of any agent is accepted."""
    assert schema("v1alpha1")["required"] == ["topologyPolicies", "zones"]
    assert "attributes" not in schema("v1alpha1")["properties"]
    assert schema()["required"] == ["zones"]
    for version in ("v1alpha1", "v1alpha2"):
        zone = schema(version)["properties"]["zones"]["items"]
        assert zone["required"] == ["name", "type"]
        required = {
            name: zone["properties"][name]["items"]["required"]
            for name in ("attributes", "costs", "resources")
        }
        assert required == {
            "attributes": ["name", "value"],
            "costs": ["name", "value"],
            "resources": ["allocatable", "available", "capacity", "name"],
        }
    assert schema()["properties"]["attributes"]["items"]["required"] == ["name", "value"]


@pytest.mark.parametrize("version", ["v1alpha1", "v1alpha2"])
def test_quantities_are_numbers_or_texts_of_the_right_form(version: str) -> None:
    """The pattern that the API server applies."""
    zone = schema(version)["properties"]["zones"]["items"]["properties"]
    resource = zone["resources"]["items"]["properties"]

    for name in ("capacity", "allocatable", "available"):
        assert resource[name]["pattern"] == QUANTITY
        assert resource[name]["x-kubernetes-int-or-string"] is True
        assert resource[name]["anyOf"] == [{"type": "integer"}, {"type": "string"}]
    assert zone["costs"]["items"]["properties"]["value"] == {"type": "integer", "format": "int64"}
    assert re.fullmatch(QUANTITY, "128G")
    assert not re.fullmatch(QUANTITY, "12 Gi")


def test_every_field_that_we_write_is_in_the_schema() -> None:
    """Otherwise the API server would silently drop it."""
    resource = ZoneResource(name="cpu", capacity="4", allocatable="4", available="4")
    zone = Zone(
        name="node-0",
        type="Node",
        parent="socket-0",
        costs=(Cost(name="node-0", value=10),),
        attributes=(Attribute(name="a", value=""),),
        resources=(resource,),
    )
    topology = NodeResourceTopology(
        zones=(zone,), attributes=(Attribute(name="a", value="b"),), topology_policies=("None",)
    )

    assert unknown_fields(to_tree(topology), schema(), "") == []


def unknown_fields(value: Any, part: dict[str, Any], path: str) -> list[str]:
    """Return the paths of fields that the schema does not have."""
    if isinstance(value, list):
        return [name for one in value for name in unknown_fields(one, part["items"], path)]
    if not isinstance(value, dict):
        return []
    missing = [f"{path}.{key}" for key in value if key not in part.get("properties", {})]
    known = [key for key in value if key in part.get("properties", {})]
    inner = (unknown_fields(value[key], part["properties"][key], f"{path}.{key}") for key in known)
    return [*missing, *(name for names in inner for name in names)]


def test_kubectl_shows_policy_scope_and_age() -> None:
    """With paths that the API server's simple JSONPath can follow: it takes the first result."""
    columns = {
        name: [
            (column["name"], column["jsonPath"]) for column in version["additionalPrinterColumns"]
        ]
        for name, version in versions().items()
    }

    assert columns["v1alpha1"] == [
        ("Policy", ".topologyPolicies[0]"),
        ("Last Zone", ".zones[-1:].name"),
        ("Age", ".metadata.creationTimestamp"),
    ]
    assert columns["v1alpha2"] == [
        ("Policy", '.attributes[?(@.name=="topologyManagerPolicy")].value'),
        ("Scope", '.attributes[?(@.name=="topologyManagerScope")].value'),
        ("Last Zone", ".zones[-1:].name"),
        ("Fingerprint", '.attributes[?(@.name=="nodeTopologyPodsFingerprint")].value'),
        ("Age", ".metadata.creationTimestamp"),
    ]


def test_the_text_is_one_yaml_document() -> None:
    """Ready for ``kubectl apply -f -``."""
    assert load_yaml(crd_text(), "crd") == crd()
