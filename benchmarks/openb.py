"""The tables of docs/results/openb.md: schedulers, policies and scopes on the public trace openb.

    python -m benchmarks.openb DIRECTORY [SEEDS [PAGES]]

The directory has ``openb_node_list_all_node.csv`` and ``openb_pod_list_default.csv``. All runs with
10 seeds take some minutes on two cores; those that are finished are kept in ``openb-*.runs`` of the
working directory and not repeated. With PAGES, which is ``docs/results``, what stands between the
marks in ``openb.md`` is written again, and ``openb.jsonl``.
"""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from numakube.cli.shared.connection_options import ClusterOptions
from numakube.version import VERSION
from numakube_planning.cli.simulate.resumable_runs import RunPlaces, results_of
from numakube_planning.cli.simulate.simulation_inputs import SimulateOptions, read_runs
from numakube_planning.simulation.run_measures import Estimate, Summary, summaries_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numakube_planning.simulation.run_measures import RunResult

SCHEDULERS: Final = (
    "least-allocated", "most-allocated", "upstream-10s", "upstream-60s", "numakube",
    "numakube:LeastFragmentation",
)  # fmt: skip
_GPU: Final = "nvidia.com/gpu"
_ANSWERS: Final[dict[str, tuple[Callable[[Summary], Estimate], int]]] = {
    "Pods whose first placement was refused, %": (lambda of: of.answers["firstRefusedPercent"], 1),
    "TopologyAffinityErrors per 1,000 bound pods": (
        lambda of: of.answers["topologyErrorsPer1000"], 0,
    ),
    "UnexpectedAdmissionErrors per 1,000 bound pods": (
        lambda of: of.answers["otherErrorsPer1000"], 0,
    ),
    "GPUs allocated in the end, %": (lambda of: of.allocated[_GPU], 1),
    "CPUs allocated in the end, %": (lambda of: of.allocated["cpu"], 1),
    "Running pods with all their own resources on one NUMA node, %": (
        lambda of: of.answers["alignedPercent"], 1,
    ),
}  # fmt: skip
"""What the page says of an arm, and with how many decimals."""


class Part(NamedTuple):
    """One part of the page."""

    demand: float
    policies: tuple[str, ...]
    scopes: tuple[str, ...]


PARTS: Final = {
    "overfull": Part(
        1.3, ("single-numa-node", "restricted", "best-effort", "none"), ("container", "pod")
    ),
    "not full": Part(0.9, ("single-numa-node", "restricted"), ("container",)),
}


class Made(NamedTuple):
    """What came of one part; the seconds are of the runs that were not kept from before."""

    nodes: int
    results: list[RunResult]
    cpu_seconds: float
    seconds: float

    def section(self, part: Part) -> str:
        """Return its tables."""
        summaries = summaries_of(self.results)
        pods = round(summaries[0].answers["pods"].mean)
        head = f"{self.nodes} nodes, {pods} pods, {100 * part.demand:g} % of the GPUs asked for, "
        seeds = len({result.seed for result in self.results})
        tables = (_table(title, summaries, *how) for title, how in _ANSWERS.items())
        return "\n\n".join((f"{head}{seeds} seeds.", *tables))


def make(directory: Path, name: str, seeds: int, *, every: int = 16) -> Made:
    """Run one part of the page."""
    part = PARTS[name]
    given = SimulateOptions(
        cluster=ClusterOptions(),
        trace=str(directory / "openb_pod_list_default.csv"),
        trace_nodes=str(directory / "openb_node_list_all_node.csv"),
        rules=(f"every={every}", "helper-cpus=1", f"demand={part.demand}"),
        schedulers=SCHEDULERS,
        policies=part.policies,
        scopes=part.scopes,
        seeds=range(1, seeds + 1),
    )
    runs = read_runs(given)
    began, cpu = time.monotonic(), _cpu_seconds()
    results = results_of(runs, RunPlaces(resume=Path(f"openb-{part.demand}.runs")))
    nodes = len(runs[0].cluster.nodes)
    return Made(nodes, results, _cpu_seconds() - cpu, time.monotonic() - began)


def _cpu_seconds() -> float:
    parts = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(part.ru_utime + part.ru_stime for part in parts)


