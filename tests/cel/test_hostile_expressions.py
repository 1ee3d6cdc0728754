"""Expressions that anyone can write into an object: none takes long, none takes much memory."""

from __future__ import annotations

import time
import tracemalloc
from typing import Final

import pytest

from numakube.cel import (
    CompileError,
    CostLimitExceeded,
    EvaluationError,
    EvaluationStopped,
    TimeLimitExceeded,
    compile_expression,
)
from numakube.cel.bounded_cache import BoundedCache
from numakube.cel.costs import ERROR_WORK, LOOK_EVERY, MOST_WORK, UNLIMITED, Meter
from numakube.cel.parser import MAX_HEIGHT
from numakube.cel.string_functions import CACHED_BYTES, MAX_BYTES, compiled, compiled_size
from numakube.cel.value_types import DYN
from numakube.errors import InvalidValue

_MANY: Final = "a" * 9000
_GENEROUS_SECONDS: Final = 2.0
"""Without limits these take minutes; with them some 30 ms."""
_GENEROUS_BYTES: Final = 40_000_000
"""Without limits these take gigabytes; with them a few megabytes."""


def _doubled(times: int, start: str, twice: str, use: str) -> str:
    """Return an expression that binds ever bigger values: *twice* makes one from ``{}``."""
    body = use.replace("LAST", f"a{times}")
    for index in range(times, 0, -1):
        body = f"cel.bind(a{index}, {twice.replace('{}', f'a{index - 1}')}, {body})"
    return f"cel.bind(a0, {start}, {body})"


