"""Replaying recorded cases: printing, comparing, and bad input."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.docs.pages import ROOT

from numakube_conformance.case_loop import Case, RecordingFormat, print_check

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.conftest import Ended

VECTORS = ROOT / "tests" / "vectors"
ROW = {"kind": "quantity", "s": "1k", "canonical": "1k", "value": 1000, "milli": 1000000}


def lines(*rows: dict[str, Any]) -> str:
    """Return rows as JSON lines."""
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def test_an_answer_a_line_in_the_recorded_shape(
    tmp_path: Path, numakube: Callable[..., Ended]
) -> None:
    """Without --check the answers are printed, and nothing is compared."""
    file = tmp_path / "rows"
    file.write_text(lines(ROW | {"value": 7}, ROW) + "\n")

    result = numakube("replay", "values", file)

    assert (result.code, result.err) == (0, "")
    assert [json.loads(line) for line in result.out.splitlines()] == [ROW, ROW]


def test_a_difference_is_shown_and_counted(tmp_path: Path, numakube: Callable[..., Ended]) -> None:
    """The last line has the totals and the exit code is 1."""
    file = tmp_path / "rows"
    file.write_text(lines(ROW, ROW | {"value": 7}))

    result = numakube("replay", "values", file, "--check")

    assert result.code == 1
    assert result.out == ("line 2: differs\n    value: recorded 7, ours 1000\n1 passed, 1 failed\n")


def test_gzip_is_recognised_by_its_content(tmp_path: Path, numakube: Callable[..., Ended]) -> None:
    """The name of the file does not matter."""
    file = tmp_path / "rows"
    file.write_bytes(gzip.compress(lines(ROW).encode()))

    assert numakube("replay", "values", file, "--check").out == "1 passed, 0 failed\n"


@pytest.mark.parametrize("compress", [lambda data: data, gzip.compress])
def test_standard_input(
    compress: Callable[[bytes], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    numakube: Callable[..., Ended],
) -> None:  # fmt: skip
    """A dash reads standard input, plain or compressed."""
    file = tmp_path / "rows"
    file.write_bytes(compress(lines(ROW).encode()))
    with file.open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        result = numakube("replay", "values", "-", "--check")

    assert result == type(result)(0, "1 passed, 0 failed\n", "")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (lines(ROW) + "{", "line 2: not JSON"),
        ("[]\n", "line 1: a JSON object is expected"),
        (lines({"s": "1"}), "line 1: there is no 'kind'"),
        (lines({"kind": "colour"}), "line 1: values row: kind: no such kind: 'colour'"),
    ],
)
@pytest.mark.parametrize("options", [[], ["--check"]])
def test_a_bad_line_is_reported_with_its_number(
    content: str, message: str, options: list[str], tmp_path: Path, numakube: Callable[..., Ended]
) -> None:
    """Bad input is like wrong usage: exit code 2, not a failed case."""
    file = tmp_path / "rows"
    file.write_text(content)

    result = numakube("replay", "values", file, *options)

    assert result.code == 2
    assert message in result.err


def test_damaged_gzip_is_reported(tmp_path: Path, numakube: Callable[..., Ended]) -> None:
    """A file that was cut off says so instead of passing with fewer cases."""
    file = tmp_path / "rows.gz"
    file.write_bytes(gzip.compress(lines(*[ROW] * 50).encode())[:-9])

    result = numakube("replay", "values", file, "--check")

    assert result.code == 2
    assert "damaged gzip data after line 50" in result.err


def test_a_missing_file_is_wrong_usage(numakube: Callable[..., Ended]) -> None:
    """Click's own check of the path."""
    result = numakube("replay", "values", "nowhere.jsonl")

    assert result.code == 2
    assert "'nowhere.jsonl' does not exist" in result.err


def test_all_ids_are_listed_but_only_the_first_are_explained(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Twenty failures show twenty ids and five explanations, each of at most eight lines."""
    form = RecordingFormat(
        answer=lambda row: {"id": row["id"], "expect": list(range(20))},
        recorded=lambda row: {"id": row["id"], "expect": list(range(1, 21))},
        required=("id",),
    )
    cases = [Case(n, {"id": f"tm-{n}"}) for n in range(20)]

    assert print_check(form, cases) == 20

    out = capsys.readouterr().out
    assert sum(line.endswith(": differs") for line in out.splitlines()) == 20
    assert out.count("expect[0]: recorded 1, ours 0") == 5
    assert out.count("and 12 more") == 5


def test_a_case_that_breaks_the_answer_does_not_hide_the_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A bug in one answer is one failed case."""

    def answer(row: dict[str, Any]) -> dict[str, Any]:
        return {"id": row["id"], "half": 1 / row["n"]}

    form = RecordingFormat(
        answer=answer, recorded=lambda row: {"id": row["id"], "half": 1.0}, required=()
    )

    assert print_check(form, [Case(1, {"id": "a", "n": 0}), Case(2, {"id": "b", "n": 1})]) == 1
    assert "our answer broke with ZeroDivisionError" in capsys.readouterr().out


def test_differences_name_what_is_absent(capsys: pytest.CaptureFixture[str]) -> None:
    """Keys that only one side has, and lists of other lengths, are told as such."""
    form = RecordingFormat(
        answer=lambda _row: {"a": {"new": True}, "b": [1]},
        recorded=lambda _row: {"a": {"old": "x"}, "b": [1, 2]},
        required=(),
    )

    print_check(form, [Case(3, {})])

    assert capsys.readouterr().out.splitlines() == [
        "line 3: differs",
        '    a.old: recorded "x", ours nothing',
        "    a.new: recorded nothing, ours true",
        "    b: recorded [1, 2], ours [1]",
        "0 passed, 1 failed",
    ]


def test_the_recorded_values_pass(numakube: Callable[..., Ended]) -> None:
    """The golden vectors, through the command line."""
    result = numakube("replay", "values", VECTORS / "values.jsonl.gz", "--check")

    assert result.out == "1654 passed, 0 failed\n"


def test_recorded_kubelet_scenarios_pass(numakube: Callable[..., Ended]) -> None:
    """The small file through the command line; the large one is tested with the model."""
    result = numakube("replay", "kubelet", VECTORS / "kubelet-1.36.jsonl.gz", "--check")

    assert (result.code, result.out) == (0, "5 passed, 0 failed\n")


def test_a_kubelet_answer_has_the_recorded_shape(numakube: Callable[..., Ended]) -> None:
    """Id and expect, nothing else."""
    result = numakube("replay", "kubelet", VECTORS / "kubelet-1.36.jsonl.gz")

    answers = [json.loads(line) for line in result.out.splitlines()]
    assert [sorted(answer) for answer in answers] == [["expect", "id"]] * 5
