"""Which functions and operators there are, for which types.

One overload a line: arguments, arrow, result; before a dot stands the type whose method it is.
Single capitals are type parameters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from numakube_lab.schema.cel.value_types import CelType

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_TABLE: Final = """
_+_ int,int -> int
_+_ uint,uint -> uint
_+_ double,double -> double
_+_ string,string -> string
_+_ bytes,bytes -> bytes
_+_ list(A),list(A) -> list(A)
_+_ timestamp,duration -> timestamp
_+_ duration,timestamp -> timestamp
_+_ duration,duration -> duration
_-_ int,int -> int
_-_ uint,uint -> uint
_-_ double,double -> double
_-_ timestamp,timestamp -> duration
_-_ timestamp,duration -> timestamp
_-_ duration,duration -> duration
_*_ int,int -> int
_*_ uint,uint -> uint
_*_ double,double -> double
_/_ int,int -> int
_/_ uint,uint -> uint
_/_ double,double -> double
_%_ int,int -> int
_%_ uint,uint -> uint
-_ int -> int
-_ double -> double
!_ bool -> bool
_&&_ bool,bool -> bool
_||_ bool,bool -> bool
_?_:_ bool,A,A -> A
@in A,list(A) -> bool
@in A,map(A,B) -> bool
_[_] list(A),int -> A
_[_] map(A,B),A -> B
size string -> int
size bytes -> int
size list(A) -> int
size map(A,B) -> int
size string. -> int
size bytes. -> int
size list(A). -> int
size map(A,B). -> int
contains string.string -> bool
startsWith string.string -> bool
endsWith string.string -> bool
matches string.string -> bool
matches string,string -> bool
int int -> int
int uint -> int
int double -> int
int string -> int
int timestamp -> int
uint int -> uint
uint uint -> uint
uint double -> uint
uint string -> uint
double int -> double
double uint -> double
double double -> double
double string -> double
string int -> string
string uint -> string
string double -> string
string string -> string
string bool -> string
string bytes -> string
string timestamp -> string
string duration -> string
bytes string -> bytes
bytes bytes -> bytes
bool bool -> bool
bool string -> bool
timestamp string -> timestamp
timestamp timestamp -> timestamp
timestamp int -> timestamp
duration string -> duration
duration duration -> duration
dyn A -> dyn
type A -> type
getFullYear timestamp. -> int
getMonth timestamp. -> int
getDate timestamp. -> int
getDayOfMonth timestamp. -> int
getDayOfWeek timestamp. -> int
getDayOfYear timestamp. -> int
getHours timestamp. -> int
getHours duration. -> int
getMinutes timestamp. -> int
getMinutes duration. -> int
getSeconds timestamp. -> int
getSeconds duration. -> int
getMilliseconds timestamp. -> int
getMilliseconds duration. -> int
charAt string.int -> string
indexOf string.string -> int
indexOf string.string,int -> int
lastIndexOf string.string -> int
lastIndexOf string.string,int -> int
indexOf list(A).A -> int
lastIndexOf list(A).A -> int
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
find string.string -> string
findAll string.string -> list(string)
findAll string.string,int -> list(string)
isSorted list(A). -> bool
sum list(A). -> A
min list(A). -> A
max list(A). -> A
isQuantity string -> bool
quantity string -> quantity
asInteger quantity. -> int
asApproximateFloat quantity. -> double
isInteger quantity. -> bool
isGreaterThan quantity.quantity -> bool
isLessThan quantity.quantity -> bool
compareTo quantity.quantity -> int
sign quantity. -> int
add quantity.quantity -> quantity
add quantity.int -> quantity
sub quantity.quantity -> quantity
sub quantity.int -> quantity
isURL string -> bool
isIP string -> bool
isCIDR string -> bool
hasValue optional_type(A). -> bool
value optional_type(A). -> A
orValue optional_type(A).A -> A
"""


@dataclass(frozen=True, slots=True)
class Overload:
    """One way to call a function; *target* is None unless it is a method."""

    target: CelType | None
    args: tuple[CelType, ...]
    result: CelType


def _overloads() -> dict[str, list[Overload]]:
    found: dict[str, list[Overload]] = {}
    for line in _TABLE.strip().splitlines():
        name, signature = line.split(" ", 1)
        found.setdefault(name, []).append(_overload(signature))
    for order in ("_<_", "_<=_", "_>_", "_>=_"):
        found[order] = list(_comparisons())
    for equality in ("_==_", "_!=_"):
        found[equality] = [_overload("A,A -> bool"), *_numeric_comparisons()]
    return found


def _comparisons() -> Iterator[Overload]:
    for kind in ("bool", "string", "bytes", "timestamp", "duration"):
        yield _overload(f"{kind},{kind} -> bool")
    yield from _numeric_comparisons()


def _numeric_comparisons() -> Iterator[Overload]:
    for one in ("int", "uint", "double"):
        for other in ("int", "uint", "double"):
            yield _overload(f"{one},{other} -> bool")


def _overload(signature: str) -> Overload:
    arguments, _, result = signature.partition(" -> ")
    head, dot, rest = arguments.partition(".")
    args = rest if dot else head
    return Overload(
        _type(head) if dot else None,
        tuple(_type(part) for part in _split(args)),
        _type(result),
    )


def _split(text: str) -> list[str]:
    """Split at the commas that are not inside parentheses."""
    return re.findall(r"[^,()]+(?:\([^()]*\))?", text)


def _type(text: str) -> CelType:
    name, opening, inner = text.strip().partition("(")
    if not opening:
        return CelType(name)
    return CelType(name, tuple(_type(part) for part in inner[:-1].split(",")))


OVERLOADS: Final[Mapping[str, list[Overload]]] = _overloads()
