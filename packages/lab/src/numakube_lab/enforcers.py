"""Enforcers on every node of a lab, deployed as on a real cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.apps.deployer.engine import Engine
from numakube.manifests.components import Choices, objects_of

if TYPE_CHECKING:
    from numakube.kube.client import Client

PATIENCE_SECONDS: Final = 60.0


async def deploy_enforcers(client: Client) -> None:
    """Deploy enforcers; returns when those of all nodes work, or after a while."""
    documents = objects_of(("enforcer",), Choices())
    engine = Engine(client=client, tell=lambda _: None, adopt=True)
    await engine.deploy(documents)
    await engine.wait_ready(documents, PATIENCE_SECONDS, lambda _: None)
