"""Configurations of admission webhooks, and admission policies.

Rules and ways to reach a webhook are checked; CEL expressions are not compiled, and the server
of the lab calls no webhooks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from numakube.api.field_errors import (
    FieldError,
    duplicate,
    invalid,
    invalids,
    not_supported,
    required,
)
from numakube.values import names
from numakube_lab.objects.checks.kind_rules import STATUS, KindRules
from numakube_lab.objects.checks.selector_checks import validate_label_selector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numakube_lab.kinds import Json

_MAX_TIMEOUT: Final = 30
_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES: Final = ("*", "Cluster", "Namespaced")
_SIDE_EFFECTS: Final = ("None", "NoneOnDryRun")
_VERSIONS: Final = ("v1", "v1beta1")
_FORM: Final = "; desired format: https://host[/path]"
_CHOICES: Final = {
    "failurePolicy": ("Fail", "Ignore"),
    "matchPolicy": ("Equivalent", "Exact"),
}


def _default_hook(hook: Json) -> None:
    for field, value in (("failurePolicy", "Fail"), ("timeoutSeconds", 10)):
        if hook.get(field) is None:
            hook[field] = value
    _default_match(hook)
    _default_rules(hook.get("rules"))
    service = (hook.get("clientConfig") or {}).get("service")
    if service is not None and service.get("port") is None:
        service["port"] = 443


def _default_match(match: Json) -> None:
    if match.get("matchPolicy") is None:
        match["matchPolicy"] = "Equivalent"
    for field in ("namespaceSelector", "objectSelector"):
        if match.get(field) is None:
            match[field] = {}


def _default_rules(rules: Sequence[Json] | None) -> None:
    for rule in rules or ():
        if rule.get("scope") is None:
            rule["scope"] = "*"


def _default_validating(configuration: Json) -> None:
    for hook in configuration.get("webhooks") or []:
        _default_hook(hook)


def _default_mutating(configuration: Json) -> None:
    for hook in configuration.get("webhooks") or []:
        _default_hook(hook)
        if hook.get("reinvocationPolicy") is None:
            hook["reinvocationPolicy"] = "Never"


def _check(configuration: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, hook in enumerate(configuration.get("webhooks") or []):
        path, name = f"webhooks[{index}]", hook.get("name") or ""
        errors += _check_hook(hook, path)
        versions = hook.get("admissionReviewVersions") or []
        errors += _check_versions(versions, f"{path}.admissionReviewVersions")
        if name and name in seen:
            errors.append(duplicate(f"{path}.name", name))
        seen.add(name)
    return errors


def _check_hook(hook: Json, path: str) -> list[FieldError]:
    errors = _check_full_name(hook.get("name") or "", f"{path}.name")
    for index, rule in enumerate(hook.get("rules") or []):
        errors += _check_rule(rule, f"{path}.rules[{index}]")
    for field, choices in _CHOICES.items():
        if (choice := hook.get(field)) is not None and choice not in choices:
            errors.append(not_supported(f"{path}.{field}", choice, choices))
    errors += _check_side_effects(hook.get("sideEffects"), f"{path}.sideEffects")
    timeout = hook.get("timeoutSeconds")
    if timeout is not None and not 1 <= timeout <= _MAX_TIMEOUT:
        detail = f"the timeout value must be between 1 and {_MAX_TIMEOUT} seconds"
        errors.append(invalid(f"{path}.timeoutSeconds", timeout, detail))
    for field in ("namespaceSelector", "objectSelector"):
        errors += validate_label_selector(hook.get(field), f"{path}.{field}")
    again = hook.get("reinvocationPolicy")
    if again is not None and again not in {"IfNeeded", "Never"}:
        errors.append(not_supported(f"{path}.reinvocationPolicy", again, ("IfNeeded", "Never")))
    return errors + _check_client(hook.get("clientConfig") or {}, f"{path}.clientConfig")


def _check_full_name(name: str, path: str) -> list[FieldError]:
    if not name:
        return [required(path)]
    if wrong := invalids(path, name, names.dns_subdomain(name)):
        return wrong
    if len(name.split(".")) < len(("name", "domain", "top")):
        detail = "should be a domain with at least three segments separated by dots"
        return [invalid(path, name, detail)]
    return []


def _check_side_effects(choice: str | None, path: str) -> list[FieldError]:
    if choice is None:
        return [required(path, f"must specify one of {', '.join(_SIDE_EFFECTS)}")]
    return [] if choice in _SIDE_EFFECTS else [not_supported(path, choice, _SIDE_EFFECTS)]


def _check_rule(rule: Json, path: str) -> list[FieldError]:
    operations = rule.get("operations") or []
    errors = _check_wildcard(operations, "operations", f"{path}.operations")
    errors += [
        not_supported(f"{path}.operations[{index}]", operation, _OPERATIONS)
        for index, operation in enumerate(operations)
        if operation not in _OPERATIONS
    ]
    errors += _check_wildcard(rule.get("apiGroups") or [], "API groups", f"{path}.apiGroups")
    versions = rule.get("apiVersions") or []
    errors += _check_wildcard(versions, "API versions", f"{path}.apiVersions")
    errors += _check_filled(versions, f"{path}.apiVersions")
    errors += _check_resources(rule.get("resources") or [], f"{path}.resources")
    scope = rule.get("scope")
    if scope is not None and scope not in _SCOPES:
        errors.append(not_supported(f"{path}.scope", scope, _SCOPES))
    return errors


def _check_wildcard(items: Sequence[str], what: str, path: str) -> list[FieldError]:
    if not items:
        return [required(path)]
    if len(items) > 1 and "*" in items:
        return [invalid(path, items, f"if '*' is present, must not specify other {what}")]
    return []


def _check_filled(items: Sequence[str], path: str) -> list[FieldError]:
    return [required(f"{path}[{index}]") for index, item in enumerate(items) if not item]


def _check_resources(resources: Sequence[str], path: str) -> list[FieldError]:
    errors = [] if resources else [required(path)]
    whole: set[str] = set()
    everywhere: set[str] = set()
    for index, text in enumerate(resources):
        place = f"{path}[{index}]"
        resource, slash, part = text.partition("/")
        if not text:
            errors.append(required(place))
        if not slash:
            continue
        for covered, star in (
            (resource in whole, f"{resource}/*"),
            (part in everywhere, f"*/{part}"),
        ):
            if covered:
                detail = f"if '{star}' is present, must not specify {text}"
                errors.append(invalid(place, text, detail))
        if part == "*":
            whole.add(resource)
        if resource == "*":
            everywhere.add(part)
    if len(resources) > 1 and "*/*" in resources:
        detail = "if '*/*' is present, must not specify other resources"
        errors.append(invalid(path, resources, detail))
    plain = [text for text in resources if text and "/" not in text]
    if "*" in plain and plain[-1] != "*":
        detail = "if '*' is present, must not specify other resources without subresources"
        errors.append(invalid(path, resources, detail))
    return errors


def _check_versions(versions: Sequence[str], path: str) -> list[FieldError]:
    if not versions:
        return [required(path, f"must specify one of {', '.join(_VERSIONS)}")]
    errors = []
    for index, version in enumerate(versions):
        if version in versions[:index]:
            errors.append(invalid(f"{path}[{index}]", version, "duplicate version"))
        else:
            errors += invalids(f"{path}[{index}]", version, names.dns_1035_label(version))
    if not set(versions) & set(_VERSIONS):
        detail = f"must include at least one of {', '.join(_VERSIONS)}"
        errors.append(invalid(path, versions, detail))
    return errors


def _check_client(config: Json, path: str) -> list[FieldError]:
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        return [required(path, "exactly one of url or service is required")]
    if url is not None:
        return _check_url(url, f"{path}.url")
    return _check_service(service or {}, f"{path}.service")


def _check_url(text: str, path: str) -> list[FieldError]:
    url = urlsplit(text)
    user, at, host = url.netloc.rpartition("@")
    errors = []
    if url.scheme != "https":
        detail = f"'https' is the only allowed URL scheme{_FORM}"
        errors.append(invalid(path, url.scheme, detail))
    if not host:
        errors.append(invalid(path, host, f"host must be specified{_FORM}"))
    if at:
        errors.append(invalid(path, user, "user information is not permitted in the URL"))
    if url.fragment:
        errors.append(invalid(path, url.fragment, "fragments are not permitted in the URL"))
    if url.query:
        errors.append(invalid(path, url.query, "query parameters are not permitted in the URL"))
    return errors


def _check_service(service: Json, path: str) -> list[FieldError]:
    # The real server takes name and namespace of each other: the errors are the wrong way round.
    errors = [
        required(f"{path}.{shown}")
        for shown, field in (("name", "namespace"), ("namespace", "name"))
        if not service.get(field)
    ]
    port = service.get("port") or 0
    if wrong := names.port_number(port):
        errors.append(invalid(f"{path}.port", port, f"port is not valid: {', '.join(wrong)}"))
    return errors + _check_path(service.get("path") or "", f"{path}.path")


def _check_path(text: str, path: str) -> list[FieldError]:
    if text in {"", "/"}:
        return []
    if text == "//":
        return [invalid(path, text, "segment[0] may not be empty")]
    errors = [] if text.startswith("/") else [invalid(path, text, "must start with a '/'")]
    for index, step in enumerate(text[1:].removesuffix("/").split("/")):
        if not step:
            errors.append(invalid(path, text, f"segment[{index}] may not be empty"))
        else:
            wrong = (f"segment[{index}]: {reason}" for reason in names.dns_subdomain(step))
            errors += invalids(path, text, wrong)
    return errors


def _default_policy(policy: Json) -> None:
    spec = policy.setdefault("spec", {})
    if spec.get("failurePolicy") is None:
        spec["failurePolicy"] = "Fail"
    _default_resources(spec.get("matchConstraints"))


def _default_policy_binding(binding: Json) -> None:
    _default_resources((binding.get("spec") or {}).get("matchResources"))


def _default_resources(match: Json | None) -> None:
    if match is None:
        return
    _default_match(match)
    for field in ("resourceRules", "excludeResourceRules"):
        _default_rules(match.get(field))


def _check_policy_binding(binding: Json) -> list[FieldError]:
    spec = binding.get("spec") or {}
    name = spec.get("policyName") or ""
    path = "spec.policyName"
    errors = invalids(path, name, names.dns_subdomain(name)) if name else [required(path)]
    return (
        errors if spec.get("validationActions") else [*errors, required("spec.validationActions")]
    )


VALIDATING_WEBHOOKS: Final = KindRules(
    namespaced=False,
    knows_finalizers=False,
    counted=("webhooks",),
    default=_default_validating,
    check=_check,
    rechecks_name=True,
)
MUTATING_WEBHOOKS: Final = KindRules(
    namespaced=False,
    knows_finalizers=False,
    counted=("webhooks",),
    default=_default_mutating,
    check=_check,
    rechecks_name=True,
)
VALIDATING_POLICY: Final = KindRules(
    namespaced=False,
    knows_finalizers=False,
    counted=("spec",),
    parts=STATUS,
    default=_default_policy,
)
VALIDATING_POLICY_BINDING: Final = KindRules(
    namespaced=False,
    knows_finalizers=False,
    counted=("spec",),
    default=_default_policy_binding,
    check=_check_policy_binding,
)
