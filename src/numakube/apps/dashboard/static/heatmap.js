// The map of all zones: one strip a node, one cell a zone, painted pixel by pixel from one typed
// array. Forty thousand cells take a few milliseconds, so every movement paints everything anew.
import { fit, orderOf } from "./layout.js";
import { palette, toCss } from "./palette.js";

const NO_ZONE = 255;
const NO_RESOURCE = 254;
const MOST_ZOOM = 40;
const LABEL_HEIGHT = 16;
const CLICK_DISTANCE = 4;

export class HeatMap {
  constructor(figure, prefix, onMoved) {
    this.figure = figure;
    this.prefix = prefix;
    this.onMoved = onMoved;
    this.canvas = figure.querySelector("canvas");
    this.context = this.canvas.getContext("2d", { alpha: false });
    this.tip = document.getElementById("map-tip");
    this.status = document.getElementById("map-status");
    this.resource = document.getElementById("map-resource");
    this.orderBy = document.getElementById("map-order");
    this.filter = document.getElementById("map-filter");
    this.data = null;
    this.view = { scale: 1, x: 0, y: 0 };
    this.selected = -1;
    this.hovered = null;
    this.frame = 0;
    document.getElementById("map-options").hidden = false;
    this.listen();
  }

  async load() {
    const query = new URLSearchParams({ resource: this.resource.value });
    const response = await fetch(`${this.figure.dataset.heat}?${query}`);
    if (!response.ok) return;
    const data = await response.json();
    data.cells = bytesOf(data.cells);
    data.flags = bytesOf(data.flags);
    this.data = data;
    this.arrange();
  }

  // Where the server may go on from.
  position() {
    const { layout, version } = this.data ?? { layout: 0, version: 0 };
    return { resource: this.resource.value, layout, version };
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
    if (this.orderBy.value === "name") this.paintSoon();
    else this.arrange();
  }

  arrange() {
    if (!this.data) return;
    const chosen = this.selected >= 0 ? this.order?.[this.selected] : undefined;
    this.order = orderOf(this.data, this.orderBy.value, this.filter.value.trim());
    this.selected = chosen === undefined ? -1 : this.order.indexOf(chosen);
    this.resize();
  }

  resize() {
    const width = this.figure.clientWidth;
    const most = Math.max(220, Math.min(620, window.innerHeight * 0.62));
    this.grid = fit(this.order.length, this.data.zones, width, most);
    this.ratio = Math.min(window.devicePixelRatio || 1, 2);
    const height = Math.max(120, Math.min(this.grid.height, most));
    this.canvas.style.height = `${height}px`;
    this.canvas.width = Math.max(1, Math.round(width * this.ratio));
    this.canvas.height = Math.max(1, Math.round(height * this.ratio));
    this.image = this.context.createImageData(this.canvas.width, this.canvas.height);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.colours = palette(this.figure);
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
    const firstRow = Math.max(0, Math.floor(-view.y / (grid.blockHeight * view.scale)));
    const lastRow = Math.min(grid.rows - 1, Math.floor((height / ratio - view.y) / (grid.blockHeight * view.scale)));
    const firstColumn = Math.max(0, Math.floor(-view.x / (grid.blockWidth * view.scale)));
    const lastColumn = Math.min(grid.columns - 1, Math.floor((width / ratio - view.x) / (grid.blockWidth * view.scale)));
    for (let row = firstRow; row <= lastRow; row++) {
      const top = Math.round(view.y * ratio + row * grid.blockHeight * unit);
      const bottom = Math.max(top + 1, Math.round(view.y * ratio + (row * grid.blockHeight + grid.cellHeight) * unit));
      for (let column = firstColumn; column <= lastColumn; column++) {
        const position = row * grid.columns + column;
        if (position >= this.order.length) break;
        this.paintNode(this.order[position], view.x * ratio + column * grid.blockWidth * unit, top, bottom, unit);
      }
    }
    this.context.putImageData(this.image, 0, 0);
    this.paintLabels(firstRow, lastRow, firstColumn, lastColumn);
    this.paintMark(this.selected, colours.ink, 2);
    if (this.hovered) this.paintMark(this.hovered.position, colours.ink, 1);
  }

