"""Which HTTP proxy the environment asks for, as kubectl understands it.

``HTTPS_PROXY`` or ``HTTP_PROXY`` by the server's scheme, unless ``NO_PROXY`` lists the host: as a
name (which covers its subdomains), an address, a network in CIDR form, or ``*``. Loopback is never
reached through a proxy.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping


def proxy_from_environment(env: Mapping[str, str], server: str) -> str:
    """Return the URL of the proxy through which to reach *server*; empty for none."""
    parts = urlsplit(server)
    host = parts.hostname or ""
    name = f"{parts.scheme}_proxy"
    proxy = env.get(name.upper()) or env.get(name) or ""
    if not proxy or is_loopback(host):
        return ""
    excluded = env.get("NO_PROXY") or env.get("no_proxy") or ""
    if any(_covers(each.strip(), host, parts.port) for each in excluded.split(",") if each.strip()):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def is_loopback(host: str) -> bool:
    """Tell whether *host* is this machine itself."""
    address = _address(host)
    return host == "localhost" if address is None else address.is_loopback


def _covers(pattern: str, host: str, port: int | None) -> bool:
    if pattern == "*":
        return True
    address = _address(host)
    if "/" in pattern and address is not None:
        return _in_network(address, pattern)
    name, colon, wanted_port = pattern.rpartition(":")
    if colon and wanted_port.isdigit() and _address(pattern) is None:
        if int(wanted_port) != port:
            return False
        pattern = name.strip("[]")
    if address is not None:
        return _address(pattern) == address
    return _covers_name(pattern.lower(), host.lower())


def _covers_name(pattern: str, host: str) -> bool:
    """Tell whether *host* is *pattern* or below it; ``.name`` and ``*.name`` mean only below."""
    if host.endswith(f".{pattern.removeprefix('*').removeprefix('.')}"):
        return True
    return host == pattern


def _in_network(address: ipaddress.IPv4Address | ipaddress.IPv6Address, network: str) -> bool:
    try:
        return address in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return None