def _table(
    title: str, summaries: Sequence[Summary], of: Callable[[Summary], Estimate], digits: int
) -> str:
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for summary in summaries:
        scheduler, policy, scope = _words(summary.arm)
        told = _text(of(summary), digits)
        cells.setdefault((policy, "" if policy == "none" else scope), {})[scheduler] = told
    names = list(dict.fromkeys(name for row in cells.values() for name in row))
    lines = [f"| policy | scope | {' | '.join(names)} |", "|---" * (2 + len(names)) + "|"]
    lines += [
        f"| {policy} | {scope} | {' | '.join(row[name] for name in names)} |"
        for (policy, scope), row in cells.items()
    ]
    return f"{title}:\n\n" + "\n".join(lines)


def _words(arm: str) -> tuple[str, str, str]:
    """Return the scheduler as the page calls it, the policy and the scope."""
    scheduler, *words = arm.split(", ")
    policy, scope = (word.partition("=")[2] for word in words)
    return scheduler.replace(":LeastFragmentation", "-fgd"), policy, scope


def _text(one: Estimate, digits: int) -> str:
    mean = f"{one.mean:,.{digits}f}"
    width = f"{one.half_width or 0:.{digits}f}"
    return f"{mean} ± {width}" if float(width) else mean


def rewrite(pages: Path, made: dict[str, Made]) -> None:
    """Write tables, origin and runs into *pages*."""
    page = (pages / "openb.md").read_text()
    for name, one in made.items():
        page = _between(page, name, one.section(PARTS[name]))
    page = _between(page, "origin", _origin(made["overfull"]))
    (pages / "openb.md").write_text(page)
    lines = (json.dumps(line) for name, one in made.items() for line in _lines(name, one))
    (pages / "openb.jsonl").write_text("".join(f"{line}\n" for line in lines))


def _between(page: str, mark: str, text: str) -> str:
    begin, end = f"<!-- begin {mark} -->", f"<!-- end {mark} -->"
    pattern = re.compile(f"{re.escape(begin)}.*{re.escape(end)}", re.DOTALL)
    written, count = pattern.subn(lambda _: f"{begin}\n\n{text}\n\n{end}", page)
    if count != 1:
        raise SystemExit(f"openb.md: the marks of {mark!r} are there {count} times, not once")
    return written


def _origin(made: Made) -> str:
    git = ("git", "rev-parse", "--short=8", "HEAD")
    told = subprocess.run(git, capture_output=True, text=True, check=True)  # noqa: S603 - our own
    version, cores = f"{VERSION} (commit {told.stdout.strip()})", os.cpu_count()
    return (
        f"Made by numakube {version} with the kubelet model of Kubernetes 1.35\n"
        "and the openb files named in [FGD reproduced](fgd.md);\n"
        "[all runs](openb.jsonl) are a line each.\n"
        f"The {len(made.results)} runs at 130 % took {made.cpu_seconds:.0f} s of CPU time,"
        f" {made.seconds:.0f} s on {cores} cores."
    )


def _lines(name: str, made: Made) -> Iterator[dict[str, object]]:
    for run in made.results:
        scheduler, policy, scope = _words(run.arm)
        yield {
            "scheduler": scheduler,
            "policy": policy,
            "scope": scope,
            "seed": run.seed,
            "demand": PARTS[name].demand,
            "nodes": made.nodes,
            **{field: getattr(run, field) for field in _PUBLISHED},
        }


_PUBLISHED: Final = (
    "pods", "ran", "bound", "rejections", "first_refused", "given_up", "aligned", "alignable",
    "allocated", "seconds_to_run",
)  # fmt: skip


def run() -> Iterator[dict[str, object]]:
    """Say how it is run; it takes too long to be one of many."""
    yield {"metric": "not measured", "value": None, "unit": "python -m benchmarks.openb DIRECTORY"}


def main(directory: Path, seeds: int, pages: Path | None) -> None:
    """Run everything, and write the page if there is one."""
    made = {}
    for name, part in PARTS.items():
        made[name] = one = make(directory, name, seeds)
        print(one.section(part), flush=True)
        print(f"\n{len(one.results)} runs: CPU {one.cpu_seconds:.0f} s, {one.seconds:.0f} s\n")
    if pages is not None:
        rewrite(pages, made)


if __name__ == "__main__":
    main(
        Path(sys.argv[1]),
        int(sys.argv[2]) if len(sys.argv) > 2 else 10,
        Path(sys.argv[3]) if len(sys.argv) > 3 else None,
    )
