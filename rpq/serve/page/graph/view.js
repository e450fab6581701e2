// The graph on a canvas: draws a model, and takes pointers and keys.

import { Camera } from "./camera.js";
import { isNew } from "./model.js";
import { GraphLabels } from "./labels.js";

const FACTOR = 1.3;
const BEHIND = 500;
const STEP = 1000 / 60;
const MAX_STEPS = 4;
const LONGEST_STEPS = 4; // Milliseconds: where steps are slow, making up for lost ones would lose more.
const SHORT_PATH = 50;
const RIMMED = 5; // Vertices larger than this have a rim, which tells those apart that cover each other.

/**
 * Draws the `model` whenever something moves, and only then.
 *
 * `onChoose(key | null, {reveal})` is called when an answer is chosen or let go, with `reveal` by a pointer; `onAgain()` for
 * Enter on the chosen one; `onSize(factor)` when vertices are drawn larger or smaller.
 */
export class GraphView {
  camera = new Camera();
  chosen = null;
  #hovered = null;
  #labels = new GraphLabels();
  #colours = {};
  #waiting = false;
  #drawnAt = 0;
  #reportedSize = 0;
  #pointers = new Map();
  #dragged = null;
  #moved = 0;

  constructor(canvas, model, { onChoose, onAgain, onSize }) {
    this.canvas = canvas;
    this.model = model;
    this.onChoose = onChoose;
    this.onAgain = onAgain;
    this.onSize = onSize;
    this.context = canvas.getContext("2d");
    this.recolour();
    new ResizeObserver(() => this.#resize()).observe(canvas.parentElement);
    this.#resize();
    this.#listen();
  }

  /** Read the colours of the style sheet again, because the theme has changed. */
  recolour() {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["surface", "text", "muted", "node", "link", "new", "accent", "witness", "removed", "raised", "line"])
      this.#colours[name] = style.getPropertyValue(`--${name}`).trim();
    this.#labels.font = `12px ${style.getPropertyValue("--sans")}`;
    this.redraw();
  }

