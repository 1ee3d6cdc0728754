"""SVG and PNG: well formed, complete, and safe whatever a cluster's names are."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from xml.etree import ElementTree

import pytest
from font_source_sans_pro import font_directory
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFont
from tests.insight.claim_world import mixed
from tests.insight.node_map import nodes
from tests.insight.node_map.test_connection_matrix import switched
from tests.insight.node_map.test_hierarchy import picture_of
from tests.strategies.machines import machines

from numakube.insight.node_map import map_words
from numakube.insight.node_map.picture import NodePicture, PodMark
from numakube.insight.node_map.picture_from_facts import node_picture
from numakube.insight.node_map.picture_from_report import picture_of_machine
from numakube.kubelet.machine import Machine
from numakube.values.cpuset import CpuSet
from numakube_pages.drawing.node_layout import scene_of
from numakube_pages.drawing.scene import DARK, LIGHT, Box, DrawnGroup, Item, Label, rgb
from numakube_pages.drawing.svg import escaped, png_of, svg_of, svg_style

GOLDENS = Path(__file__).parent / "goldens"
SVG = "{http://www.w3.org/2000/svg}"
PICTURES = [nodes.small, nodes.large, nodes.expanded, nodes.with_holes, nodes.partly_offline]


def groups(picture: NodePicture, of: str) -> list[ElementTree.Element]:
    """Return the groups of one class in the SVG of *picture*."""
    root = ElementTree.fromstring(svg_of(picture))  # noqa: S314 - we wrote it ourselves
    return [
        element for element in root.iter(f"{SVG}g") if of in (element.get("class") or "").split()
    ]


@pytest.mark.parametrize("make", PICTURES)
def test_the_svg_has_each_cpu_once_with_its_owner(make: object) -> None:
    """With marks that a page can find: ids, data attributes and tooltips."""
    assert callable(make)
    picture = make()
    drawn = {group.get("data-cpu"): group for group in groups(picture, "cpu")}
    assert len(groups(picture, "cpu")) == len(drawn)
    assert set(drawn) == {str(cpu.id) for cpu in picture.cpus()}
    for cpu in picture.cpus():
        element = drawn[str(cpu.id)]
        assert element.get("data-pod", "") == picture.owner_name(cpu.owner)
        assert element.get("id") == f"cpu-{cpu.id}"
        title = element.find(f"{SVG}title")
        assert title is not None
        assert (title.text or "").startswith(f"CPU {cpu.id}: ")
    assert len(groups(picture, "device")) == sum(1 for _ in picture.devices())
    assert [group.get("data-zone") for group in groups(picture, "zone")] == [
        str(zone.id) for zone in sorted(picture.zones, key=lambda zone: not zone.cores)
    ]


def test_the_svg_says_in_words_what_it_shows() -> None:
    """For those who do not see it."""
    root = ElementTree.fromstring(svg_of(nodes.small()))  # noqa: S314
    assert root.get("role") == "img"
    title, description = (root.find(f"{SVG}{tag}") for tag in ("title", "desc"))
    assert title is not None
    assert description is not None
    assert root.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"
    assert "Pod team/web: zone 0, CPUs 1,9, 4Gi" in (description.text or "")


def test_the_legend_says_all_that_pods_hold() -> None:
    """In as many lines as that takes, within the drawing."""
    scattered = CpuSet.of(range(0, 128, 2))
    mark = PodMark(
        "team/wide",
        "A",
        scattered,
        {"memory": 8 << 30, "hugepages-1Gi": 4 << 30},
        {"x/gpu": 8},
        (0,),
    )
    picture = replace(nodes.small(), pods=(mark, *nodes.small().pods))
    (drawn,) = [group for group in groups(picture, "pod") if group.get("data-pod") == "team/wide"]
    lines = [element.text or "" for element in drawn.iter(f"{SVG}text")][2:]
    assert len(lines) > 2
    assert " · ".join(lines).replace(", · ", ",") == " · ".join(map_words.pod_words(mark))
    scene = scene_of(picture)
    assert all(label.x + label.width <= scene.width for label in _labels(scene.items))
    rows = {label.y for label in _labels(scene.items) if label.text in lines}
    others = {label.y for label in _labels(scene.items) if label.text == "team/web"}
    assert len(rows) == len(lines)
    assert not rows & others


def _labels(items: Iterable[Item]) -> Iterator[Label]:
    for item in items:
        if isinstance(item, DrawnGroup):
            yield from _labels(item.children)
        elif isinstance(item, Label) and item.anchor == "start":
            yield item


def test_what_pods_have_can_lead_to_them() -> None:
    """Keys stop once at each pod, in the legend; a pod without an address leads nowhere."""
    drawing = svg_of(nodes.small(), link=lambda pod: f"/at/{pod}" if pod == "team/web" else "")
    root = ElementTree.fromstring(drawing)  # noqa: S314
    links = list(root.iter(f"{SVG}a"))
    assert {link.get("href") for link in links} == {"/at/team/web"}
    assert [link.get("aria-label") for link in links if not link.get("tabindex")] == ["team/web"]
    assert len(links) > 2
    assert root.get("role") == "group"


def test_two_drawings_in_a_page_have_different_ids() -> None:
    """By their prefixes."""
    ids = [
        element.get("id")
        for prefix in ("a-", "b-")
        for element in ElementTree.fromstring(svg_of(nodes.small(), prefix=prefix)).iter()  # noqa: S314
        if element.get("id")
    ]
    assert len(ids) == len(set(ids))


def _plain_rules(style: str) -> dict[str, str]:
    """Return what a program understands that knows neither at-rules nor variables."""
    text, depth, plain = re.sub(r"@[^{]*", "@", style), 0, ""
    for part in re.split(r"(@\{|[{}])", text):
        depth += 1 if part == "@{" or (depth and part == "{") else -(bool(depth) and part == "}")
        plain += "" if depth or part == "@{" else part
    rules = re.findall(r"\.numakube-map \.([\w-]+)\{([^}]*)\}", plain.replace("}}", "}"))
    return dict(rules)


def test_colours_stand_as_they_are_for_programs_that_know_no_variables() -> None:
    """Such as resvg and CairoSVG; a rule that begins with a variable is lost to them as a whole."""
    svg = svg_of(nodes.small())
    rules = _plain_rules(svg_style())
    used = {name for words in re.findall(r'class="([^"]+)"', svg) for name in words.split()}
    painted = {name for name in used if name.startswith(("f-", "s-"))}
    assert painted
    for name in painted:
        assert rules[name].partition(":")[2] == LIGHT[name[2:]]
    assert ".numakube-map{font-family:" in svg_style()


def test_the_style_can_be_left_to_the_page() -> None:
    """And has both themes, with the same names."""
    assert "<style>" not in svg_of(nodes.small(), style=False)
    assert svg_style() in svg_of(nodes.small())
    assert LIGHT.keys() == DARK.keys()
    assert "prefers-color-scheme:dark" in svg_style()


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_text_can_be_read(theme: dict[str, str]) -> None:
    """Contrast of at least 4.5 to 1 (WCAG AA) wherever text stands."""
    pairs = [("text", "page"), ("muted", "page"), ("muted", "socket"), ("muted", "cache")]
    pairs += [("muted", "free"), ("on-reserved", "reserved"), ("warning", "page")]
    pairs += [("on-pod", name) for name in theme if name.startswith("p") and name[1:].isdigit()]
    pairs += [("good", "page"), ("text", "zone")]
    for text, ground in pairs:
        assert contrast(theme[text], theme[ground]) >= 4.5, (text, ground)


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two colours."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    """Return the relative luminance, as WCAG defines it."""
    parts = [value / 255 for value in rgb(colour)]
    linear = [
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@given(st.text(max_size=40))
@settings(max_examples=30, deadline=None)
def test_no_name_breaks_out_of_the_svg(name: str) -> None:
    """Neither as text nor as attribute, not even one that XML cannot hold."""
    mark = PodMark(name=name, letter="A")
    picture = replace(nodes.small(), node=name, pods=(mark, mark), notes=(name,))
    root = ElementTree.fromstring(svg_of(picture))  # noqa: S314
    assert not list(root.iter(f"{SVG}script"))
    assert "<" not in escaped(name)


@given(machines(max_nodes=6))
@settings(max_examples=25, deadline=None)
def test_nothing_is_drawn_outside_the_page(machine: Machine) -> None:
    """And boxes have a size."""
    scene = scene_of(picture_of_machine("any", machine))
    for box in boxes(scene.items):
        assert box.width > 0
        assert box.height > 0
        assert box.x >= 0
        assert box.y >= 0
        assert box.x + box.width <= scene.width + 0.01
        assert box.y + box.height <= scene.height + 0.01


@pytest.mark.parametrize("make", PICTURES)
def test_no_label_leaves_the_page(make: object) -> None:
    """By the widths that were assumed."""
    assert callable(make)
    scene = scene_of(make())
    for label in labels(scene.items):
        left = label.x - {"start": 0, "middle": 0.5, "end": 1}[label.anchor] * label.width
        assert left >= -0.01, label
        assert left + label.width <= scene.width + 0.01, label


def boxes(items: tuple[Item, ...]) -> list[Box]:
    """Return all boxes."""
    found: list[Box] = []
    for item in items:
        if isinstance(item, DrawnGroup):
            found += boxes(item.children)
        elif isinstance(item, Box):
            found.append(item)
    return found


def labels(items: tuple[Item, ...]) -> list[Label]:
    """Return all texts."""
    found: list[Label] = []
    for item in items:
        if isinstance(item, DrawnGroup):
            found += labels(item.children)
        elif isinstance(item, Label):
            found.append(item)
    return found


def decoded(data: bytes) -> Image.Image:
    """Return the image in a PNG."""
    image = Image.open(BytesIO(data))
    assert image.format == "PNG"
    return image.convert("RGB")


@pytest.mark.parametrize("dark", [False, True])
def test_the_png_is_the_same_drawing(*, dark: bool) -> None:
    """Of the same size, with the colours of the pods where their CPUs are."""
    picture = nodes.small()
    scene = scene_of(picture)
    image = decoded(png_of(picture, scale=1, dark=dark))
    assert image.size == (round(scene.width), round(scene.height))
    theme = DARK if dark else LIGHT
    assert image.getpixel((1, 1)) == rgb(theme["page"])
    cells = [box for box in boxes(scene.items) if box.fill in ("p0", "p1") and box.width > 20]
    assert cells
    for box in cells:
        # Between the letter on the left and the number on the right.
        place = round(box.x + 0.45 * box.width), round(box.y) + 2
        assert image.getpixel(place) == rgb(theme[box.fill])


def test_the_png_has_its_texts_wherever_it_is_made() -> None:
    """The font is not the system's: the title is there, dark on light."""
    scene = scene_of(nodes.small())
    title = next(label for label in labels(scene.items) if label.text == "worker-1")
    image = decoded(png_of(nodes.small(), scale=1)).convert("L")
    left, base = int(title.x), int(title.y)
    seen = image.crop((left, base - int(title.size), left + int(title.width), base + 3))
    shades = seen.tobytes()
    assert min(shades) < 100
    assert max(shades) == 255


