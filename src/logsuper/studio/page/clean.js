// The mode "clean": a noisy mask, the weights of its model, and the posterior.

import { DOUBT, GREY, Layer, MASK, PROBABILITY, rgba, unpackBits } from "./pixels.js";
import { stroke } from "./segment.js";

const VIEWS = ["observed", "mask", "probability", "doubt", "samples"];
const NAMES = {
  observed: "Noisy", mask: "Mask", probability: "Probability of white",
  doubt: "Doubt, certified", samples: "What it could also be",
};
const NOTES = {
  observed: "", mask: "", probability: "",
  doubt: "An upper bound, with proof, on the probability that a pixel of the mask is wrong.",
  samples: "In colour: where a sample differs.",
};
const MORE = rgba(240, 106, 20), LESS = rgba(38, 120, 226);
const SLIDERS = ["horizontal", "vertical", "bias"];
const PERIOD = 450; // milliseconds per sample
const percent = (share) => `${(100 * share).toFixed(share < 0.1 ? 2 : 1)} %`;
// Bounds stay bounds when they are rounded.
const up = (value, digits) => (Math.ceil(value * 10 ** digits) / 10 ** digits).toFixed(digits);
const down = (value, digits) => (Math.floor(value * 10 ** digits) / 10 ** digits).toFixed(digits);
const places = (value) => Math.max(1, Math.min(9, Math.ceil(-Math.log10(value || 1e-9))));
const still = matchMedia("(prefers-reduced-motion: reduce)");

export class Clean {
  constructor(link, stage, ui) {
    Object.assign(this, { link, stage, ui });
    this.view = "mask";
    link.addEventListener("observed", ({ detail }) => this.#showObserved(detail));
    link.addEventListener("model", ({ detail }) => this.#showModel(detail));
    link.addEventListener("marginals", ({ detail }) => this.#showMarginals(detail));
    link.addEventListener("samples", ({ detail }) => this.#showSamples(detail));
    for (const name of SLIDERS) {
      ui.on(name, "input", () => this.#weigh());
    }
    ui.on("noise", "input", () => this.#sayNoise());
    ui.on("noise", "change", () => link.say({ do: "noise", rate: Number(ui.get("noise").value) / 100 }));
    for (const input of document.querySelectorAll("[name=origin]")) {
      input.addEventListener("change", () => {
        if (input.value === "hand") this.#weigh();
        else link.say({ do: "learn", from: input.value });
      });
    }
    for (const input of document.querySelectorAll("[name=clean-view]")) {
      input.addEventListener("change", () => this.setView(input.value));
    }
    ui.on("play", "click", () => this.play(!this.playing));
    ui.on("step", "click", () => this.#step());
    ui.on("redraw", "click", () => this.#ask(this.seed + 1));
    this.seed = 0;
    matchMedia("(min-width: 861px)").addEventListener("change", () => this.#layOut());
  }

  load(image) {
    this.width = image.width;
    this.height = image.height;
    for (const name of ["observedLayer", "maskLayer", "pLayer", "doubtLayer", "sampleLayer"]) {
      this[name] = new Layer(image.width, image.height);
    }
    this.mask = this.p = this.samples = this.observed = null;
    this.seed = 0;
    this.asked = false;
    this.play(false);
    for (const name of ["truth", "expected", "width", "z-lower", "z-upper"]) {
      this.ui.get(name).textContent = "–";
    }
    this.ui.get("z-note").textContent = "";
    if (this.view === "samples") this.view = "mask";
  }

  enter() {
    this.stage.paints = false;
    this.setView(this.view);
  }

  leave() {
    this.play(false);
    this.ui.captions(null, null);
  }

  setView(view) {
    this.view = view;
    document.querySelector(`[name=clean-view][value=${view}]`).checked = true;
    this.ui.ramp(view);
    this.ui.get("view-note").textContent = NOTES[view];
    this.ui.get("sample-row").hidden = view !== "samples";
    if (view === "samples" && !this.asked) this.#ask(this.seed);
    if (view !== "samples" && this.asked) {
      this.asked = false;
      this.link.say({ do: "samples", seed: null });
    }
    this.play(view === "samples" && !still.matches);
    this.#layOut();
  }

  viewNumber(number) {
    if (VIEWS[number - 1]) this.setView(VIEWS[number - 1]);
  }

  #layOut() {
    if (document.body.dataset.mode !== "clean") return;
    const wide = matchMedia("(min-width: 861px)").matches && this.view !== "observed";
    this.stage.setPanes(wide ? 2 : 1);
    this.ui.captions(wide ? NAMES.observed : null, NAMES[this.view]);
    this.stage.redraw();
    this.ui.describe(`${NAMES[this.view]}, ${this.width} by ${this.height} pixels`);
  }

  // ------------------------------------------------------------------------------------ wishes

  #weigh() {
    document.querySelector("[name=origin][value=hand]").checked = true;
    this.ui.get("model-note").textContent = "";
    const weights = Object.fromEntries(SLIDERS.map((name) => [name, Number(this.ui.get(name).value)]));
    this.#sayWeights();
    this.ui.old(true);
    this.ui.status("Following …", true);
    this.link.say({ do: "weights", ...weights });
  }

  #ask(seed) {
    this.seed = seed;
    this.asked = true;
    this.samples = null;
    this.ui.status("Drawing exact samples", true);
    this.link.say({ do: "samples", seed });
  }

  play(on) {
    this.playing = on;
    this.ui.get("play").textContent = on ? "Pause" : "Play";
    clearInterval(this.timer);
    if (on) this.timer = setInterval(() => this.#step(), PERIOD);
  }

  key(key) {
    if (key !== " " || this.view !== "samples") return false;
    this.play(!this.playing);
    return true;
  }

  moved() {}

  // ----------------------------------------------------------------------------------- results

  #sayWeights() {
    for (const name of SLIDERS) {
      this.ui.get(`${name}-shown`).textContent = Number(this.ui.get(name).value).toFixed(2);
    }
  }

  #sayNoise() {
    this.ui.get("noise-shown").textContent = `${Number(this.ui.get("noise").value).toFixed(0)} %`;
  }

  #showObserved({ data, offset, binary, rate, flips }) {
    this.observed = new Uint8Array(data, offset);
    this.binary = binary;
    this.observedLayer.fill(this.observed, binary ? MASK : GREY);
    this.ui.get("noise-row").hidden = !binary;
    this.ui.get("truth-row").hidden = !flips;
    this.ui.get("noise").value = Math.round(100 * rate);
    this.#sayNoise();
    this.ui.get("noise-note").textContent = !binary ? "Grey levels: their noise is learned."
      : flips ? "Added to a clean silhouette." : "Found in the image; move it if you know better.";
    document.querySelector("[name=origin][value=silhouettes]").disabled = !binary;
    this.stage.redraw();
  }

  #showModel({ horizontal, vertical, bias, rate, origin, noise, notes }) {
    Object.entries({ horizontal, vertical, bias }).forEach(([name, value]) => {
      const slider = this.ui.get(name);
      slider.max = Math.max(Number(slider.max), Math.ceil(value));
      slider.value = value;
    });
    this.#sayWeights();
    if (this.binary) this.ui.get("noise").value = Math.round(100 * rate);
    else this.ui.get("noise-note").textContent = `${noise}.`;
    this.#sayNoise();
    document.querySelector(`[name=origin][value=${origin}]`).checked = true;
    this.ui.get("model-note").textContent = notes.join(" ");
  }

  #showMarginals(found) {
    const n = this.width * this.height;
    const { data, offset } = found;
    this.p = new Uint16Array(data, offset, n);
    this.low = new Uint16Array(data, offset + 2 * n, n);
    this.high = new Uint16Array(data, offset + 4 * n, n);
    this.mask = unpackBits(new Uint8Array(data, offset + 6 * n), n);
    this.maskLayer.fill(this.mask, [MASK[0], MASK[255]]);
    this.pLayer.fill(this.p.map((p) => p >> 8), PROBABILITY);
    const doubt = new Uint8Array(n);
    for (let i = 0; i < n; i++) {
      const most = (this.mask[i] ? 65535 - this.low[i] : this.high[i]) / 65535;
      doubt[i] = Math.min(255, Math.round(255 * Math.sqrt(Math.min(1, 2 * most))));
    }
    this.doubtLayer.fill(doubt, DOUBT);
    const { get } = this.ui;
    if (found.before !== undefined) {
      get("truth").textContent = `${percent(found.before)} → ${percent(found.after)}`;
    }
    get("expected").textContent = `at most ${up(100 * found.most, 2)} %`;
    get("width").textContent = `± ${up(found.width / 2, places(found.width / 2))}`;
    this.ui.old(!found.final);
    if (found.final) {
      const digits = Math.min(8, places(found.upper - found.lower) + 1);
      get("z-lower").textContent = down(found.lower, digits);
      get("z-upper").textContent = up(found.upper, digits);
      get("z-note").textContent = `${(found.upper - found.lower).toExponential(1)} nats apart, by ${found.by}.`;
      this.ui.status("Certified.");
    }
    if (this.view === "samples") this.#drawSample();
    this.stage.redraw();
  }

  #showSamples({ data, offset, count }) {
    const n = this.width * this.height, bytes = Math.ceil(n / 8);
    this.samples = Array.from({ length: count }, (_, i) =>
      unpackBits(new Uint8Array(data, offset + i * bytes, bytes), n));
    this.at = 0;
    this.#drawSample();
    this.ui.status(`${count} exact samples.`);
  }

  #step() {
    if (!this.samples) return;
    this.at = (this.at + 1) % this.samples.length;
    this.#drawSample();
  }

