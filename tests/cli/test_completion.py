"""Completion for shells and for kubectl."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from numakube.cli.command_table import first_words, joined_first_words
from numakube.cli.completion import kubectl_candidates
from numakube.cli.main import cli

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.conftest import Ended


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(shell: str, numakube: Callable[..., Ended]) -> None:
    """The script asks numakube itself for candidates."""
    result = numakube("completion", shell)

    assert result.code == 0
    assert f"_NUMAKUBE_COMPLETE={shell}_complete" in result.out


def test_an_unknown_shell_is_wrong_usage(numakube: Callable[..., Ended]) -> None:
    """The message lists the shells that there are."""
    result = numakube("completion", "tcsh")

    assert result.code == 2
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in result.err


def test_kubectl_gets_a_candidate_a_line_and_a_directive() -> None:
    """``:4`` tells kubectl not to offer files."""
    assert list(kubectl_candidates(cli, [""])) == [*first_words(), *joined_first_words(), ":4"]
    assert list(kubectl_candidates(cli, [])) == [*first_words(), *joined_first_words(), ":4"]
    assert list(kubectl_candidates(cli, ["comp"])) == ["completion", ":4"]
    assert list(kubectl_candidates(cli, ["completion", "z"])) == ["zsh", ":4"]
    assert list(kubectl_candidates(cli, ["replay", "k"])) == ["kubelet", ":4"]
    assert list(kubectl_candidates(cli, ["debug", "q"])) == ["queue", ":4"]


def test_options_are_completed() -> None:
    """A dash asks for options."""
    assert "--check" in list(kubectl_candidates(cli, ["replay", "values", "--c"]))


def test_where_a_file_is_expected_kubectl_may_offer_files() -> None:
    """``:0`` lets the shell complete file names, next to what else is possible."""
    assert list(kubectl_candidates(cli, ["replay", "values", "t"])) == [":0"]
    assert list(kubectl_candidates(cli, ["machine", "dgx-h1"])) == ["dgx-h100", ":0"]
