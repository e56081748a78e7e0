// The page: opens images, switches between modes, keys, exports, messages.

import { Clean } from "./clean.js";
import { Link } from "./link.js";
import { GREY, Layer } from "./pixels.js";
import { Segment } from "./segment.js";
import { Stage } from "./stage.js";

const get = (id) => document.getElementById(id);
const on = (id, name, act) => get(id).addEventListener(name, act);
const modes = {};
let mode = "segment", image = null;

const ui = {
  get, on,
  status(text, busy = false) {
    get("status").textContent = text;
    get("status").classList.toggle("busy", busy);
  },
  speak(text) {
    get("spoken").textContent = text;
  },
  describe(text) {
    get("stage").setAttribute("aria-label", text);
  },
  ramp(view) {
    for (const ramp of document.querySelectorAll(".ramp")) {
      ramp.classList.toggle("on", ramp.dataset.for === view);
    }
  },
  captions(left, right) {
    get("caption-left").hidden = left === null;
    get("caption-right").hidden = right === null;
    get("caption-left").textContent = left ?? "";
    get("caption-right").textContent = right ?? "";
    get("caption-right").classList.toggle("alone", left === null);
  },
  old(is) {
    document.querySelector(".bracket").classList.toggle("old", is);
  },
};

function complain(text) {
  get("alert-text").textContent = text;
  get("alert").hidden = false;
  ui.status(image ? "" : "Drop or open an image.");
}

const link = new Link();
const stage = new Stage(get("stage"), {
  paint: (kind, points, time) => modes[mode].paint?.(kind, points, time),
  draw: (context, pane, scale) => modes[mode].draw(context, pane, scale),
  point(place) {
    const [x, y] = place ? [Math.round(place.x), Math.round(place.y)] : [-1, -1];
    const inside = image && x >= 0 && y >= 0 && x < image.width && y < image.height;
    get("pixel").textContent = inside ? modes[mode].read(x, y) : "";
  },
});
modes.segment = new Segment(link, stage, ui);
modes.clean = new Clean(link, stage, ui);

// ------------------------------------------------------------------------------------ messages

link.addEventListener("hello", ({ detail }) => {
  for (const name of detail.shipped) get(`shipped-${name.split("-")[0]}`).append(thumbnail(name));
  ui.status("Drop or open an image.");
});
link.addEventListener("closed", ({ detail }) => {
  complain(detail.reason || "The studio has ended, or the connection was lost. Start it again and reload this page.");
  ui.status("Not connected.");
});
link.addEventListener("error", ({ detail }) => {
  complain(detail.line);
  enter(mode);
});
link.addEventListener("busy", ({ detail }) => ui.status(`${detail.what} …`, true));
link.addEventListener("image", ({ detail }) => {
  const { width, height, colored, data, offset, name, step, full } = detail;
  const layer = new Layer(width, height), bytes = new Uint8Array(data, offset);
  if (colored) layer.fillColours(bytes);
  else layer.fill(bytes, GREY);
  image = { width, height, layer, colored };
  for (const one of Object.values(modes)) one.load(image);
  const clean = document.querySelector("[name=mode][value=clean]");
  clean.disabled = colored;
  clean.parentElement.title = colored ? "For masks and grey images" : "";
  document.body.dataset.empty = "false";
  welcome(false);
  get("alert").hidden = true;
  get("pixel").textContent = "";
  get("export").disabled = false;
  document.title = `${name} – logsuper studio`;
  stage.load(width, height);
  enter(detail.mode);
  if (step > 1) {
    ui.speak(`${full[1]} by ${full[0]} pixels, every ${step}th row and column of which is worked on`);
    get("pixel").textContent = `${full[1]} × ${full[0]}, worked on at 1 : ${step}`;
  }
});

// --------------------------------------------------------------------------------------- modes

function enter(next) {
  if (mode !== next) modes[mode].leave?.();
  mode = next;
  document.body.dataset.mode = mode;
  document.querySelector(`[name=mode][value=${mode}]`).checked = true;
  if (image) modes[mode].enter();
}

for (const input of document.querySelectorAll("[name=mode]")) {
  input.addEventListener("change", () => {
    enter(input.value);
    link.say({ do: "mode", mode: input.value });
  });
}

// -------------------------------------------------------------------------------------- images

