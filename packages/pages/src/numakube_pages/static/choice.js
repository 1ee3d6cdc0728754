// Which nodes the map shows, in which order and groups: the reader's choice on the server's data.

const NOTHING = "<none>";
const NO_ZONE = 255;
const MOST = 100;

// Words as in the tables: part of a name, label=value, label!=value, is:trouble.
export function chosen(data, text) {
  const tests = text.split(/[\s,]+/).filter(Boolean).map((word) => testOf(data, word));
  const shown = [];
  for (let node = 0; node < data.nodes.length; node++) if (tests.every((test) => test(node))) shown.push(node);
  return shown;
}

function testOf(data, word) {
  if (word.startsWith("is:")) {
    const flags = data.kinds.reduce((sum, [flag, name]) => (name === word.slice(3) || word === "is:trouble" ? sum | flag : sum), 0);
    return (node) => (data.flags[node] & flags) !== 0;
  }
  const match = /^([^=!]+)(!?=)=?(.*)$/.exec(word);
  if (!match) return (node) => data.nodes[node].includes(word);
  const [, key, sign, value] = match;
  return (node) => (labelOf(data, key, node) === value) === (sign === "=");
}

function labelOf(data, key, node) {
  const label = data.labels[key];
  return label?.of[node] ? label.values[label.of[node] - 1] : "";
}

export function ordered(data, nodes, wish, keyOf) {
  if (wish === "trouble") return nodes.sort((a, b) => worst(data, a) - worst(data, b) || a - b);
  if (wish !== "high" && wish !== "low") return nodes;
  const keys = new Map(nodes.map((node) => [node, keyOf(node)]));
  const sign = wish === "high" ? -1 : 1;
  const key = (node) => keys.get(node) ?? Infinity;
  return nodes.sort((a, b) => (keys.get(a) === null) - (keys.get(b) === null) || sign * (key(a) - key(b)) || a - b);
}

// The place of a node's worst trouble among the kinds; those without any come last.
export function worst(data, node) {
  const place = data.kinds.findIndex(([flag]) => data.flags[node] & flag);
  return place < 0 ? data.kinds.length : place;
}

export function grouped(data, nodes, key) {
  if (!data.labels[key]) return [{ title: "", nodes }];
  const groups = new Map();
  for (const node of nodes) {
    const value = labelOf(data, key, node) || NOTHING;
    if (!groups.has(value)) groups.set(value, []);
    groups.get(value).push(node);
  }
  const titles = [...groups.keys()].sort((a, b) => (a === NOTHING) - (b === NOTHING) || (a < b ? -1 : 1));
  return titles.map((title) => ({ title, nodes: groups.get(title) }));
}

// What a node is sorted by: its best zone if one pod has to go into it, else all of them.
export function keyOf(data, node) {
  let [sum, count, best] = [0, 0, 0];
  for (const value of data.cells.subarray(node * data.zones, (node + 1) * data.zones)) {
    if (value <= MOST) [sum, count, best] = [sum + value, count + 1, Math.max(best, value)];
  }
  if (!count) return null;
  return data.measure === "largest" ? best : sum / count;
}

// How many zones nodes have, in words.
export function sizes(data) {
  let [least, most] = [Infinity, 0];
  for (let node = 0; node < data.nodes.length; node++) {
    let zones = data.zones;
    while (zones && data.cells[node * data.zones + zones - 1] === NO_ZONE) zones--;
    if (zones) [least, most] = [Math.min(least, zones), Math.max(most, zones)];
  }
  const nodes = `${data.nodes.length} ${data.nodes.length === 1 ? "node" : "nodes"}`;
  if (!most) return `${nodes} without zones`;
  const left = data.most > data.zones ? `, zones without ${data.resource} left out` : "";
  return `${nodes} with ${least === most ? most : `${least} to ${most}`} NUMA ${most === 1 ? "zone" : "zones"} each${left}`;
}