_STOPPED: Final = {
    "a list doubled 26 times": _doubled(26, "[1,1,1,1]", "{}+{}", "LAST.size() > 0"),
    "a text doubled 26 times": _doubled(26, "'😀😀😀😀'", "{}+{}", "LAST.size() > 0"),
    "bytes doubled 26 times": _doubled(26, "b'aaaa'", "{}+{}", "LAST.size() > 0"),
    "a tree of lists compared": _doubled(26, "[1]", "[{}, {}]", "LAST == LAST"),
    "a tree of lists that differ": _doubled(26, "[1]", "[{}, {}]", "LAST != LAST"),
    "a tree of lists searched": _doubled(26, "[1]", "[{}, {}]", "dyn(LAST).includes(1)"),
    "a tree of lists searched in vain": _doubled(24, "[1]", "[{}, {}]", "LAST.includes(a.b)"),
    "a tree of lists in a list": _doubled(26, "[1]", "[{}, {}]", "LAST in [LAST]"),
    "a tree of lists printed": _doubled(24, "[1]", "[{}, {}]", "'%s'.format([LAST]) == ''"),
    "a tree of lists flattened": _doubled(22, "[1]", "[{}, {}]", "dyn(LAST).flatten(30) == []"),
    "a tree of maps compared": _doubled(24, "{'a': 1}", "{'a': {}, 'b': {}}", "LAST == LAST"),
    "loops that cost nothing": (
        "cel.bind(a, lists.range(1000), a.exists_one(x, a.exists_one(y, a.exists_one(z, false))))"
    ),
    "long literals in a loop": f"lists.range(9000).map(x, [{'1,' * 4000} x]).size() > 0",
    "long maps in a loop": (
        f"lists.range(9000).map(x, {{{','.join(f'{i}:1' for i in range(1000))}, 1000: x}}) == []"
    ),
    "elements told apart": "lists.range(20000).distinct().size() > 0",
    "sets of many elements": "sets.equivalent(lists.range(3000), lists.range(3000))",
    "a set in a set": "sets.contains(lists.range(3000), lists.range(3000))",
    "sets that do not meet": "sets.intersects(lists.range(3000), lists.range(3000).map(x, -x - 1))",
    "sorted with types unknown": "dyn(lists.range(50000)).sort().size() > 0",
    "sorted by a key": "lists.range(50000).sortBy(x, -x).size() > 0",
    "a sum of many": "lists.range(100000).sum() > 0",
    "a list turned around in a loop": (
        "cel.bind(a, lists.range(10000), lists.range(5000).map(x, a.reverse()).size() > 0)"
    ),
    "slices kept": (
        "cel.bind(a, lists.range(10000), lists.range(5000).map(x, a.slice(0, 9999)).size() > 0)"
    ),
    "a precise number": "'%.999999999f'.format([1.0]).size() > 0",
    "a number far to the right": "'%.2000000000e'.format([1.0]).size() > 0",
    "a text printed over and over": (
        f"cel.bind(b, '{_MANY}', lists.range(10000).map(x, '%s'.format([b])).size() > 0)"
    ),
    "every letter a part": f"lists.range(500).map(x, '{'é' * 4000}'.split('')).size() > 0",
    "a text that grows by replacing": "'a'" + ".replace('a', 'aaaaaaaaaa')" * 9 + ".size() > 0",
    "a text that is replaced by a longer one": (
        f"'{_MANY[:4000]}'.replace('a', '{_MANY[:5000]}').size() > 0"
    ),
    "a text that grows by joining": (
        f"lists.range(20000).map(x, '{_MANY[:3000]}').join('{_MANY[:3000]}').size() > 0"
    ),
    "capitals in a loop": f"lists.range(5000).map(x, '{_MANY}'.upperAscii()).size() > 0",
    "quotes in a loop": f"lists.range(5000).map(x, strings.quote('{_MANY}')).size() > 0",
    "the last place of a text": (
        f"lists.range(3000).all(x, '{_MANY[:4500]}'.lastIndexOf("
        f"'{_MANY[:2000]}b{_MANY[:2000]}') < 0)"
    ),
    "patterns made in a loop": "lists.range(2000).exists(i, 'x'.matches('.{1,1000}' + string(i)))",
    "patterns too large, absorbed": (
        r"lists.range(2000).exists(i, 'x'.matches('\\pL{400}' + string(i)))"
    ),
    "a pattern with many states": f"'{'ab' * 4000}'.matches('[ab]*a[ab]{{900}}x')",
    "errors absorbed by the thousand": (
        "lists.range(90).all(x, lists.range(90).all(y, lists.range(90).all(z, 1 / 0 == 1)))"
    ),
}
_BIG: Final = (
    "a list doubled 26 times",
    "a text doubled 26 times",
    "slices kept",
    "a list turned around in a loop",
    "a precise number",
    "a text printed over and over",
    "every letter a part",
    "a text that is replaced by a longer one",
    "quotes in a loop",
)
"""Those that would take memory rather than time."""
_ANSWERED: Final = {
    "a pattern that backtracks": (f"'{_MANY[:40]}!'.matches('^(a|aa)+$')", False),
    "the same for each of many": (
        f"lists.range(50).exists(x, '{_MANY[:40]}!'.matches('^(a|aa)+$'))",
        False,
    ),
    "all places of a pattern": (f"'{_MANY[:40]}!'.findAll('^(a|aa)+$') == []", True),
    "numbers looked up": (
        "cel.bind(m, lists.range(3000).transformMap(i, v, v), lists.range(3000).all(i, m[i] == i))",
        True,
    ),
    "constants looked up": (
        f"lists.range(3000).all(x, !(x + 9000 in [{','.join(map(str, range(1500)))}]))",
        True,
    ),
    "true is no number": (
        "dyn(true) in [1, 2] || dyn(1) in {true: 1} || dyn(true) in {1: 2} || dyn(0) in [false]",
        False,
    ),
    "numbers of other types are": ("dyn(1.0) in [1, 2] && dyn(1u) in {1: 2}", True),
    "a long number is no number": (f"double('{'9' * 9000}') > 1.0", True),
    "a quantity beyond all bounds": ("quantity('1e400').asApproximateFloat() > 1.0", True),
}
_WITHOUT_VALUE: Final = {
    "a number of 9,000 digits": (
        f"int('{'9' * 9000}' + a.letter.substring(1)) > 0",
        "type conversion error",
    ),
    "an unsigned one": (
        f"uint('{'9' * 9000}' + a.letter.substring(1)) > 0u",
        "type conversion error",
    ),
    "a precision of 20 digits": (
        f"('%.{'9' * 20}' + string(a.letter)).format([1]) == ''",
        "value out of range",
    ),
    "a repetition beyond Go's": ("'x'.matches('a{9999' + '99}')", "invalid repeat count"),
    "repetitions of repetitions": ("'x'.matches('(a{1000}){1000' + '}')", "invalid repeat count"),
    "a key that is a list": ("dyn([1]) in {'a': 1}", "unsupported key type"),
    "a host that is none": ("url('http://[abc]/').getHost() == 'x'", "cannot be evaluated"),
    "a zone that is none": (
        "timestamp('2020-01-01T00:00:00Z').getHours('99:99') == 1",
        "cannot be evaluated",
    ),
}
_REFUSED: Final = {
    "5,000 terms": ("+".join(["1"] * 5000) + " > 0", "recursion limit"),
    "4,000 fields": ("a" + ".b" * 4000 + " == 1", "recursion limit"),
    "1,500 calls": ("'x'" + ".trim()" * 1500 + " == 'x'", "recursion limit"),
    "1,000 macros": ("[1]" + ".map(x, x)" * 1000 + ".size() > 0", "recursion limit"),
    "3,000 parentheses": ("(" * 3000 + "true" + ")" * 3000, "recursion limit"),
    "400 brackets beside each other before 70 in each other": (
        f"[{'(1),' * 400}{'(' * 70}1{')' * 70}] == []",
        "recursion limit",
    ),
    "a macro that repeats its target": (
        "optional.of(1)" + ".optFlatMap(x, optional.of(x))" * 14 + ".hasValue()",
        "size limit",
    ),
    "a number of 5,000 digits": ("9" * 5000 + " > 0", "invalid int literal"),
    "a character that is none": (r"'\UFFFFFFFF' == ''", "invalid escape sequence"),
    "half a character": (r"'\ud800' == ''", "invalid escape sequence"),
    "more than 100,000 characters": ("1" + " " * 100_000, "exceeds limit"),
    "2,000 unknown names": (
        f"[{','.join(f'n{i}' for i in range(2000))}] == []",
        "1900 more errors were truncated",
    ),
    "400 big patterns": (
        "[" + ",".join(f"'x'.matches('.{{1,{1000 - i}}}')" for i in range(400)) + "] == []",
        "invalid matches argument",
    ),
    "400 big patterns to find": (
        "[" + ",".join(f"'x'.find('.{{1,{1000 - i}}}')" for i in range(400)) + "] == []",
        "invalid find argument",
    ),
    "a pattern with 3,000 groups": (
        f"'x'.matches('{'(' * 3000}{')' * 3000}')",
        "invalid matches argument",
    ),
    "a repetition of 99999999": ("'x'.matches('a{99999999}')", "invalid matches argument"),
}


