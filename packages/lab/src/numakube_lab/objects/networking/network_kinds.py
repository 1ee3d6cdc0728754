"""Ingresses, NetworkPolicies, Endpoints and EndpointSlices.

Nothing routes or filters traffic in the lab: these kinds have their defaults, and beyond their
types only a few fields are checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.field_errors import FieldError, invalid, not_supported, required
from numakube_lab.objects.checks.kind_rules import STATUS, KindRules
from numakube_lab.schema.metadata_checks import immutable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube_lab.kinds import Json

_PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
_DEPRECATED: Final = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"


def _check_ingress(ingress: Json) -> list[FieldError]:
    spec = ingress.get("spec") or {}
    rules = spec.get("rules") or []
    if not rules and spec.get("defaultBackend") is None:
        return [invalid("spec", None, "either `defaultBackend` or `rules` must be specified")]
    errors: list[FieldError] = []
    for index, rule in enumerate(rules):
        for position, one in enumerate((rule.get("http") or {}).get("paths") or []):
            errors += _check_path(one, f"spec.rules[{index}].http.paths[{position}]")
    return errors


def _check_path(one: Json, path: str) -> list[FieldError]:
    kind, text = one.get("pathType"), one.get("path") or ""
    if kind is None:
        return [required(f"{path}.pathType", "pathType must be specified")]
    if kind not in _PATH_TYPES:
        return [not_supported(f"{path}.pathType", kind, _PATH_TYPES)]
    if not text.startswith("/") and (text or kind != "ImplementationSpecific"):
        return [invalid(f"{path}.path", text, "must be an absolute path")]
    return []


INGRESS: Final = KindRules(
    counted=("spec",), parts=STATUS, check=_check_ingress, rechecks_name=True
)


def _default_protocols(ports: Iterable[Json]) -> None:
    for port in ports:
        port["protocol"] = port.get("protocol") or "TCP"


def _default_policy(policy: Json) -> None:
    spec = policy.setdefault("spec", {})
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", *(["Egress"] if spec.get("egress") else [])]
    for rule in (*(spec.get("ingress") or ()), *(spec.get("egress") or ())):
        _default_protocols(rule.get("ports") or ())


NETWORK_POLICY: Final = KindRules(counted=("spec",), default=_default_policy)


def _default_endpoints(endpoints: Json) -> None:
    for subset in endpoints.get("subsets") or []:
        _default_protocols(subset.get("ports") or ())


def _warn_endpoints(endpoints: Json, old: Json | None) -> list[str]:
    del endpoints, old
    return [_DEPRECATED]


ENDPOINTS: Final = KindRules(default=_default_endpoints, rechecks_name=True, warn=_warn_endpoints)


def _default_slice(endpoint_slice: Json) -> None:
    ports = endpoint_slice.get("ports") or []
    _default_protocols(ports)
    for port in ports:
        port["name"] = port.get("name") or ""


def _on_slice_create(endpoint_slice: Json) -> None:
    endpoint_slice["metadata"]["generation"] = 1


def _on_slice_update(new: Json, old: Json) -> None:
    content = ("endpoints", "ports", "addressType")
    same = all((new.get(part) or None) == (old.get(part) or None) for part in content)
    labels = [obj["metadata"].get("labels") or {} for obj in (new, old)]
    if not same or labels[0] != labels[1]:
        new["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1


def _check_slice_change(new: Json, old: Json) -> list[FieldError]:
    return immutable(new.get("addressType"), old.get("addressType"), "addressType")


ENDPOINT_SLICE: Final = KindRules(
    own_metadata_change=False,
    default=_default_slice,
    on_create=_on_slice_create,
    on_update=_on_slice_update,
    check_change=_check_slice_change,
    rechecks_name=True,
)
