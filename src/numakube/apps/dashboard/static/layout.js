// Where nodes go on the map: pure arithmetic, in CSS pixels at scale 1.

const TALLEST = 60;
const WIDEST = 60;
const LABEL = 18;
const GAP = 2;

// The largest cells with which all strips fit into the room; strips may not get thinner than a
// pixel or two, so a very large cluster gets taller and is scrolled by panning.
export function fit(nodes, zones, width, height) {
  let best = null;
  for (let cellHeight = TALLEST; cellHeight >= 2; cellHeight--) {
    const cellWidth = Math.max(1.5, Math.min(WIDEST, cellHeight * 0.9));
    const labelled = cellWidth * zones >= 46 && cellHeight >= 12;
    const gap = cellHeight > 8 ? GAP * 3 : GAP;
    const blockWidth = Math.max(cellWidth * zones, labelled ? 84 : 0) + gap;
    const blockHeight = cellHeight + (labelled ? LABEL : 0) + (cellHeight > 8 ? GAP * 2 : GAP / 2);
    const columns = Math.max(1, Math.floor((width + gap) / blockWidth));
    const rows = Math.ceil(nodes / columns);
    best = { zones, cellWidth, cellHeight, blockWidth, blockHeight, columns, rows, height: rows * blockHeight };
    if (best.height <= height) break;
  }
  return best.rows > 1 ? spread(best, width) : best;
}

// Widens the strips so that the columns fill the room.
function spread(grid, width) {
  const gap = grid.blockWidth - grid.cellWidth * grid.zones;
  const blockWidth = Math.min((width + gap) / grid.columns, grid.blockWidth * 1.4);
  return { ...grid, blockWidth, cellWidth: (blockWidth - gap) / grid.zones };
}

// The nodes to show, as indices, in the order of the wish.
export function orderOf(data, wish, text) {
  const shown = [];
  for (let node = 0; node < data.nodes.length; node++) if (!text || data.nodes[node].includes(text)) shown.push(node);
  if (wish === "trouble") return Uint32Array.from(shown.sort((a, b) => data.flags[b] - data.flags[a] || a - b));
  if (wish === "used" || wish === "free") {
    const keys = new Float64Array(data.nodes.length);
    for (const node of shown) keys[node] = wish === "used" ? -mean(data, node) : least(data, node);
    shown.sort((a, b) => keys[a] - keys[b] || a - b);
  }
  return Uint32Array.from(shown);
}

function mean(data, node) {
  let [sum, count] = [0, 0];
  for (let zone = 0; zone < data.zones; zone++) {
    const value = data.cells[node * data.zones + zone];
    if (value <= 100) [sum, count] = [sum + value, count + 1];
  }
  return count ? sum / count : -1;
}

function least(data, node) {
  let found = 1000;
  for (let zone = 0; zone < data.zones; zone++) {
    const value = data.cells[node * data.zones + zone];
    if (value <= 100) found = Math.min(found, value);
  }
  return found;
}
