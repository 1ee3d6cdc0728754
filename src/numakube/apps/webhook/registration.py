"""Keeping the ValidatingWebhookConfiguration's ``caBundle`` what the authority's file says.

API servers call a webhook only if they trust its certificate. Whoever renews the certificate
replaces files of a mounted Secret; this carries a new authority on to where API servers look.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final

import structlog

from numakube.errors import ApiError, ClusterUnreachable
from numakube.kube.catalog import VALIDATING_WEBHOOK_CONFIGURATIONS
from numakube.kube.patches import json_patch

if TYPE_CHECKING:
    from pathlib import Path

    from numakube.kube.client import Client

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()

NOT_YET: Final = "the authority has not been registered yet"


class Registration:
    """The authority of our certificate in the configuration *name*.

    Attributes:
        trouble: why API servers do not know it; empty if they do.
    """

    def __init__(self, client: Client, name: str, authority: Path) -> None:
        self._client = client
        self._name = name
        self._authority = authority
        self.trouble = NOT_YET

    async def renew(self) -> None:
        """Look at the configuration, and change it if its authority is another one."""
        try:
            bundle = base64.b64encode(self._authority.read_bytes()).decode()
            await self._write(bundle)
        except (ApiError, ClusterUnreachable, OSError) as error:
            if str(error) != self.trouble:
                _log.warning("authority_not_registered", error=str(error))
            self.trouble = str(error)
        else:
            self.trouble = ""

    async def _write(self, bundle: str) -> None:
        resource = VALIDATING_WEBHOOK_CONFIGURATIONS
        configuration = await self._client.get(resource, self._name)
        operations: list[dict[str, Any]] = []
        for index, hook in enumerate(configuration.get("webhooks") or ()):
            if hook["clientConfig"].get("caBundle") != bundle:
                path = f"/webhooks/{index}"
                operations += [
                    {"op": "test", "path": f"{path}/name", "value": hook["name"]},
                    {"op": "add", "path": f"{path}/clientConfig/caBundle", "value": bundle},
                ]
        if operations:
            await self._client.patch(resource, self._name, json_patch(operations))
            _log.info("authority_registered", configuration=self._name)
