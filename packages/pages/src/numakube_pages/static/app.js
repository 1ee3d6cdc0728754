// What every page does: colours, keys, and keeping up with the cluster.
import { Live } from "./live.js";

const root = document.documentElement;
const prefix = root.dataset.prefix;
const PAGES = { o: "", n: "nodes", p: "pods", w: "pending", m: "mispredictions", r: "caches", h: "history" };
const THEMES = { auto: "Auto", light: "Light", dark: "Dark" };

function showTheme(button) {
  button.lastElementChild.textContent = THEMES[root.dataset.theme ?? "auto"];
}

function turnTheme(button) {
  const names = Object.keys(THEMES);
  const next = names[(names.indexOf(root.dataset.theme ?? "auto") + 1) % names.length];
  if (next === "auto") delete root.dataset.theme;
  else root.dataset.theme = next;
  try {
    localStorage.setItem("numakube-theme", next);
  } catch {
    // It holds for this page only.
  }
  showTheme(button);
  document.dispatchEvent(new Event("themechange"));
}

function onKeys(button) {
  let going = 0;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, select, textarea")) return;
    if (going && event.timeStamp - going < 1500 && event.key in PAGES) {
      location.href = prefix + PAGES[event.key];
    } else if (event.key === "/") {
      event.preventDefault();
      document.getElementById("search")?.focus();
    } else if (event.key === "t") {
      turnTheme(button);
    }
    going = event.key === "g" ? event.timeStamp : 0;
  });
}

const button = document.getElementById("theme");
button.hidden = false;
showTheme(button);
button.addEventListener("click", () => turnTheme(button));
onKeys(button);

// The map, and the box that colours it; both are on the first page only.
async function startMap(onMoved) {
  const figure = document.getElementById("map");
  if (!figure) return null;
  const [{ HeatMap }, { WhatIf }] = await Promise.all([import("./heatmap.js"), import("./whatif.js")]);
  const map = new HeatMap(figure, prefix, onMoved);
  await map.load();
  new WhatIf(document.getElementById("whatif-form"), map);
  return map;
}

const status = document.getElementById("live");
const live = status && new Live(prefix, root.dataset.topic, status);
const map = await startMap(() => live?.connect());
if (live) {
  live.map = map;
  live.connect();
}
root.dataset.started = "yes";
