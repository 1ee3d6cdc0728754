"""``numakube manifests static-pod``: the main scheduler of a kubeadm cluster, as files."""

from __future__ import annotations

from pathlib import Path

import click

from numakube.manifests.extender import ExtenderManifest
from numakube.manifests.release_image import IMAGE
from numakube.manifests.static_pods import StaticPods

_DEFAULT = ExtenderManifest()


@click.command("static-pod")
@click.argument("main", type=click.Choice(("scheduler", "extender")), metavar="scheduler|extender")
@click.option("--image", default=IMAGE, show_default=True, help="Image of our scheduler.")
@click.option(
    "--kube-scheduler-image",
    default=_DEFAULT.kube_scheduler_image,
    show_default=True,
    help="The cluster's kube-scheduler, which asks the extender.",
)
@click.option("--url-prefix", default="", help="Address of the extender, without DNS names.")
@click.option(
    "-n",
    "--namespace",
    default=_DEFAULT.namespace,
    show_default=True,
    help="Namespace of the extender.",
)
@click.option(
    "--output-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write the files there, with the paths that they have on a machine.",
)
def command(
    *,
    main: str,
    image: str,
    kube_scheduler_image: str,
    url_prefix: str,
    namespace: str,
    output_dir: Path | None,
) -> None:
    """Write the static pod of a main scheduler.

    scheduler replaces kube-scheduler by ours. extender keeps kube-scheduler and makes it call the
    extender. The output is for kubeadm: /etc/kubernetes/manifests/kube-scheduler.yaml with the
    configuration that it reads, for every machine of the control plane.
    """
    extender = ExtenderManifest(
        second=False,
        kube_scheduler_image=kube_scheduler_image,
        url_prefix=url_prefix,
        namespace=namespace,
    )
    for path, text in StaticPods(image=image, extender=extender).files(main).items():
        if output_dir is None:
            click.echo(f"# {path}\n{text}---")
            continue
        target = output_dir / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        click.echo(target)
