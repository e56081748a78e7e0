// The mode "segment": scribbles on an image, the cut that follows them, and what is in doubt.

import { Layer, MASK, PROBABILITY, outline, rgba, unpackBits } from "./pixels.js";
import { Scribbles } from "./scribbles.js";

const VIEWS = ["cut", "mask", "probability", "image"];
const DIMMED = rgba(16, 18, 24, 165);
const percent = (share) => `${(100 * share).toFixed(share < 0.01 ? 2 : 1)} %`;

export class Segment {
  constructor(link, stage, ui) {
    Object.assign(this, { link, stage, ui });
    this.starts = new Map(); // versions whose pixels are awaited, and when they were drawn
    link.addEventListener("mask", ({ detail }) => this.#showMask(detail));
    link.addEventListener("refined", ({ detail }) => this.#showRefined(detail));
    link.addEventListener("wanted", ({ detail }) => this.#ask(detail));
    ui.on("undo", "click", () => this.undo());
    ui.on("redo", "click", () => this.redo());
    ui.on("clear", "click", () => this.#changed(this.scribbles.clear()));
    ui.on("suggest", "change", () => this.stage.redraw());
    ui.on("size", "input", () => this.setSize(Number(ui.get("size").value)));
    for (const input of document.querySelectorAll("[name=segment-view]")) {
      input.addEventListener("change", () => this.setView(input.value));
    }
    this.view = "cut";
    this.setSize(5);
  }

  load(image) {
    const { width, height } = image;
    this.width = width;
    this.height = height;
    this.image = image.layer;
    this.scribbles = new Scribbles(width, height, (numbers) => this.link.say(numbers));
    this.mask = this.p = this.regions = null;
    this.centers = [];
    this.shade = new Layer(width, height);
    this.maskLayer = new Layer(width, height);
    this.pLayer = new Layer(width, height);
    this.border = this.doubts = null;
    this.last = null;
    this.penDown = false;
    this.starts.clear();
    this.setSize(Math.max(2, Math.round(Math.sqrt(width * height) / 90)));
    this.#state();
  }

  enter() {
    this.stage.setPanes(1);
    this.stage.paints = true;
    this.setView(this.view);
    this.#describe();
  }

  get pen() {
    return Number(document.querySelector("[name=pen]:checked").value);
  }

  setPen(value) {
    document.querySelector(`[name=pen][value="${value}"]`).checked = true;
    this.ui.speak(["Eraser", "Object pen", "Background pen"][value]);
  }

  setSize(size) {
    this.size = Math.max(1, Math.min(40, size));
    this.ui.get("size").value = this.size;
    this.ui.get("size-shown").textContent = `${2 * this.size - 1} px`;
    this.stage.redraw();
  }

  setView(view) {
    this.view = view;
    document.querySelector(`[name=segment-view][value=${view}]`).checked = true;
    this.ui.ramp(view);
    this.ui.get("view-note").textContent = "";
    this.ui.get("sample-row").hidden = true;
    this.stage.redraw();
  }

  viewNumber(number) {
    if (VIEWS[number - 1]) this.setView(VIEWS[number - 1]);
  }

  // ---------------------------------------------------------------------------------- painting

  paint(kind, points, time) {
    if (kind === "begin") {
      this.scribbles.begin();
      this.last = points[0];
      points = [points[0], points[0]];
    } else if (kind === "move") {
      points = [this.last, ...points];
    } else {
      this.last = null;
      this.#changed(this.scribbles.end());
      return;
    }
    this.last = points.at(-1);
    this.#changed(this.scribbles.draw(points, this.size, this.pen), time);
  }

  key(key, event) {
    if (key === " ") {
      this.penDown = !this.penDown;
      const at = this.stage.cursor ?? this.stage.moveCursor(0, 0)[1];
      this.paint(this.penDown ? "begin" : "end", [at], event.timeStamp);
      this.ui.speak(this.penDown ? "Pen down" : "Pen up");
    } else if (key === "Enter" && !this.penDown) {
      this.paint("begin", [this.stage.cursor ?? this.stage.moveCursor(0, 0)[1]], event.timeStamp);
      this.paint("end");
    } else if (key === "Escape" && this.penDown) {
      this.penDown = false;
      this.paint("end");
    } else return false;
    return true;
  }

  moved(cursor, event) {
    if (this.penDown) this.paint("move", [cursor], event.timeStamp);
  }

  undo() {
    this.#changed(this.scribbles?.undo());
  }

  redo() {
    this.#changed(this.scribbles?.redo());
  }

  next() {
    if (!this.centers.length) return this.ui.status("No region is in doubt.");
    this.nextOne = ((this.nextOne ?? -1) + 1) % this.centers.length;
    const [y, x] = this.centers[this.nextOne];
    this.stage.setCursor(x, y);
    this.ui.speak(`Region ${this.nextOne + 1}: row ${y}, column ${x}`);
  }

  #changed(version, time) {
    if (version == null) return;
    if (time !== undefined) this.starts.set(version, time);
    this.#state();
    this.stage.redraw();
  }

  #state() {
    this.ui.get("undo").disabled = !this.scribbles.done.length;
    this.ui.get("redo").disabled = !this.scribbles.undone.length;
    this.ui.get("clear").disabled = !this.scribbles.any;
  }

  // ----------------------------------------------------------------------------------- results

  #ask({ what }) {
    this.mask = this.border = this.p = this.doubts = null;
    this.centers = [];
    for (const name of ["share", "wrong", "took"]) this.ui.get(name).textContent = "–";
    this.ui.status(what === "object"
      ? "Paint over a part of the object."
      : "Now paint over a part of the background.");
    this.#describe();
    this.stage.redraw();
  }

  #showMask({ data, offset, version, object, milliseconds }) {
    this.mask = unpackBits(new Uint8Array(data, offset), this.width * this.height);
    this.shade.fill(this.mask, [DIMMED, 0]);
    this.maskLayer.fill(this.mask, [MASK[0], MASK[255]]);
    this.border = outline(this.mask, this.width, this.height, 1);
    this.doubts = null;
    this.centers = [];
    this.ui.get("share").textContent = percent(object);
    this.ui.get("took").textContent = `${Math.round(milliseconds)} ms`;
    this.ui.status("The cut follows. Paint where it is wrong.");
    this.stage.redraw(() => this.#measure(version));
    this.#describe();
  }

  // How long it took from the event of the pointer to the pixels, for whoever wants to know.
  #measure(version) {
    const now = performance.now();
    for (const [own, start] of this.starts) {
      if (own > version) break;
      this.starts.delete(own);
      performance.measure("stroke to pixels", { start, end: now, detail: own });
    }
    if (performance.getEntriesByName("stroke to pixels").length > 2000) performance.clearMeasures();
  }

