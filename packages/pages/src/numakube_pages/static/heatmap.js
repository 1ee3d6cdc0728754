// The map of all zones: one strip a node, one cell a zone, painted pixel by pixel from one typed
// array. Forty thousand cells take a few milliseconds, so every movement repaints everything.
import { chosen, grouped, keyOf, ordered, sizes, worst } from "./choice.js";
import { fit, rowAt } from "./layout.js";
import { palette, toCss } from "./palette.js";

const NO_ZONE = 255;
const NO_RESOURCE = 254;
const MOST_ZOOM = 40;
const LABEL_HEIGHT = 16;
const CLICK_DISTANCE = 4;
// Of a mark's length, which pixels are painted: kinds of trouble differ without colours, too.
const DASHES = { "no-report": [6, 4], unusable: [6, 4], stale: [2, 2], odd: [2, 2] };

export class HeatMap {
  constructor(figure, prefix, onMoved) {
    this.figure = figure;
    this.prefix = prefix;
    this.onMoved = onMoved;
    this.canvas = figure.querySelector("canvas");
    this.context = this.canvas.getContext("2d", { alpha: false });
    this.tip = document.getElementById("map-tip");
    this.status = document.getElementById("map-status");
    this.measure = document.getElementById("map-measure");
    this.resource = document.getElementById("map-resource");
    this.orderBy = document.getElementById("map-order");
    this.groupBy = document.getElementById("map-group");
    this.filter = document.getElementById("map-filter");
    this.data = null;
    this.fits = null;
    this.view = { scale: 1, x: 0, y: 0 };
    this.selected = -1;
    this.hovered = null;
    this.frame = 0;
    document.getElementById("map-options").hidden = false;
    this.listen();
  }

  // What the cells are about: how many pods fit is a node's, and comes by itself.
  wish() {
    const measure = this.measure.value === "fits" ? "used" : this.measure.value;
    return { resource: this.resource.value, measure };
  }

  async load() {
    const response = await fetch(`${this.figure.dataset.heat}?${new URLSearchParams(this.wish())}`);
    if (!response.ok) return;
    const data = await response.json();
    data.cells = bytesOf(data.cells);
    data.flags = bytesOf(data.flags);
    for (const label of Object.values(data.labels)) label.of = bytesOf(label.of);
    this.data = data;
    this.arrange();
  }

  // How many pods of a shape each node takes; nothing without a shape.
  async loadFits(shape) {
    const response = shape ? await fetch(`${this.figure.dataset.fits}?${new URLSearchParams({ shape })}`) : null;
    const answer = response?.ok ? await response.json() : null;
    this.fits = answer && { shape, nodes: answer.nodes, most: Math.max(0, ...Object.values(answer.nodes)) };
    this.measure.querySelector("[value=fits]").disabled = !this.fits;
    if (this.fits && !this.shownFits) this.measure.value = "fits";
    this.shownFits = Boolean(this.fits);
    if (!this.fits && this.measure.value === "fits") this.measure.value = "used";
    this.arrange();
  }

  colourBy(measure) {
    if (this.measure.querySelector(`[value=${measure}]`).disabled) return;
    this.measure.value = measure;
    this.arrange();
  }

  get byFits() {
    return this.measure.value === "fits" && this.fits !== null;
  }

  fitsOn(node) {
    return this.fits.nodes[this.data.nodes[node]] ?? 0;
  }

  // Where the server may go on from.
  position() {
    const { layout, version } = this.data ?? { layout: 0, version: 0 };
    return { ...this.wish(), layout, version };
  }

  async update(news) {
    const data = this.data;
    if (!data || !news.rows || news.layout !== data.layout || news.zones !== data.zones) {
      await this.load();
      return;
    }
    for (const [row, flags, cells] of news.rows) {
      data.flags[row] = flags;
      data.cells.set(bytesOf(cells), row * data.zones);
    }
    data.version = news.version;
    this.tell();
    if (this.orderBy.value === "name" && !this.filter.value) {
      this.legend();
      this.paintSoon();
    } else this.arrange();
  }

  arrange() {
    if (!this.data) return;
    const kept = this.grid?.slots[this.selected] ?? -1;
    const nodes = chosen(this.data, this.filter.value.trim());
    const key = (node) => (this.byFits ? this.fitsOn(node) : keyOf(this.data, node));
    this.shown = nodes.length;
    this.resource.disabled = this.byFits;
    this.groups = grouped(this.data, ordered(this.data, nodes, this.orderBy.value, key), this.groupBy?.value);
    this.resize();
    this.selected = kept < 0 ? -1 : this.grid.slots.indexOf(kept);
    this.tell();
  }

