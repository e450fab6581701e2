// From places of the layout to places on the screen: moved and scaled, by itself or by hand.

const LEAST = 0.08;
const MOST = 4;
const MAX_BY_ITSELF = 1.5;

/** A camera that shows all nodes until the user moves it; `fit()` lets it follow the nodes again. */
export class Camera {
  x = 0;
  y = 0;
  scale = 1;
  width = 1;
  height = 1;
  own = true; // It fits everything by itself.

  toScreen(point) {
    return { x: (point.x - this.x) * this.scale + this.width / 2, y: (point.y - this.y) * this.scale + this.height / 2 };
  }

  toPlane(x, y) {
    return { x: (x - this.width / 2) / this.scale + this.x, y: (y - this.height / 2) / this.scale + this.y };
  }

  pan(dx, dy) {
    this.own = false;
    this.x -= dx / this.scale;
    this.y -= dy / this.scale;
  }

  /** Scale by a factor about a place on the screen, which does not move. */
  zoom(factor, x = this.width / 2, y = this.height / 2) {
    this.own = false;
    const before = this.toPlane(x, y);
    this.scale = Math.min(MOST, Math.max(LEAST, this.scale * factor));
    const after = this.toPlane(x, y);
    this.x += before.x - after.x;
    this.y += before.y - after.y;
  }

  fit() {
    this.own = true;
  }

  /** Move by `share` of the way to a view of all `nodes`. Return whether it is still moving. */
  follow(nodes, share) {
    if (!this.own || nodes.size === 0) return false;
    let left = Infinity;
    let right = -Infinity;
    let top = Infinity;
    let bottom = -Infinity;
    for (const { x, y } of nodes) {
      left = Math.min(left, x);
      right = Math.max(right, x);
      top = Math.min(top, y);
      bottom = Math.max(bottom, y);
    }
    const margin = 56;
    const scale = Math.min(
      MAX_BY_ITSELF,
      (this.width - margin) / Math.max(60, right - left),
      (this.height - 2 * margin) / Math.max(60, bottom - top),
    );
    const goal = { x: (left + right) / 2, y: (top + bottom) / 2, scale: Math.max(LEAST, scale) };
    const way = Math.abs(goal.x - this.x) + Math.abs(goal.y - this.y) + 200 * Math.abs(goal.scale / this.scale - 1);
    for (const name of ["x", "y", "scale"]) this[name] += (goal[name] - this[name]) * share;
    return way > 1;
  }
}
