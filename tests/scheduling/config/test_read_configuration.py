"""Numbers of a configuration file that are in their range, and those that are not."""

from __future__ import annotations

import pytest

from numakube.errors import ConfigError
from numakube.scheduling.config.read_configuration import read_configuration


def tree(**fields: object) -> dict[str, object]:
    """Return a file."""
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return {**kind, **fields}


@pytest.mark.parametrize("percentage", [0, 1, 100])
def test_any_part_of_the_nodes_can_be_asked_for(percentage: int) -> None:
    """Nothing leaves it to the scheduler."""
    config = read_configuration(tree(percentageOfNodesToScore=percentage))
    assert config.percentage_of_nodes_to_score == percentage


@pytest.mark.parametrize("percentage", [-1, 101])
def test_more_than_all_nodes_and_less_than_none_are_refused(percentage: int) -> None:
    """With the field."""
    with pytest.raises(ConfigError, match="percentageOfNodesToScore"):
        read_configuration(tree(percentageOfNodesToScore=percentage))
