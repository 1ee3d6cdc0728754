"""Types of expressions, and the signatures of functions and operators (cel-go's rules).

They decide when a value of one type can stand for another, and so which overload of a function a
call means. Follows cel-go 0.29 with the libraries of Kubernetes 1.37.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class CelType:
    """A type by name, with the types it is made of: ``list(string)``.

    Names that begin with a dollar are variables, which the checker binds to types.
    """

    name: str
    params: tuple[CelType, ...] = ()

    def __str__(self) -> str:
        if not self.params:
            return self.name
        return f"{self.name}({', '.join(map(str, self.params))})"


@dataclass(frozen=True, slots=True, eq=False)
class ObjectType(CelType):
    """An object with known fields."""

    fields: Mapping[str, CelType] = field(default_factory=dict)


DYN: Final = CelType("dyn")
NULL: Final = CelType("null")
BOOL: Final = CelType("bool")
INT: Final = CelType("int")
UINT: Final = CelType("uint")
DOUBLE: Final = CelType("double")
STRING: Final = CelType("string")
BYTES: Final = CelType("bytes")
TIMESTAMP: Final = CelType("timestamp")
DURATION: Final = CelType("duration")
QUANTITY: Final = CelType("kubernetes.Quantity")
SEMVER: Final = CelType("kubernetes.Semver")
URL: Final = CelType("kubernetes.URL")
NAMED_FORMAT: Final = CelType("kubernetes.NamedFormat")
IP: Final = CelType("net.IP")
CIDR: Final = CelType("net.CIDR")

_PRIMITIVE: Final = frozenset(
    {"bool", "bytes", "double", "int", "list", "map", "string", "type", "uint"}
)
"""Types that null is never taken for."""


def list_of(element: CelType) -> CelType:
    """Return the type of lists of *element*."""
    return CelType("list", (element,))


def map_of(key: CelType, value: CelType) -> CelType:
    """Return the type of maps."""
    return CelType("map", (key, value))


def optional_of(value: CelType) -> CelType:
    """Return the type of what may be missing."""
    return CelType("optional_type", (value,))


def is_dyn(kind: CelType) -> bool:
    """Tell whether nothing is known of the type, so that it is only checked when evaluated."""
    return kind.name == "dyn"


def is_variable(kind: CelType) -> bool:
    """Tell whether *kind* stands for a type that is to be found out."""
    return kind.name.startswith("$")


class Bindings:
    """What the variables among types stand for; `fits` adds to it."""

    def __init__(self, bound: Mapping[str, CelType] | None = None) -> None:
        self._bound = dict(bound or {})
        self._made = 0
        self._before: list[tuple[str, CelType | None]] = []

    def fresh(self) -> CelType:
        """Return a variable that has not been used before."""
        self._made += 1
        return CelType(f"${self._made}")

    def fits(self, given: Sequence[CelType], wanted: Sequence[CelType]) -> bool:
        """Tell whether *given* can stand where *wanted* is asked for; if so, bind variables."""
        self._before.clear()
        if len(given) == len(wanted) and all(map(self._assignable, given, wanted)):
            return True
        for name, kind in reversed(self._before):
            if kind is None:
                del self._bound[name]
            else:
                self._bound[name] = kind
        return False

    def _bind(self, variable: CelType, kind: CelType) -> None:
        self._before.append((variable.name, self._bound.get(variable.name)))
        self._bound[variable.name] = kind

    def resolved(self, kind: CelType, *, unknown: CelType | None = None) -> CelType:
        """Return *kind* with its variables replaced; those not bound become *unknown*, if given."""
        if kind.name in self._bound:
            return self.resolved(self._bound[kind.name], unknown=unknown)
        if is_variable(kind):
            return kind if unknown is None else unknown
        if not kind.params or isinstance(kind, ObjectType):
            return kind
        return CelType(kind.name, tuple(self.resolved(p, unknown=unknown) for p in kind.params))

    def _assignable(self, one: CelType, other: CelType) -> bool:
        if is_variable(other):
            valid = self._substitutes(one, other)
            if valid is not None:
                return valid
        if is_variable(one):
            return self._substitutes(other, one) is True
        if is_dyn(one) or is_dyn(other):
            return True
        if NULL in (one, other):
            return not _PRIMITIVE & {one.name, other.name}
        if isinstance(one, ObjectType) or isinstance(other, ObjectType):
            return one is other
        return (
            one.name == other.name
            and len(one.params) == len(other.params)
            and all(map(self._assignable, one.params, other.params))
        )

    def _substitutes(self, kind: CelType, variable: CelType) -> bool | None:
        """Tell whether *variable* can stand for *kind*; None if *kind* may yet stand for it."""
        if kind == variable:
            return True
        bound = self._bound.get(variable.name)
        if bound is None:
            if self._occurs(variable, kind):
                return None
            self._bind(variable, kind)
            return True
        if kind == bound:
            return True
        if not self._assignable(kind, bound):
            return False
        general = more_general(kind, bound)
        if not self._occurs(variable, general):
            self._bind(variable, general)
        return True

    def _occurs(self, variable: CelType, within: CelType) -> bool:
        if variable == within:
            return True
        if is_variable(within):
            bound = self._bound.get(within.name)
            return bound is not None and self._occurs(variable, bound)
        return any(self._occurs(variable, param) for param in within.params)


def more_general(one: CelType, other: CelType) -> CelType:
    """Return the one of two types, which fit each other, that says less."""
    return one if _less_specific(one, other) else other


def _less_specific(one: CelType, other: CelType) -> bool:
    if is_dyn(one) or is_variable(one):
        return True
    if is_dyn(other) or is_variable(other) or one.name != other.name:
        return False
    return all(map(_less_specific, one.params, other.params))


# Which functions and operators there are, for which types.
#
# One overload a line: arguments, arrow, result; before a dot stands the type whose method it is.
# Single capitals are type parameters. The order is that of cel-go, which tries overloads in turn.


_TABLE: Final = """
_+_ bytes,bytes -> bytes
_+_ double,double -> double
_+_ duration,duration -> duration
_+_ duration,timestamp -> timestamp
_+_ timestamp,duration -> timestamp
_+_ int,int -> int
_+_ list(A),list(A) -> list(A)
_+_ string,string -> string
_+_ uint,uint -> uint
_-_ double,double -> double
_-_ duration,duration -> duration
_-_ int,int -> int
_-_ timestamp,duration -> timestamp
_-_ timestamp,timestamp -> duration
_-_ uint,uint -> uint
_*_ double,double -> double
_*_ int,int -> int
_*_ uint,uint -> uint
_/_ double,double -> double
_/_ int,int -> int
_/_ uint,uint -> uint
_%_ int,int -> int
_%_ uint,uint -> uint
-_ double -> double
-_ int -> int
!_ bool -> bool
@not_strictly_false bool -> bool
_&&_ bool,bool -> bool
_||_ bool,bool -> bool
_==_ A,A -> bool
_!=_ A,A -> bool
_?_:_ bool,A,A -> A
@in A,list(A) -> bool
@in A,map(A,B) -> bool
_[_] list(A),int -> A
_[_] map(A,B),A -> B
_[_] optional(list(V)),int -> optional(V)
_[_] optional(map(K,V)),K -> optional(V)
_[?_] list(V),int -> optional(V)
_[?_] optional(list(V)),int -> optional(V)
_[?_] map(K,V),K -> optional(V)
_[?_] optional(map(K,V)),K -> optional(V)
size bytes -> int
size bytes. -> int
size list(A) -> int
size list(A). -> int
size map(A,B) -> int
size map(A,B). -> int
size string -> int
size string. -> int
contains string.string -> bool
startsWith string.string -> bool
endsWith string.string -> bool
matches string,string -> bool
matches string.string -> bool
bool bool -> bool
bool string -> bool
bytes bytes -> bytes
bytes string -> bytes
double double -> double
double int -> double
double string -> double
double uint -> double
duration duration -> duration
duration string -> duration
dyn A -> dyn
int int -> int
int double -> int
int duration -> int
int string -> int
int timestamp -> int
int uint -> int
string string -> string
string bool -> string
string bytes -> string
string double -> string
string duration -> string
string int -> string
string timestamp -> string
string uint -> string
string ip -> string
string cidr -> string
timestamp timestamp -> timestamp
timestamp int -> timestamp
timestamp string -> timestamp
uint uint -> uint
uint double -> uint
uint int -> uint
uint string -> uint
type A -> type
getFullYear timestamp. -> int
getFullYear timestamp.string -> int
getMonth timestamp. -> int
getMonth timestamp.string -> int
getDate timestamp. -> int
getDate timestamp.string -> int
getDayOfMonth timestamp. -> int
getDayOfMonth timestamp.string -> int
getDayOfWeek timestamp. -> int
getDayOfWeek timestamp.string -> int
getDayOfYear timestamp. -> int
getDayOfYear timestamp.string -> int
getHours timestamp. -> int
getHours timestamp.string -> int
getHours duration. -> int
getMinutes timestamp. -> int
getMinutes timestamp.string -> int
getMinutes duration. -> int
getSeconds timestamp. -> int
getSeconds timestamp.string -> int
getSeconds duration. -> int
getMilliseconds timestamp. -> int
getMilliseconds timestamp.string -> int
getMilliseconds duration. -> int
charAt string.int -> string
indexOf list(A).A -> int
indexOf string.string -> int
indexOf string.string,int -> int
lastIndexOf list(A).A -> int
lastIndexOf string.string -> int
lastIndexOf string.string,int -> int
lowerAscii string. -> string
upperAscii string. -> string
trim string. -> string
replace string.string,string -> string
replace string.string,string,int -> string
split string.string -> list(string)
split string.string,int -> list(string)
substring string.int -> string
substring string.int,int -> string
join list(string). -> string
join list(string).string -> string
format string.list(dyn) -> string
strings.quote string -> string
find string.string -> string
findAll string.string -> list(string)
findAll string.string,int -> list(string)
includes dyn.dyn -> bool
slice list(T).int,int -> list(T)
flatten list(list(T)). -> list(T)
flatten list(dyn).int -> list(dyn)
distinct list(T). -> list(T)
reverse list(T). -> list(T)
lists.range int -> list(int)
sets.contains list(T),list(T) -> bool
sets.equivalent list(T),list(T) -> bool
sets.intersects list(T),list(T) -> bool
cel.@mapInsert map(K,V),K,V -> map(K,V)
cel.@mapInsert map(K,V),map(K,V) -> map(K,V)
optional.of V -> optional(V)
optional.ofNonZeroValue V -> optional(V)
optional.none -> optional(V)
optional.unwrap list(optional(V)) -> list(V)
unwrapOpt list(optional(V)). -> list(V)
value optional(V). -> V
hasValue optional(V). -> bool
or optional(V).optional(V) -> optional(V)
orValue optional(V).V -> V
first list(V). -> optional(V)
last list(V). -> optional(V)
quantity string -> quantity
isQuantity string -> bool
sign quantity -> int
isGreaterThan quantity.quantity -> bool
isGreaterThan semver.semver -> bool
isLessThan quantity.quantity -> bool
isLessThan semver.semver -> bool
compareTo quantity.quantity -> int
compareTo semver.semver -> int
asApproximateFloat quantity. -> double
asInteger quantity. -> int
isInteger quantity. -> bool
add quantity.quantity -> quantity
add quantity.int -> quantity
sub quantity.quantity -> quantity
sub quantity.int -> quantity
semver string -> semver
semver string,bool -> semver
isSemver string -> bool
isSemver string,bool -> bool
major semver. -> int
minor semver. -> int
patch semver. -> int
url string -> url
isURL string -> bool
getScheme url. -> string
getHost url. -> string
getHostname url. -> string
getPort url. -> string
getEscapedPath url. -> string
getQuery url. -> map(string,list(string))
ip string -> ip
ip cidr. -> ip
isIP string -> bool
ip.isCanonical string -> bool
family ip. -> int
isUnspecified ip. -> bool
isLoopback ip. -> bool
isLinkLocalMulticast ip. -> bool
isLinkLocalUnicast ip. -> bool
isGlobalUnicast ip. -> bool
cidr string -> cidr
isCIDR string -> bool
containsIP cidr.string -> bool
containsIP cidr.ip -> bool
containsCIDR cidr.string -> bool
containsCIDR cidr.cidr -> bool
prefixLength cidr. -> int
masked cidr. -> cidr
validate format.string -> optional(list(string))
format.named string -> optional(format)
"""

FORMATS: Final = (
    "dns1123Label", "dns1123Subdomain", "dns1035Label", "qualifiedName", "dns1123LabelPrefix",
    "dns1123SubdomainPrefix", "dns1035LabelPrefix", "labelValue", "uri", "uuid", "byte", "date",
    "datetime",
)  # fmt: skip
"""The formats that ``format.NAME()`` returns."""

_COMPARABLE: Final = (
    "int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes",
)  # fmt: skip
_SUMMABLE: Final = ("int", "uint", "double", "duration")
_SHORT_NAMES: Final = {
    "quantity": QUANTITY,
    "semver": SEMVER,
    "url": URL,
    "ip": IP,
    "cidr": CIDR,
    "format": NAMED_FORMAT,
    "optional": CelType("optional_type"),
}


@dataclass(frozen=True, slots=True)
class Overload:
    """One way to call a function; *text* tells it apart, *member* whether it is a method."""

    text: str
    args: tuple[CelType, ...]
    result: CelType
    member: bool


def _overloads() -> dict[str, list[Overload]]:
    found: dict[str, list[Overload]] = {}
    for line in (*_TABLE.strip().splitlines(), *_generated()):
        name, signature = line.split(" ", 1)
        found.setdefault(name, []).append(_overload(signature))
    return found


def _generated() -> Iterator[str]:
    for order in ("_<_", "_<=_", "_>_", "_>=_"):
        yield from (f"{order} {kind},{kind} -> bool" for kind in _ORDERED)
        yield from (f"{order} {one},{other} -> bool" for one, other in _MIXED_NUMBERS)
    for kind in _COMPARABLE:
        yield f"isSorted list({kind}). -> bool"
        yield f"min list({kind}). -> {kind}"
        yield f"max list({kind}). -> {kind}"
        yield f"sort list({kind}). -> list({kind})"
        yield f"@sortByAssociatedKeys list(T).list({kind}) -> list(T)"
    yield from (f"sum list({kind}). -> {kind}" for kind in _SUMMABLE)
    yield from (f"format.{name} -> format" for name in FORMATS)


_ORDERED: Final = ("bool", "int", "uint", "double", "string", "bytes", "timestamp", "duration")
_MIXED_NUMBERS: Final = tuple(
    (one, other)
    for one in ("int", "uint", "double")
    for other in ("int", "uint", "double")
    if one != other
)


def _overload(signature: str) -> Overload:
    arguments, _, result = signature.rpartition("-> ")
    head, dot, rest = arguments.strip().partition(".")
    parts = [head, *_split(rest)] if dot else _split(head)
    args = tuple(_type(part) for part in parts)
    return Overload(arguments.strip(), args, _type(result), member=bool(dot))


def _split(text: str) -> list[str]:
    """Split at the commas that are not inside parentheses."""
    return re.findall(r"(?:[^,()]|\((?:[^()]|\([^()]*\))*\))+", text)


def _type(text: str) -> CelType:
    name, opening, inner = text.strip().partition("(")
    kind = _SHORT_NAMES.get(name, CelType(f"${name}" if name.isupper() else name))
    if not opening:
        return kind
    return CelType(kind.name, tuple(_type(part) for part in _split(inner[:-1])))


OVERLOADS: Final[Mapping[str, list[Overload]]] = _overloads()
