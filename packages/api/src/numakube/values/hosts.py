"""Hosts as they stand in addresses of servers: names, and IP addresses with or without brackets."""

from __future__ import annotations

import ipaddress


def address_of(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the IP address that *host* is; None if it is a name."""
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None


def is_loopback(host: str) -> bool:
    """Tell whether *host* is this machine itself."""
    address = address_of(host)
    return host == "localhost" if address is None else address.is_loopback
