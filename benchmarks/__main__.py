"""Run all benchmarks, or those named on the command line, and print one JSON object a line.

A result has ``benchmark``, ``metric``, ``value`` and ``unit``; where a budget or a peer exists also
``budget`` with ``ratio`` (value / budget: at most 1 is good). Machines differ: compare ratios. CPU
times have the ``range`` in which they were before, and whether they ``left`` it; those that did are
named on standard error at the end, and the exit code is 1. ``--record 5`` measures five times and
keeps the ranges.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import sys
from typing import TYPE_CHECKING

import benchmarks
from benchmarks import _ranges

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


def main(arguments: Sequence[str]) -> int:
    """Run the benchmarks; return 2 if a name is unknown, 1 if a figure left its range."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help="all, if none is named")
    parser.add_argument("--record", type=int, default=0, metavar="RUNS", help="keep the ranges")
    words = parser.parse_args(arguments)
    known = [
        module.name
        for module in pkgutil.iter_modules(benchmarks.__path__)
        if not (module.ispkg or module.name.startswith("_"))
    ]
    unknown = set(words.names) - set(known)
    if unknown:
        print(f"unknown benchmarks {sorted(unknown)}; there are {known}", file=sys.stderr)
        return 2
    if words.record:
        names = words.names or sorted(_ranges.TIMED_BY_CPU)
        runs = [(_ranges.effort(), list(_results(names))) for _ in range(words.record)]
        _ranges.keep(_ranges.ranges_of(runs))
        return 0
    return _judged(words.names or known)


def _judged(names: Sequence[str]) -> int:
    ranges, left = _ranges.kept(), []
    for name in names:
        effort = _ranges.effort() if name in _ranges.TIMED_BY_CPU else 0.0
        for plain in _results([name]):
            result = _ranges.with_range(plain, ranges, effort)
            print(json.dumps(result), flush=True)
            if result.get("left", "no") != "no":
                left.append(result)
    for result in left:
        print(
            f"{result['benchmark']}: {result['metric']} is {result['value']} {result['unit']},"
            f" {result['left']} its range {result['range']}",
            file=sys.stderr,
        )
    return 1 if any(result["left"] == "above" for result in left) else 0


def _results(names: Sequence[str]) -> Iterator[dict[str, object]]:
    for name in names:
        for result in importlib.import_module(f"benchmarks.{name}").run():
            yield with_ratio({"benchmark": name, **result})


def with_ratio(result: Mapping[str, object]) -> dict[str, object]:
    """Add how much of its budget a result uses."""
    value, budget = result.get("value"), result.get("budget")
    if isinstance(value, int | float) and isinstance(budget, int | float) and budget:
        return {**result, "ratio": round(value / budget, 3)}
    return dict(result)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
