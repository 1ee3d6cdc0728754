"""What a scheduler process tells its parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from numakube.api.scheduler_config import SCHEDULER_NAME
from numakube.apps.scheduler.process import SchedulerProcess
from numakube.apps.scheduler.settings import configuration_of
from numakube.dra.features import LATEST, features_of
from numakube.kube.client import Client
from numakube.kube.clock import ManualClock
from numakube.scheduling.assembly import default_configuration
from numakube.scheduling.plugins.dynamic_resources import DynamicResources


@pytest.mark.parametrize("minor", [33, 35, 38, None])
async def test_plugins_follow_the_version_of_the_server(minor: int | None) -> None:
    """Features that are off there are off here; of an unknown version the latest is assumed."""
    nobody: Any = None
    process = SchedulerProcess(
        default_configuration(), Client(nobody, clock=ManualClock()), minor=minor
    )
    (runtime,) = process.parts.engine.runtimes.values()
    plugin = runtime.profile.plugins()["DynamicResources"]
    assert isinstance(plugin, DynamicResources)
    expected = features_of(minor=LATEST if minor is None else minor)
    assert plugin.features == expected


@pytest.mark.parametrize(("flags", "name"), [({}, SCHEDULER_NAME), ({"scheduler_name": "m"}, "m")])
def test_a_scheduler_without_a_file_has_the_name_that_it_is_told(
    flags: dict[str, str], name: str
) -> None:
    """Its lease is called the same, so that two of them do not compete."""
    config = configuration_of(flags, Path)
    assert [profile.scheduler_name for profile in config.profiles] == [name]
    assert config.leader_election.resource_name == name
