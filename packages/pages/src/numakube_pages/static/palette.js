// The colours of the map, from the style sheet's variables to the 32-bit numbers that pixels are.

export function palette(element, kinds) {
  const style = getComputedStyle(element);
  const read = (name) => parse(style.getPropertyValue(name).trim());
  const stops = [read("--heat-0"), read("--heat-mid"), read("--heat-1")];
  const ramp = new Uint32Array(101);
  for (let percent = 0; percent <= 100; percent++) {
    const place = percent / 50;
    const index = Math.min(Math.floor(place), 1);
    ramp[percent] = pack(mix(stops[index], stops[index + 1], place - index));
  }
  const one = (name) => pack(read(name));
  return {
    ramp,
    background: one("--card"),
    absent: one("--absent"),
    marks: kinds.map((word) => one(`--mark-${word}`)),
    ink: one("--ink"),
    dim: one("--dim"),
  };
}

export function toCss(packed) {
  return `rgb(${packed & 255} ${(packed >> 8) & 255} ${(packed >> 16) & 255})`;
}

function parse(text) {
  const digits = text.slice(1);
  const full = digits.length === 3 ? [...digits].map((one) => one + one).join("") : digits;
  return [0, 2, 4].map((at) => parseInt(full.slice(at, at + 2), 16));
}

function mix(from, to, part) {
  return from.map((value, index) => Math.round(value + (to[index] - value) * part));
}

function pack([red, green, blue]) {
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}