  #drawSample() {
    if (!this.samples || !this.mask) return;
    const sample = this.samples[this.at], { colours } = this.sampleLayer;
    for (let i = 0; i < sample.length; i++) {
      colours[i] = sample[i] === this.mask[i] ? MASK[sample[i] * 255] : sample[i] ? MORE : LESS;
    }
    this.sampleLayer.show();
    this.stage.redraw();
  }

  read(x, y) {
    if (!this.p) return `row ${y}, column ${x}`;
    const i = y * this.width + x;
    const [p, low, high] = [this.p, this.low, this.high].map((array) => (array[i] / 65535).toFixed(4));
    return `row ${y}, column ${x}: probability ${p}, certified in ${low} to ${high}`;
  }

  // ----------------------------------------------------------------------------------- drawing

  draw(context, pane, scale) {
    if (!this.observed) return;
    const left = this.stage.panes === 2 && pane === 0;
    const layers = {
      observed: this.observedLayer, mask: this.maskLayer, probability: this.pLayer,
      doubt: this.doubtLayer, samples: this.samples ? this.sampleLayer : this.maskLayer,
    };
    const layer = left || !this.mask ? layers.observed : layers[this.view];
    context.drawImage(layer.canvas, 0, 0);
    if (this.stage.cursor) {
      const { x, y } = this.stage.cursor, path = new Path2D();
      path.rect(x, y, 1, 1);
      stroke(context, path, 5 / scale, "#000");
      stroke(context, path, 2.5 / scale, "#ffd43b");
    }
  }
}
