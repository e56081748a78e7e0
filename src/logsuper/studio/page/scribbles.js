// Scribbles: labels of pixels (0 unknown, 1 object, 2 background), strokes, undo and redo.

import { Layer, rgba } from "./pixels.js";

const COLOURS = [rgba(0, 0, 0, 0), rgba(240, 106, 20, 235), rgba(38, 120, 226, 235)];
const MOST = 200; // steps that can be undone

export class Scribbles {
  constructor(width, height, send) {
    this.width = width;
    this.height = height;
    this.labels = new Uint8Array(width * height);
    this.layer = new Layer(width, height);
    this.send = send;
    this.version = 0;
    this.done = [];
    this.undone = [];
    this.before = null;
  }

  get any() {
    return this.labels.some((label) => label > 0);
  }

  begin() {
    this.before = this.labels.slice();
  }

  // Pieces of a stroke, sent at once; returns the version of the labels.
  draw(points, radius, label) {
    const runs = [];
    for (let i = 1; i < points.length; i++) this.#piece(points[i - 1], points[i], radius, label, runs);
    this.#apply(runs);
    return this.#tell(runs, false);
  }

  // A straight piece: all pixels within the radius of the line from a to b, a run per row.
  #piece(a, b, radius, label, runs) {
    const r = Math.max(0.5, radius - 0.5);
    const [top, bottom] = [Math.min(a.y, b.y) - r, Math.max(a.y, b.y) + r];
    const [left, right] = [Math.min(a.x, b.x) - r, Math.max(a.x, b.x) + r];
    const x0 = Math.max(0, Math.floor(left)), x1 = Math.min(this.width - 1, Math.ceil(right));
    const [dx, dy] = [b.x - a.x, b.y - a.y];
    const square = dx * dx + dy * dy;
    for (let y = Math.max(0, Math.floor(top)); y <= Math.min(this.height - 1, Math.ceil(bottom)); y++) {
      let first = -1, last = -1;
      for (let x = x0; x <= x1; x++) {
        const t = square ? Math.max(0, Math.min(1, ((x - a.x) * dx + (y - a.y) * dy) / square)) : 0;
        const [ex, ey] = [x - a.x - t * dx, y - a.y - t * dy];
        if (ex * ex + ey * ey <= r * r) {
          if (first < 0) first = x;
          last = x;
        } else if (first >= 0) break;
      }
      if (first >= 0) runs.push(y * this.width + first, last - first + 1, label);
    }
  }

  // The end of a stroke: what it changed becomes one step, and probabilities are asked for.
  end() {
    const runs = differences(this.before, this.labels);
    this.before = null;
    if (runs.length) {
      this.done.push(runs);
      if (this.done.length > MOST) this.done.shift();
      this.undone = [];
    }
    return this.#tell([], true);
  }

  clear() {
    this.begin();
    this.#apply([0, this.labels.length, 0]);
    this.#tell([0, this.labels.length, 0], false);
    return this.end();
  }

  undo() {
    return this.#step(this.done, this.undone, 2);
  }

  redo() {
    return this.#step(this.undone, this.done, 3);
  }

  #step(from, to, which) {
    const step = from.pop();
    if (!step) return null;
    to.push(step);
    const runs = [];
    for (let i = 0; i < step.length; i += 4) runs.push(step[i], step[i + 1], step[i + which]);
    this.#apply(runs);
    return this.#tell(runs, true);
  }

  #apply(runs) {
    let top = this.height, bottom = 0;
    for (let i = 0; i < runs.length; i += 3) {
      const [start, count, label] = [runs[i], runs[i + 1], runs[i + 2]];
      this.labels.fill(label, start, start + count);
      this.layer.colours.fill(COLOURS[label], start, start + count);
      top = Math.min(top, Math.floor(start / this.width));
      bottom = Math.max(bottom, Math.floor((start + count - 1) / this.width));
    }
    if (bottom >= top) this.layer.show(top, bottom - top + 1);
  }

  #tell(runs, last) {
    this.version += 1;
    this.send(Uint32Array.from([1, this.version, last ? 1 : 0, ...runs]));
    return this.version;
  }
}

// Runs of pixels that changed alike: first pixel, length, label before, label after.
function differences(before, after) {
  const runs = [];
  for (let i = 0; i < after.length; i++) {
    if (before[i] === after[i]) continue;
    const start = i;
    while (i + 1 < after.length && before[i + 1] === before[start] && after[i + 1] === after[start]) i++;
    runs.push(start, i - start + 1, before[start], after[start]);
  }
  return runs;
}