  paintNode(node, left, top, bottom, unit) {
    const { data, grid, pixels, colours } = this;
    const { width, height } = this.canvas;
    const zones = data.zones;
    const cell = grid.cellWidth * unit;
    const gap = cell >= 6 ? 1 : 0;
    const flagged = data.flags[node] !== 0;
    const mark = flagged ? Math.max(bottom - top > 5 ? 2 : 1, Math.round((bottom - top) * 0.16)) : 0;
    let x = Math.round(left);
    for (let zone = 0; zone < zones; zone++) {
      const next = Math.round(left + (zone + 1) * cell);
      const value = data.cells[node * zones + zone];
      const colour = value === NO_ZONE ? (flagged && data.cells[node * zones] === NO_ZONE ? colours.absent : colours.background)
        : value === NO_RESOURCE ? colours.absent : colours.ramp[value];
      const from = Math.max(0, x);
      const to = Math.min(width, Math.max(x + 1, next - gap));
      if (to > from) {
        for (let y = Math.max(0, top); y < bottom && y < height; y++) {
          pixels.fill(y - top < mark ? colours.flawed : colour, y * width + from, y * width + to);
        }
      }
      x = next;
    }
  }

  paintLabels(firstRow, lastRow, firstColumn, lastColumn) {
    const { grid, view, ratio, context } = this;
    const room = (grid.blockHeight - grid.cellHeight) * view.scale;
    const width = grid.zones * grid.cellWidth * view.scale;
    if (room < LABEL_HEIGHT || width < 40) return;
    context.font = `${12 * ratio}px system-ui, sans-serif`;
    context.fillStyle = toCss(this.colours.dim);
    context.textBaseline = "middle";
    for (let row = firstRow; row <= lastRow; row++) {
      for (let column = firstColumn; column <= lastColumn; column++) {
        const node = this.order[row * grid.columns + column];
        if (node === undefined) break;
        const x = (view.x + column * grid.blockWidth * view.scale) * ratio;
        const y = (view.y + (row * grid.blockHeight + grid.cellHeight) * view.scale + LABEL_HEIGHT / 2) * ratio;
        context.fillText(shortened(context, this.data.nodes[node], width * ratio), x, y);
      }
    }
  }

  paintMark(position, colour, thickness) {
    if (position < 0 || position >= this.order.length) return;
    const { grid, view, ratio, context } = this;
    const [row, column] = [Math.floor(position / grid.columns), position % grid.columns];
    context.strokeStyle = toCss(colour);
    context.lineWidth = thickness * ratio;
    context.strokeRect(
      (view.x + column * grid.blockWidth * view.scale) * ratio - ratio,
      (view.y + row * grid.blockHeight * view.scale) * ratio - ratio,
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
  }

  // Which node and zone are at a point of the canvas.
  at(x, y) {
    const { grid, view } = this;
    const [inX, inY] = [(x - view.x) / view.scale, (y - view.y) / view.scale];
    const [row, column] = [Math.floor(inY / grid.blockHeight), Math.floor(inX / grid.blockWidth)];
    const position = row * grid.columns + column;
    if (row < 0 || column < 0 || column >= grid.columns || position >= this.order.length) return null;
    const zone = Math.floor((inX - column * grid.blockWidth) / grid.cellWidth);
    return { position, zone: Math.min(Math.max(zone, 0), grid.zones - 1) };
  }

  words(position, zone = -1) {
    const { data } = this;
    const node = this.order[position];
    const cells = [...data.cells.subarray(node * data.zones, (node + 1) * data.zones)];
    const ids = data.ids?.[node];
    const one = (value, index) => `${ids?.[index] ?? index}: ${value === NO_RESOURCE ? "none" : `${value} %`}`;
    const known = cells.filter((value) => value !== NO_ZONE);
    if (!known.length) return `${data.nodes[node]}\nno usable report`;
    if (zone >= 0 && zone < known.length) return `${data.nodes[node]}\nzone ${one(known[zone], zone)} of ${data.resource} used`;
    return `${data.nodes[node]}, ${data.resource} used by zone: ${known.map(one).join(", ")}`;
  }

  tell() {
    const shown = this.order.length;
    const all = this.data.nodes.length;
    this.status.textContent = this.selected >= 0 ? this.words(this.selected)
      : shown === all ? `${all} nodes, ${this.data.zones} zones at most` : `${shown} of ${all} nodes`;
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
    const node = this.order?.[position];
    if (node !== undefined) location.href = `${this.prefix}nodes/${encodeURIComponent(this.data.nodes[node])}`;
  }

  select(position) {
    if (!this.order?.length) return;
    this.selected = Math.min(Math.max(position, 0), this.order.length - 1);
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
      y: inside(row * grid.blockHeight, grid.blockHeight, view.y, this.canvas.clientHeight),
    });
  }

  listen() {
    const canvas = this.canvas;
    const reload = async () => {
      await this.load();
      this.onMoved();
    };
    this.resource.addEventListener("change", reload);
    this.orderBy.addEventListener("change", () => this.arrange());
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
    else if (event.key === "End") this.select(this.order.length - 1);
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
