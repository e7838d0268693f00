// page.js: the plots, the cursor over them, and the sliders.

const byId = (id) => document.getElementById(id);

// element makes an element; text is only ever text.
function element(name, text, className) {
  const e = document.createElement(name);
  if (text !== undefined) e.textContent = text;
  if (className) e.className = className;
  return e;
}

const flag = { armed: 1, episodeStart: 2, gate: 8, asked: 16, replanned: 64, fallback: 128, badObs: 256, badAction: 512, limited: 1024 };
const kind = { value: 1, cantTell: 2, undo: 3 };
const state = { open: 1, answered: 2, expired: 3 };
const applied = 1;

class Page {
  constructor(data) {
    this.data = data;
    this.paired = data.bucket > 1;
    this.points = data.starts.time.length;
    const join = (8 * data.bucket * data.period_ms) / 1e3;
    this.view = { time: data.starts.time, join, from: 0, to: 1, first: 0, last: -1 };
    this.cursor = 0;
    this.run = null; // the what-if that is shown
    this.series = {};
    for (const [name, values] of Object.entries(data.columns)) this.series[name] = values.length ? new Series(values, this.paired) : null;
    this.momentTimes = Float64Array.from(data.moments.pos, (pos) => this.timeOf(pos));
    const stride = data.moments.pos.length > 1 ? data.moments.pos[1] - data.moments.pos[0] : 1;
    this.momentJoin = (Math.max(2 * stride, 8 * data.bucket) * data.period_ms) / 1e3;
    this.spreads = this.meanSigma();
    this.marks = [...new Set(Array.from(data.labels.pos, (pos) => this.pointOf(pos)))];
    this.plots = [];
    this.zoomTo(-Infinity, Infinity);
  }

  pointOf(pos) { return Math.floor(pos / this.data.bucket); }
  timeOf(pos) { return this.view.time[this.pointOf(pos)]; }

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

  // draw draws everything, at most once a frame. Where only the cursor moved,
  // the curves are those of the frame before.
  draw() {
    if (this.drawing) return;
    this.drawing = true;
    requestAnimationFrame(() => {
      this.drawing = false;
      this.drawNow();
    });
  }

