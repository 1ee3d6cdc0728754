"""What containers print is kept within bounds and read as kubectl asks for it."""

from __future__ import annotations

import asyncio
import io
from datetime import timedelta
from pathlib import Path

import pytest

from numakube.kube.clock import ManualClock
from numakube.testing import turns, until
from numakube_lab.processes.container_files import ContainerFile, expand, write_files
from numakube_lab.processes.container_output import CURRENT, ContainerOutput, Routed
from numakube_lab.processes.program_table import is_own, words_of


def texts(output: ContainerOutput) -> list[str]:
    """Return the lines that are kept."""
    return [line.text for line in output.lines()]


def test_the_oldest_lines_go_first() -> None:
    """By number and by size; the last one is always kept."""
    output = ContainerOutput(ManualClock(), max_lines=3, max_bytes=10)
    for text in ("a", "b", "c", "d"):
        output.write(text)
    assert texts(output) == ["b", "c", "d"]
    output.write("123456789")
    assert texts(output) == ["d", "123456789"]
    output.write("x" * 100)
    assert texts(output) == ["x" * 100]


async def test_followers_see_every_line_until_the_end() -> None:
    """Also those that come while they are busy."""
    output = ContainerOutput(ManualClock())
    output.write("one\ntwo")
    seen: list[str] = []

    async def follow() -> None:
        async for line in output.follow(since=1):
            seen.append(line.text)
            await turns()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(follow())
        await until(lambda: seen)
        output.write("three")
        output.write("four")
        output.close()
    assert seen == ["two", "three", "four"]


async def test_lines_know_when_they_were_printed() -> None:
    """By the lab's clock."""
    clock = ManualClock()
    output = ContainerOutput(clock)
    output.write("a")
    await clock.advance(5)
    output.write("b")
    first, second = output.lines()
    assert second.moment - first.moment == timedelta(seconds=5)


def test_a_shared_stream_knows_whose_line_it_is() -> None:
    """What no container writes goes where it always went."""
    output, shared = ContainerOutput(ManualClock()), io.StringIO()
    stream = Routed(shared)
    print("lab", file=stream)
    token = CURRENT.set(output)
    print("container", file=stream)
    CURRENT.reset(token)
    assert (shared.getvalue(), texts(output)) == ("lab\n", ["container"])


@pytest.mark.parametrize(
    ("image", "own"),
    [
        ("numakube", True),
        ("localhost:5000/numakube", True),
        ("ghcr.example/a/numakube:1@sha256:00", True),
        ("numakube/web", False),
        ("numakube-web:1", False),
        ("", False),
    ],
)
def test_the_last_part_of_an_image_tells(image: str, *, own: bool) -> None:
    """Wherever it is kept and whatever its tag is."""
    assert is_own(image) is own


def test_the_leading_numakube_may_be_left_out() -> None:
    """It is the image's entry point."""
    assert words_of([], ["version"]) == ("version",)
    assert words_of(["/usr/bin/numakube"], ["lab-probe", "--every", "1"])[0] == "lab-probe"
    assert words_of(["numakube", "version"], []) == ("version",)


def test_programs_are_called_as_on_the_command_line() -> None:
    """A program that runs for long is below ``run`` there; its bare name is an older spelling."""
    assert words_of([], ["run", "exporter", "--oneshot"]) == ("exporter", "--oneshot")
    assert words_of(["numakube"], ["check", "container"]) == ("align",)
    assert words_of([], ["exporter", "run"]) == ("exporter", "run")


def test_references_are_replaced_once() -> None:
    """What they stand for is not looked at again."""
    assert expand("$(A)$(B) $A $", {"A": "$(B)", "B": "b"}) == "$(B)b $A $"


def test_files_that_are_gone_from_a_map_are_gone_from_the_folder(tmp_path: Path) -> None:
    """And what does not change is not written again."""
    folder = tmp_path / "v"
    write_files(folder, {"a": ContainerFile(b"1", 0o644), "b/c": ContainerFile(b"1", 0o600)})
    data = (folder / "..data").resolve()
    write_files(folder, {"a": ContainerFile(b"1", 0o644), "b/c": ContainerFile(b"1", 0o600)})
    assert (folder / "..data").resolve() == data
    write_files(folder, {"b/c": ContainerFile(b"2", 0o600)})
    assert not (folder / "a").is_symlink()
    assert (folder / "b/c").read_bytes() == b"2"
    assert not data.exists()
