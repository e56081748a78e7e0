// The canvas: panes side by side that show layers of one image through one camera.

const STEP = 1.25, MOST = 60;

export class Stage {
  // `on` has the functions paint(kind, points, time), point(point) and draw(context, pane, scale).
  constructor(canvas, on) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.on = on;
    this.width = this.height = 0; // of the image
    this.panes = 1;
    this.paints = false;
    this.cursor = null; // of the keyboard
    this.pointers = new Map();
    this.waiting = false;
    this.afterDraw = [];
    new ResizeObserver(() => this.#resize()).observe(canvas);
    canvas.addEventListener("pointerdown", (event) => this.#down(event));
    canvas.addEventListener("pointermove", (event) => this.#move(event));
    for (const name of ["pointerup", "pointercancel"]) {
      canvas.addEventListener(name, (event) => this.#up(event));
    }
    canvas.addEventListener("pointerleave", () => this.on.point(null));
    canvas.addEventListener("contextmenu", (event) => event.preventDefault());
    canvas.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
  }

  load(width, height) {
    this.width = width;
    this.height = height;
    this.cursor = null;
    this.fit();
  }

  setPanes(count) {
    if (count === this.panes) return;
    this.panes = count;
    this.fit();
  }

  get pane() { // width and height of one pane, in CSS pixels
    return { width: this.canvas.clientWidth / this.panes, height: this.canvas.clientHeight };
  }

  fit() {
    const { width, height } = this.pane;
    if (!this.width || !width || !height) return;
    const margin = width < 400 ? 16 : 40;
    this.scale = Math.min((width - margin) / this.width, (height - margin) / this.height);
    this.smallest = Math.min(1, this.scale) / 2;
    this.x = (width - this.scale * this.width) / 2;
    this.y = (height - this.scale * this.height) / 2;
    this.fitted = true;
    this.redraw();
  }

  zoom(steps, at = null) {
    if (!this.width) return;
    const { width, height } = this.pane;
    const place = at ?? { x: width / 2, y: height / 2 };
    const scale = Math.max(this.smallest, Math.min(MOST, this.scale * STEP ** steps));
    this.x = place.x - ((place.x - this.x) * scale) / this.scale;
    this.y = place.y - ((place.y - this.y) * scale) / this.scale;
    this.scale = scale;
    this.fitted = false;
    this.redraw();
  }

  pan(dx, dy) {
    this.x += dx;
    this.y += dy;
    this.fitted = false;
    this.redraw();
  }

  // Move the cursor of the keyboard, by pixels of the image, and keep it in sight.
  moveCursor(dx, dy) {
    const from = this.cursor ?? { x: Math.floor(this.width / 2), y: Math.floor(this.height / 2) };
    this.setCursor(from.x + dx, from.y + dy);
    return [from, this.cursor];
  }

  setCursor(x, y) {
    this.cursor = {
      x: Math.max(0, Math.min(this.width - 1, x)), y: Math.max(0, Math.min(this.height - 1, y)),
    };
    const { width, height } = this.pane;
    const [sx, sy] = [this.x + (this.cursor.x + 0.5) * this.scale, this.y + (this.cursor.y + 0.5) * this.scale];
    const margin = 30;
    const dx = sx < margin ? margin - sx : sx > width - margin ? width - margin - sx : 0;
    const dy = sy < margin ? margin - sy : sy > height - margin ? height - margin - sy : 0;
    if (dx || dy) this.pan(dx, dy);
    this.redraw();
  }

  // Draw soon; `after` is called once it is drawn.
  redraw(after = null) {
    if (after) this.afterDraw.push(after);
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.#draw();
      const calls = this.afterDraw.splice(0);
      for (const call of calls) call();
    });
  }

  #resize() {
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(this.canvas.clientWidth * ratio);
    this.canvas.height = Math.round(this.canvas.clientHeight * ratio);
    if (this.fitted !== false) this.fit();
    this.waiting = false; // an empty canvas must not wait
    this.redraw();
  }

  #draw() {
    const ratio = window.devicePixelRatio || 1;
    const { width, height } = this.pane;
    const context = this.context;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    if (!this.width) return;
    for (let pane = 0; pane < this.panes; pane++) {
      context.save();
      context.setTransform(ratio, 0, 0, ratio, ratio * pane * width, 0);
      context.beginPath();
      context.rect(0, 0, width, height);
      context.clip();
      context.translate(this.x, this.y);
      context.scale(this.scale, this.scale);
      context.imageSmoothingEnabled = this.scale < 1;
      this.on.draw(context, pane, this.scale);
      context.restore();
    }
  }

  #place(event) {
    const box = this.canvas.getBoundingClientRect();
    const { width } = this.pane;
    const across = event.clientX - box.left;
    const pane = Math.min(this.panes - 1, Math.max(0, Math.floor(across / width)));
    return { x: across - pane * width, y: event.clientY - box.top };
  }

  #pixel(place) {
    return { x: (place.x - this.x) / this.scale - 0.5, y: (place.y - this.y) / this.scale - 0.5 };
  }

  #down(event) {
    if (!this.width) return;
    this.canvas.focus({ preventScroll: true });
    try { this.canvas.setPointerCapture(event.pointerId); } catch { /* a pointer that is gone */ }
    const place = this.#place(event);
    this.pointers.set(event.pointerId, place);
    if (this.pointers.size > 1) {
      if (this.stroke) this.on.paint("end");
      this.stroke = null;
      return;
    }
    this.cursor = null;
    if (this.paints && event.button === 0 && !event.altKey) {
      this.stroke = event.pointerId;
      this.on.paint("begin", [this.#pixel(place)], event.timeStamp);
    }
  }

  #move(event) {
    if (!this.width) return;
    const place = this.#place(event);
    this.on.point(this.#pixel(place));
    const before = this.pointers.get(event.pointerId);
    if (!before) return;
    this.pointers.set(event.pointerId, place);
    if (this.pointers.size === 2) {
      const [other] = [...this.pointers].filter(([id]) => id !== event.pointerId).map(([, p]) => p);
      const far = (p) => Math.hypot(p.x - other.x, p.y - other.y) || 1;
      this.zoom(Math.log(far(place) / far(before)) / Math.log(STEP), other);
      this.pan((place.x - before.x) / 2, (place.y - before.y) / 2);
    } else if (this.stroke === event.pointerId) {
      const parts = event.getCoalescedEvents?.() ?? [];
      const events = parts.length ? parts : [event];
      this.on.paint("move", events.map((part) => this.#pixel(this.#place(part))), event.timeStamp);
    } else {
      this.pan(place.x - before.x, place.y - before.y);
    }
  }

  #up(event) {
    if (this.stroke === event.pointerId) {
      this.stroke = null;
      this.on.paint("end");
    }
    this.pointers.delete(event.pointerId);
  }

  #wheel(event) {
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 30 : 1;
    this.zoom((-event.deltaY * lines) / 120, this.#place(event));
  }
}
