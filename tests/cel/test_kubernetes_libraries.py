"""What Kubernetes adds to the language, and what every evaluation costs."""

from __future__ import annotations

from typing import Any, Final

import pytest

from numakube.cel import (
    CompileError,
    CostLimitExceeded,
    EvaluationError,
    InstantiationError,
    Program,
    compile_expression,
)
from numakube.cel.value_types import DYN, QUANTITY, STRING, map_of
from numakube.values.quantity import parse_quantity
from numakube.values.semver import parse_semver

_TYPES: Final = {"a": map_of(STRING, DYN), "c": map_of(STRING, QUANTITY)}
_VALUES: Final[dict[str, Any]] = {
    "a": {
        "index": 1,
        "productName": "NVIDIA H100",
        "healthy": True,
        "version": parse_semver("9.1.0"),
        "names": ["a", "b"],
    },
    "c": {"memory": parse_quantity("80Gi"), "sms": parse_quantity("132")},
}

# Cost, value, expression.
_VALUED: Final = r"""
4 true a.index + 1 == 2
6 true a.productName + "a" == "NVIDIA H100a"
3 false a.healthy < true
4 true a.version == semver("9.1.0")
3 true a.version != 1
4 true a.version != semver("1.0.0")
3 false 1 == a.version
4 true c.memory == quantity("80Gi")
4 false c.memory != quantity("80Gi")
3 true c.memory.isInteger()
5 true c.memory.add(1).isGreaterThan(quantity("80Gi"))
7 true c.memory.sub(quantity("1Gi")).compareTo(quantity("79Gi")) == 0
4 true sign(c.memory) == 1
4 true c.memory.asApproximateFloat() > 1.0
2 false quantity("1.5").isInteger()
3 true quantity("1500m").asApproximateFloat() == 1.5
1 false isQuantity("abc")
1 true isQuantity("1Gi")
4 true has(a.index) && a.index == 1
2 false has(a.index.foo)
3 true a[?"index"].orValue(0) == 1
3 true a.?index.orValue(0) == 1
2 true a.?nope.orValue(7) == 7
2 true a.?nope.?x.orValue(3) == 3
10 true a.?index.optMap(x, x + 1).orValue(0) == 2
10 true a.?index.optFlatMap(x, optional.of(x)).value() == 1
2 true optional.none().orValue(1) == 1
3 true optional.of(1).or(optional.of(2)).value() == 1
2 false optional.ofNonZeroValue(0).hasValue()
2 false optional.ofNonZeroValue("").hasValue()
2 true [1, 2, 3][?5].orValue(9) == 9
13 true [?optional.of(1), ?optional.none()] == [1]
32 true {?"a": optional.of(1)} == {"a": 1}
3 true [1, 2, 3].first().value() == 1
3 true [1, 2, 3].last().value() == 3
14 true optional.unwrap([optional.of(1), optional.none()]) == [1]
14 true [optional.of(1), optional.none()].unwrapOpt() == [1]
69 true a.map(k, k).size() > 2
22 true a.all(k, v, k != "")
15 true [1, 2].all(i, v, v == i + 1)
8 true [1, 2].existsOne(i, v, v == 2)
8 true [1, 2].exists_one(v, v == 2)
32 true [1, 2].transformList(i, v, v + i) == [1, 3]
21 true [1, 2].transformList(i, v, i > 0, v + i) == [3]
7 true {"a": 1}.transformMap(k, v, v + 1) == {"a": 2}
3 true {"a": 1}.transformMap(k, v, v > 3, v + 1) == {}
36 true {"a": 1}.transformMapEntry(k, v, {v: k}) == {1: "a"}
75 true [3, 1, 2].sortBy(x, -x) == [3, 2, 1]
20 true ["b", "a"].sort() == ["a", "b"]
30 true [3, 1, 2].sort() == [1, 2, 3]
20 true [3.0, 1.0].sort() == [1.0, 3.0]
15 true [1, 2, 3].reverse() == [3, 2, 1]
14 true [1, 2, 3].slice(0, 2) == [1, 2]
14 true [[1], [2, 3]].flatten() == [1, 2, 3]
16 true dyn([[1], [2]]).flatten(2) == [1, 2]
20 true ["a", "a"].distinct() == ["a"]
11 true [].distinct() == []
15 true lists.range(3) == [0, 1, 2]
3 true sets.contains([1, 2], [1])
13 true sets.equivalent([1, 2], [2, 1, 1])
2 false sets.intersects([1], [2])
1 false sets.contains([], [1])
14 true sets.contains([a.index], [1])
4 true [1, 2, 3].sum() == 6
3 true [1.5, 2.5].sum() == 4.0
1 true [].sum() == 0
3 true [1, 2].min() == 1
3 true [1, 2].max() == 2
0 true ["a", "b"].isSorted()
2 false [2, 1].isSorted()
4 true [1, 2, 1].lastIndexOf(1) == 2
1 true "abc".indexOf("c") == 2
1 true "abc".indexOf("c", 5) == -1
1 true "abc".indexOf("", 9) == 3
1 true "abcabc".lastIndexOf("a") == 3
1 true "abcabc".lastIndexOf("a", 2) == 0
1 true "abcabc".lastIndexOf("", 99) == 6
1 true "abc".lastIndexOf("") == 3
1 true "abc".charAt(3) == ""
2 true "abc".substring(1) == "bc"
2 true "a,b".split(",") == ["a", "b"]
1 true "a,b,c".split(",", 0) == []
2 true "abc".split("") == ["a", "b", "c"]
2 true "abc".split("", 2) == ["a", "bc"]
2 true "a-b".replace("-", "") == "ab"
2 true "aaa".replace("a", "b", 2) == "bba"
2 true "aaa".replace("a", "b", -5) == "bbb"
2 true "ABC".lowerAscii() == "abc"
2 true " a ".trim() == "a"
2 true ["a", "b"].join() == "ab"
4 true a.names.join("-") == "a-b"
6 false ["a", "b", "c"].join("abcdefghijkl") == ""
0 true [].join("abcdefghijkl") == ""
2 false strings.quote("a\nb") == "x"
2 true "%s %d".format(["a", 1]) == "a 1"
14 true "%s".format([a.index]) == "1"
4 true "%b %o %x %X".format([5, 8, 255, 255]) == "101 10 ff FF"
2 true "%.3f".format([1234.5678]) == "1,234.568"
2 true "%f".format([1.0]) == "1.000000"
4 true "%s".format([[1, "a", 1.5, true, null]]) == "[1, \"a\", 1.500000, true, null]"
3 true "%s".format([{"a": 1, "b": "x"}]) == "{\"a\":1, \"b\":\"x\"}"
6 true a.productName.matches("^NV.*$")
10 true a.productName.matches(a.productName)
4 true matches(a.productName, "H1")
4 true a.productName.matches("\\d+")
7 true a.productName.find("[A-Z]+") == "NVIDIA"
6 false a.productName.findAll("[A-Z]") == []
7 true a.productName.findAll("[A-Z]", 2) == ["N", "V"]
1 false "a\n".matches("a$")
2 true ip("10.0.0.1").isGlobalUnicast()
3 false ip("169.254.0.1").isGlobalUnicast()
2 false ip("224.0.0.1").isGlobalUnicast()
2 false ip("10.0.0.1").isLoopback()
2 true ip("::1").isLoopback()
6 true isIP("10.0.0.1") && !isIP("x") && !isIP("::ffff:1.2.3.4")
3 true ip("10.0.0.1") == ip("10.0.0.1")
3 true string(ip("10.0.0.1")) == "10.0.0.1"
1 true ip.isCanonical("::1")
2 false ip.isCanonical("0:0::1")
2 true ip("224.0.0.1").isLinkLocalMulticast()
3 true ip("169.254.0.1").isLinkLocalUnicast()
2 true ip("0.0.0.0").isUnspecified()
3 true cidr("10.0.0.0/8").containsIP("10.1.1.1")
3 false cidr("10.0.0.0/8").containsIP(ip("11.1.1.1"))
6 true cidr("::1/128").containsIP(ip("::1"))
6 true cidr("10.0.0.0/8").containsCIDR("10.1.0.0/16")
6 true cidr("10.0.0.0/8").containsCIDR(cidr("10.1.0.0/16"))
5 false cidr("10.0.0.0/8").containsCIDR("0.0.0.0/0")
4 true cidr("10.1.2.3/8").masked() == cidr("10.0.0.0/8")
4 true cidr("10.1.2.3/8").ip() == ip("10.1.2.3")
3 true cidr("10.1.2.3/8").prefixLength() == 8
3 true isCIDR("10.0.0.0/8") && !isCIDR("10.0.0.0")
3 true string(cidr("10.1.2.3/8")) == "10.1.2.3/8"
5 true url("https://a.b:80/p?x=1&x=2").getHost() == "a.b:80"
5 true url("https://a.b:80/p?x=1&x=2").getHostname() == "a.b"
5 true url("https://a.b:80/p?x=1&x=2").getScheme() == "https"
5 true url("https://a.b:80/p?x=1&x=2").getQuery() == {"x": ["1", "2"]}
4 true url("https://a.b:80/p q").getEscapedPath() == "/p%20q"
4 true isURL("/path") && !isURL("path") && isURL("a:b")
10 false format.dns1123Label().validate("abc").hasValue()
10 true format.dns1123Label().validate("a_b").hasValue()
2 true format.named("dns1123Label").hasValue()
2 false format.named("x").hasValue()
20 false format.uuid().validate("x").value() == []
554 false format.uri().validate("https://a.example").hasValue()
278 true format.uri().validate("a b").hasValue()
38 false format.date().validate("2020-01-01").hasValue()
3 true format.dns1123Label() == format.dns1123Label()
3 true semver("1.2.3").isLessThan(semver("1.2.4"))
3 true semver("v1.2", true).minor() == 2
4 true isSemver("1.2.3") && !isSemver("1.2") && isSemver("v1.2", true)
5 true semver("1.2.3-alpha.1").compareTo(semver("1.2.3")) == -1
4 true semver("1.2.3+build") == semver("1.2.3")
3 true int(1.9) == 1 && uint(2) == 2u && double(1) == 1.0
4 true string(a.index) == "1"
4 true type(a.index) == int
4 false type(a.version) == int
1 true type(1) == type(2)
2 true duration("1h").getMinutes() == 60
2 true timestamp("2020-01-01T00:00:00Z").getFullYear() == 2020
2 true timestamp("2020-01-01T00:00:00Z").getHours("+02:00") == 2
2 true timestamp("2020-01-01T00:00:00Z") + duration("1s") > timestamp("2020-01-01T00:00:00Z")
4 true -a.index == -1
4 true [1, 2][a.index] == 2
6 true [1, 2][a.index - 1] == 1
4 true {1: "x"}[a.index] == "x"
3 true {1: 2}[?1].orValue(0) == 2
3 true a["index"] == 1
2 true a.index in [1, 2]
15 true a.index in [a.index]
4 false a.index in a
2 true "index" in a
3 true a.index in {1: 2}
3 true (a.healthy ? 1 : 2) == 1
4 true (a.healthy ? a : a).index == 1
5 true a.healthy ? a.index == 1 : a.nope
4 true a.index == 1 ? a.healthy : true
2 true a.nope || true
0 true true || a.nope
2 false a.nope && false
6 true cel.bind(x, a, x.index == 1 && x.healthy)
0 true cel.bind(x, a.nope, true)
4 true cel.bind(x, 1, cel.bind(y, 2, x + y)) == 3
4 true a.productName.size() == 11
17 true a.all(x, true)
1 true [].all(x, x.y == 1)
12 true a.names.exists(n, n == "a")
32 true a.names.map(n, n + "x") == ["ax", "bx"]
21 true a.names.filter(n, n == "a") == ["a"]
3 true a.names == ["a", "b"]
4 true a.names + ["c"] == ["a", "b", "c"]
2 true a.names.includes("a")
3 true a.index.includes(1)
4 true a.names[0] == "a"
3 false a.names[?5].hasValue()
4 true a.version.major() == 9
1 true null == null
3 false a.index == null
3 true a.index != null
1 true dyn(1) == 1u
1 true 1u < 2
1 true b"abc" == b"abc"
2 true b"abc".size() == 3
1 true bytes("abc") == b"abc"
1 true string(b"abc") == "abc"
1 true "a" < "b"
1 false "é" < "z"
2 true "é".size() == 1
1 true 0x1F == 31
1 true 1e3 == 1000.0
1 true "\u00e9" == "é"
1 true r"\d" == "\\d"
0 true {} == {}
0 true [] == []
1 false [[]] == [[1]]
1 false {"a": {}} == {"a": {1: 2}}
1 true type(null) == null_type
1 true type(duration("1s")) == google.protobuf.Duration
1 true google.protobuf.Duration == type(duration("1s"))
11 true [1, 0].exists(x, 1 / x == 1)
15 true [0, 1].exists(x, 1 / x == 1)
13 false [0, 1].all(x, 1 / x == 2)
2 true a.index.exists(x, true) || true
2677 true lists.range(100).map(x, x * 2).filter(x, x > 50).size() == 74
72 true [1,2,3].map(x, [x]).size() == 3
132 true [1,2,3].map(x, {"a": x}).size() == 3
51 true [1,2,3].map(x, a.index + x).size() == 3
"""
_FAILING: Final = r"""
a.productName - 1 == 2 -> no such overload
a.index / a.productName == 1 -> no such overload
a.index < a.productName -> no such overload
a.productName < a.index -> no such overload
a.index.endsWith("a") -> no such overload
a.productName.endsWith(a.index) -> no such overload
a.index.startsWith("a") -> no such overload
a.productName.startsWith(a.index) -> no such overload
a.index.contains("a") -> no such overload
a.productName.contains(a.index) -> no such overload
a.index.matches("a") -> no such overload
a.index ? true : false -> no such overload
!a.index -> no such overload
a.index && true -> no such overload
a.index.all(x, true) -> got 'types.Int', expected iterable type
a.index.all(k, v, true) -> unsupported comprehension range type: types.Int
a.names[a.productName] == "a" -> unsupported index type 'string' in list
a.names[dyn(1.5)] == "a" -> unsupported index value 1.5 in list
[?a.index] == [1] -> cannot initialize optional list element from non-optional value 1
{?"k": a.index} == {} -> cannot initialize optional entry 'k' from non-optional value 1
(dyn(["a"]) + dyn([1])).join(",") == "a" -> join: invalid input: 1
dyn(5).sort() == [1] -> no such overload: sort
dyn(5).flatten() == [1] -> no such overload: int.flatten()
a.index * a.productName == 1 -> no such overload
a.index % a.healthy == 1 -> no such overload
-a.productName == 1 -> no such overload
a.names - 1 == 1 -> no such overload: _-_
dyn(5).distinct() == [1] -> no such overload: distinct(int)
{a.names: 1} == {} -> unsupported key type: list
a.names in {"a": 1} -> unsupported key type: list
a.index.orValue(1) == 1 -> no such overload
a.index.or(optional.of(1)).hasValue() -> no such overload
a.healthy + 1 == 2 -> no such overload: _+_
a.version < a.version -> no such overload: _<_
a.version == 1 -> no such overload
quantity("1.5").asInteger() == 1 -> cannot convert value to integer
a.index.foo == 1 -> no such key: foo
optional.none().value() == 1 -> optional.none() dereference
{"a": 1, "b": 1}.transformMapEntry(k, v, {v: k}) == {1: "a"} -> insert failed: key 1 already exists
[1, 2, 3].slice(-1, 1) == [1, 2] -> cannot slice(-1, 1), negative indexes not supported
[1, 2, 3].slice(0, 9) == [1, 2] -> cannot slice(0, 9), list is length 3
[[1], [2]].flatten(-1) == [1] -> level must be non-negative
lists.range(-1) == [] -> lists.range: size must be non-negative, got -1
lists.range(2000000).size() == 1 -> lists.range: size 2000000 exceeds maximum allowed (1000000)
dyn([]).max() == 2 -> max called on empty list
"abc".indexOf("a", -1) == 0 -> index out of range: -1
"abc".charAt(4) == "" -> index out of range: 4
"abc".substring(2, 1) == "bc" -> invalid substring range. start: 2, end: 1
"abc".substring(4) == "" -> index out of range: 4
"abc".substring(-1) == "" -> index out of range: -1
semver("01.2.3").minor() == 2 -> Major number must not contain leading zeroes "01"
int(a.productName) == 1 -> type conversion error from 'string' to 'int'
int(a.healthy) == 1 -> no such overload: int(bool)
string(a.version) == "1" -> no such overload: string(kubernetes.Semver)
bool(a.productName) -> type conversion error from 'string' to 'bool'
1 / 0 == 1 -> division by zero
1 % 0 == 1 -> modulus by zero
-a.productName == -1 -> no such overload
!a.index -> no such overload
!a.productName -> no such overload
9223372036854775807 + a.index == 1 -> integer overflow
-(a.index - 9223372036854775807 - 2) == 1 -> integer overflow
[1, 2][a.index + 5] == 2 -> index out of bounds: 6
[1, 2][a.productName] == 2 -> unsupported index type 'string' in list
{"a": 1}["b"] == 1 -> no such key: b
a[a.productName] == 1 -> no such key: NVIDIA H100
1 in a.index -> no such overload
a.index ? true : false -> no such overload
a.index && true -> no such overload
a.index || false -> no such overload
cel.bind(x, a.nope, x == 1) -> no such key: nope
a.index.size() == 1 -> no such overload: size
size(a.index) == 1 -> no such overload: size
a.index.all(x, true) -> got 'types.Int', expected iterable type
a.index.all(x, y, true) -> unsupported comprehension range type: types.Int
a.names[5] == "a" -> index out of bounds: 5
a.names["x"] == "a" -> unsupported index type 'string' in list
a.names[0.5] == "a" -> unsupported index value 0.5 in list
a.index.contains("x") -> no such overload
a.index.charAt(1) == "" -> no such overload: charAt(int, int)
a.index.indexOf("a") == 1 -> no such overload: indexOf(int, string)
a.index.substring(1) == "" -> no such overload: substring(int, int)
a.index.compareTo(quantity("1")) == 0 -> no such overload: compareTo(int, kubernetes.Quantity)
a.index.isGreaterThan(semver("1.0.0")) -> no such overload: isGreaterThan(int, kubernetes.Semver)
a.index.major() == 1 -> no such overload: major(int)
c.memory.isGreaterThan(a.index) -> no such overload: isGreaterThan(kubernetes.Quantity, int)
[1, 2, 3].exists(x, x / 0 == 1) -> division by zero
[1, 2].map(x, x / 0) == [] -> division by zero
[0, 2].filter(x, 1 / x == 0) == [] -> division by zero
[0, 1].exists_one(x, 1 / x == 1) -> division by zero
"""
_REFUSED: Final = r"""
a.index + "a" == 2
c.memory.sign() == 1
[[1, [2]], [[3]]].flatten() == [1]
[1, [2, [3]]].flatten(2) == [1, 2, 3]
dyn([1, [2, [3]]]).flatten(2) == [1, 2, 3]
a.names.join(1) == "a-b"
"%s".format([quantity("1")]) == "1"
"%s".format([[1, quantity("1")]]) == "1"
"%s".format([{"a": [quantity("1")]}]) == "1"
"%d".format([[1]]) == "1"
"%d".format(["a"]) == "1"
"%s %s".format(["a"]) == "a"
"%s".format(["a", "b"]) == "a"
"%y".format(["a"]) == "a"
a.productName.matches("[")
a.productName.matches("(?=a)")
bool("x")
timestamp("x") == timestamp("y")
{1: "x"}[1.0] == "x"
true ? 1 : "a"
true ? 1 : null
[1] == null
{"a": 1} == null
(true ? {dyn("a"): 1} : {"b": dyn(2)})["a"] == "x"
[1, "a"] == []
[1, a.index] == []
{"a": 1, "b": "x"} == {}
1 == 1.0
`x` == 1
foo
foo.bar
foo()
x.y.z(1)
math.greatest(1, 2) == 2
has(1)
[1].map(x, y, z, w)
[1].exists(1, true)
[1].all(x, x)
[1].filter(x, 1)
1.all(x, true)
authorizer
kubernetes.Quantity == type(quantity("1"))
"abc".reverse() == "cba"
"abc"[0] == "a"
true && 1
true && "a" || false
1 + 1.0 == 2.0
1 < "a"
"a".startsWith(1)
"""


