"""Expressions: their values, and what is wrong with those that have none."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.cel import CompileError, EvaluationError, compile_expression
from numakube.cel.value_types import (
    DYN,
    INT,
    STRING,
    CelType,
    ObjectType,
    list_of,
    map_of,
)
from numakube.cel.values import compare

_VARIABLES: dict[str, CelType] = {
    "i": INT,
    "s": STRING,
    "l": list_of(INT),
    "m": map_of(STRING, INT),
    "o": ObjectType("object", fields={"a": INT}),
    "d": DYN,
}
_VALUES: dict[str, Any] = {
    "i": 5,
    "s": "text",
    "l": [1, 2, 3],
    "m": {"x": 1, "y": 2},
    "o": {"a": 1},
    "d": "1",
}


def _no_digit(text: str, at: str) -> str:
    return (
        f'IP Address "{text}" parse error during conversion from string: ParseAddr("{text}"): '
        f'IPv4 field must have at least one digit (at "{at}")'
    )


def _value(text: str) -> Any:
    return compile_expression(text, _VARIABLES).evaluate(_VALUES)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7),
        ("optional.of(1) == optional.of(1)", True),
        ("optional.of(1) == optional.of(2)", False),
        ("optional.none() == optional.none()", True),
        ("optional.of(1) == optional.none()", False),
        ("optional.none().?a.hasValue()", False),
        ("has(optional.none().a)", False),
        ("string(timestamp('2024-01-01T00:00:00.250Z'))", "2024-01-01T00:00:00.25Z"),
        ("string(timestamp('2024-01-01T00:00:00Z'))", "2024-01-01T00:00:00Z"),
        (
            "timestamp('2024-01-01T00:01:00Z') - timestamp('2024-01-01T00:00:00Z') "
            "== duration('1m')",
            True,
        ),
        ("timestamp('2024-07-01T00:00:00Z').getHours('')", 0),
        ("timestamp('2024-07-01T00:00:00Z').getHours('Europe/Berlin')", 2),
        ("int(duration('1500ms'))", 1_500_000_000),
        ("-dyn(true)", False),
        ("isCIDR('fe80::/64') && !isCIDR('fe80::%eth0/64')", True),
        ("isCIDR('10.0.0.0/08') || isCIDR('10.0.0.0/33') || isCIDR('10.0.0.0')", False),
        ("url('http://a.b:80/x').getPort()", "80"),
        ("url('http://a.b/x').getPort()", ""),
        ("format.byte().validate('YQ==').hasValue()", False),
        ("format.byte().validate('!').value()", ["invalid base64"]),
        ("format.byte().validate('').value()", ["invalid base64"]),
        ("format.datetime().validate('2024-01-01t00:00:00z').hasValue()", False),
        ("format.datetime().validate('noon').value()", ["invalid datetime"]),
        ("format.dns1123LabelPrefix().validate('a-').hasValue()", False),
        ("format.dns1123LabelPrefix().validate('a').hasValue()", False),
        ("format.dns1123LabelPrefix().validate('a_').hasValue()", True),
        ("format.dns1123Label().validate('a-').hasValue()", True),
        ("[?optional.of(1), 2]", [1, 2]),
        ("[?optional.none(), 2]", [2]),
        ("{?'a': optional.of(1), ?'b': optional.none()}", {"a": 1}),
        ("l[dyn(1.0)]", 2),
        ("string(1.0 / 0.0)", "+Inf"),
        ("[string(0.0), string(-0.0), string(-1.0), string(1.5)]", ["0", "-0", "-1", "1.5"]),
        ("string(-1.0 / 0.0)", "-Inf"),
        ("string(0.0 / 0.0)", "NaN"),
        ("(true ? duration('1s') : null) == duration('1s')", True),
        ("[1, 3, 2].isSorted()", False),
        ("[1, 2, 2].isSorted()", True),
        ("[2, 1, 2].lastIndexOf(2)", 2),
        ("[2, 1].indexOf(3)", -1),
        ("'abcabc'.lastIndexOf('bc', 3)", 1),
        ("'abcabc'.lastIndexOf('bc', 6)", -1),
        ("'abcabc'.lastIndexOf('', 4)", 4),
        ("'abc'.indexOf('', 9)", 3),
        ("'abc'.split('', 2)", ["a", "bc"]),
        ("'a,b'.split(',', 0)", []),
        ("'aaa'.replace('a', 'b', 2)", "bba"),
        ("'héLLo'.lowerAscii()", "héllo"),
        ("timestamp('2024-02-29T23:30:00Z').getDate('+01:00')", 1),
        ("timestamp('2024-02-29T23:30:00Z').getHours('-01:30')", 22),
        ("timestamp('2024-03-01T00:00:00Z').getDayOfWeek()", 5),
        ("duration('90m').getHours()", 1),
        ("ip('255.255.255.255').isGlobalUnicast()", False),
        ("ip('ff02::1').isLinkLocalMulticast()", True),
        ("cidr('10.1.0.0/16').containsCIDR('10.0.0.0/8')", False),
        ("cidr('::/0').containsIP('10.0.0.1')", False),
        ("[1, 2].exists_one(x, x > 0)", False),
        ("string(b'abc')", "abc"),
        ("'%.2f'.format([1234.5])", "1,234.50"),
        ("'%f %f'.format([0.0 / 0.0, -1.0 / 0.0])", "NaN -∞"),
        ("'%x %X %o %b'.format([255, 255, 8, true])", "ff FF 10 1"),
        ("'%s'.format([{'b': 1, 'a': [2.5]}])", '{"a":[2.500000], "b":1}'),
        ("strings.quote('a\\n\"')", '"a\\n\\""'),
        ("(1 + 2) * 3", 9),
        ("7 / 2", 3),
        ("-7 / 2", -3),
        ("-7 % 3", -1),
        ("7.0 / 2.0", 3.5),
        ("2.0 * 3.5", 7.0),
        (".i == 5", True),
        ("1u + 2u", 3),
        ("0x10", 16),
        ("1e3", 1000.0),
        ("'a' + \"b\"", "ab"),
        (r"'\n\x41é'", "\nAé"),
        (r"r'\n'", r"\n"),
        ("'''a'b'''", "a'b"),
        ("b'abc'", b"abc"),
        (r"'\101\X42\377'", "AB\xff"),
        (r"b'\101\377'", b"A\xff"),
        (r"b'\xffé€'", b"\xff\xc3\xa9\xe2\x82\xac"),
        (r"br'\x41'", rb"\x41"),
        ("[1, 2] + [3]", [1, 2, 3]),
        ("cel.bind(x, [], x + x == [])", True),
        ("[1, 2][1]", 2),
        ("{'a': 1}['a']", 1),
        ("{'a': 1}.a", 1),
        ("dyn(1) == 1.0", True),
        ("1 < 1.5", True),
        ("'a' != 'b'", True),
        ("null == null", True),
        ("2 in [1, 2]", True),
        ("'x' in m", True),
        ("i > 3 ? 'big' : 'small'", "big"),
        ("true || 1 / 0 == 1", True),
        ("1 / 0 == 1 || true", True),
        ("false && 1 / 0 == 1", False),
        ("1 / 0 == 1 && false", False),
        ("!(i > 3)", False),
        ("has(o.a)", True),
        ("has(m.z)", False),
        ("l.all(x, x > 0)", True),
        ("l.exists(x, x > 2)", True),
        ("l.exists_one(x, x > 1)", False),
        ("l.map(x, x * 2)", [2, 4, 6]),
        ("l.map(x, x > 1, x * 2)", [4, 6]),
        ("l.filter(x, x != 2)", [1, 3]),
        ("m.all(k, m[k] > 0)", True),
        ("l.exists(x, x == 3 || x / 0 == 1)", True),
        ("size(s) + s.size() + size(l) + size(m)", 13),
        ("s.startsWith('te') && s.endsWith('xt') && s.contains('ex')", True),
        ("s.matches('^t.*t$') && matches(s, 'ex')", True),
        ("int('5') + int(2.9) + int(3u)", 10),
        ("double('1.5') + double(1)", 2.5),
        ("string(1) + string(1.5) + string(true) + string(2.0)", "11.5true2"),
        ("uint(3)", 3),
        ("bool('true')", True),
        ("bool(true)", True),
        ("bool(false)", False),
        ("string(bytes('ab'))", "ab"),
        ("type(1) == int && type('') == string", True),
        ("timestamp('2024-05-01T10:00:00Z').getHours()", 10),
        ("(timestamp('2024-05-01T10:00:00Z') + duration('1h')).getHours()", 11),
        ("string(duration('1h30m'))", "5400s"),
        ("duration('90s').getMinutes()", 1),
        ("s.charAt(1)", "e"),
        ("s.indexOf('x') + s.lastIndexOf('t')", 5),
        ("'AbÄ'.lowerAscii() + 'ab'.upperAscii()", "abÄAB"),
        ("' a '.trim()", "a"),
        ("'a-b-c'.replace('-', '+', 1)", "a+b-c"),
        ("'a,b,c'.split(',', 2)", ["a", "b,c"]),
        ("s.substring(1, 3)", "ex"),
        ("['a', 'b'].join('-')", "a-b"),
        ("'a1b22'.find('[0-9]+')", "1"),
        ("'a1b22'.findAll('[0-9]+')", ["1", "22"]),
        ("l.isSorted() && l.sum() == 6 && l.min() == 1 && l.max() == 3", True),
        ("l.indexOf(2) + l.lastIndexOf(9)", 0),
        ("quantity('1Gi').isGreaterThan(quantity('500Mi'))", True),
        ("quantity('500').add(quantity('1500')).asInteger()", 2000),
        ("isQuantity('x') || quantity('1').compareTo(quantity('2')) == -1", True),
        ("isURL('https://a.example') && !isURL('a b')", True),
        ("isIP('::1') && !isIP('x') && isCIDR('10.0.0.0/8')", True),
        ("dyn(1) == 1", True),
        ("d == '1'", True),
        ("l.all(x, l.exists(y, y == x))", True),
        ("i // a comment\n == 5", True),
    ],
)
def test_an_expression_has_its_value(text: str, value: Any) -> None:
    """As in any implementation of the language."""
    found = _value(text)
    assert found == value
    assert isinstance(found, bool) == isinstance(value, bool)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("9223372036854775807 + 1", "integer overflow"),
        ("i / 0", "division by zero"),
        ("i % 0", "modulus by zero"),
        ("l[9]", "index out of bounds: 9"),
        ("m['z']", "no such key: z"),
        ("m.z", "no such key: z"),
        ("d > 1", "no such overload"),
        ("d.startsWith(d) && d.all(x, true)", "got 'types.String', expected iterable type"),
        ("int(s)", "type conversion error from 'string' to 'int'"),
        ("duration(s)", 'time: invalid duration "text"'),
        ("s.substring(9)", "index out of range: 9"),
        ("l.all(x, x / 0 == 1)", "division by zero"),
        ("[].min()", "min called on empty list"),
        ("ip('1..2.3')", _no_digit("1..2.3", ".2.3")),
        ("ip('.1.2.3')", _no_digit(".1.2.3", ".1.2.3")),
        ("ip('1.2.3.')", _no_digit("1.2.3.", ".")),
        (
            "timestamp('2024-07-01T00:00:00Z').getHours('No/Where')",
            "unknown time zone No/Where",
        ),
    ],
)
def test_an_expression_without_value_says_why(text: str, message: str) -> None:
    """In the words of cel-go."""
    with pytest.raises(EvaluationError) as error:
        _value(text)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "i >",
            "ERROR: <input>:1:4: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', "
            "'.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, "
            "IDENTIFIER}\n | i >\n | ...^",
        ),
        (
            "i.a",
            "ERROR: <input>:1:2: type 'int' does not support field selection\n | i.a\n | .^",
        ),
        ("o.b", "ERROR: <input>:1:2: undefined field 'b'\n | o.b\n | .^"),
        (
            "[?1]",
            "ERROR: <input>:1:3: expected type 'optional_type(int)' but found 'int'\n"
            " | [?1]\n | ..^",
        ),
        (
            "[1, ?optional.of('a')]",
            "ERROR: <input>:1:17: expected type 'int' but found 'string'\n"
            " | [1, ?optional.of('a')]\n | ................^",
        ),
        (
            "{?'a': 1}",
            "ERROR: <input>:1:8: expected type 'optional_type(int)' but found 'int'\n"
            " | {?'a': 1}\n | .......^",
        ),
        (
            "i + s",
            "ERROR: <input>:1:3: found no matching overload for '_+_' applied to '(int, string)'\n"
            " | i + s\n | ..^",
        ),
        (
            "s.startsWith(1)",
            "ERROR: <input>:1:13: found no matching overload for 'startsWith' applied to "
            "'string.(int)'\n | s.startsWith(1)\n | ............^",
        ),
        (
            "x",
            "ERROR: <input>:1:1: undeclared reference to 'x' (in container '')\n | x\n | ^",
        ),
        (
            "true &&\nl.all(x, x)",
            "ERROR: <input>:2:10: expected type 'bool' but found 'int'\n"
            " | l.all(x, x)\n | .........^",
        ),
    ],
)
def test_a_mistake_is_pointed_at(text: str, message: str) -> None:
    """With the line, and a mark below it."""
    with pytest.raises(CompileError) as error:
        compile_expression(text, _VARIABLES)
    assert str(error.value) == message


@pytest.mark.parametrize(
    "text",
    [
        "1 +",
        "(1",
        "[1",
        "{1}",
        "i i",
        "'a",
        "'\\q'",
        r"'\477'",
        r"b'\u00e9'",
        "'cel'.bind(x, 1, x)",
        "#",
        "for",
        "has(i)",
        "l.all(1, true)",
        "i.all(x, true)",
        "1 == 1.0",
        "duration('x')",
        "Type{a: 1}",
        "9223372036854775808",
        "l.frobnicate(x, y, z)",
        "i in i",
        "has()",
        "1 in",
        "a..b",
        "(" * 300 + "1" + ")" * 300,
        "!" * 3000 + "true",
    ],
)
def test_what_is_not_understood_is_refused(text: str) -> None:
    """Never taken for something else."""
    with pytest.raises(CompileError):
        compile_expression(text, _VARIABLES)


def test_a_dot_at_the_beginning_belongs_to_a_name() -> None:
    """A word of the language is none, and a variable of that name is not looked for."""
    with pytest.raises(CompileError, match="Syntax error"):
        compile_expression(".true", _VARIABLES)


_OPERATORS = st.sampled_from(["+", "-", "*"])
_NUMBERS = st.integers(-100, 100)


@given(st.lists(st.tuples(_OPERATORS, _NUMBERS), max_size=6), _NUMBERS)
def test_arithmetic_agrees_with_ours(steps: list[tuple[str, int]], first: int) -> None:
    """Precedence and sign included."""
    text = str(first) + "".join(f" {operator} {number}" for operator, number in steps)
    expected = eval(text)  # noqa: S307 - made of numbers and operators only
    assert compile_expression(text, {}).evaluate({}) == expected


def test_variables_that_are_mentioned_are_known() -> None:
    """Also deep inside, and not if they are bound there."""
    program = compile_expression(
        "l.all(x, {'a': [x, i]}.a[0] > 0 ? has(o.a) : s == '')", _VARIABLES
    )
    assert [name for name in ("i", "l", "m", "o", "s") if program.mentions(name)] == [
        "i",
        "l",
        "o",
        "s",
    ]


@pytest.mark.parametrize(("one", "other"), [(math.nan, 1.0), (1, math.nan), (math.nan, math.nan)])
def test_what_is_no_number_has_no_place_among_numbers(one: float, other: float) -> None:
    """Whichever of the two it is."""
    with pytest.raises(EvaluationError, match="NaN values cannot be ordered"):
        compare(one, other)
