"""The built-in resources."""

from __future__ import annotations

import pytest

from kube_lab_server.catalogue.resources import GROUPS, RESOURCES, VersionedResource
from kube_lab_server.schema.builtin_types import BUILTIN


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda r: f"{r.plural}.{r.group}")
def test_every_resource_has_a_described_kind(resource: VersionedResource) -> None:
    """So have the kinds that its parts read and write, unless they are mere options."""
    assert resource.kind in BUILTIN
    for part in resource.subresources:
        assert part.kind in BUILTIN or part.kind.kind.endswith("Options")


def test_every_group_and_version_has_resources() -> None:
    """And none is left out of discovery."""
    listed = {("", "v1")} | {(name, version) for name, versions in GROUPS for version in versions}

    assert {(r.group, r.version) for r in RESOURCES} == listed
