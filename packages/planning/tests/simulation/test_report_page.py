"""Reports of simulations as pages."""

from __future__ import annotations

import re

import pytest

from numakube_planning.simulation.run_measures import Moment, RunResult, summaries_of

pytest.importorskip("matplotlib", reason="the extra simulate is not installed")

from numakube_planning.simulation.report_page import report_page


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


def test_a_report_begins_with_its_answer_and_is_drawn_whatever_arms_are_called() -> None:
    """A warning of the library that draws would be an error here; equal lines differ in width."""
    long = f"numakube, +{'10x 2 sockets, 16 cores, smt 2, 96Gi, ' * 4}"
    runs = [_run("numakube", 1, 1), _run(long, 1, 1)]
    page = report_page(
        summaries_of(runs),
        title="t",
        answers=["Of 30 pods, 12 never run as it is; with 10 more nodes like n, all run."],
        why=["numakube: 12 pods never placed: 0/3 nodes are available"],
        table=(["", "numakube"], [["PODS", "30"]]),
        notes=[],
    )
    assert page.index("Of 30 pods") < page.index("<table>") < page.index("12 pods never placed")
    assert long not in page
    assert len(set(re.findall(r"stroke-width: ([0-9.]+)", page))) > 2
