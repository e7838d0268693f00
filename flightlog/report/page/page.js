// page.js: the plots, the cursor over them, the events and the keys.

const byId = (id) => document.getElementById(id);

// element makes an element. It never interprets text as markup.
function element(name, text, className) {
  const e = document.createElement(name);
  if (text !== undefined) e.textContent = text;
  if (className) e.className = className;
  return e;
}

const flag = { armed: 1, episodeStart: 2, gate: 8, asked: 16, replanned: 64, fallback: 128, badObs: 256, badAction: 512, limited: 1024, stopped: 8192, starting: 1 << 20, resting: 1 << 21 };

// modeOf names the mode of the robot in a tick.
function modeOf(flags) {
  for (const mode of ["stopped", "armed", "starting", "resting"]) if (flags & flag[mode]) return mode;
  return "disarmed";
}
const kind = { value: 1, cantTell: 2, undo: 3, comparison: 4, goal: 5, keep: 6 };
const state = { open: 1, answered: 2, expired: 3 };
const applied = 1;
const teaching = [kind.value, kind.comparison, kind.goal];

// advantages returns each label's reward above the middle between good and bad. The middle of comparisons and goals is 0.
function advantages({ kind: kinds, value: values }, middle) {
  return values.map((v, i) => (kinds[i] === kind.value ? v - middle : v));
}

// colourOf returns the colour of an advantage.
function colourOf(c, advantage) { return advantage > 0 ? c.green : advantage < 0 ? c.red : c.dim; }

class Page {
  constructor(data) {
    this.data = data;
    this.paired = data.bucket > 1;
    this.points = data.starts.time.length;
    const join = (8 * data.bucket * data.period_ms) / 1e3;
    this.view = { time: data.starts.time, join, from: 0, to: 1, first: 0, last: -1 };
    this.cursor = 0;
    this.setting = null; // of the study, the one that is shown
    this.params = {};
    this.series = {};
    for (const [name, values] of Object.entries(data.columns)) this.series[name] = values.length ? new Series(values, this.paired) : null;
    this.moments = this.axisOf(data.moments.pos, 2);
    this.prepareStudy();
    this.spreads = this.meanSigma();
    this.marks = [...new Set(Array.from(data.labels.pos, (pos) => this.pointOf(pos)))];
    this.plots = [];
    this.zoomTo(-Infinity, Infinity);
    this.labels = new LabelPanel(this);
    this.scene = new Scene(this);
  }

  pointOf(pos) { return Math.floor(pos / this.data.bucket); }
  timeOf(pos) { return this.view.time[this.pointOf(pos)]; }

  // axisOf returns the times of positions at equal distances, and up to which distance
  // a line joins them.
  axisOf(positions, factor) {
    const { bucket, period_ms } = this.data, stride = positions.length > 1 ? positions[1] - positions[0] : 1;
    return {
      times: Float64Array.from(positions, (pos) => this.timeOf(pos)),
      join: (Math.max(factor * stride, 8 * bucket) * period_ms) / 1e3,
    };
  }

  // prepareStudy makes series of the curves of the study.
  prepareStudy() {
    const { study, n } = this.data, paired = study.bucket > 1;
    const positions = Array.from({ length: Math.ceil(n / study.bucket) }, (_, k) => k * study.bucket);
    this.studyCurves = this.axisOf(positions, 8);
    this.studyMoments = this.axisOf(study.moments, 2);
    for (const s of study.settings) {
      s.dgap = new Series(s.dgap, paired);
      s.estimate = new Series(s.estimate, paired);
      s.skipped = new Set(s.skipped);
    }
  }

  // meanSigma returns the root mean square of σ over the dimensions, at each moment.
  meanSigma() {
    const { moments, d } = this.data;
    if (!moments.sigma.length) return null;
    return Float64Array.from(moments.pos, (_, k) => {
      let sum = 0;
      for (let i = 0; i < d; i++) sum += moments.sigma[k * d + i] ** 2;
      return Math.sqrt(sum / d);
    });
  }

