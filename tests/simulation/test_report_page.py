"""Reports of simulations as pages."""

from __future__ import annotations

import re

import pytest

from numakube.simulation.run_result import Moment, RunResult
from numakube.simulation.seed_summary import summaries_of

pytest.importorskip("matplotlib", reason="the extra simulate is not installed")

from numakube.simulation.report_page import report_page


def _run(arm: str, seed: int, rejected: int) -> RunResult:
    shares = {"cpu": 0.5, "nvidia.com/gpu": 0.25 * seed}
    moments = tuple(
        Moment(at=60.0 * step, running=step, rejected=rejected, allocated=shares)
        for step in range(3)
    )
    return RunResult(
        arm=arm,
        seed=seed,
        pods=10,
        ran=10,
        bound=10 + rejected,
        rejections={"TopologyAffinityError": rejected},
        allocated=shares,
        peak_allocated=shares,
        moments=moments,
        pods_by_node=(3, 4, 3),
    )


def _page() -> str:
    runs = [_run("blind <least>", 1, 4), _run("blind <least>", 2, 6), _run("numakube", 1, 0)]
    return report_page(
        summaries_of(runs),
        title="10 pods & 3 nodes",
        table=(["ARM", "PODS"], [["blind <least>", "10"], ["numakube", "10"]]),
        notes=["Assumed: nothing."],
    )


def test_a_report_needs_nothing_but_itself_and_is_the_same_each_time() -> None:
    """No script, no picture or style from elsewhere; names are text, never markup."""
    page = _page()
    assert page == _page()
    assert not re.search(r"<script|<link|<img|@import|url\(http|(src|href)=\"http", page)
    assert "blind &lt;least&gt;" in page
    assert "<least>" not in page
    assert "<title>10 pods &amp; 3 nodes</title>" in page
    assert 'name="viewport"' in page
    assert "Assumed: nothing." in page


def test_a_report_has_a_plot_of_everything_that_differs() -> None:
    """Refusals and allocation, side by side, over time and over nodes; what is 0 is left out."""
    page = _page()
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", page)
    assert page.count("<svg") == len(captions)
    assert "TopologyAffinityErrors per 1,000 bound pods" in captions
    assert "Allocation of nvidia.com/gpu" in captions
    assert "Rejections by kubelets" in captions
    assert "Pods on each node at the end" in captions
    assert not {"pods never placed", "Pods that wait"} & {*captions}
