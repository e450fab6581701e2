// Curves of the last five minutes: one value a second each, with axis values and a read-out under the pointer.

import { brief, bytes, count, element, milliseconds } from "./words.js";

const POINTS = 300;
const LEAST_SHOWN = 60;
const SVG = "http://www.w3.org/2000/svg";

const CURVES = [
  { name: "tuples", title: "Tuples a second", format: brief },
  { name: "answers", title: "Answers", format: count },
  { name: "latency", title: "Latency, p99", format: milliseconds },
  { name: "memory", title: "Memory", format: bytes },
];

/** A round number at or above a value: 1, 2, 2.5 or 5 times a power of ten. */
function roundUp(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].map((step) => step * power).find((step) => step >= value * 0.999);
}

class Curve {
  #values = new Array(POINTS).fill(null);
  #read = null;
  #first = POINTS - LEAST_SHOWN; // Where what is shown begins: more as more is known.

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
      this.#readAt(this.#first + Math.round(((event.clientX - box.left) / box.width) * (POINTS - 1 - this.#first)));
    });
    for (const name of ["pointerleave", "blur"]) this.plot.addEventListener(name, () => this.#readAt(null));
    this.plot.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (event.key === "Escape") this.#readAt(null);
      if (!step) return;
      this.#readAt((this.#read ?? POINTS - 1) + step * (event.shiftKey ? 10 : 1));
      event.preventDefault();
    });
  }

  add(value) {
    this.#values.push(Number.isFinite(value) ? value : null);
    this.#values.shift();
    this.draw();
  }

  clear() {
    this.#values.fill(null);
    this.draw();
  }

  draw() {
    const last = this.#values.at(-1);
    const known = this.#values.findIndex((value) => value !== null);
    this.#first = Math.min(POINTS - LEAST_SHOWN, known < 0 ? POINTS : known);
    this.svg.setAttribute("viewBox", `${this.#first} 0 ${POINTS - 1 - this.#first} 100`);
    const shown = POINTS - this.#first;
    this.span.textContent = shown % 60 ? `${shown} s` : `${shown / 60} min`;
    const top = roundUp(Math.max(0, ...this.#values.filter((value) => value !== null)));
    this.now.textContent = last === null ? "–" : this.format(last);
    this.most.textContent = known >= 0 ? this.format(top) : "";
    this.plot.setAttribute("aria-label", `${this.title}: ${last === null ? "not known" : this.format(last)} now. Arrow keys read the curve.`);
    let line = "";
    let area = "";
    let start = null;
    this.#values.forEach((value, x) => {
      if (value !== null) {
        const y = (97 - (94 * value) / top).toFixed(1);
        line += `${start === null ? "M" : "L"}${x} ${y}`;
        start ??= x;
      }
      if (start !== null && (value === null || x === POINTS - 1)) {
        const end = value === null ? x - 1 : x;
        area += `${line.slice(line.lastIndexOf("M"))}L${end} 100L${start} 100Z`;
        start = null;
      }
    });
    this.line.setAttribute("d", line);
    this.area.setAttribute("d", area);
    if (this.#read !== null) this.#readAt(this.#read);
  }

  #readAt(at) {
    this.#read = at === null ? null : Math.max(this.#first, Math.min(POINTS - 1, at));
    const value = this.#read === null ? null : this.#values[this.#read];
    this.reading.hidden = this.#read === null;
    this.cursor.setAttribute("d", this.#read === null ? "" : `M${this.#read} 0V100`);
    if (this.#read === null) return;
    const ago = POINTS - 1 - this.#read;
    const when = ago === 0 ? "now" : ago < 60 ? `${ago} s ago` : `${Math.floor(ago / 60)} min ${ago % 60} s ago`;
    this.reading.textContent = `${value === null ? "not known" : this.format(value)}, ${when}`;
    this.reading.classList.toggle("to-left", this.#read > (POINTS + this.#first) / 2);
  }
}

/** The four curves; `add` takes a value for each by its name. */
export class Curves {
  #curves = new Map();

  constructor(root) {
    for (const wanted of CURVES) {
      const curve = new Curve(wanted);
      this.#curves.set(wanted.name, curve);
      root.append(curve.root);
      curve.draw();
    }
  }

  add(values) {
    for (const [name, curve] of this.#curves) curve.add(values[name]);
  }

  clear(name) {
    this.#curves.get(name).clear();
  }
}
