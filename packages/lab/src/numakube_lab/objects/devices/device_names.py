"""The names of devices, of their pools and of their attributes."""

from __future__ import annotations

from typing import Final

from numakube.api.field_errors import FieldError, invalid, invalids, required, too_long
from numakube.values import names
from numakube_lab.objects.pod.volume_sources import validate_driver_name

_MAX_POOL: Final = 253
_MAX_IDENTIFIER: Final = 32


def validate_device_name(name: str, path: str) -> list[FieldError]:
    """Check the name of a device."""
    return invalids(path, name, names.dns_label(name))


def validate_pool_name(name: str, path: str) -> list[FieldError]:
    """Check the name of a pool of devices: subdomains with slashes between them."""
    if not name:
        return [required(path)]
    errors = [too_long(path, _MAX_POOL)] if len(name.encode()) > _MAX_POOL else []
    for part in name.split("/"):
        errors += invalids(path, part, names.dns_subdomain(part))
    return errors


def validate_attribute_name(name: str, path: str) -> list[FieldError]:
    """Check the name of an attribute or a capacity, with or without a domain."""
    domain, slash, identifier = name.partition("/")
    if not slash:
        return _validate_identifier(name, path)
    if "/" in identifier:
        return []
    errors = [] if domain else [invalid(path, "", "the domain must not be empty")]
    if domain:
        errors += validate_driver_name(domain, path)
    if not identifier:
        return [*errors, invalid(path, "", "the name must not be empty")]
    return errors + _validate_identifier(identifier, path)


def validate_full_attribute_name(name: str, path: str) -> list[FieldError]:
    """Check the name of an attribute that has to have a domain."""
    errors = validate_attribute_name(name, path)
    if "/" not in name:
        detail = "a fully qualified name must be a domain and a name separated by a slash"
        errors.append(invalid(path, name, detail))
    return errors


def _validate_identifier(name: str, path: str) -> list[FieldError]:
    errors = [too_long(path, _MAX_IDENTIFIER)] if len(name.encode()) > _MAX_IDENTIFIER else []
    return errors + invalids(path, name, names.c_identifier(name))
