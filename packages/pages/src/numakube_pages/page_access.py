"""Who may see the pages, and what browsers may do with them.

On loopback everybody on the machine may, as with the debugging endpoints; but a page of the web
must not read ours through a name that it makes point to 127.0.0.1, so the request has to name the
machine itself. Elsewhere a caller needs a token of the API server with the right to ``get`` the
dashboard's path. Programs send it as a bearer; people enter it once, and the browser keeps the
number of a session, which ends with the token, the process or the day.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

from aiohttp import web

from numakube.errors import NumakubeError
from numakube.values.hosts import is_loopback

if TYPE_CHECKING:
    from numakube.apps.host import Access
    from numakube.apps.host.http_serving import Handler
    from numakube.kube import Clock


COOKIE: Final = "numakube-session"
SESSION_SECONDS: Final = 8 * 3600.0
_MOST_SESSIONS: Final = 256
_LONGEST_TOKEN: Final = 16384

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


@dataclass(frozen=True, slots=True)
class _Session:
    token: str
    until: float


class Gate:
    """Decides about callers of one dashboard.

    Attributes:
        path: what a token must have the right to get.
    """

    def __init__(self, clock: Clock, *, host: str, path: str, access: Access | None = None) -> None:
        self.path = path
        self._clock = clock
        self._access = access
        self._open = is_loopback(host)
        self._sessions: dict[str, _Session] = {}

    def guarded(self, handler: Handler) -> Handler:
        """Return *handler* for those who may call it, with its answers made safe for browsers."""

        async def check(request: web.Request) -> web.StreamResponse:
            if not await self.admits(request):
                where = quote(request.path_qs, safe="")
                raise web.HTTPSeeOther(f"{self.path}login?next={where}", headers=HEADERS)
            return await handler(request)

        return self.shielded(check)

    def shielded(self, handler: Handler) -> Handler:
        """Return *handler* with its answers made safe for browsers."""

        async def answer(request: web.Request) -> web.StreamResponse:
            try:
                response = await handler(request)
            except web.HTTPException as refusal:
                refusal.headers.extend(_missing_in(refusal))
                raise
            if not response.prepared:
                response.headers.extend(_missing_in(response))
            return response

        return answer

    async def admits(self, request: web.Request) -> bool:
        """Tell whether a caller may see pages.

        Raises:
            HTTPException: it showed a token that will not do, or the API server does not answer.
        """
        if self._open:
            return True
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and token:
            if not await self._knows(token):
                raise web.HTTPForbidden(text=f"this token may not get {self.path}\n")
            return True
        session = self._sessions.get(request.cookies.get(COOKIE, ""))
        if session is None or session.until < self._clock.monotonic():
            return False
        return await self._knows(session.token)

    async def enter(self, token: str) -> str:
        """Return the number of a new session for the bearer of *token*; empty if it will not do."""
        if not 0 < len(token) <= _LONGEST_TOKEN or not await self._knows(token):
            return ""
        now = self._clock.monotonic()
        self._sessions = {key: one for key, one in self._sessions.items() if one.until > now}
        while len(self._sessions) >= _MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        number = secrets.token_urlsafe(32)
        self._sessions[number] = _Session(token, now + SESSION_SECONDS)
        return number

    def leave(self, request: web.Request) -> None:
        """End the caller's session."""
        self._sessions.pop(request.cookies.get(COOKIE, ""), None)

    @property
    def open(self) -> bool:
        """Whether no token is required."""
        return self._open

    def inward(self, target: str) -> str:
        """Return *target* if it is one of our pages, else the first page."""
        parts = urlsplit(target)
        inside = not parts.scheme and not parts.netloc and parts.path.startswith(self.path)
        return target if inside and "\\" not in target else self.path

    async def _knows(self, token: str) -> bool:
        if self._access is None:
            return False
        try:
            return await self._access.is_allowed(token, "GET", self.path)
        except NumakubeError as error:
            raise web.HTTPServiceUnavailable(text=f"cannot check who you are: {error}\n") from None


def _missing_in(response: web.StreamResponse) -> dict[str, str]:
    return {name: value for name, value in HEADERS.items() if name not in response.headers}
