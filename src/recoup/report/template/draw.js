// Drawing: what lies behind the centres goes onto a canvas, everything that is read goes into SVG.
const RecoupDraw = (() => {
  const FULL = 65535;
  const SVG = "http://www.w3.org/2000/svg";

  // Positions inside the bounds, as 16-bit fractions, row by row: value(row, column) is between 0 and 1.
  function decode(text, width) {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const values = new Float64Array(bytes.length / 2);
    for (let i = 0; i < values.length; i++) values[i] = (bytes[2 * i] | (bytes[2 * i + 1] << 8)) / FULL;
    return { values, width, length: values.length / width };
  }

  function decodeLevels(text) {
    return Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  }

  function node(name, attributes, text) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  // Round numbers between two ends, about so many of them, but at least two: one alone tells no scale.
  function ticks(low, high, wanted) {
    const raw = (high - low) / Math.max(1, wanted);
    const power = Math.pow(10, Math.floor(Math.log10(raw)));
    const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999) || 10 * power;
    const found = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) found.push(i * step);
    if (found.length < 2 && wanted < 16) return ticks(low, high, Math.max(1, wanted) + 1);
    return { step, found };
  }

  function tickText(value, step, largest) {
    if (Math.abs(value) < step / 1e6) return "0";
    if (largest >= 1e7 || (largest < 1e-3 && largest > 0)) return value.toExponential(1).replace("e+", "e");
    const decimals = Math.max(0, Math.min(8, -Math.floor(Math.log10(step) + 1e-9) + (/2\.5/.test(String(step)) ? 1 : 0)));
    return value.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  }

  // As many digits as matter in a column of this width.
  function inUnits(value, span) {
    if (!(span >= 1e-4 && span <= 1e13)) return value.toPrecision(4);
    const decimals = Math.max(0, Math.ceil(3 - Math.log10(span)));
    if (Math.abs(value) < 0.5 * Math.pow(10, -decimals)) value = 0;
    return value.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  }

  function blur(grid, nx, ny, sigma) {
    const reach = Math.max(1, Math.ceil(2.5 * sigma));
    const kernel = [];
    for (let i = -reach; i <= reach; i++) kernel.push(Math.exp(-0.5 * (i / sigma) ** 2));
    const total = kernel.reduce((a, b) => a + b, 0);
    const pass = (from, n, m, along, across) => {
      const to = new Float64Array(from.length);
      for (let j = 0; j < m; j++) {
        for (let i = 0; i < n; i++) {
          let sum = 0;
          for (let k = -reach; k <= reach; k++) {
            const at = Math.min(n - 1, Math.max(0, i + k));
            sum += kernel[k + reach] * from[at * along + j * across];
          }
          to[i * along + j * across] = sum / total;
        }
      }
      return to;
    };
    const across = pass(grid, nx, ny, 1, nx);
    return ny > 1 ? pass(across, ny, nx, nx, 1) : across;
  }

  // Points counted into bins of the visible part of the bounds, smoothed; row 0 is at the bottom.
  function histogram(points, x, y, view, nx, ny) {
    const grid = new Float64Array(nx * ny);
    const [x0, x1, y0, y1] = view;
    for (let i = 0; i < points.length; i++) {
      const u = (points.values[i * points.width + x] - x0) / (x1 - x0);
      const v = y === null ? 0.5 : (points.values[i * points.width + y] - y0) / (y1 - y0);
      if (u < 0 || u > 1 || v < 0 || v > 1) continue;
      grid[Math.min(ny - 1, Math.floor(v * ny)) * nx + Math.min(nx - 1, Math.floor(u * nx))] += 1;
    }
    return grid;
  }

  // A grid as a picture in a box of the canvas: darker where there is more.
  function paint(context, grid, nx, ny, box, colour, smooth) {
    let top = 0;
    for (const value of grid) top = Math.max(top, value);
    if (!(top > 0)) return;
    const small = document.createElement("canvas");
    small.width = nx;
    small.height = ny;
    const pen = small.getContext("2d");
    const image = pen.createImageData(nx, ny);
    const [r, g, b] = colour.split(",").map(Number);
    for (let j = 0; j < ny; j++) {
      for (let i = 0; i < nx; i++) {
        const at = 4 * ((ny - 1 - j) * nx + i);
        image.data[at] = r;
        image.data[at + 1] = g;
        image.data[at + 2] = b;
        image.data[at + 3] = Math.round(190 * Math.pow(Math.max(0, grid[j * nx + i]) / top, 0.55));
      }
    }
    pen.putImageData(image, 0, 0);
    context.imageSmoothingEnabled = smooth;
    context.imageSmoothingQuality = "high";
    context.drawImage(small, box.left, box.top, box.width, box.height);
  }

  return { decode, decodeLevels, node, ticks, tickText, inUnits, blur, histogram, paint };
})();
