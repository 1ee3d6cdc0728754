"""Programs of a test cluster: found by name, started with a log of their own, ended by their id."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.real.api_server import VARIABLE, assets, stop

KUBERNETES: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kubelet")
"""What `KUBEBUILDER_ASSETS` has to hold."""


class Missing(Exception):
    """Something that has to be installed first; the message names all of it."""


def require(programs: Mapping[str, str]) -> None:
    """Find the Kubernetes binaries, and *programs* by name with the Debian package they are in.

    Raises:
        Missing: with everything that is not there.
    """
    lacking = [_where_from(name) for name in KUBERNETES if not _is_asset(name)]
    lacking += [
        f"{name} (Debian package {package})"
        for name, package in programs.items()
        if shutil.which(name, path=search_path()) is None
    ]
    if lacking:
        raise Missing("a real node needs " + ", ".join(lacking))


def search_path() -> str:
    """Return where programs are looked for, those for administrators included."""
    return os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def asset(name: str) -> Path:
    """Return the path of a Kubernetes binary."""
    folder = assets()
    if folder is None:
        raise Missing(f"set {VARIABLE} to a folder with {', '.join(KUBERNETES)}")
    return folder / name


def _is_asset(name: str) -> bool:
    folder = assets()
    return folder is not None and os.access(folder / name, os.X_OK)


def _where_from(name: str) -> str:
    return f"{name} (in the folder that {VARIABLE} names)"


@dataclass(slots=True)
class Program:
    """A program that is started, ended and started again; its log grows on.

    Attributes:
        arguments: the whole command line.
        log: where its output goes.
        environment: variables besides those of this process.
    """

    arguments: Sequence[str | Path]
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    _process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Its id; 0 if it does not run."""
        return self._process.pid if self._process is not None else 0

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended by itself."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it."""
        assert not self.running, f"{self.arguments[0]} runs already"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - the developer's own
                self.arguments,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self.environment},
            )

    async def stop(self) -> None:
        """End it politely, by force after a while."""
        if self._process is not None:
            await asyncio.to_thread(stop, self._process)
            self._process = None

    def kill(self) -> None:
        """End it on the spot."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def last_words(self, length: int = 3000) -> str:
        """Return the end of its log."""
        return self.log.read_text(errors="replace")[-length:]
