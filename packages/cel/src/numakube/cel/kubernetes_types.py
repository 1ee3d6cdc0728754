"""Kubernetes' types in expressions: quantities, versions, IP addresses, URLs, named formats."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import math
import re
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, quote, urlsplit

from numakube.cel.cel_errors import EvaluationError
from numakube.cel.values import INT_RANGE, NONE, CelValue, Optional, register_type
from numakube.errors import InvalidValue
from numakube.values import names
from numakube.values.gotext import go_quote
from numakube.values.quantity import Format, Quantity, parse_quantity
from numakube.values.semver import Semver, normalized, parse_semver
from numakube.values.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Callable
    from urllib.parse import SplitResult


Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Network:
    """An address with the length of its prefix, as it was written."""

    address: Address
    bits: int

    @property
    def masked(self) -> Network:
        """The network itself, without the part of the address that is not in the prefix."""
        whole = ipaddress.ip_network((self.address, self.bits), strict=False)
        return Network(whole.network_address, self.bits)

    def contains(self, address: Address) -> bool:
        """Tell whether *address* is in it."""
        return (
            address.version == self.address.version
            and Network(address, self.bits).masked == self.masked
        )

    def __str__(self) -> str:
        return f"{self.address}/{self.bits}"


@dataclass(frozen=True, slots=True)
class Url:
    """An absolute URL."""

    text: str

    @property
    def parts(self) -> SplitResult:
        """Its parts."""
        return urlsplit(self.text)


register_type(Semver, "kubernetes.Semver")
register_type(Url, "kubernetes.URL")
register_type(Network, "net.CIDR")
register_type(ipaddress.IPv4Address, "net.IP")
register_type(ipaddress.IPv6Address, "net.IP")


def attempted(act: Callable[..., Any]) -> Callable[..., bool]:
    """Return what tells whether *act* succeeds."""

    def succeeds(*args: CelValue) -> bool:
        try:
            act(*args)
        except EvaluationError:
            return False
        return True

    return succeeds


def to_quantity(text: str) -> Quantity:
    """``quantity(text)``."""
    try:
        return parse_quantity(text)
    except InvalidValue as error:
        raise EvaluationError(error.reason or str(error)) from None


def quantity_sum(one: Quantity, other: CelValue) -> Quantity:
    """``one.add(other)``, where the other may be a number."""
    return one + _as_quantity(other)


def quantity_difference(one: Quantity, other: CelValue) -> Quantity:
    """``one.sub(other)``, where the other may be a number."""
    return one - _as_quantity(other)


def _as_quantity(value: CelValue) -> Quantity:
    return value if isinstance(value, Quantity) else Quantity(value, 0, Format.DECIMAL_EXPONENT)


def is_whole(quantity: Quantity) -> bool:
    """Tell whether Go holds *quantity* as an int64."""
    if quantity.wide:
        return False
    if quantity.exponent < 0:
        return False
    return quantity.unscaled * 10**quantity.exponent in INT_RANGE


def whole(quantity: Quantity) -> int:
    """``quantity.asInteger()``."""
    if not is_whole(quantity):
        raise EvaluationError("cannot convert value to integer")
    return quantity.value()


def approximate(quantity: Quantity) -> float:
    """``quantity.asApproximateFloat()``."""
    try:
        return float(quantity.unscaled) * 10.0**quantity.exponent
    except OverflowError:
        return math.copysign(math.inf, quantity.unscaled)


def order(one: CelValue, other: CelValue) -> int:
    """Return -1, 0 or 1 for two quantities or two versions."""
    return int(one > other) - int(one < other)


def to_semver(text: str, normalize: bool = False) -> Semver:
    """``semver(text)``; with *normalize* also ``v1.2``."""
    try:
        return parse_semver(normalized(text) if normalize else text)
    except InvalidValue as error:
        raise EvaluationError(str(error)) from None


def to_address(text: str) -> Address:
    """``ip(text)``."""
    if "%" in text:
        raise EvaluationError(f"IP address {go_quote(text)} with zone value is not allowed")
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise EvaluationError(
            f"IP Address {go_quote(text)} parse error during conversion from string: "
            f"ParseAddr({go_quote(text)}): {_address_problem(text)}"
        ) from None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        raise EvaluationError(f"IPv4-mapped IPv6 address {go_quote(text)} is not allowed")
    return address


def _address_problem(text: str) -> str:
    """Return what Go's ``netip.ParseAddr`` says of a text that is not an address."""
    mark = next((char for char in text if char in ".:%"), "")
    if mark != ".":
        return {"": "unable to parse IP", "%": "missing IPv6 address"}.get(
            mark, f"unexpected character (at {go_quote(text)})"
        )
    for index, field in enumerate(fields := text.split(".")):
        wrong = re.search(r"[^0-9]", field)
        if wrong:
            rest = ".".join((field[wrong.start() :], *fields[index + 1 :]))
            return f"unexpected character (at {go_quote(rest)})"
        if not field:
            rest = ".".join(fields[index:]) or "." if index else text
            return f"IPv4 field must have at least one digit (at {go_quote(rest)})"
        if len(field) > 1 and field[0] == "0":
            return "IPv4 field has octet with leading zero"
        if int(field) > 255:
            return "IPv4 field has value >255"
    return "IPv4 address too long" if len(fields) > 4 else "IPv4 address too short"


