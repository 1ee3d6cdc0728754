"""Where labs keep their files is their user's alone."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from numakube.errors import ConfigError
from numakube_lab.run_folder import RunDir, labs_here, runtime_root

NOBODY = 65534
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root gives folders away")


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary folder that all users share, and where this user's labs would be in it."""
    with tempfile.TemporaryDirectory(prefix="x-") as path:
        Path(path).chmod(0o1777)
        monkeypatch.setattr(tempfile, "tempdir", path)
        yield runtime_root({})


def made_by_another(root: Path) -> None:
    """Have the folder belong to somebody else."""
    root.mkdir()
    os.chown(root, NOBODY, NOBODY)


def writable(root: Path) -> None:
    """Let everybody write to the folder."""
    root.mkdir()
    root.chmod(0o777)


def link(root: Path) -> None:
    """Put a link to another folder there."""
    root.symlink_to(tempfile.mkdtemp(dir=root.parent))


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        pytest.param(made_by_another, "belongs to the user with id 65534", marks=needs_root),
        (writable, "other users may write to it"),
        (link, "it is not a folder"),
    ],
)
def test_a_folder_that_others_could_change_is_not_used(
    shared: Path, prepare: Callable[[Path], None], words: str
) -> None:
    """Neither to keep a lab in, nor to look for one."""
    early = RunDir.of("mine", {})
    prepare(shared)
    for use in (early.create, lambda: RunDir.of("mine", {}), lambda: labs_here({})):
        with pytest.raises(ConfigError, match=words):
            use()
    assert not list(shared.iterdir())


def test_nobody_else_looks_into_it(shared: Path) -> None:
    """Whatever the process' mask is."""
    before = os.umask(0)
    try:
        RunDir.of("mine", {}).create()
    finally:
        os.umask(before)
    for folder in (shared, shared / "mine"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@needs_root
def test_a_runtime_folder_of_another_user_is_not_ours(shared: Path) -> None:
    """As ``sudo`` may leave it in the environment: its owner could replace what is in it."""
    another = shared.parent / "run"
    another.mkdir()
    os.chown(another, NOBODY, NOBODY)
    assert runtime_root({"XDG_RUNTIME_DIR": str(another)}) == shared
