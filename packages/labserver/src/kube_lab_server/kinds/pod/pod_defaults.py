"""What the server fills into pods and pod templates before anything else looks at them."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from kube_lab_server.kinds.pod.container_environment import PROBES
from kube_lab_server.kinds.pod.pod_admission import sum_containers
from kube_lab_server.kinds.pod.pod_spec import CONTAINER_LISTS, validate_pod_spec
from kube_lab_server.kinds.pod.pod_warnings import (
    pod_warnings,
    validate_pod_annotations,
    validate_profile_annotations,
)
from kube_lab_server.kinds.pod.volume_sources import default_claim_spec
from kube_lab_server.kinds.value_checks import (
    is_convertible,
    is_empty,
    matches,
    validate_label_selector,
)
from kube_lab_server.schema.metadata_checks import validate_annotations, validate_labels
from numakube.api.field_errors import FieldError, forbidden, invalid, not_supported, required
from numakube.api.resource_requirements import round_to_milli
from numakube.values.resources import is_hugepages, is_overcommit_allowed, is_pod_level

if TYPE_CHECKING:
    from kube_lab_server.kind_names import Json


_READABLE: Final = 0o644
_HOUR: Final = 3600
_PROBE_DEFAULTS: Final = (
    ("timeoutSeconds", 1),
    ("periodSeconds", 10),
    ("successThreshold", 1),
    ("failureThreshold", 3),
)
_OLD_ANNOTATIONS: Final = frozenset(
    f"pod.{stage}.kubernetes.io/init-container{what}"
    for stage in ("alpha", "beta")
    for what in ("s", "-statuses")
)
_SPEC_DEFAULTS: Final = (
    ("dnsPolicy", "ClusterFirst"),
    ("restartPolicy", "Always"),
    ("schedulerName", "default-scheduler"),
)


def default_pod(pod: Json) -> None:
    """Fill in the defaults of a pod: those of any pod specification and a few of its own."""
    spec = pod.setdefault("spec", {})
    for container in [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]:
        _default_requests(container)
    _default_pod_level(spec)
    if spec.get("enableServiceLinks") is None:
        spec["enableServiceLinks"] = True
    if spec.get("hostNetwork"):
        _default_host_ports(spec)
    default_pod_spec(spec)
    if spec["terminationGracePeriodSeconds"] < 0:
        # Only in a pod; a template keeps what it has.
        spec["terminationGracePeriodSeconds"] = 1
    _match_addresses(pod.get("status") or {})
    _drop_old_annotations(pod.get("metadata") or {})


def _default_requests(container: Json) -> None:
    """Let requests follow limits."""
    requirements = container.get("resources") or {}
    if limits := requirements.get("limits"):
        requirements["requests"] = limits | (requirements.get("requests") or {})


def _default_pod_level(spec: Json) -> None:
    """Complete requests and limits of the pod as a whole from those of its containers."""
    requirements = spec.get("resources")
    if not requirements:
        return
    limits, requests = requirements.get("limits") or {}, requirements.get("requests") or {}
    if limits or requests:
        for name, amount in sum_containers(spec, "limits").items():
            if is_hugepages(name) and name not in requests:
                limits.setdefault(name, str(amount))
    if limits:
        _default_pod_requests(spec, requests, limits)
    requirements |= {
        side: amounts for side, amounts in (("limits", limits), ("requests", requests)) if amounts
    }


def _default_pod_requests(spec: Json, requests: Json, limits: Json) -> None:
    for name, amount in sum_containers(spec, "requests").items():
        if is_pod_level(name) and is_overcommit_allowed(name):
            requests.setdefault(name, str(amount))
    for name, text in limits.items():
        if is_pod_level(name):
            requests.setdefault(name, text)


def _default_host_ports(spec: Json) -> None:
    for field in ("containers", "initContainers"):
        for container in spec.get(field) or []:
            for port in container.get("ports") or []:
                if number := port.get("hostPort") or port.get("containerPort"):
                    port["hostPort"] = number


def _match_addresses(status: Json) -> None:
    """Keep the one address and the list of addresses in step; the single one wins."""
    first, listed = status.get("podIP"), status.get("podIPs") or []
    if first and (not listed or listed[0].get("ip") != first):
        status["podIPs"] = [{"ip": first}]
    elif listed and not first and (address := listed[0].get("ip")):
        status["podIP"] = address


def default_pod_template(template: Json) -> None:
    """Fill in the defaults of the template in a controller."""
    default_pod_spec(template.setdefault("spec", {}))
    _drop_old_annotations(template.get("metadata") or {})


def _drop_old_annotations(meta: Json) -> None:
    """Drop what init containers were before they had a field."""
    annotations = meta.get("annotations") or {}
    for key in _OLD_ANNOTATIONS & annotations.keys():
        del annotations[key]


def default_pod_spec(spec: Json) -> None:
    """Fill in the defaults of any pod specification."""
    for field, value in _SPEC_DEFAULTS:
        if not spec.get(field):
            spec[field] = value
    if spec.get("securityContext") is None:
        spec["securityContext"] = {}
    if spec.get("terminationGracePeriodSeconds") is None:
        spec["terminationGracePeriodSeconds"] = 30
    if account := spec.get("serviceAccountName") or spec.get("serviceAccount"):
        # The older of the two fields is printed next to the newer one.
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for volume in spec.get("volumes") or []:
        _default_volume(volume)
    for field in CONTAINER_LISTS:
        for container in spec.get(field) or []:
            _default_container(container)
    round_to_milli(spec.get("overhead"))
    _round_requirements(spec)


def _round_requirements(owner: Json) -> None:
    requirements = owner.get("resources") or {}
    round_to_milli(requirements.get("limits"))
    round_to_milli(requirements.get("requests"))


_CONTAINER_DEFAULTS: Final = (
    ("terminationMessagePath", "/dev/termination-log"),
    ("terminationMessagePolicy", "File"),
)


def _default_container(container: Json) -> None:
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = default_pull_policy(container.get("image") or "")
    for field, value in _CONTAINER_DEFAULTS:
        container[field] = container.get(field) or value
    if container.get("resources") is None:
        container["resources"] = {}
    _round_requirements(container)
    for port in container.get("ports") or []:
        port["protocol"] = port.get("protocol") or "TCP"
    for variable in container.get("env") or []:
        if source := variable.get("valueFrom"):
            _default_reference(source)
    for kind in PROBES:
        if (probe := container.get(kind)) is not None:
            _default_probe(probe)
    lifecycle = container.get("lifecycle") or {}
    for hook in ("postStart", "preStop"):
        _default_http_get(lifecycle.get(hook) or {})


def _default_probe(probe: Json) -> None:
    for field, value in _PROBE_DEFAULTS:
        probe[field] = probe.get(field) or value
    _default_http_get(probe)
    if (grpc := probe.get("grpc")) is not None and grpc.get("service") is None:
        grpc["service"] = ""


def _default_http_get(handler: Json) -> None:
    if (action := handler.get("httpGet")) is not None:
        action["path"] = action.get("path") or "/"
        action["scheme"] = action.get("scheme") or "HTTP"


def _default_reference(source: Json) -> None:
    if (ref := source.get("fieldRef")) is not None:
        ref["apiVersion"] = ref.get("apiVersion") or "v1"
    if (ref := source.get("resourceFieldRef")) is not None:
        ref["divisor"] = ref.get("divisor") or "0"
    if (ref := source.get("fileKeyRef")) is not None and ref.get("optional") is None:
        ref["optional"] = False


def _default_volume(volume: Json) -> None:
    if all(field == "name" or value is None for field, value in volume.items()):
        volume["emptyDir"] = {}
    for kind in ("secret", "configMap", "downwardAPI", "projected"):
        if (source := volume.get(kind)) is not None and source.get("defaultMode") is None:
            source["defaultMode"] = _READABLE
    if (source := volume.get("hostPath")) is not None and source.get("type") is None:
        source["type"] = ""
    for file in (volume.get("downwardAPI") or {}).get("items") or []:
        _default_reference(file)
    for projection in (volume.get("projected") or {}).get("sources") or []:
        _default_projection(projection)
    if (image := volume.get("image")) is not None and not image.get("pullPolicy"):
        image["pullPolicy"] = default_pull_policy(image.get("reference") or "")
    if template := (volume.get("ephemeral") or {}).get("volumeClaimTemplate"):
        default_claim_spec(template.setdefault("spec", {}))
    default_network_source(volume)


def _default_projection(projection: Json) -> None:
    for file in (projection.get("downwardAPI") or {}).get("items") or []:
        _default_reference(file)
    token = projection.get("serviceAccountToken")
    if token is not None and token.get("expirationSeconds") is None:
        token["expirationSeconds"] = _HOUR


_NETWORK_DEFAULTS: Final[dict[str, Json]] = {
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "azureDisk": {
        "cachingMode": "ReadWrite",
        "fsType": "ext4",
        "readOnly": False,
        "kind": "Shared",
    },
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}


def default_network_source(volume: Json) -> None:
    """Fill in the source of a volume or persistent volume on a storage system."""
    for kind, values in _NETWORK_DEFAULTS.items():
        if (source := volume.get(kind)) is not None:
            for field, value in values.items():
                if source.get(field) in {None, ""}:
                    source[field] = value


_PART: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST_PART: Final = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_HOST: Final = rf"(?:{_HOST_PART}(?:\.{_HOST_PART})*|\[[0-9a-fA-F:]+\])(?::[0-9]+)?"
_TAG: Final = r"\w[\w.-]{0,127}"
_DIGEST: Final = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
_match_image: Final = re.compile(
    rf"(?P<host>{_HOST}/)?(?P<path>{_PART}(?:/{_PART})*)(?::(?P<tag>{_TAG}))?(?:@(?P<digest>{_DIGEST}))?",
    re.ASCII,
).fullmatch
_match_identifier: Final = re.compile(r"[a-f0-9]{64}").fullmatch
_MAX_NAME: Final = 255


@lru_cache(maxsize=4096)
def is_latest(image: str) -> bool:
    """Tell whether *image* has the tag ``latest`` or neither tag nor digest.

    A name that cannot be parsed has no tag at all.
    """
    match = _match_image(image)
    if match is None or _match_identifier(image):
        return False
    host = (match["host"] or "").rstrip("/")
    if host and not _is_host(host):
        return False
    if len(host) + len(match["path"]) > _MAX_NAME:
        return False
    return match["tag"] == "latest" or not (match["tag"] or match["digest"])


def _is_host(text: str) -> bool:
    """Tell whether the first part of a name is a registry, not a directory of the default one."""
    return "." in text or ":" in text or text == "localhost" or text.lower() != text


def default_pull_policy(image: str) -> str:
    """Return when *image* is pulled if nothing is said."""
    return "Always" if is_latest(image) else "IfNotPresent"


def validate_template(template: Json, path: str) -> list[FieldError]:
    """Check the template of a pod."""
    meta, spec = template.get("metadata") or {}, template.get("spec") or {}
    pod = {"metadata": meta, "spec": spec}
    errors = validate_labels(meta.get("labels"), f"{path}.labels")
    errors += validate_annotations(meta.get("annotations"), f"{path}.annotations")
    errors += validate_pod_annotations(pod, f"{path}.annotations")
    errors += validate_pod_spec(spec, f"{path}.spec")
    errors += validate_profile_annotations(pod, f"{path}.spec")
    if spec.get("ephemeralContainers"):
        detail = "ephemeral containers not allowed in pod template"
        errors.append(forbidden(f"{path}.spec.ephemeralContainers", detail))
    return errors


def validate_selector(selector: Json | None, kind: str, path: str) -> list[FieldError]:
    """Check that a controller of *kind* says which pods are its own."""
    if selector is None:
        return [required(path)]
    errors = validate_label_selector(selector, path)
    if is_empty(selector):
        errors.append(invalid(path, selector, f"empty selector is invalid for {kind}"))
    return errors


def validate_match(selector: Json | None, template: Json, path: str) -> list[FieldError]:
    """Check that pods made of *template* are selected by *selector*."""
    labels = (template.get("metadata") or {}).get("labels")
    if selector is not None and (is_empty(selector) or matches(selector, labels)):
        return []
    detail = "`selector` does not match template `labels`"
    return [invalid(f"{path}.metadata.labels", labels or None, detail)]


def validate_endless(template: Json, kind: str, path: str) -> list[FieldError]:
    """Check that pods of a controller of *kind* are meant to run forever."""
    spec = template.get("spec") or {}
    errors = []
    policy = spec.get("restartPolicy") or ""
    if policy != "Always":
        errors.append(not_supported(f"{path}.spec.restartPolicy", policy, ("Always",)))
    if spec.get("activeDeadlineSeconds") is not None:
        detail = f"activeDeadlineSeconds in {kind} is not Supported"
        errors.append(forbidden(f"{path}.spec.activeDeadlineSeconds", detail))
    return errors


def validate_replicated(spec: Json, path: str) -> list[FieldError]:
    """Check selector and template of a Deployment or ReplicaSet."""
    selector, template = spec.get("selector"), spec.get("template") or {}
    errors = validate_selector(selector, "deployment", f"{path}.selector")
    if not is_convertible(selector):
        return [*errors, invalid(f"{path}.selector", selector, "invalid label selector")]
    place = f"{path}.template"
    errors += validate_match(selector, template, place)
    errors += validate_template(template, place)
    return errors + validate_endless(template, "ReplicaSet", place)


def template_warnings(obj: Json, old: Json | None, path: str) -> list[str]:
    """Return the warnings of the template at *path* of an object that is new or has changed."""
    if old is not None and obj["metadata"].get("generation") == old["metadata"].get("generation"):
        return []
    template = (obj.get("spec") or obj).get("template") or {}
    return pod_warnings(template.get("spec") or {}, template.get("metadata") or {}, path)


def warn_of_template(obj: Json, old: Json | None) -> list[str]:
    """Return the warnings of the template of a controller."""
    return template_warnings(obj, old, "spec.template")
