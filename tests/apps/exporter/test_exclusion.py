"""What a report leaves out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.apps.exporter.build import container, inputs, pod, two_zones

from numakube.apps.exporter.exclusion import glob_matches, is_excluded, listed_pods, shared_pool
from numakube.apps.exporter.report_options import ContainerName, PodPattern, ReportOptions
from numakube.errors import InvalidValue


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("", ""),
        ("abc", "abc"),
        ("*", "abc"),
        ("*", ""),
        ("*c", "abc"),
        ("a*/b", "abc/b"),
        ("a*b*c*d*e*", "axbxcxdxe"),
        ("ab[c]", "abc"),
        ("ab[b-d]", "abc"),
        ("ab[^e-g]", "abc"),
        ("a\\*b", "a*b"),
        ("a[^a]b", "a\u263ab"),
        ("[a-\u03b6]*", "\u03b1"),
        ("a[^a]b", "a/b"),
        ("[\\-]", "-"),
        ("[x\\-]", "x"),
        ("[!a]", "!"),
        ("[.]", "."),
        ("]", "]"),
        ("a?c", "a\nc"),
    ],
)
def test_a_pattern_matches(pattern: str, text: str) -> None:
    """As Go's filepath.Match does."""
    assert glob_matches(pattern, text)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("", "x"),
        ("a*", "ab/c"),
        ("*", "a/b"),
        ("a?b", "a/b"),
        ("a*b?c*x", "abxbbxdbxebxczzy"),
        ("ab[e-g]", "abc"),
        ("ab[^b-d]", "abc"),
        ("ab[d-b]", "abc"),
        ("abc", "ABC"),
    ],
)
def test_a_pattern_does_not_match(pattern: str, text: str) -> None:
    """A slash is crossed by no wildcard, and an inverted span has no characters."""
    assert not glob_matches(pattern, text)


@pytest.mark.parametrize(
    "pattern",
    ["[]a]", "[-]", "[x-]", "[-x]", "[a-b-c]", "[", "[^", "[^]", "[^bc", "a[", "\\", "a\\"],
)
def test_a_malformed_pattern_matches_nothing(pattern: str) -> None:
    """Not even itself."""
    assert not any(
        glob_matches(pattern, text) for text in ("", "a", "x", "-", "]", "^", "b", pattern)
    )


@given(st.text(alphabet="ab*?[]^-\\/", max_size=8), st.text(alphabet="ab*-]/\n", max_size=6))
def test_no_pattern_breaks_the_matching(pattern: str, text: str) -> None:
    """Whatever users write, it matches or it does not; a text escaped whole matches itself."""
    assert glob_matches(pattern, text) in (True, False)
    assert glob_matches("".join(f"\\{char}" for char in text), text)


def test_a_pod_is_excluded_if_namespace_and_name_match_one_item() -> None:
    """Not if one item matches the namespace and another the name."""
    one = pod(name="quux-bar", namespace="foo-bar")
    assert is_excluded(one, [PodPattern("foo-*", "quux-bar")])
    assert is_excluded(one, [PodPattern("*", "*")])
    assert not is_excluded(one, [PodPattern("foo-bar", "baz-*"), PodPattern("x", "quux-bar")])


def test_terminal_pods_are_not_listed() -> None:
    """Kubelets before 1.34 still list them."""
    read = inputs(two_zones(), pod(name="done"), pod(name="running"))
    done = replace(read, terminal=frozenset({("default", "done")}))
    assert [one.name for one in listed_pods(done, ReportOptions())] == ["running"]


def test_the_cpus_of_the_reference_container_are_taken_from_every_container() -> None:
    """From its own too, and from the pod's, even if its pod is excluded."""
    reference = pod(container("r", cpus=(1, 2)), name="ref", namespace="ns")
    other = replace(pod(container("c", cpus=(2, 3))), cpu_ids=(1, 2, 3))
    options = ReportOptions(
        reference_container=ContainerName.parse(" ns / ref/r"),
        pod_exclude=(PodPattern("ns", "ref"),),
    )
    (left,) = listed_pods(inputs(two_zones(), other, reference), options)
    assert (left.containers[0].cpu_ids, left.cpu_ids) == ((3,), (3,))


def test_a_reference_container_that_is_not_there_has_no_cpus() -> None:
    """Nothing is taken away then."""
    pods = [pod(container("c", cpus=(2, 3)))]
    assert shared_pool(pods, ContainerName("default", "pod", "other")) == frozenset()
    assert shared_pool(pods, None) == frozenset()


def test_a_reference_container_has_three_parts_or_is_empty() -> None:
    """With the words of RTE."""
    assert ContainerName.parse("") is None
    with pytest.raises(InvalidValue, match='malformed ident: "a/b"'):
        ContainerName.parse("a/b")


def test_a_pattern_of_many_stars_is_decided_at_once() -> None:
    """A search through all ways to spread them would not end before the time limit."""
    assert not glob_matches("*a" * 40 + "b", "a" * 253)