  resize() {
    const width = this.figure.clientWidth;
    const most = Math.max(220, Math.min(620, window.innerHeight * 0.62));
    this.grid = fit(this.groups, this.data.zones, width, most);
    this.ratio = Math.min(window.devicePixelRatio || 1, 2);
    const height = Math.max(60, Math.min(this.grid.height, most));
    this.canvas.style.height = `${height}px`;
    this.canvas.width = Math.max(1, Math.round(width * this.ratio));
    this.canvas.height = Math.max(1, Math.round(height * this.ratio));
    this.image = this.context.createImageData(this.canvas.width, this.canvas.height);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.colours = palette(this.figure, this.data.kinds.map(([, word]) => word));
    this.move(this.view);
    this.legend();
    this.tell();
  }

  move({ scale, x, y }) {
    const bounded = Math.min(Math.max(scale, 1), MOST_ZOOM);
    const width = this.canvas.width / this.ratio;
    const height = this.canvas.height / this.ratio;
    const least = (size, room) => Math.min(0, room - size * bounded);
    this.view = {
      scale: bounded,
      x: Math.min(0, Math.max(x, least(this.grid.columns * this.grid.blockWidth, width))),
      y: Math.min(0, Math.max(y, least(this.grid.height, height))),
    };
    this.paintSoon();
  }

  zoom(factor, x = this.canvas.clientWidth / 2, y = this.canvas.clientHeight / 2) {
    const scale = factor === 0 ? 1 : Math.min(Math.max(this.view.scale * factor, 1), MOST_ZOOM);
    const by = scale / this.view.scale;
    this.move({ scale, x: x - (x - this.view.x) * by, y: y - (y - this.view.y) * by });
  }