def is_canonical(text: str) -> bool:
    """Tell whether an address is written in its shortest form."""
    return str(to_address(text)) == text


def is_global_unicast(address: Address) -> bool:
    """Tell whether *address* is one of a single host that is not local to a link."""
    special = address.is_unspecified or address.is_loopback or address.is_multicast
    broadcast = address == ipaddress.IPv4Address("255.255.255.255")
    return not (special or broadcast or address.is_link_local)


def is_link_local_multicast(address: Address) -> bool:
    """Tell whether *address* reaches hosts of one link."""
    if isinstance(address, ipaddress.IPv4Address):
        return address in ipaddress.ip_network("224.0.0.0/24")
    return address.is_multicast and address.packed[1] & 0x0F == 0x02


def to_network(text: str) -> Network:
    """``cidr(text)``."""
    problem = "network address parse error during conversion from string: "
    found = _network(text)
    if found is None:
        raise EvaluationError(
            f"{problem}{problem}netip.ParsePrefix({go_quote(text)}): unable to parse"
        )
    if isinstance(found.address, ipaddress.IPv6Address) and found.address.ipv4_mapped is not None:
        raise EvaluationError(f"{problem}IPv4-mapped IPv6 address {go_quote(text)} is not allowed")
    return found


def _network(text: str) -> Network | None:
    head, slash, bits = text.rpartition("/")
    if not slash or not re.fullmatch(r"0|[1-9][0-9]{0,2}", bits) or "%" in head:
        return None
    try:
        address = ipaddress.ip_address(head)
    except ValueError:
        return None
    return Network(address, int(bits)) if int(bits) <= address.max_prefixlen else None


def network_contains_address(network: Network, other: CelValue) -> bool:
    """``network.containsIP(other)``."""
    return network.contains(to_address(other) if isinstance(other, str) else other)


def network_contains_network(network: Network, other: CelValue) -> bool:
    """``network.containsCIDR(other)``."""
    inner = to_network(other) if isinstance(other, str) else other
    return network.bits <= inner.bits and network.contains(inner.address)


def to_url(text: str) -> Url:
    """``url(text)``: an absolute URL, or a path from the root."""
    if not is_url(text):
        raise EvaluationError(
            f"URL parse error during conversion from string: parse {go_quote(text)}: "
            "invalid URI for request"
        )
    return Url(text)


def is_url(text: str) -> bool:
    """Tell whether Go's ``url.ParseRequestURI`` takes *text*."""
    if not text or _CONTROL.search(text):
        return False
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):", text)
    rest = text[scheme.end() :] if scheme else text
    if not rest.startswith("/"):
        return bool(scheme) and bool(rest) and not rest.startswith("?")
    if re.search(r"%(?![0-9A-Fa-f]{2})", rest.partition("?")[0]):
        return False
    if scheme and rest.startswith("//"):
        return _is_host(re.split(r"[/?#]", rest[2:], maxsplit=1)[0])
    return True


