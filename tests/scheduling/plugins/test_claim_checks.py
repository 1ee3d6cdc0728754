"""Claims whose requests cannot be read, or whose classes are missing, are refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from numakube.api.codec import convert
from numakube.api.resource_claims import ResourceClaim
from numakube.dra.features import Features
from numakube.scheduling.plugins.dynamic_resources.claim_checks import classes_exist

GPU = {"deviceClassName": "gpu"}
FIRST = {"firstAvailable": [{"name": "one", **GPU}, {"name": "two", "deviceClassName": "nic"}]}
OFF = Features(prioritized_list=False)


@pytest.mark.parametrize(
    ("request_", "features", "message"),
    [
        ({"exactly": GPU}, OFF, ""),
        (FIRST, Features(), "request r/two: device class nic does not exist"),
        (
            FIRST,
            OFF,
            "resource claim default/c, request r: has subrequests,"
            " but the DRAPrioritizedList feature is disabled",
        ),
        ({}, Features(), "resource claim default/c, request r: unknown request type"),
        ({"exactly": {}}, Features(), "request r: unsupported request type"),
    ],
)
def test_a_request_is_refused_for_its_form_or_its_class(
    request_: dict[str, Any], features: Features, message: str
) -> None:
    """In the words of kube-scheduler."""
    requests = [{"name": "r", **request_}]
    tree = {
        "metadata": {"name": "c", "namespace": "default"},
        "spec": {"devices": {"requests": requests}},
    }
    assert classes_exist(convert(ResourceClaim, tree), {"gpu"}, features).message == message