  paintSoon() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      const start = performance.now();
      this.paint();
      this.figure.dataset.frameMilliseconds = (performance.now() - start).toFixed(1);
    });
  }

  paint() {
    const { grid, ratio, view, pixels, colours } = this;
    const { width, height } = this.canvas;
    const unit = view.scale * ratio;
    pixels.fill(colours.background);
    const firstColumn = Math.max(0, Math.floor(-view.x / (grid.blockWidth * view.scale)));
    const lastColumn = Math.min(grid.columns - 1, Math.floor((width / ratio - view.x) / (grid.blockWidth * view.scale)));
    const visible = [];
    for (let row = 0; row < grid.rows; row++) {
      const top = Math.round(view.y * ratio + grid.tops[row] * unit);
      if (top > height || top + grid.blockHeight * unit < 0) continue;
      visible.push(row);
      const bottom = Math.max(top + 1, Math.round(view.y * ratio + (grid.tops[row] + grid.cellHeight) * unit));
      for (let column = firstColumn; column <= lastColumn; column++) {
        const node = grid.slots[row * grid.columns + column];
        if (node >= 0) this.paintNode(node, view.x * ratio + column * grid.blockWidth * unit, top, bottom, unit);
      }
    }
    this.context.putImageData(this.image, 0, 0);
    this.canvas.classList.add("painted");
    this.paintHeadings();
    this.paintLabels(visible, firstColumn, lastColumn);
    this.paintFrame(this.selected, colours.ink, 2);
    if (this.hovered) this.paintFrame(this.hovered.position, colours.ink, 1);
  }

  colourOf(node, zone) {
    const { data, colours } = this;
    const value = data.cells[node * data.zones + zone];
    const without = data.cells[node * data.zones] === NO_ZONE;
    if (this.byFits && (without || value !== NO_ZONE)) {
      const count = this.fitsOn(node);
      return colours.ramp[count ? 30 + Math.round((70 * count) / this.fits.most) : 0];
    }
    if (value === NO_ZONE) return without ? colours.absent : colours.background;
    return value === NO_RESOURCE ? colours.absent : colours.ramp[value];
  }

  paintNode(node, left, top, bottom, unit) {
    const { data, grid, pixels } = this;
    const { width, height } = this.canvas;
    const cell = grid.cellWidth * unit;
    const gap = cell >= 6 ? 1 : 0;
    let x = Math.round(left);
    for (let zone = 0; zone < data.zones; zone++) {
      const next = Math.round(left + (zone + 1) * cell);
      const colour = this.colourOf(node, zone);
      const from = Math.max(0, x);
      const to = Math.min(width, Math.max(x + 1, next - gap));
      for (let y = Math.max(0, top); to > from && y < bottom && y < height; y++) pixels.fill(colour, y * width + from, y * width + to);
      x = next;
    }
    if (data.flags[node]) this.paintMark(node, Math.round(left), x - gap, top, bottom);
  }

  // A bar on top of a node in trouble, in the colour and with the dashes of the worst kind.
  paintMark(node, left, right, top, bottom) {
    const { data, pixels, colours, ratio } = this;
    const { width, height } = this.canvas;
    const kind = worst(data, node);
    const [on, off] = DASHES[data.kinds[kind]?.[1]] ?? [1, 0];
    const thick = Math.min(Math.max(3 * ratio, Math.round((bottom - top) * 0.2)), Math.ceil((bottom - top) / 2));
    for (let x = Math.max(0, left); x < Math.min(width, right); x++) {
      const painted = (x - left) % ((on + off) * ratio) < on * ratio;
      const colour = painted ? colours.marks[kind] : colours.background;
      for (let y = Math.max(0, top); y < top + thick && y < height; y++) pixels[y * width + x] = colour;
    }
  }

  paintHeadings() {
    const { grid, view, ratio, context } = this;
    context.font = `600 ${13 * ratio}px system-ui, sans-serif`;
    context.fillStyle = toCss(this.colours.ink);
    context.textBaseline = "middle";
    for (const { y, title } of grid.headings) {
      context.fillText(shortened(context, title, this.canvas.width), Math.max(0, view.x) * ratio, (view.y + y * view.scale) * ratio);
    }
  }

  paintLabels(rows, firstColumn, lastColumn) {
    const { data, grid, view, ratio, context, colours } = this;
    const room = (grid.blockHeight - grid.cellHeight) * view.scale;
    const width = grid.zones * grid.cellWidth * view.scale;
    if (room < LABEL_HEIGHT || width < 40) return;
    context.font = `${12 * ratio}px system-ui, sans-serif`;
    context.textBaseline = "middle";
    for (const row of rows) {
      for (let column = firstColumn; column <= lastColumn; column++) {
        const node = grid.slots[row * grid.columns + column];
        if (node < 0) continue;
        const x = (view.x + column * grid.blockWidth * view.scale) * ratio;
        const y = (view.y + (grid.tops[row] + grid.cellHeight) * view.scale + LABEL_HEIGHT / 2) * ratio;
        const name = shortened(context, data.nodes[node], width * ratio);
        context.fillStyle = toCss(colours.dim);
        context.fillText(name, x, y);
        const trouble = data.kinds[worst(data, node)]?.[1].replace("-", " ");
        const start = context.measureText(`${name}  `).width;
        if (!trouble || start + context.measureText(trouble).width > width * ratio) continue;
        context.fillStyle = toCss(colours.marks[worst(data, node)]);
        context.fillText(trouble, x + start, y);
      }
    }
  }

  paintFrame(position, colour, thickness) {
    const { grid, view, ratio, context } = this;
    if (!(grid.slots[position] >= 0)) return;
    const [row, column] = [Math.floor(position / grid.columns), position % grid.columns];
    context.strokeStyle = toCss(colour);
    context.lineWidth = thickness * ratio;
    context.strokeRect(
      (view.x + column * grid.blockWidth * view.scale) * ratio - ratio,
      (view.y + grid.tops[row] * view.scale) * ratio - ratio,
      grid.zones * grid.cellWidth * view.scale * ratio + ratio,
      grid.cellHeight * view.scale * ratio + 2 * ratio,
    );
  }

  legend() {
    const canvas = document.getElementById("map-legend");
    const context = canvas.getContext("2d");
    for (let x = 0; x < canvas.width; x++) {
      context.fillStyle = toCss(this.colours.ramp[Math.round((x * 100) / (canvas.width - 1))]);
      context.fillRect(x, 0, 1, canvas.height);
    }
    document.getElementById("map-low").textContent = this.byFits ? "0" : "0 %";
    document.getElementById("map-high").textContent = this.byFits
      ? `${this.fits.most} ${this.fits.most === 1 ? "pod fits" : "pods fit"}` : `100 % ${this.what()}`;
    const keys = this.data.kinds.map(([flag, word], place) => {
      const count = this.data.flags.reduce((sum, _, node) => sum + (worst(this.data, node) === place), 0);
      return count ? key(word, `${count} ${word.replace("-", " ")}`) : null;
    });
    document.getElementById("map-kinds").replaceChildren(...keys.filter(Boolean));
  }

  what() {
    return this.measure.selectedOptions[0].textContent;
  }

  // Which node and zone are at a point of the canvas.
  at(x, y) {
    const { grid, view } = this;
    const [inX, inY] = [(x - view.x) / view.scale, (y - view.y) / view.scale];
    const [row, column] = [rowAt(grid, inY), Math.floor(inX / grid.blockWidth)];
    const position = row * grid.columns + column;
    if (row < 0 || column < 0 || column >= grid.columns || grid.slots[position] < 0) return null;
    const zone = Math.floor((inX - column * grid.blockWidth) / grid.cellWidth);
    return { position, zone: Math.min(Math.max(zone, 0), grid.zones - 1) };
  }

  words(position, zone = -1) {
    const { data } = this;
    const node = this.grid.slots[position];
    const name = data.nodes[node];
    const kinds = data.kinds.filter(([flag]) => data.flags[node] & flag).map(([, word]) => word.replace("-", " "));
    const trouble = kinds.length ? `${zone >= 0 ? "\n" : "; "}${kinds.join(", ")}` : "";
    if (this.byFits) {
      const count = this.fitsOn(node);
      return `${name}${zone >= 0 ? "\n" : ": "}${count} ${count === 1 ? "pod fits" : "pods fit"}${trouble}`;
    }
    const cells = [...data.cells.subarray(node * data.zones, (node + 1) * data.zones)];
    const ids = data.ids?.[node];
    const one = (value, index) => `${ids?.[index] ?? index}: ${value === NO_RESOURCE ? "none" : `${value} %`}`;
    const known = cells.filter((value) => value !== NO_ZONE);
    if (!known.length) return `${name}\nno usable report${trouble}`;
    const what = `${data.resource} ${this.what()}`;
    if (zone >= 0 && zone < known.length) return `${name}\nzone ${one(known[zone], zone)} of ${what}${trouble}`;
    return `${name}, ${what} by zone: ${known.map(one).join(", ")}${trouble}`;
  }

  tell() {
    const all = this.data.nodes.length;
    this.status.textContent = this.grid.slots[this.selected] >= 0 ? this.words(this.selected)
      : this.shown === all ? sizes(this.data) : `${this.shown} of ${all} nodes`;
  }

  hover(x, y) {
    this.hovered = this.data ? this.at(x, y) : null;
    this.tip.hidden = !this.hovered;
    if (this.hovered) {
      this.tip.textContent = this.words(this.hovered.position, this.hovered.zone);
      const left = Math.min(x + 14, this.canvas.clientWidth - this.tip.offsetWidth - 4);
      const below = y + 18 + this.tip.offsetHeight < this.canvas.clientHeight + 40;
      this.tip.style.transform = `translate(${Math.max(0, left)}px, ${below ? y + 18 : y - this.tip.offsetHeight - 8}px)`;
    }
    this.paintSoon();
  }

  open(position) {
    const node = this.grid?.slots[position] ?? -1;
    if (node >= 0) location.href = `${this.prefix}nodes/${encodeURIComponent(this.data.nodes[node])}`;
  }

  // Goes to a slot; from one without a node on in the same direction.
  select(position) {
    if (!this.shown) return;
    const { slots } = this.grid;
    const last = slots.length - 1;
    const step = position < this.selected ? -1 : 1;
    let next = Math.min(Math.max(position, 0), last);
    while (slots[next] === -1 && next + step >= 0 && next + step <= last) next += step;
    while (slots[next] === -1) next -= step;
    this.selected = next;
    this.reveal();
    this.tell();
  }

  reveal() {
    const { grid, view } = this;
    const [row, column] = [Math.floor(this.selected / grid.columns), this.selected % grid.columns];
    const inside = (start, size, offset, room) =>
      Math.min(Math.max(offset, -start * view.scale), room - (start + size) * view.scale);
    this.move({
      scale: view.scale,
      x: inside(column * grid.blockWidth, grid.blockWidth, view.x, this.canvas.clientWidth),
      y: inside(grid.tops[row], grid.blockHeight, view.y, this.canvas.clientHeight),
    });
  }

  listen() {
    const canvas = this.canvas;
    const reload = async () => {
      await this.load();
      this.onMoved();
    };
    for (const one of [this.measure, this.resource]) one.addEventListener("change", reload);
    for (const one of [this.orderBy, this.groupBy]) one?.addEventListener("change", () => this.arrange());
    this.filter.addEventListener("input", () => this.arrange());
    this.filter.form.addEventListener("submit", (event) => event.preventDefault());
    for (const button of this.filter.form.querySelectorAll("[data-zoom]")) {
      button.addEventListener("click", () => this.zoom({ "-1": 1 / 1.6, 0: 0, 1: 1.6 }[button.dataset.zoom]));
    }
    new ResizeObserver(() => this.data && this.figure.clientWidth !== canvas.width / this.ratio && this.resize()).observe(this.figure);
    document.addEventListener("themechange", () => this.data && this.resize());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.data && this.resize());
    canvas.addEventListener("keydown", (event) => this.onKey(event));
    canvas.addEventListener("blur", () => this.paintSoon());
    canvas.addEventListener("wheel", (event) => this.onWheel(event), { passive: false });
    canvas.addEventListener("pointerdown", (event) => this.onPress(event));
    canvas.addEventListener("pointermove", (event) => this.onMove(event));
    canvas.addEventListener("pointerup", (event) => this.onRelease(event));
    canvas.addEventListener("pointerleave", () => {
      this.tip.hidden = true;
      this.hovered = null;
      if (this.data) this.paintSoon();
    });
  }

  onWheel(event) {
    // Alone the wheel scrolls the page, as everywhere; once zoomed in, it belongs to the map.
    if (!this.data || (!event.ctrlKey && this.view.scale === 1)) return;
    event.preventDefault();
    this.zoom(Math.exp(-event.deltaY * 0.002), event.offsetX, event.offsetY);
  }

  onPress(event) {
    this.pressed = { x: event.offsetX, y: event.offsetY, view: this.view, far: false };
    this.canvas.setPointerCapture(event.pointerId);
  }

  onMove(event) {
    if (!this.data) return;
    if (this.pressed) {
      const [dx, dy] = [event.offsetX - this.pressed.x, event.offsetY - this.pressed.y];
      this.pressed.far ||= Math.hypot(dx, dy) > CLICK_DISTANCE;
      if (this.pressed.far) {
        this.canvas.classList.add("panning");
        const { scale, x, y } = this.pressed.view;
        this.move({ scale, x: x + dx, y: y + dy });
      }
    }
    this.hover(event.offsetX, event.offsetY);
  }

  onRelease(event) {
    this.canvas.classList.remove("panning");
    const pressed = this.pressed;
    this.pressed = null;
    if (!this.data || !pressed || pressed.far) return;
    const found = this.at(event.offsetX, event.offsetY);
    if (found) this.open(found.position);
  }

  onKey(event) {
    if (!this.data || event.ctrlKey || event.metaKey || event.altKey) return;
    const columns = this.grid.columns;
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns, PageUp: -10 * columns, PageDown: 10 * columns };
    if (event.key in steps) this.select(this.selected < 0 ? 0 : this.selected + steps[event.key]);
    else if (event.key === "Home") this.select(0);
    else if (event.key === "End") this.select(this.grid.slots.length - 1);
    else if (event.key === "Enter" && this.selected >= 0) this.open(this.selected);
    else if (event.key === "+" || event.key === "=") this.zoom(1.6);
    else if (event.key === "-") this.zoom(1 / 1.6);
    else if (event.key === "0") this.zoom(0);
    else if (event.key === "Escape") {
      this.selected = -1;
      this.tell();
      this.paintSoon();
    } else return;
    event.preventDefault();
  }
}

function key(word, text) {
  const [swatch, label] = [document.createElement("span"), document.createElement("span")];
  swatch.className = `key mark-${word}`;
  label.textContent = text;
  const both = document.createElement("span");
  both.append(swatch, label);
  return both;
}

function bytesOf(text) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let index = 0; index < binary.length; index++) bytes[index] = binary.charCodeAt(index);
  return bytes;
}

function shortened(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let end = text.length - 1;
  while (end > 1 && context.measureText(`${text.slice(0, end)}\u2026`).width > width) end--;
  return `${text.slice(0, end)}\u2026`;
}
