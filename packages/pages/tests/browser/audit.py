"""What can be said of a page's accessibility by looking at it with a program."""

from __future__ import annotations

from collections import Counter
from typing import Any

from packages.pages.tests.browser.devtools import Page

NAMED_ROLES = frozenset(
    {"link", "button", "searchbox", "textbox", "combobox", "application", "region", "navigation"}
)
LANDMARKS = frozenset({"banner", "contentinfo", "main", "navigation", "region", "search"})

STRUCTURE = """
(() => {
  const problems = [];
  const say = (text) => problems.push(text);
  if (!document.documentElement.lang) say("the page has no language");
  if (!document.title) say("the page has no title");
  if (document.querySelectorAll("h1").length !== 1) say("not one first heading");
  let level = 0;
  for (const heading of document.querySelectorAll("h1, h2, h3, h4")) {
    const next = Number(heading.tagName[1]);
    if (next > level + 1) say(`heading ${heading.textContent} skips a level`);
    level = next;
  }
  for (const table of document.querySelectorAll("table")) {
    const headers = table.querySelectorAll("thead th[scope=col]").length;
    const cells = table.querySelectorAll("thead tr > *").length;
    if (!headers || headers !== cells) say("a column without a header");
    for (const row of table.querySelectorAll("tbody tr")) {
      const span = [...row.children].reduce((sum, cell) => sum + cell.colSpan, 0);
      if (span !== cells) say(`a row of ${span} cells under ${cells} headers`);
    }
  }
  const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
  for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) say(`id ${id} twice`);
  for (const one of document.querySelectorAll("[aria-labelledby], [aria-describedby]")) {
    for (const name of ["aria-labelledby", "aria-describedby"]) {
      for (const id of (one.getAttribute(name) ?? "").split(" ").filter(Boolean)) {
        if (!document.getElementById(id)) say(`${name} leads to ${id}, which is not there`);
      }
    }
  }
  return problems;
})()
"""

CONTRAST = """
(() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const part = (value) => {
    const one = value / 255;
    return one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4;
  };
  const light = ([red, green, blue]) => 0.2126 * part(red) + 0.7152 * part(green) + 0.0722 * part(blue);
  const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const [red, green, blue, alpha = 1] = parse(getComputedStyle(one).backgroundColor);
      if (alpha > 0.99) return [red, green, blue];
    }
    return [255, 255, 255];
  };
  const problems = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || element.closest("svg, script, noscript, option")) continue;
    if (!element.checkVisibility() || element.closest(".hidden, .skip")) continue;
    const style = getComputedStyle(element);
    const [front, back] = [light(parse(style.color)), light(behind(element))];
    const ratio = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700);
    if (ratio < (large ? 3 : 4.5)) problems.push(`${ratio.toFixed(2)}: ${element.className} ${walker.currentNode.data.trim()}`);
  }
  return problems;
})()
"""  # noqa: E501

OVERFLOW = """
(() => {
  const room = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= room) return [];
  return [...document.querySelectorAll("body *")]
    .filter((one) => one.getBoundingClientRect().right > room + 1 && !one.closest(".scroll, .drawing, nav"))
    .map((one) => `${one.tagName}.${one.className}`).slice(0, 5);
})()
"""  # noqa: E501


async def problems_of(page: Page) -> list[str]:
    """Return what is wrong with a page for those who do not see it, or not well."""
    found: list[str] = [*await page.evaluate(STRUCTURE), *await page.evaluate(CONTRAST)]
    tree: dict[str, Any] = await page.call("Accessibility.getFullAXTree")
    for node in tree["nodes"]:
        role = node.get("role", {}).get("value", "")
        name = node.get("name", {}).get("value", "")
        if role in NAMED_ROLES and not name.strip() and not node.get("ignored"):
            found.append(f"a {role} without a name")
    landmarks = Counter(
        (role, name)
        for node in tree["nodes"]
        if (role := node.get("role", {}).get("value", "")) in LANDMARKS
        for name in [node.get("name", {}).get("value", "")]
    )
    return found + [f"{count} of {one}" for one, count in landmarks.items() if count > 1]