  zoomTo(from, to) {
    const time = this.view.time, end = time.length ? time[time.length - 1] : 1;
    const least = Math.min(end, (4 * this.data.bucket * this.data.period_ms) / 1e3);
    from = Math.max(0, Math.min(from, end - least));
    to = Math.min(end, Math.max(to, from + least));
    Object.assign(this.view, { from, to: to > from ? to : from + 1 });
    this.view.first = Math.max(0, lowerBound(time, from) - 1);
    this.view.last = Math.min(time.length - 1, lowerBound(time, to));
    this.stale = true;
  }

  zoom(factor) {
    const { from, to, time } = this.view;
    const middle = Math.min(to, Math.max(from, time[this.cursor] ?? 0));
    this.zoomTo(middle - (middle - from) * factor, middle + (to - middle) * factor);
    this.draw();
  }

  moveTo(point) {
    if (!this.points) return;
    this.cursor = Math.max(0, Math.min(this.points - 1, point));
    const { from, to, time } = this.view, t = time[this.cursor];
    if (t < from || t > to) this.zoomTo(t - (to - from) / 2, t + (to - from) / 2);
    this.draw();
  }

  addPlot(title, legend, height, draw) {
    const figure = element("figure"), caption = element("figcaption"), canvas = element("canvas");
    caption.append(element("strong", title), ...legend.map(([text, colour]) => element("i", text, colour)));
    canvas.height = height;
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", title);
    figure.append(caption, canvas);
    byId("plots").append(figure);
    this.plots.push({ canvas, height, draw, curves: element("canvas"), frame: null });
    this.listenTo(canvas);
  }

