"""Play the scoreboard: ``python -m benchmarks.scoreboard [WORDS]``; see ``--help``.

Every turn is written as soon as it was played, so a run that is stopped keeps what it has.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from tests.real.api_server import VARIABLE, RealServer, assets

from benchmarks.scoreboard.page import page
from benchmarks.scoreboard.rivals import absent, rivals
from benchmarks.scoreboard.rows import ROWS
from benchmarks.scoreboard.turns import Site, Turn, play
from numakube.apps.host.process_life import run_fast

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.scoreboard.rivals import Rival
    from benchmarks.scoreboard.rows import Row

FOLDER: Final = Path("docs/results")
NEEDED: Final = ("etcd", "kube-apiserver")
_TEMPLATES: Final = "kube-controller-manager"
"""What makes claims of templates."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Play; return 2 if the programs are not there or no row is called so."""
    words = _parser().parse_args(arguments)
    binaries = assets()
    lacking = [name for name in NEEDED if binaries is None or not (binaries / name).exists()]
    if binaries is None or lacking:
        print(f"set {VARIABLE} to a folder that has {', '.join(NEEDED)}", file=sys.stderr)
        return 2
    rows = [row.scaled(words.scale) for row in ROWS if all(word in row.title for word in words.row)]
    if not rows:
        names = "\n".join(row.title for row in ROWS)
        print(f"no row has all of {words.row} in its name; there are\n{names}", file=sys.stderr)
        return 2
    words.out.mkdir(parents=True, exist_ok=True)
    record = words.out / "scoreboard.jsonl"
    turns = _recorded(record) if words.resume else []
    with record.open("ab" if words.resume else "wb") as file:
        for turn in _played(rows, rivals(binaries), turns, words.turns):
            turns.append(turn)
            file.write(msgspec.json.encode(turn) + b"\n")
            file.flush()
    text = page(rows, turns, absent(binaries))
    (words.out / "scoreboard.md").write_text(text, encoding="utf-8")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scoreboard", description=__doc__)
    parser.add_argument("row", nargs="*", help="only rows whose titles have all of these words")
    parser.add_argument("--turns", type=int, default=3, help="how often each scheduler plays a row")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the nodes and pods")
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder of page and figures")
    parser.add_argument("--resume", action="store_true", help="go on after the turns in the folder")
    return parser


def _recorded(record: Path) -> list[Turn]:
    if not record.exists():
        return []
    return [msgspec.json.decode(line, type=Turn) for line in record.read_bytes().splitlines()]


def _played(
    rows: Sequence[Row], everybody: Sequence[Rival], known: Sequence[Turn], turns: int
) -> Iterator[Turn]:
    """Yield the turns that are not *known*; who begins changes with each turn."""
    done = {(turn.row, turn.rival, turn.turn) for turn in known}
    for row in rows:
        those = [rival for rival in everybody if rival.is_ours or not row.only_ours]
        for turn in range(turns):
            first = turn % len(those)
            for rival in (*those[first:], *those[:first]):
                if (row.title, rival.name, turn) not in done:
                    yield _play(row, rival, turn)


def _play(row: Row, rival: Rival, turn: int) -> Turn:
    with tempfile.TemporaryDirectory() as folder, _site(row, Path(folder)) as site:
        cores = len(os.sched_getaffinity(0))
        played = run_fast(play(row, rival, site, turn=turn, cores=cores))
    print(
        f"{row.title} | {rival.name} | {played.bound} of {played.wanted}:"
        f" {played.bound_per_second} pods/s, {played.scheduler_milliseconds} ms a pod",
        file=sys.stderr,
    )
    return played


@contextmanager
def _site(row: Row, folder: Path) -> Iterator[Site]:
    """Run an API server for one turn, and what makes claims if the row needs it."""
    with ExitStack() as stack:
        server = stack.enter_context(RealServer(folder))
        kubeconfig = server.write_kubeconfig(folder / "kubeconfig")
        if row.claims:
            stack.enter_context(_claim_controller(kubeconfig))
        yield Site(kubeconfig, server.pids)


@contextmanager
def _claim_controller(kubeconfig: Path) -> Iterator[None]:
    binaries = assets()
    assert binaries is not None
    words = [
        str(binaries / _TEMPLATES),
        f"--kubeconfig={kubeconfig}",
        "--controllers=resourceclaim-controller",
        "--leader-elect=false",
        "--secure-port=0",
        "--kube-api-qps=5000",
        "--kube-api-burst=5000",
    ]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL) as process:  # noqa: S603 - the user's
        try:
            yield
        finally:
            process.terminate()


if __name__ == "__main__":
    sys.exit(main())