  // redraw draws the curves, too.
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
    this.tell();
  }

  // drawCurves draws a plot, or leaves it without a frame where it has no room: in a
  // hidden or collapsed page. A canvas without pixels cannot be copied.
  drawCurves(plot, colours) {
    const frame = new Frame(plot.canvas, plot.height, this.view, colours);
    plot.frame = plot.canvas.width && plot.canvas.height ? frame : null;
    if (!plot.frame) return;
    plot.draw(plot.frame, colours);
    Object.assign(plot.curves, { width: plot.canvas.width, height: plot.canvas.height });
    plot.curves.getContext("2d").drawImage(plot.canvas, 0, 0);
  }

  // momentBefore returns the newest moment of the belief at or before the
  // cursor, -1 where the belief is not known.
  momentBefore() {
    if (this.spansHere(this.data.gaps) !== null) return -1;
    const last = (this.cursor + 1) * this.data.bucket - 1;
    return lowerBound(this.data.moments.pos, last + 1) - 1;
  }

  drawBars(colours) {
    const { moments, d } = this.data, k = this.momentBefore();
    const { ctx, width, height } = prepare(byId("bars"), 210);
    byId("belief-when").textContent = "";
    byId("belief-text").textContent = "";
    if (k < 0) {
      byId("belief-text").textContent = "not known here";
      return;
    }
    const z = moments.z.subarray(k * d, (k + 1) * d), sigma = moments.sigma.subarray(k * d, (k + 1) * d);
    const other = this.run ? this.run.z.subarray(k * d, (k + 1) * d) : null;
    // Where σ is far above ẑ, the bars stay readable and the whiskers run off.
    let most = 1e-9, widest = 1e-9;
    for (let i = 0; i < d; i++) {
      most = Math.max(most, Math.abs(z[i]), other ? Math.abs(other[i]) : 0);
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
        ctx.fillRect(x - 0.5, zero - other[i] * unit - 1, bar + 1, 2);
      }
    }
    byId("belief-when").textContent = "after tick " + (this.data.first_tick + this.tickAt(moments.pos[k]));
    byId("belief-text").textContent = `‖ẑ‖ ${moments.norm[k].toFixed(4)}` + (this.spreads ? `, σ ${this.spreads[k].toFixed(4)} (rms over ${d} dimensions), below: σ of each` : "") +
      (other ? `; what if: ‖ẑ‖ ${this.run.norm[k].toFixed(4)} (purple)` : "");
  }

  tickAt(pos) { return this.data.starts.tick[this.pointOf(pos)]; }

  // tell writes what holds at the cursor.
  tell() {
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
      flags & flag.armed ? "armed" : "disarmed", flags & flag.gate && "gate open", flags & flag.replanned && "new z",
      flags & flag.fallback && "no plan: a seeded z", flags & flag.badObs && "bad observation", flags & flag.badAction && "bad action", flags & flag.limited && "action limited",
    ].filter(Boolean).join(", "));
    add("D-gap", read("dgap", ` nats (κ = ${data.config.kappa})`));
    add("φᵀẑ", this.series.estimate && !Number.isNaN(this.series.estimate.low(cursor)) ? `${read("estimate", "")} ± ${read("spread", "")}` : "not known");
    add("Reward", read("reward", ", the simulator's"));
    add("Label", this.labelsHere());
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
    const what = l.kind[i] === kind.value ? shortNumber(l.value[i]) : l.kind[i] === kind.undo ? "undo" : "can't tell";
    const how = l.outcome[i] === applied ? (l.asked[i] ? "asked" : "unasked") : l.words ? this.data.labels.words[l.outcome[i]] : "";
    return `${what} (${how}${l.about[i] >= 0 ? `, about tick ${this.data.first_tick + this.tickAt(l.about[i])}` : ""}${this.trustText(l.trust[i])})`;
  }

  // trustText says how much a label counted that might have been doubted.
  trustText(trust) {
    if (!(trust > 0)) return ""; // NaN, or undefined where labels are not doubted
    return `, counted ${trust.toFixed(2)}${trust < 0.995 ? ": it surprised the belief" : ""}`;
  }

  spansHere(spans) {
    const here = spans.filter((s) => this.pointOf(s.from) <= this.cursor && this.cursor <= this.pointOf(s.to));
    return here.length ? here.map((s) => s.text).join("; ") : null;
  }

  writeHash() {
    const parts = this.cursor > 0 ? ["t=" + this.view.time[this.cursor].toFixed(3)] : [];
    for (const [name, value] of Object.entries(this.params ?? {})) if (value !== null) parts.push(`${name}=${value}`);
    clearTimeout(this.hashing); // browsers limit how often
    this.hashing = setTimeout(() => {
      try {
        history.replaceState(null, "", "#" + parts.join("&"));
      } catch {
        // a page that was opened in a sandbox has no history: it needs none
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
  const dropped = (i) => page.run !== null && labels.row[i] >= 0 && labels.kind[i] === kind.value && !page.run.kept[labels.row[i]];
  const tint = (c, value) => (value > 0 ? c.green : value < 0 ? c.red : c.dim);
  const mostLabel = Math.max(1e-9, ...sampled(labels.value));
  const dense = labels.pos.length > 5000;
  const shadeGaps = (f, c) => data.gaps.forEach((g) => f.span(page.timeOf(g.from), page.timeOf(g.to), 0, f.height, c.warn));

  page.addPlot("Requests, labels, faults", [
    ["request, answered", "blue"], ["expired", "orange"], ["label above 0", "green"], ["below", "red"], ["what if: not asked for", "purple"], ["ring: undo, can't tell, refused", "dim"],
  ], 116, (f, c) => {
    const rows = { requests: 20, labels: 52, events: 88 };
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
      if (labels.outcome[i] !== applied || labels.kind[i] !== kind.value) {
        f.dot(labelTimes[i], rows.labels, 2.5, c.dim, true);
        continue;
      }
      const length = 3 + (13 * Math.abs(labels.value[i])) / mostLabel, up = labels.value[i] >= 0;
      f.span(labelTimes[i], labelTimes[i], up ? rows.labels - length : rows.labels, length, dropped(i) ? c.purple : tint(c, labels.value[i]));
    }
    data.faults.forEach((s) => f.span(page.timeOf(s.from), page.timeOf(s.to), rows.events - 8, 16, c.red));
    data.events.forEach((e) => f.dot(e.time, rows.events, 3.5, e.level === "error" ? c.red : e.level === "warn" ? c.orange : c.dim));
  });

  page.addPlot("D-gap, nats (log scale)", [["Δ(φ)", "blue"], ["κ", "orange"], ["what if", "purple"]], 140, (f, c) => {
    const kappa = page.params?.kappa ?? null;
    f.range([series.dgap], { include: [config.kappa, kappa ?? NaN], log: true });
    f.axes();
    f.line(series.dgap, c.blue);
    if (page.run?.dgap) f.line(new Series(page.run.dgap, false), c.purple, { dash: [4, 3] });
    if (config.gate_off) f.note("the gate was off: labels came unasked");
    else if (config.kappa > 0) f.level(config.kappa, c.orange, "κ = " + shortNumber(config.kappa));
    if (kappa > 0) f.level(kappa, c.purple, "what if κ = " + shortNumber(kappa));
  });

  const e = series.estimate, s = series.spread;
  page.addPlot("Reward", [["estimate φᵀẑ ± σ", "blue"], ["the simulator's", "dim"], ["label above 0", "green"], ["below", "red"], ["what if", "purple"]], 172, (f, c) => {
    f.range([e, series.reward].filter(Boolean), { include: sampled(labels.value) });
    f.axes();
    const lower = (i) => e.low(i) - s.high(i), upper = (i) => e.high(i) + s.high(i);
    f.band((i) => Math.max(lower(i), f.low), (i) => Math.min(upper(i), f.high), c.fill);
    if (series.reward) f.line(series.reward, c.dim, { width: 1 });
    f.line(e, c.blue);
    if (page.run?.estimate) f.line(new Series(page.run.estimate, false), c.purple, { dash: [4, 3] });
    for (let i = 0; i < aboutTimes.length; i++) {
      if (!Number.isNaN(aboutTimes[i])) f.dot(aboutTimes[i], f.y(labels.value[i]), dense ? 1.2 : 2.8, dropped(i) ? c.purple : tint(c, labels.value[i]), dropped(i));
    }
  });

  page.addPlot("Belief", [["‖ẑ‖", "blue"], ["σ, rms over its dimensions", "orange"], ["what if: ‖ẑ‖", "purple"]], 130, (f, c) => {
    const norms = data.moments.norm, curves = [new Series(norms, false)];
    if (page.spreads) curves.push(new Series(page.spreads, false));
    if (page.run) curves.push(new Series(page.run.norm, false));
    const inside = Object.create(f);
    inside.view = { ...page.view, first: 0, last: norms.length - 1 };
    Frame.prototype.range.call(inside, curves, { include: [0] });
    [f.low, f.high] = [inside.low, inside.high];
    shadeGaps(f, c);
    f.axes();
    if (!norms.length) f.note("the belief is not known: the log could not be replayed");
    const join = page.momentJoin;
    f.sparse(page.momentTimes, norms, c.blue, { join });
    if (page.spreads) f.sparse(page.momentTimes, page.spreads, c.orange, { join });
    if (page.run) f.sparse(page.momentTimes, page.run.norm, c.purple, { dash: [4, 3], join });
  });

  page.addPlot("z turned, degrees", [["angle to the z before", "blue"]], 84, (f, c) => {
    f.range([series.turn], { include: [0, 1] });
    f.axes();
    f.line(series.turn, c.blue, { width: 1 });
  });

  page.addPlot("Age of z, ticks", [["age", "blue"], ["limit: an older one halts the robot", "red"]], 84, (f, c) => {
    f.range([series.age], { include: [0, 2] });
    f.axes();
    f.line(series.age, c.blue);
    if (config.max_plan_age <= f.high) f.level(config.max_plan_age, c.red, "limit");
    else f.tag(`limit ${config.max_plan_age}`, c.dim, f.y1 + 7);
  });

  page.addPlot("Timing, ms (log scale)", [["lateness", "blue"], ["a tick takes", "orange"], ["skipped periods", "red"], ["period", "dim"]], series.late ? 124 : 60, (f, c) => {
    if (!series.late) {
      f.note("simulated time: nothing was timed");
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

// sampled returns the least and the greatest magnitude-bearing values, which is
// all that an axis needs of many.
function sampled(values) {
  let low = Infinity, high = -Infinity;
  for (const v of values) {
    low = Math.min(low, v);
    high = Math.max(high, v);
  }
  return low > high ? [] : [low, high, -low];
}

// --- what if ---

// sliders: from a position in [0, 1] to a value and back.
const logarithmic = (from, to) => ({
  value: (p) => 10 ** (from + p * (to - from)),
  position: (v) => (Math.log10(v) - from) / (to - from),
});
const withZero = (scale) => ({
  value: (p) => (p < 0.01 ? 0 : scale.value((p - 0.01) / 0.99)),
  position: (v) => (v > 0 ? 0.01 + 0.99 * scale.position(v) : 0),
});
const forgetting = (least) => ({
  value: (p) => (p > 0.99 ? 1 : 1 - 10 ** (Math.log10(1 - least) + (p / 0.99) * (-6 - Math.log10(1 - least)))),
  position: (v) => (v >= 1 ? 1 : 0.99 * ((Math.log10(1 - v) - Math.log10(1 - least)) / (-6 - Math.log10(1 - least)))),
});

class WhatIf {
  constructor(page) {
    this.page = page;
    this.data = page.data;
    this.params = { kappa: null, lambda: null, rho: null, beta: null };
    this.ticket = 0;
    const { config, d, study } = this.data;
    const leastRho = config.exact_restore || d === 1 ? 0.5 : 0.5 ** (1 / (d - 1)); // the belief needs more than that
    const costly = study.last_clock * d * d > 2e10;
    this.controls = [
      { name: "kappa", sign: "κ", was: config.kappa, min: 0, max: 1e3, scale: withZero(logarithmic(-3, 1)), title: "ask for a label where the D-gap is at least this, nats" },
      { name: "lambda", sign: "λ", was: config.lambda, min: 1e-9, max: 1e9, scale: logarithmic(-3, 3), off: study.warm, title: "the prior, V = λI" },
      { name: "rho", sign: "ρ", was: config.rho, min: leastRho, max: 1, scale: forgetting(leastRho), off: study.warm || costly, title: "forgetting: what a label weighs after one period" },
      { name: "beta", sign: "β", was: config.beta ?? 1, min: 0, max: 1e9, scale: withZero(logarithmic(-2, 2)), title: "weight of the uncertainty bonus: changes where the robot goes, not what it learns there" },
    ];
    this.note = [
      study.mode === "labels" && `Of this run ${study.why}, so a κ is answered only for the labels that the log holds: which of them would not have been asked for.`,
      study.mode === "nothing" && `Not computed here: ${study.why}. The command below may.`,
      study.warm && "The log starts with labels that it does not hold: λ and ρ cannot be changed.",
      costly && "ρ would take too long here.",
      study.missing > 0 && `${study.missing} periods are not in the log: this is approximate.`,
    ].filter(Boolean).join(" ");
    this.controls.forEach((control) => this.addSlider(control));
    byId("reset").addEventListener("click", () => this.reset());
    this.show();
  }

  addSlider(control) {
    const row = element("div", undefined, "slider"), label = element("label", control.sign);
    const range = element("input"), number = element("input");
    Object.assign(range, { type: "range", min: 0, max: 1000, step: 1, disabled: Boolean(control.off) });
    Object.assign(number, { type: "number", min: control.min, max: control.max, step: "any", disabled: Boolean(control.off) });
    range.id = "slide-" + control.name;
    number.id = "set-" + control.name;
    label.htmlFor = number.id;
    row.title = label.title = control.title;
    range.setAttribute("aria-label", control.title);
    range.addEventListener("input", () => this.set(control, +control.scale.value(range.value / 1000).toPrecision(control.name === "rho" ? 8 : 3)));
    number.addEventListener("change", () => this.set(control, number.valueAsNumber));
    row.append(label, range, number);
    byId("sliders").append(row);
    Object.assign(control, { row, range, number });
    this.place(control);
  }

  // place shows a control's value.
  place(control) {
    const value = this.params[control.name] ?? control.was;
    control.number.value = value;
    control.range.value = 1000 * Math.max(0, Math.min(1, control.scale.position(value)));
    control.row.classList.toggle("changed", this.params[control.name] !== null);
  }

  set(control, value) {
    if (control.off) return;
    const valid = value >= control.min && value <= control.max;
    if (valid) this.params[control.name] = value;
    this.place(control);
    if (valid) this.compute();
  }

  reset() {
    for (const control of this.controls) {
      this.params[control.name] = null;
      this.place(control);
    }
    this.compute();
  }

  // compute runs the what-if, a slice at a time; a newer one ends an older.
  compute() {
    const ticket = ++this.ticket, page = this.page;
    page.params = { ...this.params };
    const changed = Object.values(this.params).some((v) => v !== null);
    page.run = null;
    if (!changed || this.data.study.mode === "nothing") {
      this.show();
      page.redraw();
      return;
    }
    const run = new Run(this.data, { ...this.params }), work = run.work();
    const slice = () => {
      if (ticket !== this.ticket) return;
      const until = performance.now() + 25;
      while (performance.now() < until) {
        const step = work.next();
        if (step.done) {
          page.run = run.result;
          this.show();
          page.redraw();
          return;
        }
        this.progress = step.value;
      }
      byId("whatif-note").textContent = `computing, ${Math.round(100 * this.progress)} %`;
      setTimeout(slice);
    };
    slice();
  }

  show() {
    const { page, data } = this, r = page.run, { study } = data;
    byId("whatif-note").textContent = this.note;
    byId("command").textContent = ["optibfm replay", shellWord(data.name),
      ...this.controls.filter((c) => this.params[c.name] !== null).map((c) => `--${c.name} ${this.params[c.name]}`)].join(" ");
    const was = study.logged_z.length ? Math.sqrt(product(study.logged_z, study.logged_z, 0)) : NaN;
    const fixed = (v) => (Number.isFinite(v) ? v.toFixed(4) : "–");
    const gate = r && this.params.kappa !== null;
    const rows = [
      ["requests", study.logged_asked, gate ? (r.exact ? r.asked : `${r.asked} of the labels`) : null],
      ["– answered by a logged label", null, gate && r.exact ? r.byLabel : null],
      ["– by the simulator's reward", null, gate && r.exact ? r.byReward : null],
      ["– can't tell", null, gate && r.exact ? r.cantTell : null],
      ["– no answer in the log", null, gate && r.exact ? r.unanswered : null],
      ["labels that entered", this.enteredInRun(), r?.labels ?? null],
      ["– of them unasked", null, r?.unasked ?? null],
      ["‖ẑ‖ at the end", fixed(was), r ? fixed(r.finalNorm) : null],
      ["cosine to the run's ẑ", null, r ? fixed(r.cosine) : null],
      ["mean bonus β‖φ‖", fixed((data.config.beta ?? NaN) * (study.mean_spread ?? NaN)), r ? fixed(r.meanBonus) : null],
    ].filter(([, a, b]) => a !== null || b !== null);
    const head = element("tr");
    head.append(element("th", ""), element("th", "the run"), element("th", "what if"));
    byId("answers").replaceChildren(head, ...rows.map(([name, a, b]) => {
      const tr = element("tr");
      tr.append(element("th", name), element("td", a ?? ""), element("td", b ?? "", b !== null && String(a) !== String(b) ? "changed" : ""));
      return tr;
    }));
    byId("whatif").dataset.result = r ? resultText(r) : "";
  }

  enteredInRun() {
    let n = 0;
    for (let row = 0; row < this.data.study.labels.n; row++) n += this.data.study.labels.undoes[row] === -1 ? 1 : 0;
    return n;
  }

  // take applies parameters from the page's address.
  take(values) {
    for (const control of this.controls) {
      const value = values.get(control.name);
      if (value !== null && value !== "" && !control.off && +value >= control.min && +value <= control.max) {
        this.params[control.name] = +value;
        this.place(control);
      }
    }
    this.compute();
  }
}

const shellWord = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : "'" + text.replaceAll("'", "'\\''") + "'");

// resultText is a what-if's numbers as JSON, all their digits kept.
function resultText(r) {
  const { asked, byLabel, byReward, cantTell, unanswered, unasked, labels, exact } = r;
  return JSON.stringify({
    asked, byLabel, byReward, cantTell, unanswered, unasked, labels, exact,
    z: Array.from(r.finalZ), norm: r.finalNorm, cosine: r.cosine, meanBonus: r.meanBonus,
  });
}

// --- events ---

function listEvents(page) {
  const { data } = page, rows = [];
  const add = (pos, time, level, text) => rows.push({ pos, time, level, text });
  data.events.forEach((e) => add(e.pos, e.time, e.level, e.text + (e.fields ?? []).map(([k, v]) => `; ${k} = ${v}`).join("")));
  data.faults.forEach((f) => add(f.from, page.timeOf(f.from) ?? 0, "fault", f.text + (f.to > f.from ? `, for ${f.to - f.from + 1} ticks` : "")));
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
    "+": () => page.zoom(0.5), "=": () => page.zoom(0.5), "-": () => page.zoom(2), 0: () => page.showAll(),
  };
  document.addEventListener("keydown", (event) => {
    const busy = event.target instanceof HTMLInputElement && event.target.id !== "scrub";
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
  const whatIf = new WhatIf(page);
  const wanted = new URLSearchParams(location.hash.slice(1));
  const t = parseFloat(wanted.get("t") ?? "");
  if (t >= 0) page.cursor = Math.min(page.points - 1, lowerBound(page.view.time, t - 1e-6));
  whatIf.take(wanted);
  page.drawNow();
  addEventListener("resize", () => page.redraw());
  // A page that is shown or unfolded changes its width without that event.
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