  listenTo(canvas) {
    let zoomFrom = null;
    const timeAt = (event) => {
      const { from, to } = this.view;
      const share = (event.offsetX - gutter.left) / (canvas.clientWidth - gutter.left - gutter.right);
      return from + Math.max(0, Math.min(1, share)) * (to - from);
    };
    const scrub = (event) => this.moveTo(Math.max(0, lowerBound(this.view.time, timeAt(event) + 1e-9) - 1));
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      if (event.shiftKey) zoomFrom = timeAt(event);
      else scrub(event);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (event.buttons & 1 && zoomFrom === null) scrub(event);
    });
    canvas.addEventListener("pointerup", (event) => {
      if (zoomFrom === null) return;
      const [a, b] = [zoomFrom, timeAt(event)].sort((x, y) => x - y);
      zoomFrom = null;
      if (b > a) this.zoomTo(a, b);
      this.draw();
    });
    canvas.addEventListener("dblclick", () => this.showAll());
  }

  showAll() {
    this.zoomTo(-Infinity, Infinity);
    this.draw();
  }

  // draw draws the page, at most once a frame. It reuses the curves if only the cursor
  // moved.
  draw() {
    if (this.drawing) return;
    this.drawing = true;
    requestAnimationFrame(() => {
      this.drawing = false;
      this.drawNow();
    });
  }

  // redraw draws the page with new curves.
  redraw() {
    this.stale = true;
    this.draw();
  }

  drawNow() {
    const colours = palette();
    for (const plot of this.plots) {
      if (this.stale) this.drawCurves(plot, colours);
      if (!plot.frame) continue;
      plot.frame.ctx.clearRect(0, 0, plot.frame.width, plot.frame.height);
      plot.frame.ctx.drawImage(plot.curves, 0, 0, plot.frame.width, plot.frame.height);
      if (this.points) plot.frame.cursor(this.view.time[this.cursor]);
    }
    this.stale = false;
    this.drawBars(colours);
    this.showReadings();
    this.labels.showCursor();
    this.scene.draw(colours);
  }

  // drawCurves draws a plot. In a hidden or collapsed page a plot has no pixels; it then
  // has no frame, because a canvas without pixels cannot be copied.
  drawCurves(plot, colours) {
    const frame = new Frame(plot.canvas, plot.height, this.view, colours);
    plot.frame = plot.canvas.width && plot.canvas.height ? frame : null;
    if (!plot.frame) return;
    plot.draw(plot.frame, colours);
    Object.assign(plot.curves, { width: plot.canvas.width, height: plot.canvas.height });
    plot.curves.getContext("2d").drawImage(plot.canvas, 0, 0);
  }

  // momentBefore returns the index of the last position at or before the cursor, -1 if
  // there is none.
  momentBefore(positions) {
    return lowerBound(positions, (this.cursor + 1) * this.data.bucket) - 1;
  }

  // studied returns the belief of the chosen setting at the cursor, or null.
  studied() {
    const { study, d } = this.data, k = this.setting ? this.momentBefore(study.moments) : -1;
    return k < 0 ? null : { z: this.setting.z.subarray(k * d, (k + 1) * d), norm: this.setting.norms[k], pos: study.moments[k] };
  }

  drawBars(colours) {
    const { moments, d } = this.data;
    const k = this.spansHere(this.data.gaps) === null ? this.momentBefore(moments.pos) : -1;
    const { ctx, width, height } = prepare(byId("bars"), 210);
    byId("belief-when").textContent = "";
    byId("belief-text").textContent = "";
    if (k < 0) {
      byId("belief-text").textContent = "unknown here";
      return;
    }
    const z = moments.z.subarray(k * d, (k + 1) * d), sigma = moments.sigma.subarray(k * d, (k + 1) * d);
    const other = this.studied();
    // If σ is far above ẑ, the axis fits the bars and cuts the whiskers.
    let most = 1e-9, widest = 1e-9;
    for (let i = 0; i < d; i++) {
      most = Math.max(most, Math.abs(z[i]), other ? Math.abs(other.z[i]) : 0);
      if (sigma.length) widest = Math.max(widest, sigma[i]);
    }
    most = Math.min(most + widest, 2 * most);
    const left = 38, step = (width - left) / d, bar = Math.max(step * 0.72, 0.8);
    const rows = { z: { zero: 70, unit: 62 / most }, sigma: { zero: height - 4, unit: 52 / widest } };
    ctx.textBaseline = "middle";
    ctx.textAlign = "right";
    const tick = (row, v) => {
      const y = Math.round(row.zero - v * row.unit);
      ctx.fillStyle = colours.dim;
      ctx.fillText(shortNumber(v), left - 4, y);
      ctx.fillStyle = colours.line;
      ctx.fillRect(left, y, width - left, 1);
    };
    niceSteps(-most, most, 4).forEach((v) => tick(rows.z, v));
    if (sigma.length) niceSteps(0, widest, 2).forEach((v) => tick(rows.sigma, v));
    for (let i = 0; i < d; i++) {
      const x = left + i * step, { zero, unit } = rows.z;
      ctx.fillStyle = colours.blue;
      ctx.fillRect(x, zero, bar, -z[i] * unit);
      if (sigma.length) {
        const top = Math.max(zero - (z[i] + sigma[i]) * unit, 2), bottom = Math.min(zero - (z[i] - sigma[i]) * unit, 138);
        ctx.fillStyle = colours.orange;
        ctx.fillRect(x + bar / 2 - 0.5, top, 1, bottom - top);
        ctx.fillRect(x, rows.sigma.zero, bar, -sigma[i] * rows.sigma.unit);
      }
      if (other) {
        ctx.fillStyle = colours.purple;
        ctx.fillRect(x - 0.5, zero - other.z[i] * unit - 1, bar + 1, 2);
      }
    }
    byId("belief-when").textContent = "after tick " + (this.data.first_tick + this.tickAt(moments.pos[k]));
    byId("belief-text").textContent = `‖ẑ‖ ${moments.norm[k].toFixed(4)}` +
      (this.spreads ? `, σ ${this.spreads[k].toFixed(4)} (rms over ${d} dimensions), below: σ of each` : "") +
      (other ? `; what if: ‖ẑ‖ ${other.norm.toFixed(4)} (purple), after tick ${this.data.first_tick + this.tickAt(other.pos)}` : "");
  }

  tickAt(pos) { return this.data.starts.tick[this.pointOf(pos)]; }

  // showReadings shows the values at the cursor.
  showReadings() {
    const { data, cursor } = this, rows = [];
    if (!this.points) {
      byId("now").textContent = "no ticks";
      return;
    }
    const time = this.view.time[cursor], flags = data.starts.flags[cursor];
    const tick = data.first_tick + data.starts.tick[cursor];
    byId("now").textContent = `${time.toFixed(3)} s, tick ${tick}` + (this.paired ? ` +${data.bucket - 1}` : "");
    byId("scrub").value = cursor;
    const add = (name, text) => text !== null && rows.push([name, text]);
    const read = (name, unit) => {
      const s = this.series[name];
      if (!s || Number.isNaN(s.low(cursor))) return null;
      const a = shortNumber(s.low(cursor)), b = shortNumber(s.high(cursor));
      return (a === b ? a : `${a} … ${b}`) + unit;
    };
    const episode = lowerBound(data.episodes, (cursor + 1) * data.bucket);
    add("Episode", data.episodes.length ? `${episode} of ${data.episodes.length} in this log` : null);
    add("State", [
      modeOf(flags), flags & flag.gate && "gate open", flags & flag.replanned && "new z",
      flags & flag.fallback && "no plan: a seeded z", flags & flag.badObs && "bad observation",
      flags & flag.badAction && "bad action", flags & flag.limited && "action limited",
    ].filter(Boolean).join(", "));
    add("D-gap", read("dgap", ` nats (κ = ${data.config.kappa})`));
    const estimate = read("estimate", "");
    add("φᵀẑ", estimate === null ? "unknown" : `${estimate} ± ${read("spread", "")}`);
    add("Reward", read("reward", ", the simulator's"));
    add("Label", this.labelsHere());
    add("Given here", this.labels.textHere());
    add("z", `${read("age", "")} ticks old` + (this.series.turn.high(cursor) > 0 ? `, turned by ${read("turn", "°")}` : ""));
    add("Lateness", read("late", " ms"));
    add("Tick took", read("busy", " ms"));
    add("Skipped", this.series.skipped.high(cursor) > 0 ? read("skipped", " periods before it") : null);
    add("Fault", this.spansHere(data.faults));
    add("Not verified", this.spansHere(data.gaps));
    byId("readings").replaceChildren(...rows.map(([name, text]) => {
      const div = element("div");
      div.append(element("dt", name), element("dd", text));
      return div;
    }));
    this.writeHash();
  }

  labelsHere() {
    const l = this.data.labels, out = [];
    const from = lowerBound(l.pos, this.cursor * this.data.bucket), to = lowerBound(l.pos, (this.cursor + 1) * this.data.bucket);
    for (let i = from; i < Math.min(to, from + 6); i++) out.push(this.labelText(i));
    if (to - from > 6) out.push(`${to - from - 6} more`);
    return out.length ? out.join("; ") : null;
  }

  labelText(i) {
    const l = this.data.labels;
    const what = {
      [kind.value]: shortNumber(l.value[i]), [kind.cantTell]: "can't tell", [kind.undo]: "undo",
      [kind.comparison]: l.value[i] < 0 ? "worse" : "better", [kind.goal]: "goal", [kind.keep]: "keep the task",
    }[l.kind[i]];
    const how = l.outcome[i] === applied ? (l.asked[i] ? "asked" : "unasked") : l.words[l.outcome[i]];
    const about = l.about[i] >= 0 ? `, about tick ${this.data.first_tick + this.tickAt(l.about[i])}` : "";
    return `${what} (${how}${about})`;
  }

  spansHere(spans) {
    const here = spans.filter((s) => this.pointOf(s.from) <= this.cursor && this.cursor <= this.pointOf(s.to));
    return here.length ? here.map((s) => s.text).join("; ") : null;
  }

  writeHash() {
    const parts = this.cursor > 0 ? ["t=" + this.view.time[this.cursor].toFixed(3)] : [];
    for (const [name, value] of Object.entries(this.params)) if (value !== null) parts.push(`${name}=${value}`);
    clearTimeout(this.hashing); // browsers limit the rate
    this.hashing = setTimeout(() => {
      try {
        history.replaceState(null, "", "#" + parts.join("&"));
      } catch {
        // a sandboxed page has no history
      }
    }, 300);
  }
}

