"""Which functions of a host claims have, by the names that DRA drivers gave them."""

from __future__ import annotations

import pytest

from numakube.node.pci.host_scan import claims_by_id


@pytest.mark.parametrize("name", ["pci-0000-3b-02-1", "0000-3b-02-1", "vf-ens1-0000-3b-02-1"])
def test_a_function_is_known_by_its_address_whatever_stands_before(name: str) -> None:
    ids = ["0000:3b:02.1", "0000:3b:02.0", "10000:3b:02.1"]
    assert claims_by_id({name: "shop/vf"}, ids) == {"0000:3b:02.1": "shop/vf"}


def test_what_is_no_address_is_never_taken_for_the_device_of_a_claim() -> None:
    assert claims_by_id({"gpu-1": "shop/gpu", "pci-1": "shop/vf"}, ["gpu-1", "1", "gpu1"]) == {}
