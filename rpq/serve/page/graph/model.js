// What is drawn: vertices, links of answers and of a witness, each with how far it has come or gone.

import { ForceLayout } from "./force_layout.js";

export const COMING = 700;
export const LEAVING = 600;

// An answer counts as new for a share of the time for which answers are drawn, which is short where the stream is fast:
// else all would be new all the time. Never so short that it is not seen.
const NEW_SHARE = 0.25;
const LONGEST_NEW = 2600;
const SHORTEST_NEW = 600;
const RATE_OVER = 2000;

/** Return the radius of a vertex by the number of drawn answers that it is in. */
export const radiusOf = (answers) => Math.min(11, 3.5 + Math.sqrt(Math.max(0, answers - 1)) * 1.5);

/** Return whether an answer that holds began less than `newFor` milliseconds ago; one that held when it was first read is not new. */
export const isNew = ({ left, answer }, now, newFor) => left === null && answer.since !== null && now - answer.since < newFor;

/** Return the label of an edge of a witness, and behind it its properties. */
const texts = ({ label, properties }) => [label, ...Object.entries(properties ?? {}).map(([name, value]) => `${name}: ${value}`)];

/** Return how an answer is drawn: one value is a vertex, two are a link, more are a knot with a spoke to each. */
export class GraphModel {
  layout = new ForceLayout();
  vertices = new Map();
  shapes = new Map();
  witness = null;
  calm = false;
  #changed = 0;
  #begun = 0; // Answers that were seen to begin, each worth less with time: divided by RATE_OVER it is their rate.
  #begunAt = 0;