// --- the plots ---

function addPlots(page) {
  const { data, series } = page, { config, labels, requests } = data;
  const times = (positions) => Array.from(positions, (pos) => page.timeOf(pos));
  const labelTimes = times(labels.pos), aboutTimes = Array.from(labels.about, (pos) => (pos < 0 ? NaN : page.timeOf(pos)));
  const fromTimes = times(requests.from), toTimes = times(requests.to), episodeTimes = times(data.episodes);
  const skipped = (i) => page.setting !== null && page.setting.skipped.has(i);
  // whatIf draws a curve of the chosen setting.
  const whatIf = (f, c, axis, series) => f.sparse(axis.times, series, c.purple, { dash: [4, 3], join: axis.join });
  const advantage = advantages(labels, config.middle);
  const labelColour = (c, i) => (skipped(i) ? c.purple : colourOf(c, advantage[i]));
  const mostAdvantage = Math.max(1e-9, ...sampled(advantage.map(Math.abs)));
  const dense = labels.pos.length > 5000, given = page.labels.enabled;
  const shadeGaps = (f, c) => data.gaps.forEach((g) => f.span(page.timeOf(g.from), page.timeOf(g.to), 0, f.height, c.warn));

  page.addPlot("Requests, labels, faults", [
    ["request, answered", "blue"], ["expired", "orange"], ["label above the middle", "green"], ["below", "red"],
    ["what if: left out", "purple"], ["ring: undo, can't tell, refused", "dim"],
    ...(given ? [["diamond: given here", "dim"], ["hollow: proposed", "dim"]] : []),
  ], given ? 148 : 116, (f, c) => {
    const rows = { requests: 20, labels: 52, ...(given ? { given: 84, events: 116 } : { events: 88 }) };
    shadeGaps(f, c);
    f.ctx.textAlign = "right";
    f.ctx.textBaseline = "middle";
    f.ctx.fillStyle = c.dim;
    for (const [name, y] of Object.entries(rows)) f.ctx.fillText(name, f.x0 - 6, y);
    f.verticals();
    episodeTimes.forEach((t) => f.span(t, t, 0, 6, c.dim));
    for (let i = 0; i < fromTimes.length; i++) {
      f.span(fromTimes[i], toTimes[i], rows.requests - 8, 16, requests.state[i] === state.expired ? c.orange : c.blue);
    }
    f.rule(f.x0, rows.labels + 0.5, f.x1, rows.labels + 0.5, c.line);
    for (let i = 0; i < labelTimes.length; i++) {
      if (labels.outcome[i] !== applied || !teaching.includes(labels.kind[i])) {
        f.dot(labelTimes[i], rows.labels, 2.5, c.dim, true);
        continue;
      }
      const length = 3 + (13 * Math.abs(advantage[i])) / mostAdvantage, up = advantage[i] >= 0;
      f.span(labelTimes[i], labelTimes[i], up ? rows.labels - length : rows.labels, length, labelColour(c, i));
    }
    page.labels.draw(f, c, rows.given, () => rows.given);
    data.faults.forEach((s) => f.span(page.timeOf(s.from), page.timeOf(s.to), rows.events - 8, 16, c.red));
    data.events.forEach((e) => f.dot(e.time, rows.events, 3.5, e.level === "error" ? c.red : e.level === "warn" ? c.orange : c.dim));
  });

  page.addPlot("D-gap, nats (log scale)", [["Δ(φ)", "blue"], ["κ", "orange"], ["what if", "purple"]], 140, (f, c) => {
    const kappa = page.params.kappa ?? null;
    f.range([series.dgap], { include: [config.kappa, kappa ?? NaN], log: true });
    f.axes();
    f.line(series.dgap, c.blue);
    if (page.setting) whatIf(f, c, page.studyCurves, page.setting.dgap);
    if (config.gate_off) f.note("the gate was off");
    else if (config.kappa > 0) f.level(config.kappa, c.orange, "κ = " + shortNumber(config.kappa));
    if (kappa > 0) f.level(kappa, c.purple, "what if κ = " + shortNumber(kappa));
  });

  const e = series.estimate, s = series.spread;
  page.addPlot("Reward", [
    ["estimate φᵀẑ ± σ", "blue"], ["the simulator's", "dim"], ["label above the middle", "green"], ["below", "red"],
    ["what if", "purple"],
  ], 172, (f, c) => {
    f.range([e, series.reward].filter(Boolean), { include: [...sampled(labels.value), ...page.labels.values()] });
    f.axes();
    const lower = (i) => e.low(i) - s.high(i), upper = (i) => e.high(i) + s.high(i);
    f.band((i) => Math.max(lower(i), f.low), (i) => Math.min(upper(i), f.high), c.fill);
    if (series.reward) f.line(series.reward, c.dim, { width: 1 });
    f.line(e, c.blue);
    if (page.setting) whatIf(f, c, page.studyCurves, page.setting.estimate);
    for (let i = 0; i < aboutTimes.length; i++) {
      if (Number.isNaN(aboutTimes[i]) || labels.kind[i] === kind.comparison) continue; // a difference of rewards
      f.dot(aboutTimes[i], f.y(labels.value[i]), dense ? 1.2 : 2.8, labelColour(c, i), skipped(i));
    }
    page.labels.draw(f, c, null, (value) => f.y(value));
  });

  page.addPlot("Belief", [
    ["‖ẑ‖", "blue"], ["σ, rms over its dimensions", "orange"], ["what if: ‖ẑ‖", "purple"],
  ], 130, (f, c) => {
    const norms = data.moments.norm, curves = [new Series(norms, false)];
    if (page.spreads) curves.push(new Series(page.spreads, false));
    const inside = Object.create(f);
    inside.view = { ...page.view, first: 0, last: norms.length - 1 };
    Frame.prototype.range.call(inside, curves, { include: [0, ...(page.setting?.norms ?? [])] });
    [f.low, f.high] = [inside.low, inside.high];
    shadeGaps(f, c);
    f.axes();
    if (!norms.length) f.note("unknown: the log could not be replayed");
    const { times, join } = page.moments;
    curves.forEach((series, i) => f.sparse(times, series, [c.blue, c.orange][i], { join }));
    if (page.setting) whatIf(f, c, page.studyMoments, new Series(page.setting.norms, false));
  });

  page.addPlot("z turned, degrees", [["angle to the z before", "blue"]], 84, (f, c) => {
    f.range([series.turn], { include: [0, 1] });
    f.axes();
    f.line(series.turn, c.blue, { width: 1 });
  });

  page.addPlot("Age of z, ticks", [["age", "blue"], ["limit: an older z halts the robot", "red"]], 84, (f, c) => {
    f.range([series.age], { include: [0, 2] });
    f.axes();
    f.line(series.age, c.blue);
    if (config.max_plan_age <= f.high) f.level(config.max_plan_age, c.red, "limit");
    else f.tag(`limit ${config.max_plan_age}`, c.dim, f.y1 + 7);
  });

  page.addPlot("Timing, ms (log scale)", [
    ["lateness", "blue"], ["a tick takes", "orange"], ["skipped periods", "red"], ["period", "dim"],
  ], series.late ? 124 : 60, (f, c) => {
    if (!series.late) {
      f.note("simulated time: no timing");
      return;
    }
    f.range([series.late, series.busy], { include: [data.period_ms], log: true });
    f.axes();
    f.line(series.late, c.blue, { width: 1 });
    f.line(series.busy, c.orange, { width: 1 });
    f.level(data.period_ms, c.dim, "period");
    for (let i = page.view.first; i <= page.view.last; i++) {
      if (series.skipped.high(i) > 0) f.span(page.view.time[i], page.view.time[i], f.y1, 8, c.red);
    }
  });
}

