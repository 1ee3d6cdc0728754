"""``numakube demo``: the point of it all in under a minute, on a lab in this process."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import click

from numakube.cli.shared.log_options import configure_logs


@click.command("demo")
def command() -> None:
    """Place the same pods with and without NUMA awareness."""
    configure_logs("error", "text")
    asyncio.run(_demo())


async def _demo() -> None:
    from numakube.kube.catalog import PODS
    from numakube.kube.reflector import Reflector, reflecting
    from numakube.kubelet.machines.shape_text import from_shape
    from numakube_lab.cli.demo_story import NODES, SHAPE, Story
    from numakube_lab.lab_cluster import Lab, LabOptions, uniform_plans
    from numakube_lab.run_folder import RunDir

    plans = uniform_plans(NODES, from_shape(SHAPE), "", "1.35")
    with tempfile.TemporaryDirectory(prefix="nk-") as path:
        folder = RunDir(Path(path) / "demo")
        folder.create()
        async with Lab(LabOptions(name="demo", plans=plans, exporters=True), folder) as lab:
            pods = Reflector(lab.client, PODS)
            async with reflecting(pods):
                await Story(lab, pods.store).tell()
