"""A short way to talk to an API server in tests."""

from __future__ import annotations

import io
import json
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    import aiohttp

Json = dict[str, Any]


class Client:
    """Sends requests and returns status and document."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session
        self.warnings: list[str] = []

    async def send(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        kind: str = "application/json",
        headers: Mapping[str, str] = MappingProxyType({}),
        **query: str,
    ) -> tuple[int, Json]:
        """Send a request."""
        sent = {"Content-Type": kind, **headers}
        data = None if body is None else io.BytesIO(json.dumps(body).encode())
        async with self.session.request(
            method, path, data=data, headers=sent, params=query
        ) as response:
            self.warnings = response.headers.getall("Warning", [])
            text = await response.text()
            document = json.loads(text) if text.startswith("{") else {"text": text}
            return response.status, document

    async def get(self, path: str, **query: str) -> Json:
        """Read something that must be there."""
        async with self.session.get(path, params=query) as response:
            self.warnings = response.headers.getall("Warning", [])
            document: Json = await response.json()
            assert response.status == 200, document
            return document

    async def create(self, path: str, body: Json) -> Json:
        """Create something that must be acceptable."""
        status, document = await self.send("POST", path, body)
        assert status == 201, document
        return document
