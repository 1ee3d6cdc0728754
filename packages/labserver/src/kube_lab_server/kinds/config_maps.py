"""ConfigMaps, Secrets and ServiceAccounts."""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING, Final

from kube_lab_server.kinds.kind_rules import KindRules
from kube_lab_server.kinds.table_columns import (
    AGE,
    AGED_TABLE,
    NAME,
    Column,
    Table,
    age_of,
    name_of,
)
from kube_lab_server.schema.metadata_checks import immutable
from numakube.api.field_errors import FieldError, forbidden, invalid, invalids, required, too_long
from numakube.values import names

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from kube_lab_server.kind_names import Json, JsonValue


def _config_map(obj: Json, now: datetime) -> list[JsonValue]:
    count = len(obj.get("data") or {}) + len(obj.get("binaryData") or {})
    return [name_of(obj), count, age_of(obj, now)]


def _secret(obj: Json, now: datetime) -> list[JsonValue]:
    return [name_of(obj), obj.get("type") or "", len(obj.get("data") or {}), age_of(obj, now)]


_DATA: Final = Column("Data", "How many entries there are.")


CONFIG_MAP_TABLE: Final = Table((NAME, _DATA, AGE), _config_map)


SECRET_TABLE: Final = Table((NAME, Column("Type", "What the secret is for."), _DATA, AGE), _secret)


_MAX_BYTES: Final = 1024 * 1024
_FROZEN: Final = "field is immutable when `immutable` is set"
_REDACTED: Final = "<secret contents redacted>"
_ACCOUNT: Final = "kubernetes.io/service-account.name"


def _check_map(config: Json) -> list[FieldError]:
    data, binary = config.get("data") or {}, config.get("binaryData") or {}
    errors: list[FieldError] = []
    for key in sorted(data):
        path = f"data[{key}]"
        errors += invalids(path, key, names.config_key(key))
        if key in binary:
            errors.append(invalid(path, key, "duplicate of key present in binaryData"))
    for key in sorted(binary):
        errors += invalids(f"binaryData[{key}]", key, names.config_key(key))
    size = sum(len(value.encode("utf-8", "surrogatepass")) for value in data.values())
    if size + _decoded_size(binary) > _MAX_BYTES:
        errors.append(too_long("[]", _MAX_BYTES))
    return errors


