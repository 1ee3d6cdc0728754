"""How people find a running scheduler or extender, and the account in whose name they look inside.

Every way to deploy one (``numakube deploy``, the operator, the chart, a file) gives its pods the
same two labels, and makes an account whose name is that of the pods' own account with an ending.
``kubectl numa trace`` and its relatives ask for a short-lived token of it, for an audience of its
own, and show it through the API server's proxy. Who may use it is decided by who may create tokens
for it (``serviceaccounts/token``) and reach the pods (``pods/proxy``).
"""

from __future__ import annotations

from typing import Any, Final

from numakube.manifests.rbac_rules import cluster_role, service_account

PATHS: Final = ("/debug/*", "/configz", "/v1/fit")
_PART_OF: Final = "app.kubernetes.io/part-of"
_COMPONENT: Final = "app.kubernetes.io/component"
SCHEDULER: Final = {_PART_OF: "numakube", _COMPONENT: "scheduler"}
"""Labels of a scheduler's pods."""
EXTENDER: Final = {_PART_OF: "numakube", _COMPONENT: "extender"}
"""Labels of an extender's pods."""
TENANT_ACCOUNT: Final = "numakube-tenant"
"""The account in a tenant's namespace in whose name its people ask about its pods."""
SELECTOR: Final = f"{_PART_OF}=numakube,{_COMPONENT} in (scheduler,extender)"


def account_for(account: str) -> str:
    """Return the name of the account for looking inside pods that run as *account*."""
    return f"{account}-debug"


def debugging_access(account: str, namespace: str) -> list[dict[str, Any]]:
    """Return the account for looking inside pods that run as *account*, and its rights."""
    name = account_for(account)
    document = service_account(name, namespace)
    return [document, *cluster_role(name, debugging_rules(), document)]


def debugging_rules() -> list[dict[str, Any]]:
    """Return what looking inside takes."""
    return [{"nonResourceURLs": list(PATHS), "verbs": ["get", "post", "put", "delete"]}]
