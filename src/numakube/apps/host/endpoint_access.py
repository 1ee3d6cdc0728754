"""Who may look inside: metrics and debugging endpoints are for those whom the API server lets.

On loopback everybody on the machine may (`Serving` keeps pages of the web away). Elsewhere a
caller shows a bearer token, which the API server must know (TokenReview), and needs the right to
the path (SubjectAccessReview), as with Kubernetes' own components. Answers are remembered for a
short while.

Who comes through the API server's proxy cannot show a token in the usual place: the API server
takes ``Authorization`` away once it knows the caller, and that is as it should be, since a pod must
not get hold of a user's token. Such a caller shows, in the header `HEADER`, a token that was made
for this purpose: it names the audience `AUDIENCE`, and is good for nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from numakube.errors import NumakubeError
from numakube.kube.catalog import SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS
from numakube.values.hosts import is_loopback

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.apps.host.http_serving import Handler
    from numakube.kube.client import Client

HEADER: Final = "X-Numakube-Token"
AUDIENCE: Final = "numakube.dev/debug"
REMEMBERED_SECONDS: Final = 10.0
_MOST_REMEMBERED: Final = 1000


class Access:
    """Decides about callers of one server.

    Attributes:
        host: where it listens.
    """

    def __init__(self, client: Client, *, host: str) -> None:
        self.host = host
        self._client = client
        self._open = is_loopback(host)
        self._known: dict[tuple[str, str, str, str], tuple[float, bool]] = {}

    def guarded(self, handler: Handler) -> Handler:
        """Return *handler* for those who may call it."""

        async def check(request: web.Request) -> web.StreamResponse:
            if not self._open:
                await self._check(request)
            return await handler(request)

        return check

    def for_readers(self, handler: Handler) -> Handler:
        """Return *handler* of ``/…/{namespace}/{name}`` for those who may get that pod.

        On loopback too: being on the machine is no right to read pods.
        """

        async def check(request: web.Request) -> web.StreamResponse:
            namespace, name = request.match_info["namespace"], request.match_info["name"]
            pod = {"verb": "get", "resource": "pods", "namespace": namespace, "name": name}
            await self._check(request, {"resourceAttributes": pod})
            return await handler(request)

        return check

    async def _check(
        self, request: web.Request, right: Mapping[str, dict[str, str]] | None = None
    ) -> None:
        token, audience = request.headers.get(HEADER, ""), AUDIENCE
        if not token:
            scheme, _, token = request.headers.get("Authorization", "").partition(" ")
            token, audience = token if scheme.lower() == "bearer" else "", ""
        if not token:
            raise web.HTTPUnauthorized(
                text=f"a bearer token is needed here, or one for {AUDIENCE} in {HEADER}",
                headers={"WWW-Authenticate": "Bearer"},
            )
        try:
            allowed = await self.is_allowed(token, request.method, request.path, audience, right)
        except NumakubeError as error:
            raise web.HTTPServiceUnavailable(text=f"cannot check who you are: {error}") from None
        if not allowed:
            raise web.HTTPForbidden(text=f"{request.method} {request.path} is not allowed to you")

    async def is_allowed(
        self,
        token: str,
        method: str,
        path: str,
        audience: str = "",
        right: Mapping[str, dict[str, str]] | None = None,
    ) -> bool:
        """Tell whether the bearer of *token* may do this; asks the API server at most now and then.

        The token must be for *audience*; by default for the API server itself. What it takes is the
        right to the path, unless another *right* is named that goes with it.

        Raises:
            NumakubeError: the API server does not answer.
        """
        if not token.isascii():
            return False  # no server issues such tokens, and JSON cannot carry all of them
        now = self._client.clock.monotonic()
        key = (token, method, path, audience)
        known = self._known.get(key)
        if known is None or known[0] < now:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            user = await self._user_of(token, audience)
            wanted = right or {"nonResourceAttributes": {"path": path, "verb": method.lower()}}
            allowed = user is not None and await self._has_right(user, wanted)
            known = self._known[key] = now + REMEMBERED_SECONDS, allowed
        return known[1]

    async def _user_of(self, token: str, audience: str) -> dict[str, Any] | None:
        review = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, **({"audiences": [audience]} if audience else {})},
        }
        status = (await self._client.create(TOKEN_REVIEWS, review)).get("status") or {}
        if audience and audience not in (status.get("audiences") or ()):
            return None  # a server that knows no audiences says nothing about them
        return status.get("user") or {} if status.get("authenticated") else None

    async def _has_right(self, user: dict[str, Any], right: Mapping[str, dict[str, str]]) -> bool:
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": user.get("username", ""),
                "groups": user.get("groups") or [],
                "uid": user.get("uid", ""),
                **right,
            },
        }
        status = (await self._client.create(SUBJECT_ACCESS_REVIEWS, review)).get("status") or {}
        return bool(status.get("allowed"))
