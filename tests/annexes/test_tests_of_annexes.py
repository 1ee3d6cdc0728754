"""Tests of the heart run without annexes; those that cannot say so by where they are."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.annexes.manifests import FOLDERS, ROOT, manifest_of
from tests.annexes.needs import needed_by

TESTS = ROOT / "tests"
KITS = frozenset({"lab"})
"""Annexes that tests of anything may use as the cluster that they need. Such a test is left out
where the kit is not installed."""
ACROSS = (
    *("worlds", "field", "mixed_cluster", "vm"),
    *("cli/test_same_amounts.py", "cli/test_top_fits.py"),
    # Compare what is written down once for all of numakube, or all arms of a benchmark.
    *(
        "benchmarks",
        "docs/test_metrics_page.py",
        "manifests/exported.py",
        "manifests/test_files.py",
    ),
    *("promises", "release/test_monitoring.py"),
    # Meet planning or placement by annotation in one test or two among many.
    *("apps/extender/test_kube_scheduler.py", "apps/scheduler/test_configuration.py"),
    *("apps/test_node_reports.py", "cli/test_dry_run.py", "hostile/test_reading.py"),
    *("insight/explain/test_explaining.py", "insight/test_dra_devices.py"),
    *("lab/test_simulation.py", "scheduling/test_cycle.py"),
    *("scheduling/numa/native/test_model_check.py", "scheduling/numa/native/test_verdict_cache.py"),
)
"""Tests of features that meet, those of annexes among them: folders, and single files."""


def test_a_test_that_needs_an_annex_is_in_its_folder() -> None:
    """Or in one for features that meet; or it needs nothing but a cluster."""
    packages = {manifest_of(name).package: name for name in FOLDERS}
    elsewhere = {
        str(file.relative_to(ROOT)): sorted(needed)
        for file in TESTS.rglob("*.py")
        if not file.relative_to(TESTS).as_posix().startswith(ACROSS)
        and (needed := {packages[one] for one in needed_by(file)} - KITS)
    }
    assert elsewhere == {}


def test_what_a_helper_needs_its_tests_need(tmp_path: Path) -> None:
    """However many files are between."""
    assert needed_by(TESTS / "sites" / "plugin.py") == {"numakube_lab"}
    assert needed_by(TESTS / "values" / "test_quantity.py") == set()
    file = tmp_path / "test_it.py"
    file.write_text("def f():\n    from tests.sites import plugin\n")
    assert needed_by(file) == {"numakube_lab"}


@pytest.mark.parametrize("name", FOLDERS)
def test_an_annex_has_tests_of_its_own(name: str) -> None:
    """Beside its code, where they go if it goes."""
    assert name in KITS or list(FOLDERS[name].glob("tests/**/test_*.py"))
