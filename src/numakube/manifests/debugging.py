"""The account in whose name people look inside a running scheduler or extender.

``kubectl numa trace`` and its relatives ask for a short-lived token of this account, for an
audience of its own, and show it through the API server's proxy. Who may use it is decided by who
may create tokens for it (``serviceaccounts/token``) and reach the pods (``pods/proxy``).
"""

from __future__ import annotations

from typing import Any, Final

from numakube.manifests.roles import cluster_role, service_account

PATHS: Final = ("/debug/*", "/configz")


def account_for(component: str) -> str:
    """Return the name of the account for looking inside *component*."""
    return f"{component}-debug"


def debugging_access(component: str, namespace: str) -> list[dict[str, Any]]:
    """Return the account and its rights."""
    name = account_for(component)
    account = service_account(name, namespace)
    rules = [{"nonResourceURLs": list(PATHS), "verbs": ["get", "post", "put", "delete"]}]
    return [account, *cluster_role(name, rules, account)]