  #showRefined({ data, offset, centers, wrong, version }) {
    const n = this.width * this.height;
    this.p = new Uint16Array(data, offset, n);
    this.regions = new Uint8Array(data, offset + 2 * n, n);
    this.pLayer.fill(this.p.map((p) => p >> 8), PROBABILITY);
    if (version !== this.scribbles.version) return;
    this.centers = centers;
    this.nextOne = null;
    this.doubts = centers.map((_, i) => outline(this.regions, this.width, this.height, i + 1));
    this.ui.get("wrong").textContent = percent(wrong);
    this.ui.status(centers.length
      ? "Outlined in yellow: where a scribble would help most (N)."
      : "No region is in doubt.");
    this.stage.redraw();
  }

  read(x, y) {
    const i = y * this.width + x;
    const label = ["", ", marked as object", ", marked as background"][this.scribbles.labels[i]];
    const p = this.p ? `: probability ${(this.p[i] / 65535).toFixed(3)}` : "";
    return `row ${y}, column ${x}${p}${label}`;
  }

  #describe() {
    const what = this.mask
      ? `the exact cut, object ${this.ui.get("share").textContent} of the image`
      : "no mask yet";
    this.ui.describe(`Picture to segment, ${this.width} by ${this.height} pixels; ${what}`);
  }

  // ----------------------------------------------------------------------------------- drawing

  draw(context, pane, scale) {
    const background = this.view === "mask" && this.mask ? this.maskLayer
      : this.view === "probability" && this.p ? this.pLayer : this.image;
    context.drawImage(background.canvas, 0, 0);
    const shown = this.view !== "image";
    if (this.view === "cut" && this.mask) {
      context.drawImage(this.shade.canvas, 0, 0);
      stroke(context, this.border, 3.5 / scale, "rgb(0 0 0 / 55%)");
      stroke(context, this.border, 1.75 / scale, "#fffdf5");
    }
    if (shown) {
      context.globalAlpha = this.view === "cut" ? 1 : 0.6;
      context.drawImage(this.scribbles.layer.canvas, 0, 0);
      context.globalAlpha = 1;
    }
    if (shown && this.ui.get("suggest").checked && this.doubts) this.#drawDoubts(context, scale);
    if (this.stage.cursor) this.#drawCursor(context, scale);
  }

  #drawDoubts(context, scale) {
    this.doubts.forEach((path, i) => {
      stroke(context, path, 4 / scale, "rgb(30 24 0 / 70%)");
      stroke(context, path, 2 / scale, "#ffd43b", [7 / scale, 5 / scale]);
      const [y, x] = this.centers[i];
      context.save();
      context.translate(x + 0.5, y + 0.5);
      context.scale(1 / scale, 1 / scale);
      context.beginPath();
      context.arc(0, 0, 11, 0, 7);
      context.fillStyle = "#ffd43b";
      context.fill();
      context.lineWidth = 2;
      context.strokeStyle = "#1e1a00";
      context.stroke();
      context.fillStyle = "#1e1a00";
      context.font = "700 13px system-ui, sans-serif";
      context.textAlign = "center";
      context.textBaseline = "middle";
      context.fillText(String(i + 1), 0, 1);
      context.restore();
    });
  }

  #drawCursor(context, scale) {
    const { x, y } = this.stage.cursor;
    const path = new Path2D();
    path.arc(x + 0.5, y + 0.5, Math.max(this.size - 0.5, 3 / scale), 0, 7);
    stroke(context, path, 4 / scale, "#000");
    stroke(context, path, 2 / scale, this.penDown ? "#ffd43b" : "#fff");
  }
}

export function stroke(context, path, width, colour, dash = []) {
  context.lineWidth = width;
  context.strokeStyle = colour;
  context.setLineDash(dash);
  context.stroke(path);
  context.setLineDash([]);
}
