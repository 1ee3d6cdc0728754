// Where nodes go on the map: pure arithmetic, in CSS pixels at scale 1.

const TALLEST = 60;
const WIDEST = 60;
const LABEL = 18;
const HEADING = 24;
const GAP = 2;

// The largest cells with which all strips fit into the room; strips may not get thinner than a
// pixel or two, so a very large cluster gets taller and is scrolled by panning. Every group begins
// with a new row, below its heading if it has a title.
export function fit(groups, zones, width, height) {
  const headings = groups.filter((group) => group.title).length * HEADING;
  let best = null;
  for (let cellHeight = TALLEST; cellHeight >= 2; cellHeight--) {
    const cellWidth = Math.max(1.5, Math.min(WIDEST, cellHeight * 0.9));
    const labelled = cellWidth * zones >= 46 && cellHeight >= 12;
    const gap = cellHeight > 8 ? GAP * 3 : GAP;
    const blockWidth = Math.max(cellWidth * zones, labelled ? 84 : 0) + gap;
    const blockHeight = cellHeight + (labelled ? LABEL : 0) + (cellHeight > 8 ? GAP * 2 : GAP / 2);
    const columns = Math.max(1, Math.floor((width + gap) / blockWidth));
    const rows = groups.reduce((sum, group) => sum + Math.ceil(group.nodes.length / columns), 0);
    best = { zones, cellWidth, cellHeight, blockWidth, blockHeight, columns, rows, height: rows * blockHeight + headings };
    if (best.height <= height) break;
  }
  return placed(spread(best, width), groups);
}

// Widens the strips so that the columns fill the room.
function spread(grid, width) {
  const gap = grid.blockWidth - grid.cellWidth * grid.zones;
  const blockWidth = Math.min((width + gap) / grid.columns, grid.blockWidth * 1.4);
  return { ...grid, blockWidth, cellWidth: (blockWidth - gap) / grid.zones };
}

// Gives every node its slot, row by row; a slot without a node is -1.
function placed(grid, groups) {
  const slots = new Int32Array(grid.rows * grid.columns).fill(-1);
  const tops = new Float64Array(grid.rows);
  const headings = [];
  let [row, y] = [0, 0];
  for (const { title, nodes } of groups) {
    if (title) {
      headings.push({ y: y + HEADING / 2, title: `${title} (${nodes.length})` });
      y += HEADING;
    }
    slots.set(nodes, row * grid.columns);
    for (let end = row + Math.ceil(nodes.length / grid.columns); row < end; row++) {
      tops[row] = y;
      y += grid.blockHeight;
    }
  }
  return { ...grid, slots, tops, headings };
}

// The row at a height, or -1 between rows.
export function rowAt(grid, y) {
  let [low, high] = [0, grid.rows];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (grid.tops[middle] <= y) low = middle + 1;
    else high = middle;
  }
  const row = low - 1;
  return row >= 0 && y < grid.tops[row] + grid.blockHeight ? row : -1;
}
