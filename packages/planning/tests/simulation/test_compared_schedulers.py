"""Arms: the schedulers that are compared."""

import pytest

from numakube.errors import ConfigError
from numakube.insight.scheduler_engine import BindsNothing
from numakube.scheduling.assembly import all_plugins, assemble
from numakube_planning.simulation.compared_schedulers import SCHEDULERS, scheduler_arm


@pytest.mark.parametrize("name", [*SCHEDULERS, "upstream-30s", "upstream-10s:LeastNUMANodes"])
def test_every_scheduler_can_be_assembled(name: str) -> None:
    """Every scheduler can be assembled."""
    arm = scheduler_arm(name)
    assert arm.name == name
    engine = assemble(arm.scheduler, all_plugins(BindsNothing.make))
    assert engine.notes == ()


@pytest.mark.parametrize("name", ["least-allocated", "most-allocated", "upstream-10s"])
def test_other_projects_schedulers_do_not_learn_from_rejections(name: str) -> None:
    """Other projects' schedulers do not learn from rejections."""
    engine = assemble(scheduler_arm(name).scheduler, all_plugins(BindsNothing.make))
    (runtime,) = engine.runtimes.values()
    assert "RejectionGuard" not in runtime.profile.plugins()


def test_reports_have_the_age_that_the_name_says() -> None:
    """Reports have the age that the name says."""
    reports = scheduler_arm("upstream-60s").reports
    assert reports is not None
    assert (reports.every_seconds, reports.exact) == (60.0, False)
    assert scheduler_arm("least-allocated").reports is None


@pytest.mark.parametrize("name", ["best", "upstream", "upstream-s", "upstream-0s", "upstream-xs"])
def test_an_unknown_scheduler_is_named_with_those_that_there_are(name: str) -> None:
    """An unknown scheduler is named with those that there are."""
    with pytest.raises(ConfigError, match=f"unknown scheduler '{name}'; there are least-allocated"):
        scheduler_arm(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("numakube:MostAllocated", "'numakube:MostAllocated': its strategy is not LeastFragment"),
        ("upstream-10s:", "its strategy is not MostAllocated or BalancedAllocation or"),
        ("least-allocated:MostAllocated", "unknown scheduler 'least-allocated:MostAllocated'"),
    ],
)
def test_a_strategy_that_a_scheduler_has_not_is_named(name: str, message: str) -> None:
    """A strategy that a scheduler does not have is named with those that it has."""
    with pytest.raises(ConfigError, match=message):
        scheduler_arm(name)
