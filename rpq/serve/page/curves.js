// Curves of the last five minutes: one value a second each, with axis values and a read-out under the pointer. Until there is
// so much, the axis begins where the curve does, and has room for at least a minute: first points are not stretched.

import { brief, bytes, count, element, milliseconds } from "./words.js";

const POINTS = 300;
const LEAST_SHOWN = 60;
const BRIDGED = 5; // Seconds without a value, as a busy machine misses some, through which a curve is drawn.
const SVG = "http://www.w3.org/2000/svg";

const CURVES = [
  { name: "tuples", title: "Tuples a second", format: brief },
  { name: "answers", title: "Answers", format: count },
  { name: "latency", title: "Latency, p99", format: milliseconds },
  { name: "memory", title: "Memory", format: bytes },
];

/** Return a round number at or above a value: 1, 2, 2.5 or 5 times a power of ten. */
function roundUp(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].map((step) => step * power).find((step) => step >= value * 0.999);
}

function secondsText(seconds) {
  const minutes = Math.floor(seconds / 60);
  return [minutes ? `${minutes} min` : "", seconds % 60 ? `${seconds % 60} s` : ""].filter(Boolean).join(" ");
}

class Curve {
  #values = []; // One a second, the last of now; null where nothing is known.
  #read = null;

  constructor({ title, format }) {
    this.format = format;
    this.now = element("span", { class: "curve-now" }, "–");
    this.most = element("span", { class: "axis most" });
    this.least = element("span", { class: "axis least" }, "0");
    this.span = element("span", { class: "axis span" });
    this.reading = element("span", { class: "reading", hidden: true });
    this.line = document.createElementNS(SVG, "path");
    this.line.setAttribute("class", "curve-line");
    this.area = document.createElementNS(SVG, "path");
    this.area.setAttribute("class", "curve-area");
    this.cursor = document.createElementNS(SVG, "path");
    this.cursor.setAttribute("class", "curve-cursor");
    this.svg = document.createElementNS(SVG, "svg");
    this.svg.setAttribute("preserveAspectRatio", "none");
    this.svg.setAttribute("aria-hidden", "true");
    this.svg.append(this.area, this.line, this.cursor);
    this.plot = element("div", { class: "plot", tabindex: "0", role: "img" }, this.svg, this.most, this.least, this.span, this.reading);
    const head = element("p", { class: "curve-head" }, element("span", { class: "label" }, title), this.now);
    this.root = element("figure", { class: "panel curve" }, head, this.plot);
    this.title = title;
    this.plot.addEventListener("pointermove", (event) => {
      const box = this.plot.getBoundingClientRect();
      this.#readAt(Math.round(((event.clientX - box.left) / box.width) * (this.#room - 1)));
    });
    for (const name of ["pointerleave", "blur"]) this.plot.addEventListener(name, () => this.#readAt(null));
    this.plot.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (event.key === "Escape") this.#readAt(null);
      if (!step) return;
      this.#readAt((this.#read ?? this.#values.length - 1) + step * (event.shiftKey ? 10 : 1));
      event.preventDefault();
    });
  }

  /** The number of points for which there is room. */
  get #room() {
    return Math.max(LEAST_SHOWN, this.#values.length);
  }

  /** Add a value, after `missed` seconds without one. */
  add(value, missed) {
    if (this.#values.length) this.#values.push(...new Array(Math.min(POINTS, missed)).fill(null));
    this.#values.push(Number.isFinite(value) ? value : null);
    const more = this.#values.length - POINTS;
    if (more > 0) this.#values.splice(0, more);
    if (this.#read !== null && more > 0) this.#read = Math.max(0, this.#read - more);
    this.draw();
  }

  /** Set the present value, between two values of the curve. */
  setNow(value) {
    if (this.#values.length) this.#values[this.#values.length - 1] = value;
    if (this.now.textContent !== this.format(value)) this.now.textContent = this.format(value);
  }

  clear() {
    this.#values = [];
    this.#read = null;
    this.draw();
  }

  draw() {
    const last = this.#values.at(-1) ?? null;
    const length = this.#values.length;
    this.svg.setAttribute("viewBox", `0 0 ${this.#room - 1} 100`);
    this.span.textContent = length === 0 ? "" : length < POINTS ? `since start, ${secondsText(length)}` : secondsText(POINTS);
    const top = roundUp(Math.max(0, ...this.#values.filter((value) => value !== null)));
    this.now.textContent = last === null ? "–" : this.format(last);
    this.most.textContent = this.#values.some((value) => value !== null) ? this.format(top) : "";
    this.plot.setAttribute("aria-label", `${this.title}: ${last === null ? "not known" : this.format(last)} now. Arrow keys read the curve.`);
    let line = "";
    let area = "";
    for (const points of this.#runs()) {
      const places = points.map(([x, value]) => `${x} ${(97 - (94 * value) / top).toFixed(1)}`);
      // A point that stands alone is a dot.
      const run = `M${places[0]}L${places.join("L")}`;
      line += run;
      area += `${run}L${points.at(-1)[0]} 100L${points[0][0]} 100Z`;
    }
    this.line.setAttribute("d", line);
    this.area.setAttribute("d", area);
    if (this.#read !== null) this.#readAt(this.#read);
  }

  /** Return the known points [x, value] in parts, separated by gaps that are too long to be bridged. */
  #runs() {
    const runs = [];
    let last = -Infinity;
    this.#values.forEach((value, x) => {
      if (value === null) return;
      if (x - last > BRIDGED) runs.push([]);
      runs.at(-1).push([x, value]);
      last = x;
    });
    return runs;
  }

  #readAt(at) {
    this.#read = at === null || this.#values.length === 0 ? null : Math.max(0, Math.min(this.#values.length - 1, at));
    const value = this.#read === null ? null : this.#values[this.#read];
    this.reading.hidden = this.#read === null;
    this.cursor.setAttribute("d", this.#read === null ? "" : `M${this.#read} 0V100`);
    if (this.#read === null) return;
    const ago = this.#values.length - 1 - this.#read;
    const when = ago === 0 ? "now" : `${secondsText(ago)} ago`;
    this.reading.textContent = `${value === null ? "not known" : this.format(value)}, ${when}`;
    this.reading.classList.toggle("to-left", this.#read > this.#room / 2);
  }
}

/** The four curves; `add` takes a value for each by its name. */
export class Curves {
  #curves = new Map();
  #begunAt = null;
  #second = 0; // Of the last values, since the first.

  constructor(root) {
    for (const wanted of CURVES) {
      const curve = new Curve(wanted);
      this.#curves.set(wanted.name, curve);
      root.append(curve.root);
      curve.draw();
    }
  }

  /** `at` is the time of the values in milliseconds: where seconds were missed, the curves have a gap. */
  add(values, at) {
    this.#begunAt ??= at;
    const second = Math.max(this.#second + 1, Math.round((at - this.#begunAt) / 1000));
    const missed = second - this.#second - 1;
    this.#second = second;
    for (const [name, curve] of this.#curves) curve.add(values[name], missed);
  }

  setNow(name, value) {
    this.#curves.get(name).setNow(value);
  }

  clear(name) {
    this.#curves.get(name).clear();
  }
}