// sampled returns the least, the greatest and the negated least value: what an axis
// needs of many values.
function sampled(values) {
  let low = Infinity, high = -Infinity;
  for (const v of values) {
    low = Math.min(low, v);
    high = Math.max(high, v);
  }
  return low > high ? [] : [low, high, -low];
}

// --- events ---

function listEvents(page) {
  const { data } = page, rows = [];
  const add = (pos, time, level, text) => rows.push({ pos, time, level, text });
  data.events.forEach((e) => add(e.pos, e.time, e.level, e.text + (e.fields ?? []).map(([k, v]) => `; ${k} = ${v}`).join("")));
  data.faults.forEach((f) => {
    const duration = f.to > f.from ? `, for ${f.to - f.from + 1} ticks` : "";
    add(f.from, page.timeOf(f.from) ?? 0, "fault", f.text + duration);
  });
  data.gaps.forEach((g) => add(g.from, page.timeOf(Math.min(g.from, data.n - 1)) ?? 0, "gap", g.text));
  rows.sort((a, b) => a.time - b.time);
  if (!rows.length) byId("events").append(element("tr", "none"));
  for (const row of rows) {
    const tr = element("tr"), go = () => page.moveTo(page.pointOf(row.pos));
    tr.tabIndex = 0;
    tr.append(element("td", row.time.toFixed(3) + " s"), element("td", row.level, "level-" + row.level), element("td", row.text));
    tr.addEventListener("click", go);
    tr.addEventListener("keydown", (event) => event.key === "Enter" && go());
    byId("events").append(tr);
  }
}

