"""``--dry-run`` with its value, alone, and before what a command works on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from numakube.cli.deploying.deploy import command as deploy
from numakube.cli.deploying.remove import command as remove
from numakube_planning.cli.defrag import command as defrag

if TYPE_CHECKING:
    from collections.abc import Callable

    import click
    from tests.cli.conftest import Ended

KNOWN = {"deploy": deploy, "remove": remove, "defrag": defrag}


def parsed(line: str) -> click.Context:
    """Return what a command understands by *line*."""
    name, *words = line.split()
    return KNOWN[name].make_context(name, words)


@pytest.mark.parametrize(
    ("line", "mode", "components"),
    [
        ("deploy exporter", "none", ("exporter",)),
        ("deploy --dry-run", "client", ()),
        ("deploy exporter --dry-run", "client", ("exporter",)),
        ("deploy --dry-run exporter", "client", ("exporter",)),
        ("deploy --dry-run server exporter", "server", ("exporter",)),
        ("deploy --dry-run --wait exporter", "client", ("exporter",)),
        ("remove --dry-run exporter", "server", ("exporter",)),
        ("remove --dry-run=server exporter", "server", ("exporter",)),
        ("remove --dry-run none exporter", "none", ("exporter",)),
        ("remove --dry-run -- exporter", "server", ("exporter",)),
    ],
)
def test_the_word_after_a_dry_run_is_its_value_only_if_it_is_a_mode(
    line: str, mode: str, components: tuple[str, ...]
) -> None:
    """What follows otherwise is a component: it is neither lost nor refused."""
    context = parsed(line)

    assert (context.params["dry_run"], context.params["components"]) == (mode, components)


def test_plans_are_printed_by_a_dry_run_without_a_value() -> None:
    """As kubectl takes it."""
    assert parsed("defrag --open cpu=4 --apply --dry-run").params["dry_run"] == "client"


def test_a_dry_run_without_a_value_says_which_it_is(numakube: Callable[..., Ended]) -> None:
    """On standard error, so that the objects can be piped."""
    ended = numakube("deploy", "--dry-run", "exporter")

    assert ended.code == 0
    assert ended.err == "warning: --dry-run without a value is --dry-run=client\n"
    kinds = {item["kind"] for item in yaml.safe_load_all(ended.out)}
    assert "DaemonSet" in kinds
    assert "Deployment" not in kinds


@pytest.mark.parametrize("value", ["exporter", "client", "true"])
def test_no_other_value_is_taken(numakube: Callable[..., Ended], value: str) -> None:
    """Nothing is removed by one that is mistyped; the message has those that there are."""
    ended = numakube("remove", f"--dry-run={value}")

    assert ended.code == 2
    assert "'none', 'server'" in ended.err