def test_a_png_is_twice_as_fine_by_default() -> None:
    """For screens of today."""
    scene = scene_of(nodes.partly_offline())
    size = decoded(png_of(nodes.partly_offline())).size
    assert size == (round(2 * scene.width), round(2 * scene.height))


@pytest.mark.parametrize("make", PICTURES)
def test_texts_of_the_png_keep_to_the_widths_that_were_assumed(make: object) -> None:
    assert callable(make)
    for label in labels(scene_of(make()).items):
        face = "SourceSansPro-Semibold.ttf" if label.bold else "SourceSansPro-Regular.ttf"
        font = ImageFont.truetype(Path(font_directory) / face, 100)
        drawn = font.getlength(label.text) * label.size / 100
        assert drawn <= label.width + label.size, label


@pytest.mark.parametrize("name", ["small", "plan", "counts"])
def test_svg_is_as_kept(name: str) -> None:
    """``UPDATE_GOLDENS=1`` writes it; the style sheet is the same for all and kept once."""
    make: dict[str, Callable[[], NodePicture]] = {
        "small": nodes.small,
        "plan": nodes.plan,
        "counts": nodes.counts,
    }
    path, content = GOLDENS / f"{name}.svg", svg_of(make[name](), style=name == "small")
    if os.environ.get("UPDATE_GOLDENS"):
        path.write_text(content, encoding="utf-8")
    assert content == path.read_text(encoding="utf-8")


def test_the_svg_has_a_frame_for_each_socket_and_the_tree() -> None:
    """So has the page of the node on the dashboard, which shows it."""
    svg = svg_of(picture_of("nri-topology-aware"))
    assert ">socket #0<" in svg
    assert ">Hierarchy<" in svg
    assert ">NUMA node #3 · zone 3 · memory 8Gi of 8Gi free · CPUs 4 of 4 free<" in svg


def test_pools_alone_can_be_drawn_too() -> None:
    """On a page of the dashboard, say."""
    assert ">latency[0] (balloon) · CPUs 13 of 15 free · cpuset 4-5<" in svg_of(
        picture_of("nri-balloons")
    )


def test_the_svg_tells_what_is_behind_one_switch() -> None:
    """In its description, and in the drawing."""
    svg = svg_of(switched())
    assert "Behind one PCIe switch: gpu 0 A, nic 0 A." in svg
    assert ": of team/trainer, near zone 0, at 0000:04:00.0<" in svg


def test_the_svg_tells_by_which_claim_a_device_is_shared() -> None:
    assert "by claim default/shared" in svg_of(node_picture(mixed().facts(), "node-a"))
