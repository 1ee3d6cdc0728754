"""Health endpoints, and the index of paths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube_lab.api.handling.call import Reply, json_reply, text_reply

if TYPE_CHECKING:
    from numakube_lab.api.catalogue.served_resources import Registry
    from numakube_lab.api.handling.call import Call

_COMMON: Final = ("ping", "log", "etcd")
_CHECKS: Final = {
    "healthz": _COMMON,
    "livez": _COMMON,
    "readyz": (*_COMMON, "etcd-readiness", "informer-sync", "shutdown"),
}
"""What each endpoint looks at: a server that answers at all passes all of it."""


def health(call: Call, endpoint: str, check: str) -> Reply | None:
    """Answer a health endpoint, or one of its checks; None if there is no such check."""
    checks = _CHECKS.get(endpoint)
    if checks is None or (check and check not in checks):
        return None
    if check or "verbose" not in call.query:
        return text_reply(200, "ok")
    lines = "".join(f"[+]{name} ok\n" for name in checks)
    return text_reply(200, f"{lines}{endpoint} check passed\n")


def index(registry: Registry) -> Reply:
    """Answer ``/``: the paths that there are."""
    paths = ["/api", "/api/v1", "/apis", "/apis/", "/openapi/v3", "/openapi/v3/", "/version"]
    for group in registry.groups():
        paths.append(f"/apis/{group.name}")
        paths += [f"/apis/{group.name}/{version}" for version in group.versions]
    for endpoint, checks in _CHECKS.items():
        paths += [f"/{endpoint}", *(f"/{endpoint}/{check}" for check in checks)]
    return json_reply(200, {"paths": sorted(paths)})
