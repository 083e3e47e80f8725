// The moving picture: centres over the rounds, before and after inference, for a pair of columns.
(() => {
  const data = JSON.parse(document.getElementById("report-data").textContent);
  const stage = document.getElementById("map");
  if (!data || !stage) return;
  const { decode, decodeLevels, node, ticks, tickText, inUnits, blur, histogram, paint } = RecoupDraw;
  const by = (id) => document.getElementById(id);
  const canvas = by("map-density"), svg = by("map-marks"), status = by("map-status");
  const slider = by("map-step"), play = by("map-play");
  const calm = window.matchMedia("(prefers-reduced-motion: reduce)");
  const d = data.columns.length, last = data.steps.length;
  const finish = { round: null, after: data.after, before: data.before, density: data.density, asked: data.steps[last - 1].asked };
  const steps = [...data.steps, finish];
  const kept = new Map();
  const points = (text) => {
    if (!kept.has(text)) kept.set(text, decode(text, d));
    return kept.get(text);
  };
  const interval = data.interval && { low: points(data.interval.low), high: points(data.interval.high) };
  const checked = (id) => Boolean(by(id) && by(id).checked);
  let now = null, timer = null, frame = null;

  function chosen() {
    const x = by("map-x") ? Number(by("map-x").value) : 0;
    const y = d === 1 ? null : by("map-y") ? Number(by("map-y").value) : 1;
    return { x, y, step: Number(slider.value), behind: by("map-behind").value, follow: by("map-follow").value };
  }

  // The visible part of the bounds, as fractions of them: the same part of both, or the picture would be out of shape.
  function visible(columns) {
    if (!checked("map-zoom")) return columns.map(() => [0, 1]);
    const views = columns.map((column) => data.view[column].map((v) => placeOf(column, v)));
    const part = Math.max(...views.map(([start, stop]) => stop - start));
    return views.map(([start, stop]) => {
      const from = Math.min(Math.max(0, (start + stop - part) / 2), 1 - part);
      return [from, from + part];
    });
  }

  // Width by height of the frame: that of the bounds where both columns have one unit, else a square.
  function shape(x, y) {
    const unit = data.units[x];
    if (unit === null || unit === "share" || unit !== data.units[y] || data.scale[x] || data.scale[y]) return 1;
    return Math.min(2, Math.max(0.5, (data.high[x] - data.low[x]) / (data.high[y] - data.low[y])));
  }

  function layout(state) {
    const width = stage.clientWidth;
    const left = d === 1 ? 14 : width < 520 ? 52 : 68;
    const wide = Math.max(40, width - left - 14);
    const box = { left, top: 12, width: wide, height: wide / (d === 1 ? 2.4 : shape(state.x, state.y)) };
    const height = box.height + 12 + 46;
    stage.style.aspectRatio = `${width} / ${height}`; // so that canvas and marks shrink together on paper
    const [[x0, x1], [y0, y1] = [0, 1]] = visible(state.y === null ? [state.x] : [state.x, state.y]);
    return {
      width, height, box, view: [x0, x1, y0, y1],
      px: (u) => box.left + box.width * (u - x0) / (x1 - x0),
      py: (v) => box.top + box.height * (1 - (v - y0) / (y1 - y0)),
    };
  }

  function drawBehind(state, plan) {
    const ratio = Math.min(3, window.devicePixelRatio || 1);
    canvas.width = Math.round(plan.width * ratio);
    canvas.height = Math.round(plan.height * ratio);
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.beginPath();
    pen.rect(plan.box.left, plan.box.top, plan.box.width, plan.box.height);
    pen.clip();
    const style = getComputedStyle(canvas), numbers = (colour) => colour.match(/[\d.]+/g).slice(0, 3).join();
    const step = steps[state.step];
    if (state.behind === "density") drawDensity(pen, state, plan, points(step.density), numbers(style.color));
    if (state.behind === "answer") drawAnswer(pen, state, plan, step.asked, numbers(style.caretColor));
  }

  function drawDensity(pen, state, plan, found, colour) {
    const { box } = plan;
    if (state.y === null) {
      const n = 160;
      hill(pen, box, blur(histogram(found, state.x, null, plan.view, n, 1), n, 1, 1.6), `rgba(${colour},0.45)`, 0.78);
      return;
    }
    const nx = 110, ny = Math.max(40, Math.round(nx * box.height / box.width));
    const sigma = 1 + 60 / Math.sqrt(found.length);
    paint(pen, blur(histogram(found, state.x, state.y, plan.view, nx, ny), nx, ny, sigma), nx, ny, box, colour, true);
  }

  function hill(pen, box, values, colour, part) {
    const top = Math.max(...values, 1e-12), width = box.width / values.length, ground = box.top + box.height;
    pen.fillStyle = colour;
    pen.beginPath();
    pen.moveTo(box.left, ground);
    values.forEach((value, i) => pen.lineTo(box.left + (i + 0.5) * width, ground - part * box.height * value / top));
    pen.lineTo(box.left + box.width, ground);
    pen.fill();
  }

  function drawAnswer(pen, state, plan, asked, colour) {
    if (asked.points) return drawCells(pen, state, plan, asked, colour);
    const a = Math.min(state.x, state.y ?? 0), b = Math.max(state.x, state.y ?? 0);
    const pair = state.y === null ? null : (asked.pairs || {})[`${a},${b}`];
    if (pair) return drawPair(pen, state, plan, pair, a !== state.x, colour);
    const across = (asked.single || {})[state.x], up = state.y === null ? null : (asked.single || {})[state.y];
    pen.fillStyle = `rgba(${colour},0.5)`;
    if (across) {
      const values = decodeLevels(across.values), depth = (d === 1 ? 0.78 : 0.2) * plan.box.height / 255;
      values.forEach((v, i) => {
        const left = plan.px(i / across.n), right = plan.px((i + 1) / across.n);
        pen.fillRect(left, plan.box.top + plan.box.height - v * depth, right - left - 1, v * depth);
      });
    }
    if (up) {
      const values = decodeLevels(up.values), depth = 0.2 * plan.box.width / 255;
      values.forEach((v, i) => {
        const low = plan.py(i / up.n), high = plan.py((i + 1) / up.n);
        pen.fillRect(plan.box.left, high, v * depth, low - high - 1);
      });
    }
    return undefined;
  }

  function drawCells(pen, state, plan, asked, colour) {
    const at = points(asked.points), counts = decodeLevels(asked.counts);
    pen.fillStyle = `rgba(${colour},0.35)`;
    pen.strokeStyle = `rgba(${colour},0.9)`;
    for (let i = 0; i < at.length; i++) {
      const size = 2 + 11 * Math.sqrt(counts[i] / 255);
      const y = state.y === null ? plan.box.top + plan.box.height * 0.9 : plan.py(at.values[i * d + state.y]);
      pen.beginPath();
      pen.arc(plan.px(at.values[i * d + state.x]), y, size, 0, 2 * Math.PI);
      pen.fill();
      pen.stroke();
    }
  }

  function drawPair(pen, state, plan, pair, turned, colour) {
    const values = decodeLevels(pair.values);
    const nx = turned ? pair.ny : pair.nx, ny = turned ? pair.nx : pair.ny;
    const grid = new Float64Array(nx * ny);
    for (let j = 0; j < ny; j++) {
      for (let i = 0; i < nx; i++) grid[j * nx + i] = turned ? values[i * pair.nx + j] : values[j * pair.nx + i];
    }
    const left = plan.px(0), top = plan.py(1);
    paint(pen, grid, nx, ny, { left, top, width: plan.px(1) - left, height: plan.py(0) - top }, colour, false);
  }

  function drawAxes(state, plan) {
    const { box, view } = plan;
    svg.append(node("rect", { class: "frame", x: box.left, y: box.top, width: box.width, height: box.height }));
    axis(state.x, view[0], view[1], Math.max(2, Math.round(box.width / 110)), (value, at, text) => {
      // Words at the edges stay inside the picture.
      const x = plan.px(at), end = x > plan.width - 6 * text.length / 2 - 8;
      svg.append(node("text", { x: end ? plan.width - 2 : x, y: box.top + box.height + 18, "text-anchor": end ? "end" : "middle" }, text));
    });
    const name = { class: "axis-name", x: box.left + box.width, y: box.top + box.height + 38, "text-anchor": "end" };
    svg.append(node("text", name, `${axisName(state.x)} \u2192`));
    if (state.y === null) return;
    axis(state.y, view[2], view[3], Math.max(2, Math.round(box.height / 60)), (value, at, text) => {
      svg.append(node("text", { x: box.left - 8, y: plan.py(at) + 4, "text-anchor": "end" }, text));
    });
    svg.append(node("text", { class: "axis-name", x: box.left + 8, y: box.top + 18 }, `\u2191 ${axisName(state.y)}`));
  }

  function axisName(column) {
    const unit = data.units[column];
    return unit === null || unit === "share" ? data.columns[column] : `${data.columns[column]} (${unit})`;
  }

  function axis(column, from, to, wanted, put) {
    if (data.scale[column]) {
      for (const value of roundValues(column, from, to, wanted)) {
        put(value, placeOf(column, value), value.toLocaleString("en", { maximumSignificantDigits: 3 }));
      }
      return;
    }
    const low = data.low[column], width = data.high[column] - low;
    const { step, found } = ticks(low + from * width, low + to * width, wanted);
    const largest = Math.max(...found.map(Math.abs), step);
    for (const value of found) put(value, (value - low) / width, tickText(value, step, largest));
  }

  // A scale that is not linear is told by its values at equal steps; between them it is taken for linear.
  function valueAt(column, at) {
    const scale = data.scale[column];
    if (!scale) return data.low[column] + at * (data.high[column] - data.low[column]);
    const step = Math.max(0, Math.min(1, at)) * (scale.length - 1), i = Math.min(Math.floor(step), scale.length - 2);
    return scale[i] + (step - i) * (scale[i + 1] - scale[i]);
  }

  function placeOf(column, value) {
    const scale = data.scale[column];
    if (!scale) return (value - data.low[column]) / (data.high[column] - data.low[column]);
    let i = 0;
    while (i < scale.length - 2 && scale[i + 1] < value) i++;
    return (i + Math.max(0, Math.min(1, (value - scale[i]) / (scale[i + 1] - scale[i])))) / (scale.length - 1);
  }

  // Values such as 1, 2, 5, 10 that lie far enough apart on such a scale.
  function roundValues(column, from, to, wanted) {
    const low = valueAt(column, from), high = valueAt(column, to), found = [], apart = (to - from) / (1.5 * wanted);
    for (const steps of [[1], [2, 5]]) {
      for (let power = -12; power <= 18; power++) {
        for (const step of steps) {
          for (const sign of [1, -1]) {
            const value = sign * step * Math.pow(10, power), at = placeOf(column, value);
            const near = found.some((other) => Math.abs(placeOf(column, other) - at) < apart);
            if (value >= low && value <= high && !near) found.push(value);
          }
        }
      }
    }
    return found.length > 1 ? found : [low, high];
  }

  // Where a centre is drawn: for a single column all stand on one line.
  function place(plan, values, k, state) {
    const y = state.y === null ? plan.box.top + plan.box.height * 0.9 : plan.py(values[k * d + state.y]);
    return [plan.px(values[k * d + state.x]), y];
  }

  function drawMarks(state, plan, positions) {
    const step = steps[state.step], isResult = state.step === last;
    const n = positions.length / d;
    const own = step.before && checked("map-before") ? points(step.before).values : null;
    const clip = node("clipPath", { id: "map-clip" });
    const { box } = plan;
    clip.append(node("rect", { x: box.left - 7, y: box.top - 7, width: box.width + 14, height: box.height + 14 }));
    const all = node("g", { "clip-path": "url(#map-clip)" });
    svg.append(clip, all);
    const groups = [];
    for (let k = 0; k < n; k++) {
      const faded = state.follow !== "" && Number(state.follow) !== k;
      const group = node("g", { class: `cluster${faded ? " faded" : ""}`, "data-cluster": k });
      group.append(node("title", {}, describe(k, positions)));
      group.addEventListener("click", () => {
        by("map-follow").value = state.follow === String(k) ? "" : String(k);
        show(false);
      });
      groups.push(group);
      all.append(group);
      if (checked("map-paths") && state.step > 0) {
        const from = faded || state.follow === "" ? Math.max(0, state.step - 1) : 0;
        const line = [];
        for (let t = from; t < state.step; t++) line.push(place(plan, points(steps[t].after).values, k, state));
        line.push(place(plan, positions, k, state));
        group.append(node("polyline", { class: "path", points: line.map((p) => p.join(",")).join(" ") }));
      }
      const [x, y] = place(plan, positions, k, state);
      if (own) {
        const [bx, by_] = place(plan, own, k, state);
        group.append(node("line", { class: "moved", x1: bx, y1: by_, x2: x, y2: y }));
        group.append(node("path", { class: "before", d: `M${bx} ${by_ - 6}L${bx + 6} ${by_}L${bx} ${by_ + 6}L${bx - 6} ${by_}Z` }));
      }
      if (isResult && interval && checked("map-intervals")) drawInterval(group, state, plan, k, x, y);
      group.append(node("circle", { class: "after", cx: x, cy: y, r: n > 40 ? 4 : 5.5 }));
    }
    // Labels last, so that no mark covers a number.
    const at = groups.map((_, k) => place(plan, positions, k, state));
    labelPlaces(at, data.labels.map((label) => String(label)), box).forEach(({ x, y, end }, k) => {
      const text = node("text", { class: "label", x, y, "text-anchor": end ? "end" : "start" }, String(data.labels[k]));
      if (groups[k].classList.contains("faded")) text.classList.add("faded");
      all.append(text);
    });
  }

  // Where each number goes: beside its centre, and where others are near, on the side that covers the least of them.
  function labelPlaces(at, texts, box) {
    const taken = [], high = 12, wide = (text) => 8 * text.length;
    const overlap = (a, b) => Math.max(0, Math.min(a.right, b.right) - Math.max(a.left, b.left))
      * Math.max(0, Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top));
    const marks = at.map(([x, y]) => ({ left: x - 5, right: x + 5, top: y - 5, bottom: y + 5 }));
    return at.map(([x, y], k) => {
      let best = null;
      for (const [right, down] of [[8, -7], [-8, -7], [8, 17], [-8, 17], [11, 5], [-11, 5], [8, -21], [-8, -21], [8, 31], [-8, 31]]) {
        const spot = { x: x + right, y: y + down, end: right < 0 };
        const left = spot.end ? spot.x - wide(texts[k]) : spot.x;
        const area = { left, right: left + wide(texts[k]), top: spot.y - high, bottom: spot.y };
        const outside = area.left < box.left || area.right > box.left + box.width || area.top < box.top - 4 || area.bottom > box.top + box.height + 6;
        let cost = outside ? 1000 : 0;
        for (const other of taken) cost += 4 * overlap(area, other);
        marks.forEach((mark, i) => { if (i !== k) cost += overlap(area, mark); });
        if (best === null || cost < best.cost) best = { cost, spot, area };
        if (cost === 0) break;
      }
      taken.push(best.area);
      return best.spot;
    });
  }

  function drawInterval(group, state, plan, k, x, y) {
    const ends = (column) => [interval.low.values[k * d + column], interval.high.values[k * d + column]];
    const [left, right] = ends(state.x).map(plan.px);
    group.append(node("line", { class: "interval", x1: left, x2: right, y1: y, y2: y }));
    if (state.y === null) return;
    const [bottom, top] = ends(state.y).map(plan.py);
    group.append(node("line", { class: "interval", x1: x, x2: x, y1: bottom, y2: top }));
  }

  function describe(k, values) {
    const parts = data.columns.slice(0, 8).map((name, j) => {
      const width = data.high[j] - data.low[j];
      return `${name} ${inUnits(valueAt(j, values[k * d + j]), width)}`;
    });
    const name = RecoupNames.of(data.labels[k]);
    return `Cluster ${data.labels[k]}${name && ` (${name})`}: ${parts.join(", ")}${d > 8 ? ", ..." : ""}`;
  }

  function words(state) {
    const step = steps[state.step];
    const follow = state.follow === "" ? "" : ` ${describe(Number(state.follow), points(step.after).values)}.`;
    if (step.round === null) return `${data.result}${follow}`;
    const away = 100 * step.moved;
    const upTo = step.round === 1 ? "round 1" : `rounds 1 to ${step.round}`;
    const made = data.method === "none" ? "Centres after" : "Centres inferred from";
    return `Round ${step.round} of ${data.n_rounds} asked for ${step.words}. ${made} ${upTo} are on average `
      + `${away < 0.1 ? "less than 0.1" : away.toFixed(1)}% of the bounds' diagonal from the result.${follow}`;
  }

  function render(positions) {
    const state = chosen(), plan = layout(state);
    svg.setAttribute("viewBox", `0 0 ${plan.width} ${plan.height}`);
    svg.replaceChildren();
    drawAxes(state, plan);
    drawMarks(state, plan, positions);
    return { state, plan };
  }

  // Draw the chosen step; centres glide there from where they are, unless the reader prefers calm.
  function show(glide) {
    const state = chosen();
    const target = points(steps[state.step].after).values;
    window.cancelAnimationFrame(frame);
    const text = words(state);
    if (status.textContent !== text) status.textContent = text;
    slider.setAttribute("aria-valuetext", state.step === last ? "result" : `round ${steps[state.step].round}`);
    drawBehind(state, layout(state));
    if (!glide || calm.matches || !now || now.length !== target.length) {
      now = target.slice();
      render(now);
      return;
    }
    const from = now.slice(), start = performance.now(), length = 550;
    const tick = (time) => {
      const part = Math.min(1, (time - start) / length);
      const eased = part < 0.5 ? 2 * part * part : 1 - 2 * (1 - part) ** 2;
      now = from.map((v, i) => v + (target[i] - v) * eased);
      render(now);
      if (part < 1) frame = window.requestAnimationFrame(tick);
    };
    frame = window.requestAnimationFrame(tick);
  }

  function stop() {
    window.clearInterval(timer);
    timer = null;
    play.textContent = "Play";
    status.setAttribute("aria-live", "polite");
  }

  function next() {
    slider.value = String(Number(slider.value) + 1);
    if (Number(slider.value) >= last) stop();
    show(true);
  }

  play.addEventListener("click", () => {
    if (timer !== null) return stop();
    if (Number(slider.value) >= last) slider.value = "0";
    play.textContent = "Pause";
    // A voice that reads every step would never finish one.
    status.setAttribute("aria-live", "off");
    timer = window.setInterval(next, 1500);
    return show(true);
  });
  slider.addEventListener("input", () => {
    if (timer !== null) stop();
    show(true);
  });
  for (const id of ["map-before", "map-intervals", "map-paths", "map-zoom", "map-behind", "map-follow"]) {
    if (by(id)) by(id).addEventListener("change", () => show(false));
  }
  for (const [id, other] of [["map-x", "map-y"], ["map-y", "map-x"]]) {
    if (!by(id)) continue;
    let before = by(id).value;
    by(id).addEventListener("change", () => {
      // The same column twice shows nothing: the two change places instead.
      if (by(other).value === by(id).value) by(other).value = before;
      before = by(id).value;
      show(false);
    });
    by(other).addEventListener("change", () => { before = by(id).value; });
  }
  document.addEventListener("recoup-theme", () => show(false));
  function nameChoices() {
    data.labels.forEach((label, k) => {
      const name = RecoupNames.of(label);
      by("map-follow").options[k + 1].textContent = `cluster ${label}${name && `: ${name}`}`;
    });
  }
  document.addEventListener("recoup-names", () => { nameChoices(); show(false); });
  // Paper is white, whatever the screen is.
  const onPaper = (scheme) => () => { canvas.style.colorScheme = scheme; show(false); };
  window.addEventListener("beforeprint", onPaper("light"));
  window.addEventListener("afterprint", onPaper(""));
  nameChoices();
  window.addEventListener("resize", () => show(false));
  show(false);
})();
