"""Which functions and operators there are, for which types.

One overload a line: arguments, arrow, result; before a dot stands the type whose method it is.
Single capitals are type parameters. The order is that of cel-go, which tries overloads in turn.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from numakube.cel.value_types import CIDR, IP, NAMED_FORMAT, QUANTITY, SEMVER, URL, CelType

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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
