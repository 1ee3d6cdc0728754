"""``numakube manifests images``: which images a deployment needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from numakube.cli.deploying.deploy_options import choices_options, components_argument
from numakube.cli.shared.output_option import Output, output_option, print_document
from numakube.manifests.components import COMPONENTS, in_order

if TYPE_CHECKING:
    from numakube.manifests.components import Choices


@click.command("images")
@components_argument
@choices_options
@output_option(Output.TABLE, Output.NAME, Output.JSON, Output.YAML)
def command(*, components: tuple[str, ...], choices: Choices, output: Output) -> None:
    """Which images does a deployment need?

    Use it to mirror them, or to load them onto nodes.
    """
    by_component = {
        name: images for name in in_order(components) if (images := _images(name, choices))
    }
    match output:
        case Output.JSON | Output.YAML:
            print_document(by_component, output)
        case Output.NAME:
            for image in dict.fromkeys(one for images in by_component.values() for one in images):
                click.echo(image)
        case _:
            for name, images in by_component.items():
                click.echo(f"{name:<10} {' '.join(images)}")


def _images(component: str, choices: Choices) -> list[str]:
    pods = [
        document["spec"]["template"]["spec"]
        for document in COMPONENTS[component](choices)
        if "template" in document.get("spec", {})
    ]
    return list(
        dict.fromkeys(container["image"] for pod in pods for container in pod["containers"])
    )
