"""What changed in the kubelet, by release."""

from dataclasses import fields

import pytest

from numakube.errors import ConfigError
from numakube.kubelet.kubelet_versions import behaviour_of

SINCE = {
    "cpu_shortage_names_amounts": 29,
    "smt_error_names_physical_cpus": 32,
    "memory_group_rule": 32,
    "odd_uncore_requests": 34,
    "ignores_pod_level_resources": 34,
    "device_hints_on_device_nodes_only": 36,
    "pod_level_managers": 36,
    "socket_aware_distribution": 37,
    "skips_empty_memory_requests": 37,
    "combination_aliasing": 0,
}
UNTIL = {"smt_check_before_existing": 37}


@pytest.mark.parametrize("minor", range(28, 38))
def test_each_change_comes_with_its_release(minor: int) -> None:
    """Neither a release earlier nor one later, whatever the patch."""
    behaviour = behaviour_of(f"v1.{minor}.3")
    told = {
        field.name: value
        for field in fields(behaviour)
        if isinstance(value := getattr(behaviour, field.name), bool)
    }
    expected = {name: minor >= since for name, since in SINCE.items()}
    assert told == expected | {name: minor < until for name, until in UNTIL.items()}
    assert behaviour.version == (1, minor)


def test_later_releases_behave_as_the_newest_that_is_known() -> None:
    """What is not known yet is no reason to fail; what is too old is."""
    assert behaviour_of("1.99") == behaviour_of("2.0") == behaviour_of("1.37")
    with pytest.raises(ConfigError, match="write it as"):
        behaviour_of("newest")
    with pytest.raises(ConfigError, match="oldest modelled version"):
        behaviour_of("1.27")
