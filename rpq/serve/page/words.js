// Figures and times as people read them.

const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const precise = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

export const count = (value) => (value === null || value === undefined ? "–" : grouped.format(value));

export const brief = (value) => (Math.abs(value) < 10_000 ? precise.format(value) : short.format(value));

export function bytes(value) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${precise.format(value)} ${units[unit]}`;
}

export function milliseconds(value) {
  if (value >= 1000) return `${precise.format(value / 1000)} s`;
  return value >= 1 ? `${precise.format(value)} ms` : `${precise.format(value * 1000)} µs`;
}

const UNITS = { s: 1000, ms: 1, us: 1e-3, ns: 1e-6 };

const LARGER = [["us", 1000], ["ms", 1000], ["s", 1000], ["m", 60], ["h", 60], ["d", 24]];

/** Return a time of the stream: a number in `unit` since 1970 as a date, without a unit as a number; a text unchanged. */
export function streamTime(value, unit = null) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "string") return value.replace("T", " ").replace(/(\.\d*?[1-9])0+$|\.0+$/, "$1");
  if (!unit || !UNITS[unit]) return grouped.format(value);
  const date = new Date(value * UNITS[unit]);
  return Number.isNaN(date.getTime()) ? grouped.format(value) : date.toISOString().slice(0, 19).replace("T", " ");
}

/** Return a length of time in `unit` in the largest unit that is exact; without a unit a number; a text unchanged. */
export function duration(value, unit = null) {
  if (typeof value !== "number") return value;
  if (!unit || !UNITS[unit]) return count(value);
  let [length, name] = [value, unit];
  for (const [larger, factor] of LARGER.slice(["ns", "us", "ms", "s"].indexOf(unit))) {
    if (length % factor !== 0) break;
    [length, name] = [length / factor, larger];
  }
  return `${length}${name}`;
}

/** Return an element with attributes and children; texts become text nodes, never markup. */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

export const byId = (id) => document.getElementById(id);