def _is_host(authority: str) -> bool:
    host = authority.rpartition("@")[2]
    return re.fullmatch(r"(?:\[[^\]]*\]|[^\[\]: <>\"\\^`{|}]*)(?::[0-9]*)?", host) is not None


def host(url: Url) -> str:
    """The host with its port."""
    return url.parts.netloc.rpartition("@")[2]


def hostname(url: Url) -> str:
    """The host without its port."""
    return re.sub(r":[0-9]*$", "", host(url)).strip("[]")


def port(url: Url) -> str:
    """The port, or nothing."""
    found = re.search(r":([0-9]*)$", host(url))
    return found[1] if found else ""


def escaped_path(url: Url) -> str:
    """The path with its escapes."""
    return quote(url.parts.path, safe="/%:@!$&'()*+,;=~")


def query(url: Url) -> dict[str, list[str]]:
    """The parameters behind the question mark."""
    return parse_qs(url.parts.query, keep_blank_values=True)


# Formats with a name (``format.dns1123Label().validate(x)``), as Kubernetes' CEL library has.


_UUID: Final = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class NamedFormat:
    """A format, and the length of the regular expression that its check is reckoned to cost."""

    name: str
    check: Callable[[str], list[str]]
    pattern_size: int


register_type(NamedFormat, "kubernetes.NamedFormat")


def _prefix(check: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """Return the check of names that get something behind them: a dash at the end is right."""
    return lambda text: check(f"{text[:-1]}a" if text.endswith("-") else text)


def _uri(text: str) -> list[str]:
    return [] if is_url(text) else [f"parse {go_quote(text)}: invalid URI for request"]


def _uuid(text: str) -> list[str]:
    return [] if _UUID.fullmatch(text) else ["does not match the UUID format"]


def _byte(text: str) -> list[str]:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return ["invalid base64"]
    return [] if text else ["invalid base64"]


def _date(text: str) -> list[str]:
    try:
        date.fromisoformat(text)
    except ValueError:
        return ["invalid date"]
    return [] if re.fullmatch(r"\d{4}-\d\d-\d\d", text) else ["invalid date"]


def _datetime(text: str) -> list[str]:
    try:
        parse_time(text.upper())
    except InvalidValue:
        return ["invalid datetime"]
    return []


_ALL: Final = (
    ("dns1123Label", "DNS1123Label", names.dns_label, 30),
    ("dns1123Subdomain", "DNS1123Subdomain", names.dns_subdomain, 60),
    ("dns1035Label", "DNS1035Label", names.dns_1035_label, 30),
    ("qualifiedName", "QualifiedName", names.qualified_name, 60),
    ("dns1123LabelPrefix", "DNS1123LabelPrefix", _prefix(names.dns_label), 30),
    ("dns1123SubdomainPrefix", "DNS1123SubdomainPrefix", _prefix(names.dns_subdomain), 60),
    ("dns1035LabelPrefix", "DNS1035LabelPrefix", _prefix(names.dns_1035_label), 30),
    ("labelValue", "LabelValue", names.label_value, 40),
    ("uri", "URI", _uri, 1103),
    ("uuid", "uuid", _uuid, 70),
    ("byte", "byte", _byte, 84),
    ("date", "date", _date, 71),
    ("datetime", "datetime", _datetime, 71),
)
NAMED_FORMATS: Final = {key: NamedFormat(name, check, size) for key, name, check, size in _ALL}


def named(name: str) -> Optional:
    """``format.named(name)``."""
    found = NAMED_FORMATS.get(name)
    return NONE if found is None else Optional(True, found)


def validate(form: NamedFormat, text: str) -> Optional:
    """Return what is wrong with *text*; nothing if it is right."""
    problems = form.check(text)
    return Optional(True, problems) if problems else NONE
