"""The policies of Topology Managers and their names."""

import pytest

from numakube.values.topology_policy import (
    NO_DATA,
    POLICY_BY_API_NAME,
    TopologyPolicy,
    TopologyScope,
)


def test_codes_are_distinct_and_leave_room_for_nodes_without_data() -> None:
    """An array of zeros is one of nodes without data."""
    assert [policy.code for policy in TopologyPolicy] == [1, 2, 3, 4]
    assert [scope.code for scope in TopologyScope] == [1, 2]
    assert NO_DATA == 0


@pytest.mark.parametrize("policy", TopologyPolicy)
def test_every_policy_that_aligns_is_found_by_its_api_name(policy: TopologyPolicy) -> None:
    """``None`` is read by those who also take other words for it."""
    assert (POLICY_BY_API_NAME.get(policy.api_name) is policy) is policy.aligns
