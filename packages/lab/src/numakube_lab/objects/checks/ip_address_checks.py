"""IP addresses and CIDR blocks as Kubernetes reads them in its older fields.

Those fields take what Go's parser took before 1.17: leading zeros in an IPv4 octet are decimal, and
an IPv4 address may be written as IPv6 (``::ffff:10.0.0.1``). kube-apiserver 1.35 accepts both and
warns; newer fields (EndpointSlice) want the canonical form.
"""

from __future__ import annotations

import re
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import TYPE_CHECKING, Final, TypeAlias

from numakube.api.field_errors import FieldError, invalid
from numakube.values.gotext import go_quote

if TYPE_CHECKING:
    from collections.abc import Collection

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

_LEADING_ZEROS: Final = re.compile(r"(?<![0-9a-fA-F:])0+(?=[0-9])")
_IP_WRONG: Final = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_CIDR_WRONG: Final = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


def parse_address(text: str) -> Address | None:
    """Return the address that *text* stands for; one written as IPv6 but mapped is IPv4."""
    if "%" in text:
        return None
    plain = _LEADING_ZEROS.sub("", text) if "." in text else text
    try:
        address = ip_address(plain)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def parse_network(text: str) -> tuple[Address, Network] | None:
    """Return the address in CIDR *text* and the block it belongs to."""
    head, slash, length = text.partition("/")
    address = parse_address(head)
    if address is None or not slash or not (length.isascii() and length.isdigit()):
        return None
    bits = int(length)
    if isinstance(address, IPv4Address) and ":" in head:
        bits -= 96
    if not 0 <= bits <= address.max_prefixlen:
        return None
    return address, ip_network(f"{address}/{bits}", strict=False)


def is_strict(text: str) -> bool:
    """Tell whether *text* is an address without leading zeros that is not a mapped one."""
    try:
        address = ip_address(text)
    except ValueError:
        return False
    return isinstance(address, IPv4Address) or address.ipv4_mapped is None


def check_address(text: str, path: str, known: Collection[str] = ()) -> list[FieldError]:
    """Check an address in an older field; those in *known* were accepted before."""
    if text in known or parse_address(text) is not None:
        return []
    return [invalid(path, text, _IP_WRONG)]


def check_network(text: str, path: str, known: Collection[str] = ()) -> list[FieldError]:
    """Check a CIDR block in an older field; those in *known* were accepted before."""
    if text in known or parse_network(text) is not None:
        return []
    return [invalid(path, text, _CIDR_WRONG)]


def check_canonical_address(text: str, path: str) -> list[FieldError]:
    """Check an address in a field that wants the canonical form."""
    address = parse_address(text)
    if address is None:
        return [invalid(path, text, _IP_WRONG)]
    errors = []
    if "." in text and _LEADING_ZEROS.search(text):
        errors.append(invalid(path, text, "must not have leading 0s"))
    if isinstance(address, IPv4Address) and ":" in text:
        errors.append(invalid(path, text, "must not be an IPv4-mapped IPv6 address"))
    if not errors and text != str(address):
        detail = f"must be in canonical form ({go_quote(str(address))})"
        errors.append(invalid(path, text, detail))
    return errors


def address_warnings(text: str, path: str) -> list[str]:
    """Warn of an address that an older field takes although it is not written well."""
    address = parse_address(text)
    if address is None:
        return []
    shown, better = go_quote(text), go_quote(str(address))
    if not is_strict(text):
        future = "will be considered invalid in a future Kubernetes release"
        return [f"{path}: non-standard IP address {shown} {future}: use {better}"]
    if isinstance(address, IPv6Address) and str(address) != text:
        return [f"{path}: IPv6 address {shown} should be in RFC 5952 canonical format ({better})"]
    return []


def network_warnings(text: str, path: str) -> list[str]:
    """Warn of a CIDR block that an older field takes although it is not written well."""
    parsed = parse_network(text)
    if parsed is None:
        return []
    address, network = parsed
    head = text.partition("/")[0]
    shown, better = go_quote(text), go_quote(str(network))
    warnings = []
    if address != network.network_address:
        single = go_quote(f"{address}/{address.max_prefixlen}")
        warnings.append(
            f"{path}: CIDR value {shown} is ambiguous in this context "
            f"(should be {better} or {single}?)"
        )
    if not is_strict(head):
        future = "will be considered invalid in a future Kubernetes release"
        warnings.append(f"{path}: non-standard CIDR value {shown} {future}: use {better}")
    if not warnings and isinstance(address, IPv6Address) and str(network) != text:
        warnings.append(
            f"{path}: IPv6 CIDR value {shown} should be in RFC 5952 canonical format ({better})"
        )
    return warnings