def _decoded_size(data: dict[str, str]) -> int:
    return sum(len(text) * 3 // 4 - text.count("=") for text in data.values())


def _check_frozen(*fields: str) -> Callable[[Json, Json], list[FieldError]]:
    def check(new: Json, old: Json) -> list[FieldError]:
        if not old.get("immutable"):
            return []
        errors = [] if new.get("immutable") else [forbidden("immutable", _FROZEN)]
        return errors + [
            forbidden(field, _FROZEN)
            for field in fields
            if (new.get(field) or {}) != (old.get(field) or {})
        ]

    return check


CONFIG_MAP: Final = KindRules(
    table=CONFIG_MAP_TABLE,
    check=_check_map,
    check_change=_check_frozen("data", "binaryData"),
    change_first=True,
    rechecks_name=True,
)


def _default_secret(secret: Json) -> None:
    secret["type"] = secret.get("type") or "Opaque"
    if texts := secret.pop("stringData", None):
        encoded = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
        secret["data"] = (secret.get("data") or {}) | encoded


def _check_secret(secret: Json) -> list[FieldError]:
    data = secret.get("data") or {}
    errors: list[FieldError] = []
    for key in sorted(data):
        errors += invalids(f"data[{key}]", key, names.config_key(key))
    if _decoded_size(data) > _MAX_BYTES:
        errors.append(too_long("data", _MAX_BYTES))
    return errors + _check_type(secret, data)


def _check_type(secret: Json, data: dict[str, str]) -> list[FieldError]:
    match secret.get("type"):
        case "kubernetes.io/service-account-token":
            annotations = secret["metadata"].get("annotations") or {}
            missing = required(f"metadata.annotations[{_ACCOUNT}]")
            return [] if annotations.get(_ACCOUNT) else [missing]
        case "kubernetes.io/dockercfg":
            return _check_json(data, ".dockercfg")
        case "kubernetes.io/dockerconfigjson":
            return _check_json(data, ".dockerconfigjson")
        case "kubernetes.io/basic-auth":
            keys = ("username", "password")
            return [] if data.keys() & set(keys) else [required(f"data[{k}]") for k in keys]
        case "kubernetes.io/ssh-auth":
            good = data.get("ssh-privatekey")
            return [] if good else [required("data[ssh-privatekey]")]
        case "kubernetes.io/tls":
            return [required(f"data[{k}]") for k in ("tls.crt", "tls.key") if k not in data]
        case _:
            return []


def _check_json(data: dict[str, str], key: str) -> list[FieldError]:
    path = f"data[{key}]"
    if key not in data:
        return [required(path)]
    wrong = _json_problem(base64.b64decode(data[key]))
    return [invalid(path, _REDACTED, wrong)] if wrong else []


_is_pem: Final = re.compile(rb"^-----BEGIN ", re.MULTILINE).search
_MOUNTABLE: Final = "kubernetes.io/enforce-mountable-secrets"
_LITERALS: Final = ("null", "true", "false")
_GO_NAMES: Final = {list: "array", str: "string", bool: "bool", int: "number", float: "number"}


def _json_problem(content: bytes) -> str:
    """Return why *content* is no JSON object, in the words of Go's decoder."""
    text = content.decode("utf-8", "replace")
    try:
        value = json.loads(text)
    except ValueError:
        return _syntax_problem(text)
    if isinstance(value, dict) or value is None:
        return ""
    kind = _GO_NAMES[type(value)]
    return f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"


def _syntax_problem(text: str) -> str:
    stripped = text.lstrip(" \t\r\n")
    if not stripped:
        return "unexpected end of JSON input"
    for literal in _LITERALS:
        if stripped[0] == literal[0]:
            for position, expected in enumerate(literal[1:], 1):
                found = stripped[position : position + 1]
                if not found:
                    return "unexpected end of JSON input"
                if found != expected:
                    where = f"in literal {literal} (expecting '{expected}')"
                    return f"invalid character '{found}' {where}"
    if stripped[0] in '{["-0123456789':
        return "unexpected end of JSON input"
    return f"invalid character '{stripped[0]}' looking for beginning of value"


def _on_secret_update(new: Json, old: Json) -> None:
    new["type"] = new.get("type") or old.get("type")


def _check_secret_change(new: Json, old: Json) -> list[FieldError]:
    errors = immutable(new.get("type") or "", old.get("type") or "", "type")
    return errors + _check_frozen("data")(new, old)


def _warn_secret(secret: Json, old: Json | None) -> list[str]:
    """Say of what cannot be a certificate or its key that it is not; more is not looked at."""
    del old
    if secret.get("type") != "kubernetes.io/tls":
        return []
    data = secret.get("data") or {}
    for key, place in (("tls.crt", "certificate"), ("tls.key", "key")):
        if not _is_pem(base64.b64decode(data.get(key) or "")):
            return [f"tls: failed to find any PEM data in {place} input"]
    return []


SECRET: Final = KindRules(
    table=SECRET_TABLE,
    warn=_warn_secret,
    default=_default_secret,
    on_update=_on_secret_update,
    check=_check_secret,
    check_change=_check_secret_change,
    change_first=True,
    rechecks_name=True,
)


def _clean_references(account: Json) -> None:
    """Keep nothing but the names of secrets."""
    if secrets := account.get("secrets"):
        account["secrets"] = [{"name": ref["name"]} if ref.get("name") else {} for ref in secrets]


def _clean_on_update(new: Json, old: Json) -> None:
    del old
    _clean_references(new)


def _warn_account(account: Json, old: Json | None) -> list[str]:
    def is_limited(obj: Json | None) -> bool:
        return _MOUNTABLE in (((obj or {}).get("metadata") or {}).get("annotations") or {})

    if is_limited(old) or not is_limited(account):
        return []
    why = "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
    return [f"metadata.annotations[{_MOUNTABLE}]: {why}"]


SERVICE_ACCOUNT: Final = KindRules(
    table=AGED_TABLE,
    on_create=_clean_references,
    on_update=_clean_on_update,
    rechecks_name=True,
    warn=_warn_account,
)