function thumbnail(name) {
  const button = document.createElement("button");
  const picture = document.createElement("img");
  const [kind, number] = name.split("-");
  picture.src = `shipped/${name}.png`;
  picture.alt = `Example: ${kind} ${Number(number) + 1}`;
  button.type = "button";
  button.dataset.shipped = name;
  button.append(picture);
  button.addEventListener("click", () => {
    ui.status("Opening …", true);
    link.say({ do: "open", name });
  });
  return button;
}

function welcome(shown) {
  get("welcome").hidden = !shown;
  get("examples").setAttribute("aria-pressed", String(shown));
}

async function open(file) {
  if (!file) return;
  ui.status(`Opening ${file.name} …`, true);
  try {
    await link.upload(file);
  } catch (error) {
    complain(error.message || "The file could not be sent.");
  }
}

for (const id of ["open", "open-too"]) on(id, "click", () => get("file").click());
on("file", "change", () => {
  open(get("file").files[0]);
  get("file").value = "";
});
on("examples", "click", () => welcome(image === null || get("welcome").hidden));
let over = 0;
addEventListener("dragenter", (event) => {
  event.preventDefault();
  over += 1;
  get("drop").hidden = false;
});
addEventListener("dragleave", () => {
  over -= 1;
  if (over <= 0) get("drop").hidden = true;
});
addEventListener("dragover", (event) => event.preventDefault());
addEventListener("drop", (event) => {
  event.preventDefault();
  over = 0;
  get("drop").hidden = true;
  if (event.dataTransfer.files.length) open(event.dataTransfer.files[0]);
  else complain("That was not a file. Save the image first, then drop the file.");
});

// ------------------------------------------------------------------------------------- exports

for (const button of document.querySelectorAll("[data-export]")) {
  button.addEventListener("click", async () => {
    get("exports").hidePopover();
    ui.status(`Exporting ${button.dataset.export} …`, true);
    try {
      const blob = await link.fetchExport(button.dataset.export);
      const anchor = document.createElement("a");
      anchor.href = URL.createObjectURL(blob);
      anchor.download = button.dataset.export;
      anchor.click();
      setTimeout(() => URL.revokeObjectURL(anchor.href), 10_000);
      ui.status(`Exported ${button.dataset.export}.`);
    } catch (error) {
      complain(error.message);
    }
  });
}

// ---------------------------------------------------------------------------------------- keys

on("zoom-in", "click", () => stage.zoom(1));
on("zoom-out", "click", () => stage.zoom(-1));
on("zoom-fit", "click", () => stage.fit());
on("help", "click", () => get("keys").showModal());
on("alert-close", "click", () => (get("alert").hidden = true));

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

get("stage").addEventListener("keydown", (event) => {
  if (!image || event.ctrlKey || event.metaKey) return;
  const arrow = ARROWS[event.key];
  if (arrow && event.altKey) {
    stage.pan(-40 * arrow[0], -40 * arrow[1]);
  } else if (arrow) {
    const far = event.shiftKey ? 10 : 1;
    const [, to] = stage.moveCursor(far * arrow[0], far * arrow[1]);
    modes[mode].moved(to, event);
    get("pixel").textContent = modes[mode].read(to.x, to.y);
    ui.speak(modes[mode].read(to.x, to.y));
  } else if (!modes[mode].key(event.key, event)) return;
  event.preventDefault();
});

addEventListener("keydown", (event) => {
  const field = event.target.closest?.("input:not([type=radio], [type=checkbox], [type=range]), dialog");
  if (field || !image) return;
  const key = event.key.toLowerCase();
  if (event.ctrlKey || event.metaKey) {
    if (mode !== "segment" || !["z", "y"].includes(key)) return;
    if (key === "y" || event.shiftKey) modes.segment.redo();
    else modes.segment.undo();
    event.preventDefault();
    return;
  }
  if (event.altKey) return;
  const { segment } = modes;
  const acts = {
    "+": () => stage.zoom(1), "=": () => stage.zoom(1), "-": () => stage.zoom(-1),
    0: () => stage.fit(), "?": () => get("keys").showModal(),
  };
  if (mode === "segment") {
    Object.assign(acts, {
      o: () => segment.setPen(1), b: () => segment.setPen(2), e: () => segment.setPen(0),
      "[": () => segment.setSize(segment.size - 1), "]": () => segment.setSize(segment.size + 1),
      n: () => segment.next(),
    });
  }
  if (/^[1-5]$/.test(key)) modes[mode].viewNumber(Number(key));
  else if (acts[key]) acts[key]();
});
