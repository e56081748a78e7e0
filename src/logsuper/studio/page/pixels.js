// Pixels: packed bits, colours of numbers, outlines.

export function unpackBits(bytes, count) {
  const bits = new Uint8Array(count);
  for (let i = 0; i < count; i++) bits[i] = (bytes[i >> 3] >> (7 - (i & 7))) & 1;
  return bits;
}

// Colours as 32-bit numbers in the order of ImageData (little-endian RGBA).
export function rgba(r, g, b, a = 255) {
  return ((a << 24) | (b << 16) | (g << 8) | r) >>> 0;
}

function ramp(stops) {
  const table = new Uint32Array(256);
  for (let i = 0; i < 256; i++) {
    const at = (i / 255) * (stops.length - 1);
    const k = Math.min(stops.length - 2, Math.floor(at));
    const [a, b] = [stops[k], stops[k + 1]];
    table[i] = rgba(...a.map((v, c) => Math.round(v + (at - k) * (b[c] - v))));
  }
  return table;
}

export const PROBABILITY = ramp([
  [21, 18, 46], [46, 68, 130], [43, 138, 143], [156, 204, 120], [252, 243, 195],
]);
export const DOUBT = ramp([
  [21, 24, 29], [90, 58, 36], [192, 112, 42], [255, 197, 90], [255, 242, 200],
]);
export const GREY = ramp([[0, 0, 0], [255, 255, 255]]);
export const MASK = ramp([[38, 42, 48], [244, 242, 236]]);

// A canvas of the size of the image, to which pixels are written at once.
export class Layer {
  constructor(width, height) {
    this.canvas = new OffscreenCanvas(width, height);
    this.context = this.canvas.getContext("2d");
    this.image = new ImageData(width, height);
    this.colours = new Uint32Array(this.image.data.buffer);
  }

  show(top = 0, rows = this.canvas.height) {
    this.context.putImageData(this.image, 0, 0, 0, top, this.canvas.width, rows);
  }

  fill(values, table) {
    for (let i = 0; i < values.length; i++) this.colours[i] = table[values[i]];
    this.show();
  }

  fillColours(bytes) {
    for (let i = 0, j = 0; j < bytes.length; i++, j += 3) {
      this.colours[i] = rgba(bytes[j], bytes[j + 1], bytes[j + 2]);
    }
    this.show();
  }
}

// The border between pixels with `value` and others, in the coordinates of pixels.
export function outline(values, width, height, value) {
  const path = new Path2D();
  const line = (x0, y0, x1, y1) => {
    path.moveTo(x0, y0);
    path.lineTo(x1, y1);
  };
  for (let y = 0; y <= height; y++) {
    const row = y * width;
    let from = -1;
    for (let x = 0; x < width; x++) {
      const above = y > 0 && values[row - width + x] === value;
      const below = y < height && values[row + x] === value;
      if (above !== below) {
        if (from < 0) from = x;
      } else if (from >= 0) {
        line(from, y, x, y);
        from = -1;
      }
    }
    if (from >= 0) line(from, y, width, y);
  }
  const open = new Int32Array(width + 1).fill(-1); // where a vertical line begins, per column
  for (let y = 0; y < height; y++) {
    const row = y * width;
    for (let x = 0; x <= width; x++) {
      const left = x > 0 && values[row + x - 1] === value;
      const right = x < width && values[row + x] === value;
      if (left !== right) {
        if (open[x] < 0) open[x] = y;
      } else if (open[x] >= 0) {
        line(x, open[x], x, y);
        open[x] = -1;
      }
    }
  }
  for (let x = 0; x <= width; x++) if (open[x] >= 0) line(x, open[x], x, height);
  return path;
}