def _compiled(text: str) -> Program:
    return compile_expression(text, _TYPES)


@pytest.mark.parametrize("line", _VALUED.strip().splitlines())
def test_an_expression_has_the_value_and_the_cost_of_cel_go(line: str) -> None:
    """Costs decide which selectors are stopped, so they are exact."""
    cost, value, text = line.split(" ", 2)
    assert _compiled(text).measure(_VALUES) == (value == "true", int(cost))


@pytest.mark.parametrize("line", _FAILING.strip().splitlines())
def test_an_error_has_the_words_of_cel_go(line: str) -> None:
    """They end up in events of pods."""
    text, _, message = line.rpartition(" -> ")
    with pytest.raises(EvaluationError) as error:
        _compiled(text).evaluate(_VALUES)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("1.2.3", "IPv4 address too short"),
        ("1.2.3.4.5", "IPv4 address too long"),
        ("1.2.3.x", 'unexpected character (at "x")'),
        ("1.2.3.999", "IPv4 field has value >255"),
        ("1.2.3.04", "IPv4 field has octet with leading zero"),
        ("abc", "unable to parse IP"),
        ("::g", 'unexpected character (at "::g")'),
    ],
)
def test_what_is_no_address_is_told_in_the_words_of_go(text: str, problem: str) -> None:
    """By the first thing that is wrong with it."""
    with pytest.raises(EvaluationError) as error:
        _compiled(f"ip('{text}') == ip('1.2.3.4')").evaluate(_VALUES)
    assert str(error.value).endswith(f'ParseAddr("{text}"): {problem}')


