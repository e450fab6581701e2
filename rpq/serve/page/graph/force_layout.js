// Places of vertices in the plane: springs along links, repulsion among those near each other, a pull to the middle.

const REACH = 190; // Vertices farther apart than this do not repel each other.
const SPRING = 48;
const DECAY = 0.6;
const COOLING = 0.985;
const COLD = 0.012;

/**
 * A layout that continues while vertices and links are added and removed.
 *
 * A node is any object with `x`, `y`, `vx`, `vy`, `links` (how many it has) and `radius`; a link has `source`, `target` and
 * `length`. A step costs O(nodes · neighbours within reach + links): a grid finds the near ones.
 */
export class ForceLayout {
  nodes = new Set();
  links = new Set();
  /** The ratio of width to height of the canvas: the pull is weaker along the longer side. */
  aspect = 1.4;
  #heat = 1;

  get moving() {
    return this.#heat > COLD && this.nodes.size > 0;
  }

  /** Start moving again, with a `heat` of up to 1. */
  warm(heat) {
    this.#heat = Math.max(this.#heat, heat);
  }

  /** Return a place for a new node: beside one that it is linked to, or at the rim. */
  place(node, beside) {
    const angle = Math.random() * 2 * Math.PI;
    const far = beside ? SPRING * (0.6 + 0.4 * Math.random()) : 30 + Math.sqrt(this.nodes.size) * 24;
    node.x = (beside?.x ?? 0) + far * Math.cos(angle) * (beside ? 1 : Math.sqrt(this.aspect));
    node.y = (beside?.y ?? 0) + far * Math.sin(angle);
    node.vx = 0;
    node.vy = 0;
  }

  step() {
    if (!this.moving) return;
    const heat = this.#heat;
    this.#heat *= COOLING;
    this.#springs(heat);
    this.#repulsion(heat);
    const pull = 0.028 * heat;
    for (const node of this.nodes) {
      node.vx -= (node.x * pull) / this.aspect;
      node.vy -= node.y * pull * this.aspect;
      const speed = Math.hypot(node.vx, node.vy);
      if (speed > 40) {
        node.vx *= 40 / speed;
        node.vy *= 40 / speed;
      }
      if (node.isDragged) continue;
      node.x += node.vx *= DECAY;
      node.y += node.vy *= DECAY;
    }
  }

  #springs(heat) {
    for (const { source, target, length } of this.links) {
      if (source === target) continue;
      const dx = target.x + target.vx - source.x - source.vx || 0.01;
      const dy = target.y + target.vy - source.y - source.vy || 0.01;
      const distance = Math.hypot(dx, dy);
      const strength = (heat * (distance - (length ?? SPRING))) / distance / Math.max(1.5, Math.min(source.links, target.links));
      const share = source.links / (source.links + target.links || 1);
      target.vx -= dx * strength * share;
      target.vy -= dy * strength * share;
      source.vx += dx * strength * (1 - share);
      source.vy += dy * strength * (1 - share);
    }
  }

  #repulsion(heat) {
    const cells = new Map();
    for (const node of this.nodes) {
      node.column = Math.floor(node.x / REACH);
      node.row = Math.floor(node.y / REACH);
      const key = node.column * 65_536 + node.row;
      const cell = cells.get(key);
      if (cell) cell.push(node);
      else cells.set(key, [node]);
    }
    for (const [key, cell] of cells) {
      // Itself, and half of its neighbours: the other half has it as theirs.
      this.#within(cell, heat);
      for (const other of [key + 1, key + 65_536, key + 65_537, key + 65_535]) {
        const near = cells.get(other);
        if (near) this.#between(cell, near, heat);
      }
    }
  }

  #within(cell, heat) {
    for (let a = 1; a < cell.length; a += 1) for (let b = 0; b < a; b += 1) repel(cell[a], cell[b], heat);
  }

  #between(cell, near, heat) {
    for (const a of cell) for (const b of near) repel(a, b, heat);
  }
}

function repel(a, b, heat) {
  let dx = a.x - b.x;
  let dy = a.y - b.y;
  let square = dx * dx + dy * dy;
  if (square >= REACH * REACH) return;
  if (square < 1) {
    dx = Math.random() - 0.5;
    dy = Math.random() - 0.5;
    square = 1;
  }
  const least = a.radius + b.radius + 6;
  // Weaker with the distance, nothing at the reach, so that nobody jumps as he comes near.
  let force = (heat * 620 * (1 - square / (REACH * REACH))) / square;
  if (square < least * least) force += 0.25 * (least / Math.sqrt(square) - 1);
  force = Math.min(force, 1.5);
  a.vx += dx * force;
  a.vy += dy * force;
  b.vx -= dx * force;
  b.vy -= dy * force;
}
