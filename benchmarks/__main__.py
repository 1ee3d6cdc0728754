"""Run all benchmarks, or those named on the command line, and print one JSON object a line.

A result has ``benchmark``, ``metric``, ``value`` and ``unit``; where a budget or a peer exists also
``budget`` with ``ratio`` (value / budget: at most 1 is good). Machines differ: compare ratios.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys

import benchmarks


def main(names: list[str]) -> int:
    """Run the benchmarks; return 2 if one of *names* is unknown."""
    known = [
        module.name
        for module in pkgutil.iter_modules(benchmarks.__path__)
        if not module.name.startswith("_")
    ]
    unknown = set(names) - set(known)
    if unknown:
        print(f"unknown benchmarks {sorted(unknown)}; there are {known}", file=sys.stderr)
        return 2
    for name in names or known:
        for result in importlib.import_module(f"benchmarks.{name}").run():
            print(json.dumps({"benchmark": name, **with_ratio(result)}), flush=True)
    return 0


def with_ratio(result: dict[str, object]) -> dict[str, object]:
    """Add how much of its budget a result uses."""
    value, budget = result.get("value"), result.get("budget")
    if isinstance(value, int | float) and isinstance(budget, int | float) and budget:
        return {**result, "ratio": round(value / budget, 3)}
    return result


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
