"""``numakube manifests render``: print what would be deployed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from numakube.cli.deploying.deploy import print_all
from numakube.cli.deploying.deploy_options import choices_options, components_argument
from numakube.manifests.components import objects_of

if TYPE_CHECKING:
    from numakube.manifests.components import Choices


@click.command("render")
@components_argument
@choices_options
def command(*, components: tuple[str, ...], choices: Choices) -> None:
    """Print what would be deployed.

    The output is for `kubectl apply -f -`; no cluster is needed.
    """
    print_all(objects_of(components, choices))