def _run(text: str) -> object:
    return compile_expression(text, {"a": DYN}).evaluate({"a": {"letter": "d"}}, limit=1_000_000)


@pytest.mark.parametrize("name", _STOPPED)
def test_what_would_take_too_much_is_stopped_before_it_is_done(name: str) -> None:
    """By work and memory, which are counted before; nothing absorbs that, not even ``|| true``."""
    text = _STOPPED[name]
    began = time.process_time()
    with pytest.raises(CostLimitExceeded):
        _run(text)
    with pytest.raises(CostLimitExceeded):
        _run(f"{text} || true")
    assert time.process_time() - began < _GENEROUS_SECONDS


def test_what_is_stopped_takes_little_memory() -> None:
    """The first of the table were gigabytes each."""
    tracemalloc.start()
    try:
        for name in _BIG:
            tracemalloc.reset_peak()
            with pytest.raises(CostLimitExceeded):
                _run(_STOPPED[name])
            assert tracemalloc.get_traced_memory()[1] < _GENEROUS_BYTES, name
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", _ANSWERED)
def test_what_is_little_work_is_answered(name: str) -> None:
    """Matching takes linear time, and looking up constant time."""
    text, value = _ANSWERED[name]
    began = time.process_time()
    assert _run(text) is value
    assert time.process_time() - began < _GENEROUS_SECONDS


@pytest.mark.parametrize("name", _WITHOUT_VALUE)
def test_what_cannot_be_computed_is_an_error_of_the_expression(name: str) -> None:
    """Not one of the program that evaluates it."""
    text, message = _WITHOUT_VALUE[name]
    with pytest.raises(EvaluationError, match=message):
        _run(text)


@pytest.mark.parametrize("name", _REFUSED)
def test_what_is_too_big_is_refused_when_it_is_read(name: str) -> None:
    """With a message that is no longer than the mistakes deserve."""
    text, message = _REFUSED[name]
    began = time.process_time()
    with pytest.raises(CompileError, match=message) as error:
        compile_expression(text, {"a": DYN})
    assert len(str(error.value)) < 110 * (2 * len(text) + 100)
    assert time.process_time() - began < _GENEROUS_SECONDS


def test_a_chain_of_the_greatest_height_is_evaluated() -> None:
    """Deep inside other calls, too."""
    chain = " + ".join(["1"] * (MAX_HEIGHT - 2)) + " > 0"
    calls = "'x'" + ".trim()" * (MAX_HEIGHT - 3) + " == 'x'"

    def deeper(levels: int) -> None:
        if levels:
            deeper(levels - 1)
        else:
            assert _run(chain) is True
            assert _run(calls) is True

    deeper(150)


def test_time_that_is_over_ends_an_evaluation() -> None:
    """Conditions and loops do not absorb it as they absorb errors."""
    loop = "lists.range(100).exists(x, lists.range(100).exists(y, x + y < 0))"
    for text in (loop, f"{loop} || true", f"[1].exists(x, {loop})"):
        program = compile_expression(text, {})
        with pytest.raises(TimeLimitExceeded, match="took too long"):
            program.evaluate({}, expired=lambda: True)
        assert program.evaluate({}, expired=lambda: False) in (True, False)


