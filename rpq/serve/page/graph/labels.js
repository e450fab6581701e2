// Names beside vertices, labels and properties on the edges of a witness: those that matter most, where there is room.

import { nameParts } from "../names.js";

const MOST = 70;
const HEIGHT = 15;
const LONGEST = 28;
const PADDING = 2; // Of an escape in its box.
const PLACES = [0.5, 0.35, 0.65, 0.22, 0.78];  // along an edge: in its middle, or where no other label is

/** Chooses labels that do not overlap; one that was shown keeps its place rather than flicker. */
export class GraphLabels {
  font = "12px sans-serif";
  #shown = new Set();
  #texts = new Map();

  draw(context, camera, model, { hovered, lit, chosen, colours }) {
    context.font = this.font;
    context.textBaseline = "middle";
    context.lineJoin = "round";
    const taken = [];
    const free = (box) => taken.every((b) => box.left > b.right || box.right < b.left || box.top > b.bottom || box.bottom < b.top);
    const shown = new Set();
    if (model.witness) this.#edges(context, camera, model.witness, { taken, free, colours });
    for (const vertex of this.#ordered(model, hovered, chosen)) {
      const at = camera.toScreen(vertex);
      if (at.x < 0 || at.y < 0 || at.x > camera.width || at.y > camera.height) continue;
      const text = this.#text(context, [[vertex.name]]);
      const { width } = text;
      const gap = vertex.radius * Math.sqrt(Math.min(2, camera.scale)) + 5;
      const must = vertex === hovered?.node || hovered?.shape?.vertices.includes(vertex) || vertex.witnesses > 0;
      // To the right, or to the left where that is taken or the canvas ends; what must be read stands below, if need be.
      const boxes = [
        [at.x + gap, at.y],
        [at.x - gap - width, at.y],
        ...(must ? [[at.x - width / 2, at.y + gap + 8], [at.x - width / 2, at.y - gap - 8]] : []),
      ].map(([left, y]) => ({ left: left - 2, right: left + width + 2, top: y - HEIGHT / 2, bottom: y + HEIGHT / 2 }));
      const inside = boxes.filter((box) => box.left > 0 && box.right < camera.width);
      const box = inside.find(free) ?? (must ? inside[0] ?? boxes[0] : null);
      if (!box) continue;
      taken.push(box);
      shown.add(vertex.name);
      context.globalAlpha = lit && !must ? 0.7 : 1;
      this.#write(context, text, box.left + 2, (box.top + box.bottom) / 2, must ? colours.text : colours.muted, colours);
      if (shown.size >= MOST) break;
    }
    context.globalAlpha = 1;
    this.#shown = shown;
  }

  #ordered(model, hovered, chosen) {
    const ofChosen = model.shapes.get(chosen)?.vertices ?? [];
    const ranked = [];
    for (const vertex of model.vertices.values()) {
      let rank = vertex.links + (this.#shown.has(vertex.name) ? 2.5 : 0);
      if (vertex === hovered?.node || hovered?.shape?.vertices.includes(vertex)) rank = 1e9;
      else if (vertex.witnesses > 0) rank = 1e8;
      else if (ofChosen.includes(vertex)) rank = 1e7;
      ranked.push([rank, vertex]);
    }
    return ranked.sort((a, b) => b[0] - a[0]).map(([, vertex]) => vertex);
  }

  #edges(context, camera, { links }, { taken, free, colours }) {
    for (const link of links) {
      const from = camera.toScreen(link.source);
      const to = camera.toScreen(link.target);
      const loop = link.source === link.target;
      const text = this.#text(context, link.labels);
      const { width } = text;
      const boxes = (loop ? [0.5] : PLACES).map((along) => {
        const bend = 0.24 * along * (1 - along);
        const x = loop ? from.x : from.x + (to.x - from.x) * along - (to.y - from.y) * bend;
        const y = loop ? from.y - 34 : from.y + (to.y - from.y) * along + (to.x - from.x) * bend;
        return { left: x - width / 2 - 3, right: x + width / 2 + 3, top: y - HEIGHT / 2, bottom: y + HEIGHT / 2 };
      });
      const { left, right, top, bottom } = boxes[0];
      for (let rows = 1; rows < 5; rows++) {
        // Where an edge is too short for its labels they stand above each other.
        boxes.push(...[rows, -rows].map((row) => ({ left, right, top: top + row * (HEIGHT + 1), bottom: bottom + row * (HEIGHT + 1) })));
      }
      const box = boxes.find(free) ?? boxes[0];
      taken.push(box);
      this.#write(context, text, box.left + 3, (box.top + box.bottom) / 2, colours.witness, colours);
    }
  }

  /** Draw parts one after the other, separately, so that none changes the direction of the next. */
  #write(context, { parts }, x, y, colour, { surface, raised, line }) {
    for (const { text, width, isEscape } of parts) {
      if (isEscape) {
        context.fillStyle = raised;
        context.strokeStyle = line;
        context.lineWidth = 1;
        context.beginPath();
        context.roundRect(x, y - HEIGHT / 2, width, HEIGHT, 3);
        context.fill();
        context.stroke();
      } else {
        context.lineWidth = 4;
        context.strokeStyle = surface;
        context.strokeText(text, x, y);
      }
      context.fillStyle = colour;
      context.fillText(text, x + (isEscape ? PADDING : 0), y);
      x += width;
    }
  }

  /** Return texts, each of some names with blanks between them, with commas between the texts, as parts with their widths. */
  #text(context, texts) {
    const key = JSON.stringify(texts);
    let text = this.#texts.get(key);
    if (text === undefined) {
      if (this.#texts.size > 5000) this.#texts.clear();
      const behind = (at, text) => (at ? [{ text, isEscape: false }] : []);
      const named = (names) => names.flatMap((name, at) => [...behind(at, " "), ...nameParts(name, LONGEST)]);
      const parts = texts.flatMap((names, at) => [...behind(at, ", "), ...named(names)]);
      for (const part of parts) part.width = context.measureText(part.text).width + (part.isEscape ? 2 * PADDING : 0);
      text = { parts, width: parts.reduce((sum, { width }) => sum + width, 0) };
      this.#texts.set(key, text);
    }
    return text;
  }
}