@pytest.mark.parametrize(
    ("clause", "given", "message"),
    [
        ("%d", "productName", "decimal clause can only be used on integers, was given string"),
        ("%o", "productName", "octal clause can only be used on integers, was given string"),
        (
            "%b",
            "productName",
            "only integers and bools can be formatted as binary, was given string",
        ),
        (
            "%x",
            "healthy",
            "only integers, byte buffers, and strings can be formatted as hex, was given bool",
        ),
        ("%f", "healthy", "fixed-point clause can only be used on doubles, was given bool"),
        ("%e", "healthy", "scientific clause can only be used on doubles, was given bool"),
    ],
)
def test_a_clause_says_what_it_can_print(clause: str, given: str, message: str) -> None:
    """The type of the argument is known only when it is evaluated."""
    with pytest.raises(EvaluationError) as error:
        _compiled(f"'{clause}'.format([a.{given}]) == ''").evaluate(_VALUES)
    assert str(error.value) == f"error during formatting: {message}"


@pytest.mark.parametrize("text", _REFUSED.strip().splitlines())
def test_what_kubernetes_does_not_compile_is_refused(text: str) -> None:
    """Literals of mixed types, unknown functions, constants that cannot be read."""
    with pytest.raises((CompileError, InstantiationError)):
        _compiled(text)


def test_an_expensive_evaluation_is_stopped() -> None:
    """Nothing absorbs that, not even a condition that is true already."""
    loops = "lists.range(2000).all(x, lists.range(2000).all(y, x + y >= 0))"
    for text in (loops, f"{loops} || true"):
        with pytest.raises(CostLimitExceeded, match="actual cost limit exceeded"):
            _compiled(text).evaluate(_VALUES, limit=1_000_000)


def test_a_loop_that_collects_is_not_slowed_down_by_what_it_has() -> None:
    """A list of many thousand elements is built in one pass."""
    program = _compiled("lists.range(40000).map(x, x * 2).size() == 40000")
    assert program.evaluate(_VALUES, limit=1_000_000, most=2_000_000) is True