  /** Add an answer to the drawing. */
  add(answer, now) {
    const known = this.shapes.get(answer.key);
    if (known) {
      known.answer = answer;
      known.left = null;
      return;
    }
    if (answer.since !== null) {
      this.#begun = this.#begunBy(now) + 1;
      this.#begunAt = now;
    }
    const values = answer.values.filter((value) => value !== null);
    const shape = { key: answer.key, answer, born: now, left: null, links: [], knot: null, vertices: [] };
    const placed = values.map((value) => this.vertices.get(String(value))).find((vertex) => vertex);
    if (values.length === 2) {
      const source = this.#vertex(values[0], placed, now);
      const target = this.#vertex(values[1], source, now);
      shape.vertices = [source, target];
      shape.links = [this.#link(source, target, "answer", shape)];
    } else if (values.length === 1) {
      shape.vertices = [this.#vertex(values[0], null, now)];
    } else {
      shape.knot = this.#node({ name: null, knot: shape, born: now }, placed);
      shape.vertices = values.map((value) => this.#vertex(value, shape.knot, now));
      shape.links = shape.vertices.map((vertex) => this.#link(shape.knot, vertex, "spoke", shape));
    }
    for (const vertex of shape.vertices) {
      vertex.shapes.add(shape);
      vertex.radius = radiusOf(vertex.shapes.size);
    }
    this.shapes.set(answer.key, shape);
    this.#changed += 1;
  }

  /** Return the milliseconds for which an answer counts as new, from the rate at which answers begin (Little's law). */
  newFor(now) {
    const lasting = (this.shapes.size * RATE_OVER) / this.#begunBy(now);
    return Math.min(LONGEST_NEW, Math.max(SHORTEST_NEW, NEW_SHARE * lasting));
  }

  #begunBy(now) {
    return this.#begun * Math.exp((this.#begunAt - now) / RATE_OVER);
  }

  /** Return the number of drawn answers that are marked as new. */
  numberOfNew(now) {
    const length = this.newFor(now);
    let found = 0;
    for (const shape of this.shapes.values()) if (isNew(shape, now, length)) found += 1;
    return found;
  }

  /** Fade an answer that no longer holds, or that gives its place to another. */
  remove(key, now) {
    const shape = this.shapes.get(key);
    if (shape && shape.left === null) shape.left = now;
  }

  clear() {
    this.vertices.clear();
    this.shapes.clear();
    this.layout.nodes.clear();
    this.layout.links.clear();
    this.witness = null;
  }

  /** Lay the edges of a witness over the graph, with the vertices that it goes through; null removes them. */
  light(edges, now) {
    if (this.witness) {
      for (const link of this.witness.links) this.#unlink(link);
      for (const vertex of this.witness.vertices) vertex.witnesses -= 1;
    }
    this.witness = null;
    if (edges?.length) {
      const links = [];
      const vertices = new Set();
      let before = null;
      for (const edge of edges) {
        const source = this.#vertex(edge.source, before, now);
        const target = this.#vertex(edge.target, source, now);
        const twin = links.find((link) => link.source === source && link.target === target);
        if (twin) {
          const said = texts(edge);
          if (!twin.labels.some((one) => one.join() === said.join())) twin.labels.push(said);
        } else {
          const link = this.#link(source, target, "witness", null);
          link.labels = [texts(edge)];
          link.length = 105; // Room for the label.
          links.push(link);
        }
        vertices.add(source).add(target);
        before = target;
      }
      for (const vertex of vertices) vertex.witnesses += 1;
      this.witness = { links, vertices };
    }
    this.#forget();
    this.layout.warm(edges?.length ? 0.9 : 0.3);
  }

  /** Remove what has faded, and warm the layout for what was added. Return whether anything still appears or fades. */
  settle(now) {
    let changing = false;
    const newFor = this.newFor(now);
    for (const shape of this.shapes.values()) {
      if (shape.left !== null && (this.calm || now - shape.left >= LEAVING)) {
        for (const link of shape.links) this.#unlink(link);
        if (shape.knot) this.layout.nodes.delete(shape.knot);
        for (const vertex of shape.vertices) {
          vertex.shapes.delete(shape);
          vertex.radius = radiusOf(vertex.shapes.size);
        }
        this.shapes.delete(shape.key);
        this.#changed += 1;
      } else if (shape.left !== null || now - shape.born < COMING || isNew(shape, now, newFor)) changing = true;
    }
    if (this.#changed) {
      this.#forget();
      // One answer among many need not shake all.
      this.layout.warm(Math.min(1, 0.12 + (2 * this.#changed) / (1 + this.shapes.size)));
      this.#changed = 0;
    }
    return changing;
  }

  /** Return the opacity of a shape or vertex, from 0 to 1. */
  presence(thing, now) {
    if (this.calm) return 1;
    const come = Math.min(1, (now - thing.born) / COMING);
    const gone = thing.left === null || thing.left === undefined ? 0 : Math.min(1, (now - thing.left) / LEAVING);
    return come * (1 - gone);
  }

  #vertex(value, beside, now) {
    const name = String(value);
    let vertex = this.vertices.get(name);
    if (!vertex) {
      vertex = this.#node({ name, shapes: new Set(), witnesses: 0, born: now }, beside);
      this.vertices.set(name, vertex);
    }
    return vertex;
  }

  #node(node, beside) {
    Object.assign(node, { links: 0, radius: node.knot ? 3 : radiusOf(1), x: 0, y: 0, vx: 0, vy: 0 });
    this.layout.place(node, beside);
    this.layout.nodes.add(node);
    return node;
  }

  #link(source, target, kind, shape) {
    const link = { source, target, kind, shape, length: kind === "spoke" ? 34 : 56 };
    for (const end of [source, target]) end.links += 1;
    this.layout.links.add(link);
    return link;
  }

  #unlink(link) {
    for (const end of [link.source, link.target]) end.links -= 1;
    this.layout.links.delete(link);
  }

  #forget() {
    for (const [name, vertex] of this.vertices) {
      if (vertex.shapes.size === 0 && vertex.witnesses === 0) {
        this.vertices.delete(name);
        this.layout.nodes.delete(vertex);
      }
    }
  }
}