  /** Draw the next frame, and more as long as something moves. */
  redraw() {
    if (this.#waiting) return;
    this.#waiting = true;
    // Behind a dialog nobody looks at it: now and then is enough.
    const draw = () => requestAnimationFrame(() => this.#frame());
    if (document.querySelector("dialog[open]")) setTimeout(draw, BEHIND);
    else draw();
  }

  fit() {
    this.camera.fit();
    this.redraw();
  }

  zoom(factor) {
    this.camera.zoom(factor);
    this.redraw();
  }

  #resize() {
    const { clientWidth: width, clientHeight: height } = this.canvas.parentElement;
    const ratio = Math.min(2, devicePixelRatio || 1);
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.camera.width = width;
    this.camera.height = height;
    this.model.layout.aspect = Math.min(2, Math.max(0.6, width / Math.max(1, height)));
    this.ratio = ratio;
    this.redraw();
  }

  #frame() {
    this.#waiting = false;
    const now = performance.now();
    const changing = this.model.settle(now);
    const { layout } = this.model;
    if (this.model.calm) {
      // No motion is wanted: go to where it comes to rest, or as far as a moment takes.
      while (layout.moving && performance.now() - now < 30) layout.step();
      this.camera.follow(layout.nodes, 1);
    } else {
      // As far in a second whatever the machine draws in it.
      const steps = Math.min(MAX_STEPS, Math.max(1, Math.round((now - this.#drawnAt) / STEP)));
      for (let step = 0; step < steps && performance.now() - now < LONGEST_STEPS; step += 1) layout.step();
    }
    this.#drawnAt = now;
    const following = this.camera.follow(layout.nodes, 0.12);
    this.#draw(now);
    if (layout.moving || changing || (following && !this.model.calm)) {
      if (this.model.calm) setTimeout(() => this.redraw(), 1000);
      else this.redraw();
    }
  }

  #draw(now) {
    const { context, camera } = this;
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, camera.width, camera.height);
    if (Math.abs(this.#size() - this.#reportedSize) > 0.02) this.onSize((this.#reportedSize = this.#size()));
    const witness = this.model.witness;
    const lit = this.chosen !== null;
    this.#drawShapes(now, lit);
    this.#drawVertices(now, lit);
    if (witness) this.#drawWitness(witness);
    this.#labels.draw(context, camera, this.model, { hovered: this.#hovered, lit, chosen: this.chosen, colours: this.#colours });
  }

  #drawShapes(now, lit) {
    const { model } = this;
    const newFor = model.newFor(now);
    // Links that look alike are drawn together: a look is how much of them is there, in eighths, and what they are.
    const looks = new Map();
    for (const shape of model.shapes.values()) {
      const presence = model.presence(shape, now);
      const special = shape.key === this.chosen ? "chosen" : shape === this.#hovered?.shape ? "hovered" : null;
      const kind = special ?? (shape.left !== null ? "leaving" : isNew(shape, now, newFor) ? "new" : "resting");
      const eighths = Math.ceil(presence * (lit && !special ? 0.55 : 1) * 8);
      const look = `${kind}${eighths}`;
      if (looks.has(look)) looks.get(look).shapes.push(shape);
      else looks.set(look, { kind, alpha: eighths / 8, shapes: [shape] });
    }
    for (const kind of ["resting", "leaving", "new", "hovered", "chosen"]) {
      for (const look of looks.values()) if (look.kind === kind) this.#drawLinks(look);
    }
    this.context.globalAlpha = 1;
  }

  #drawLinks({ kind, alpha, shapes }) {
    const { context, camera } = this;
    const { colour, width } = {
      // A line of one pixel is drawn many times as fast as a wider one where no graphics card does it.
      resting: { colour: "link", width: 1 },
      leaving: { colour: "removed", width: 1 },
      new: { colour: "new", width: 1.8 },
      hovered: { colour: "accent", width: 2 },
      chosen: { colour: "witness", width: 2 },
    }[kind];
    context.globalAlpha = alpha;
    context.strokeStyle = this.#colours[colour];
    context.fillStyle = this.#colours[colour];
    context.lineWidth = width;
    context.setLineDash(kind === "leaving" ? [3, 4] : kind === "chosen" && this.model.witness !== null ? [5, 5] : []);
    context.beginPath();
    const heads = [];
    let lines = 0;
    for (const { links } of shapes) {
      for (const link of links) {
        const from = camera.toScreen(link.source);
        if (link.source === link.target) {
          const size = (link.source.radius + 5) * Math.min(1, camera.scale);
          context.moveTo(from.x + size, from.y - size);
          context.arc(from.x, from.y - size, size, 0, 2 * Math.PI);
        } else {
          const to = camera.toScreen(link.target);
          if (!this.#isSeen(from, to)) continue;
          context.moveTo(from.x, from.y);
          context.lineTo(to.x, to.y);
          if (link.kind === "answer" && camera.scale > 0.35) heads.push([from, to, link.target.radius]);
        }
        // What a path costs grows faster than its length.
        if (++lines % SHORT_PATH === 0) {
          context.stroke();
          context.beginPath();
        }
      }
    }
    context.stroke();
    context.setLineDash([]);
    const size = this.#size();
    heads.forEach(([from, to, radius], at) => {
      if (at % SHORT_PATH === 0) context.beginPath();
      this.#head(from, to, radius * size + 1, 4 + width);
      if (at % SHORT_PATH === SHORT_PATH - 1 || at === heads.length - 1) context.fill();
    });
  }

  #isSeen(from, to) {
    const { width, height } = this.camera;
    return Math.max(from.x, to.x) > 0 && Math.min(from.x, to.x) < width && Math.max(from.y, to.y) > 0 && Math.min(from.y, to.y) < height;
  }

  /** Return the factor of vertices, which grow less than the distances between them. */
  #size() {
    return Math.min(1.5, Math.max(0.45, Math.sqrt(this.camera.scale)));
  }

  #head(from, to, gap, size) {
    const { context } = this;
    const length = Math.hypot(to.x - from.x, to.y - from.y);
    if (length < gap + size) return;
    const x = (to.x - from.x) / length;
    const y = (to.y - from.y) / length;
    const tip = { x: to.x - x * gap, y: to.y - y * gap };
    context.moveTo(tip.x, tip.y);
    context.lineTo(tip.x - x * size - (y * size) / 2, tip.y - y * size + (x * size) / 2);
    context.lineTo(tip.x - x * size + (y * size) / 2, tip.y - y * size - (x * size) / 2);
    context.closePath();
  }