def test_the_clock_is_looked_at_now_and_then() -> None:
    """A short evaluation needs no clock; a long one looks often."""
    looks: list[int] = []

    def expired() -> bool:
        looks.append(1)
        return False

    compile_expression("1 + 1 == 2", {}).evaluate({}, expired=expired)
    assert not looks
    program = compile_expression("lists.range(4000).all(x, x >= 0)", {})
    _, cost = program.measure({}, expired=expired)
    assert len(looks) >= cost // (2 * LOOK_EVERY)


def test_work_does_not_count_as_cost() -> None:
    """The cost is what Kubernetes would say, whatever we do for it."""
    meter = Meter(10, MOST_WORK)
    meter.charge(4)
    meter.spend(100)
    assert (meter.cost, meter.used, meter.left) == (4, 104, MOST_WORK - 104)
    meter.charge(6)
    with pytest.raises(CostLimitExceeded):
        meter.charge(1)


def test_work_has_a_limit_of_its_own() -> None:
    """Cost and work together."""
    meter = Meter(UNLIMITED, 100)
    meter.charge(60)
    meter.spend(40)
    with pytest.raises(EvaluationStopped):
        meter.spend(1)


def test_an_error_that_a_loop_goes_on_with_is_work() -> None:
    """It costs nothing more, but remembering it takes time."""
    meter = Meter(UNLIMITED, MOST_WORK)
    with pytest.raises(EvaluationError, match="no such key"):
        compile_expression("[1, 2].filter(x, a.b)", {"a": DYN}).run({"a": {}}, meter)
    assert meter.used - meter.cost >= 2 * ERROR_WORK


def test_patterns_of_an_expression_have_a_common_size() -> None:
    """As many instructions as are allowed, and not one more."""
    letters = 25_000 - compiled_size("a") + 1
    compile_expression(f"'x'.matches('{'a' * letters}')", {})
    with pytest.raises(CompileError, match="invalid matches argument"):
        compile_expression(f"'x'.matches('{'a' * (letters + 1)}')", {})


def test_patterns_take_bounded_memory() -> None:
    """Each of them, and those that are kept."""
    small, big = compiled("^[a-z]+$"), compiled(".{1,1000}")
    assert small.bytes < big.bytes == MAX_BYTES
    with pytest.raises(InvalidValue, match="expression too large"):
        compiled(r"\pL{1000}")
    assert CACHED_BYTES // MAX_BYTES < 100


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("[abc", "missing closing ]: `[abc`"),
        ("a(", "missing closing ): `a(`"),
        ("a)", "unexpected ): `a)`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("*a", "missing argument to repetition operator: `*`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("a{12345678901}", "invalid repeat count: `{12345678901}`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?P<n", "invalid named capture: `(?P<n`"),
        ("\\", "trailing backslash at end of expression: ``"),
        (r"\8", r"invalid escape sequence: `\8`"),
        (r"\C", r"invalid escape sequence: `\C`"),
        ("[z-a]", "invalid character class range: `z-a`"),
    ],
)
def test_a_pattern_is_refused_in_the_words_of_go(pattern: str, message: str) -> None:
    """Which names the part at fault."""
    with pytest.raises(InvalidValue) as error:
        compiled(pattern)
    assert str(error.value) == f"error parsing regexp: {message}"


def test_patterns_find_what_go_finds() -> None:
    """Behind a match nothing empty is found; escapes quote what looks like a refused one."""
    assert compiled("a*").all("baac") == ["", "aa", ""]
    assert compiled("é+").all("aéé é") == ["éé", "é"]
    assert compiled("").all("aé") == ["", "", ""]
    assert compiled(r"\Q\C\E").first(r"x\Cx") == r"\C"
    assert compiled(r"\\C").first(r"x\Cx") == r"\C"
    assert compiled("b$").first("ab\n") is None


@pytest.mark.parametrize(
    ("pattern", "text"),
    [(r"[\x{10000}-\x{10FFFF}]", "\U0001f600"), ("[a{10000}]+", "{100}"), ("a{00001}", "a{00001}")],
)
def test_only_a_repetition_has_a_count(pattern: str, text: str) -> None:
    """Characters by number, in classes, and what Go takes for text are none."""
    assert compiled(pattern).first(text) == text
    assert compiled(r"\pL\d").first("é1") == "é1"


def test_a_cache_forgets_what_it_has_had_for_longest() -> None:
    """By weight."""
    made: list[str] = []

    def make(text: str) -> str:
        made.append(text)
        return text * 2

    cache = BoundedCache(make, weigh=lambda text, _: len(text), most=6)
    assert [cache.get(text) for text in ("aa", "bb", "aa", "cc", "dd", "aa")] == [
        "aaaa", "bbbb", "aaaa", "cccc", "dddd", "aaaa",
    ]  # fmt: skip
    assert made == ["aa", "bb", "cc", "dd", "aa"]
    assert cache.get("x" * 7) == "x" * 14
    assert len(cache) == 0