// --- keys ---

function listenToKeys(page) {
  const second = () => Math.max(1, Math.round(1e3 / (page.data.period_ms * page.data.bucket)));
  const jump = (direction) => {
    const at = lowerBound(page.marks, page.cursor + (direction > 0 ? 1 : 0));
    const mark = page.marks[direction > 0 ? at : at - 1];
    if (mark !== undefined) page.moveTo(mark);
  };
  const keys = {
    ArrowLeft: (e) => page.moveTo(page.cursor - (e.shiftKey ? 10 : 1)), ArrowRight: (e) => page.moveTo(page.cursor + (e.shiftKey ? 10 : 1)),
    PageUp: () => page.moveTo(page.cursor - second()), PageDown: () => page.moveTo(page.cursor + second()),
    Home: () => page.moveTo(0), End: () => page.moveTo(page.points - 1), n: () => jump(1), p: () => jump(-1),
    i: () => page.zoom(0.5), o: () => page.zoom(2), a: () => page.showAll(), ...page.labels.keys,
  };
  document.addEventListener("keydown", (event) => {
    const busy = event.target instanceof HTMLSelectElement;
    if (busy || event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key](event);
  });
  byId("scrub").max = Math.max(0, page.points - 1);
  byId("scrub").addEventListener("input", () => page.moveTo(byId("scrub").valueAsNumber));
  byId("next").addEventListener("click", () => jump(1));
  byId("previous").addEventListener("click", () => jump(-1));
  byId("nearer").addEventListener("click", () => page.zoom(0.5));
  byId("farther").addEventListener("click", () => page.zoom(2));
  byId("whole").addEventListener("click", () => page.showAll());
}

function start() {
  const page = new Page(readData(byId("data").textContent));
  addPlots(page);
  listEvents(page);
  listenToKeys(page);
  const panel = new StudyPanel(page);
  const wanted = new URLSearchParams(location.hash.slice(1));
  const t = parseFloat(wanted.get("t") ?? "");
  if (t >= 0) page.cursor = Math.min(page.points - 1, lowerBound(page.view.time, t - 1e-6));
  panel.choose(Object.fromEntries(wanted));
  page.drawNow();
  addEventListener("resize", () => page.redraw());
  // A hidden or folded page that becomes visible changes its width without that event.
  let width = byId("plots").clientWidth;
  new ResizeObserver(([plots]) => {
    if (Math.round(plots.contentRect.width) === width) return;
    width = Math.round(plots.contentRect.width);
    page.redraw();
  }).observe(byId("plots"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => page.redraw());
  const printing = (on) => () => {
    document.documentElement.classList.toggle("print", on);
    page.stale = true;
    page.drawNow();
  };
  addEventListener("beforeprint", printing(true));
  addEventListener("afterprint", printing(false));
  document.documentElement.dataset.ready = "yes";
}

start();