  #drawVertices(now, lit) {
    const { context, camera, model } = this;
    const colours = this.#colours;
    const size = this.#size();
    const newFor = model.newFor(now);
    const chosen = model.shapes.get(this.chosen);
    const disc = (at, radius) => {
      context.beginPath();
      context.arc(at.x, at.y, radius, 0, 2 * Math.PI);
    };
    for (const node of model.layout.nodes) {
      const at = camera.toScreen(node);
      if (at.x < -20 || at.y < -20 || at.x > camera.width + 20 || at.y > camera.height + 20) continue;
      const { leaving, isNewest } = node.knot ? lifeOf([node.knot], now, newFor) : lifeOf(node.shapes, now, newFor);
      const marked = node.witnesses > 0 || (chosen && (node.knot === chosen || chosen.vertices.includes(node)));
      let alpha = leaving ? model.presence(leaving, now) : model.presence(node, now);
      if (lit && !marked) alpha *= 0.6;
      const radius = (marked ? 1 : 0) + node.radius * size * (model.calm ? 1 : 0.6 + 0.4 * alpha);
      if (isNewest && !marked) {
        // A halo beside the colour, for whoever sees colours otherwise.
        context.globalAlpha = alpha * 0.3;
        context.fillStyle = colours.new;
        disc(at, radius + 4);
        context.fill();
      }
      context.globalAlpha = alpha;
      disc(at, radius);
      if (leaving && !marked) {
        context.fillStyle = colours.surface;
        context.fill();
        context.lineWidth = 1.5;
        context.strokeStyle = colours.removed;
        context.stroke();
      } else {
        context.fillStyle = marked ? colours.witness : isNewest ? colours.new : node.knot ? colours.link : colours.node;
        context.fill();
        if (radius > RIMMED) {
          context.lineWidth = 1.5;
          context.strokeStyle = colours.surface;
          context.stroke();
        }
      }
      if (node === this.#hovered?.node) {
        disc(at, radius + 4);
        context.lineWidth = 1.5;
        context.strokeStyle = colours.accent;
        context.stroke();
      }
    }
    context.globalAlpha = 1;
  }

  #drawWitness({ links }) {
    const { context, camera } = this;
    context.strokeStyle = this.#colours.witness;
    context.fillStyle = this.#colours.witness;
    context.lineWidth = 2.5;
    const size = this.#size();
    for (const link of links) {
      const from = camera.toScreen(link.source);
      const to = camera.toScreen(link.target);
      context.beginPath();
      if (link.source === link.target) {
        const reach = link.source.radius * size + 10;
        context.arc(from.x, from.y - reach, reach, 0.6 * Math.PI, 2.4 * Math.PI);
        context.stroke();
        continue;
      }
      const back = links.some((other) => other.source === link.target && other.target === link.source);
      // The chosen answer's own link is straight: a witness between the same two bends away from it, and two ways from each other.
      const bend = back ? 0.22 : 0.12;
      const middle = { x: (from.x + to.x) / 2 - (to.y - from.y) * bend, y: (from.y + to.y) / 2 + (to.x - from.x) * bend };
      context.moveTo(from.x, from.y);
      context.quadraticCurveTo(middle.x, middle.y, to.x, to.y);
      context.stroke();
      context.beginPath();
      this.#head(middle, to, link.target.radius * size + 2, 9);
      context.fill();
    }
  }

  #listen() {
    const { canvas } = this;
    canvas.addEventListener("pointerdown", (event) => this.#down(event));
    canvas.addEventListener("pointermove", (event) => this.#move(event));
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, (event) => this.#up(event));
    canvas.addEventListener("pointerleave", () => this.#hover(null));
    canvas.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    canvas.addEventListener("keydown", (event) => this.#key(event));
    canvas.addEventListener("dblclick", () => this.fit());
  }

  #place(event) {
    const box = this.canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  #down(event) {
    if (event.button !== 0) return;
    const at = this.#place(event);
    this.#pointers.set(event.pointerId, at);
    this.canvas.setPointerCapture(event.pointerId);
    this.#moved = this.#pointers.size > 1 ? Infinity : 0;
    if (this.#pointers.size === 1 && event.pointerType !== "touch") {
      this.#dragged = this.#nodeAt(at);
      if (this.#dragged) this.#dragged.isDragged = true;
    }
  }

  #move(event) {
    const at = this.#place(event);
    const before = this.#pointers.get(event.pointerId);
    if (!before) {
      this.#hover(this.#find(at));
      return;
    }
    const dx = at.x - before.x;
    const dy = at.y - before.y;
    this.#moved += Math.abs(dx) + Math.abs(dy);
    if (this.#pointers.size === 2) {
      const other = [...this.#pointers].find(([id]) => id !== event.pointerId)[1];
      const factor = Math.hypot(at.x - other.x, at.y - other.y) / Math.max(1, Math.hypot(before.x - other.x, before.y - other.y));
      this.camera.zoom(factor, (at.x + other.x) / 2, (at.y + other.y) / 2);
      this.camera.pan(dx / 2, dy / 2);
    } else if (this.#dragged) {
      Object.assign(this.#dragged, this.camera.toPlane(at.x, at.y));
      this.model.layout.warm(0.25);
    } else this.camera.pan(dx, dy);
    this.#pointers.set(event.pointerId, at);
    this.redraw();
  }

  #up(event) {
    if (!this.#pointers.delete(event.pointerId)) return;
    if (this.#dragged) this.#dragged.isDragged = false;
    this.#dragged = null;
    if (event.type === "pointerup" && this.#moved < 5) this.#click(this.#place(event));
    this.redraw();
  }

  #click(at) {
    const found = this.#find(at);
    if (!found) this.onChoose(null);
    else if (found.shape) this.onChoose(found.shape.key, { reveal: true });
    else {
      // A vertex: the newest answer that it is in, then the one before.
      const shapes = [...found.node.shapes].filter((shape) => shape.left === null).reverse();
      const at = shapes.findIndex((shape) => shape.key === this.chosen);
      if (shapes.length) this.onChoose(shapes[(at + 1) % shapes.length].key, { reveal: true });
    }
  }

  #wheel(event) {
    const scrolls = document.documentElement.scrollHeight > innerHeight + 1;
    if (scrolls && !event.ctrlKey && document.activeElement !== this.canvas) return;
    event.preventDefault();
    const { x, y } = this.#place(event);
    this.camera.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), x, y);
    this.redraw();
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (ways[event.key]) {
      const key = this.#towards(ways[event.key]);
      if (key) this.onChoose(key);
    } else if (event.key === "+" || event.key === "=") this.zoom(FACTOR);
    else if (event.key === "-") this.zoom(1 / FACTOR);
    else if (event.key === "0") this.fit();
    else if (event.key === "Escape") this.onChoose(null);
    else if (event.key === "Enter" && this.chosen) this.onAgain();
    else return;
    event.preventDefault();
  }

  /** Return the next answer in a direction, or the one nearest to the middle if none is chosen. */
  #towards([x, y]) {
    const chosen = this.chosen === null ? null : this.model.shapes.get(this.chosen);
    const from = chosen ? this.#middle(chosen) : { x: this.camera.width / 2, y: this.camera.height / 2 };
    let best = null;
    let least = Infinity;
    for (const shape of this.model.shapes.values()) {
      if (shape === chosen || shape.left !== null) continue;
      const at = this.#middle(shape);
      const along = (at.x - from.x) * x + (at.y - from.y) * y;
      const across = Math.abs((at.x - from.x) * y) + Math.abs((at.y - from.y) * x);
      if (chosen && along <= 0.5) continue;
      const cost = chosen ? along + 2 * across : Math.hypot(at.x - from.x, at.y - from.y);
      if (cost < least) [best, least] = [shape.key, cost];
    }
    return best;
  }

  #middle(shape) {
    if (shape.knot) return this.camera.toScreen(shape.knot);
    const places = shape.vertices.map((vertex) => this.camera.toScreen(vertex));
    if (!places.length) return { x: 0, y: 0 };
    return { x: places.reduce((sum, at) => sum + at.x, 0) / places.length, y: places.reduce((sum, at) => sum + at.y, 0) / places.length };
  }

  #nodeAt(at) {
    let best = null;
    let least = 14;
    for (const node of this.model.layout.nodes) {
      const place = this.camera.toScreen(node);
      const distance = Math.hypot(place.x - at.x, place.y - at.y) - node.radius * this.#size() * 0.5;
      if (distance < least) [best, least] = [node, distance];
    }
    return best;
  }

  /** Return the vertex or the answer at a place on the screen. */
  #find(at) {
    const node = this.#nodeAt(at);
    if (node) return node.knot ? { shape: node.knot } : { node };
    let best = null;
    let least = 7;
    for (const shape of this.model.shapes.values()) {
      for (const link of shape.links) {
        const distance = distanceToLine(at, this.camera.toScreen(link.source), this.camera.toScreen(link.target));
        if (distance < least) [best, least] = [shape, distance];
      }
    }
    return best && { shape: best };
  }

  #hover(found) {
    if (found?.node === this.#hovered?.node && found?.shape === this.#hovered?.shape) return;
    this.#hovered = found;
    this.canvas.classList.toggle("over", Boolean(found));
    this.redraw();
  }
}

/** Return, of the answers that a vertex is in, the last one to leave if all leave, and whether all that hold are new. */
function lifeOf(shapes, now, newFor) {
  let leaving = null;
  let isNewest = false;
  let holds = false;
  for (const shape of shapes) {
    if (shape.left !== null) {
      if (leaving === null || shape.left > leaving.left) leaving = shape;
    } else {
      isNewest = isNew(shape, now, newFor) && (isNewest || !holds);
      holds = true;
    }
  }
  return { leaving: holds ? null : leaving, isNewest };
}

function distanceToLine(at, from, to) {
  const dx = to.x - from.x;
  const dy = to.y - from.y;
  const along = Math.max(0, Math.min(1, ((at.x - from.x) * dx + (at.y - from.y) * dy) / (dx * dx + dy * dy || 1)));
  return Math.hypot(at.x - from.x - along * dx, at.y - from.y - along * dy);
}
