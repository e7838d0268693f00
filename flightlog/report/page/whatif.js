// whatif.js: what flightlog.WhatIf computes, from what the page holds.

// Gate is controller.Gate: it decides when a label is asked for.
class Gate {
  constructor(config, kappa, periodMS) {
    const ticks = (seconds, least) => Math.max(Math.ceil((seconds * 1e3) / periodMS - 1e-9), least);
    this.threshold = Math.expm1(kappa) / config.label_weight;
    this.timeout = ticks(config.timeout_s, 1);
    this.minute = ticks(60, 1);
    this.pauseMin = this.pause = ticks(config.backoff_s, 0);
    this.pauseMax = ticks(config.backoff_max_s, 0);
    this.limit = config.requests_per_minute;
    this.opened = [];
    this.notBefore = 0;
    this.open = null;
    this.lastID = 0;
  }

  // ask opens a request about a tick if the limits allow; null if not.
  ask(tick) {
    const n = this.opened.length;
    if (this.open !== null || tick < this.notBefore) return null;
    if (this.limit > 0 && n >= this.limit && tick - this.opened[n - this.limit] < this.minute) return null;
    this.open = { id: ++this.lastID, until: tick + this.timeout };
    this.opened.push(tick);
    return this.open.id;
  }

  expire(tick) {
    if (this.open === null || tick < this.open.until) return;
    this.notBefore = tick + this.pause;
    this.pause = Math.min(2 * this.pause, this.pauseMax);
    this.open = null;
  }

  answer(id) {
    if (this.lastID - id >= 16) return; // the gate remembers so many
    this.pause = this.pauseMin;
    this.notBefore = 0;
    if (this.open !== null && this.open.id === id) this.open = null;
  }
}

// power returns rho to the power of age by repeated squaring, as the robot does.
function power(rho, age) {
  let result = 1, base = rho;
  for (; age > 0; age = Math.floor(age / 2)) {
    if (age % 2 === 1) result *= base;
    base *= base;
  }
  return result;
}

function cosine(x, y) {
  if (x.length !== y.length) return NaN;
  let xy = 0, xx = 0, yy = 0;
  for (let i = 0; i < x.length; i++) {
    xy += x[i] * y[i];
    xx += x[i] * x[i];
    yy += y[i] * y[i];
  }
  return xy / (Math.sqrt(xx) * Math.sqrt(yy));
}

// Run computes the belief again with other parameters: {kappa, lambda, rho,
// beta}, each null for the run's own. work() is a generator that yields now and
// then, so that the page stays alive; when it is done, result holds what Go's
// Answer does, and the curves to draw.
class Run {
  constructor(data, params) {
    const { config, study, d } = data;
    Object.assign(this, { data, study, d, config, params });
    this.rho = params.rho ?? config.rho;
    this.beta = params.beta ?? config.beta ?? NaN;
    this.belief = new Belief(d, params.lambda ?? config.lambda, this.rho, config.exact_restore);
    if (study.warm) this.belief.restore(study.start);
    this.gate = params.kappa === null ? null : new Gate(config, params.kappa, data.period_ms);
    this.entered = new Map(); // label row: {clock, weight}, of those that count
    this.clock = 0;
    const moments = data.moments.pos.length;
    this.result = {
      asked: 0, byLabel: 0, byReward: 0, cantTell: 0, unasked: 0, labels: 0, meanBonus: NaN, exact: true,
      kept: new Uint8Array(study.labels.n), // rows that entered
      norm: new Float64Array(moments).fill(NaN),
      z: new Float32Array(moments * d).fill(NaN),
      dgap: null, estimate: null, // a tick each, in mode "everything"
    };
    this.nextMoment = 0;
  }

  *work() {
    if (this.study.mode === "everything") yield* this.everyTick();
    else yield* this.labelsOnly();
    this.finish();
  }

  // advance lets periods pass until the clock shows so many.
  advance(clock) {
    if (this.rho !== 1) for (; this.clock < clock; this.clock++) this.belief.forget();
    this.clock = clock;
  }

  // enter applies a labelled φ of a given age.
  enter(phi, off, value, confidence, age, row) {
    const weight = confidence * this.config.label_weight * power(this.rho, age) * this.trust(phi, off, value);
    if (!(weight > 0)) return;
    this.belief.update(phi, off, value, weight);
    this.result.labels++;
    if (row >= 0) {
      this.result.kept[row] = 1;
      this.entered.set(row, { clock: this.clock, weight });
    }
  }

  // trust is the share of its weight that a label deserves, as on the robot.
  trust(phi, off, value) {
    const { robust, label_weight } = this.config;
    if (robust === 0) return 1;
    const spread = 1 + label_weight * this.belief.normSq(phi, off);
    const surprise = Math.abs((value - product(this.belief.mean(), phi, off)) / Math.sqrt(spread));
    return surprise <= robust ? 1 : Math.max(robust / surprise, 1e-12);
  }

  enterRow(row) {
    const l = this.study.labels;
    if (l.known[row]) this.enter(l.phi, row * this.d, l.value[row], l.confidence[row], l.age[row], row);
  }

  // takeBack undoes the label of a row, with the weight that it has by now.
  takeBack(row) {
    const e = this.entered.get(row);
    if (!e) return;
    const l = this.study.labels;
    const weight = e.weight * power(this.rho, this.clock - e.clock);
    if (weight > 0 && this.belief.downdate(l.phi, row * this.d, l.value[row], weight)) this.entered.delete(row);
  }

  // replayRow applies what the run applied, as it came.
  replayRow(row) {
    const l = this.study.labels;
    if (l.undoes[row] !== -1) {
      this.takeBack(l.undoes[row]);
      return;
    }
    if (l.unasked[row]) this.result.unasked++;
    this.enterRow(row);
  }

  *everyTick() {
    const { study, gate, belief, result, data } = this;
    const t = study.ticks, l = study.labels, n = data.n;
    const known = new Map(), cantTell = new Set(study.answers.cant_tell), pending = new Map();
    study.answers.pos.forEach((pos, i) => known.set(pos, study.answers.row[i]));
    result.dgap = new Float32Array(n).fill(NaN);
    result.estimate = new Float32Array(n).fill(NaN);
    let row = 0, bonus = 0, scored = 0;
    const ask = (pos) => {
      const id = gate.ask(t.index[pos]);
      if (id === null) return;
      result.asked++;
      const answer = known.get(pos);
      if (answer !== undefined) {
        result.byLabel++;
        const at = Math.max(l.pos[answer], pos);
        if (!pending.has(at)) pending.set(at, []);
        pending.get(at).push({ row: answer, id, clock: t.clock[pos] });
      } else if (cantTell.has(pos)) {
        result.cantTell++;
        gate.answer(id);
      } else if (t.flags[pos] & 4) {
        result.byReward++;
        this.enter(t.phi, pos * this.d, t.reward[pos], 1, 0, -1);
        gate.answer(id);
      }
    };
    for (let pos = 0; pos < n; pos++) {
      const bad = t.flags[pos] & 2, off = pos * this.d;
      if (!bad) result.estimate[pos] = product(belief.mean(), t.phi, off);
      this.advance(t.clock[pos]);
      if (gate) gate.expire(t.index[pos]);
      if (!bad) {
        const normSq = belief.normSq(t.phi, off);
        bonus += this.beta * Math.sqrt(normSq);
        scored++;
        result.dgap[pos] = Math.log1p(this.config.label_weight * normSq);
        if (gate && t.flags[pos] & 1 && normSq >= gate.threshold) ask(pos);
      }
      for (const a of pending.get(pos) ?? []) {
        this.enter(l.phi, a.row * this.d, l.value[a.row], l.confidence[a.row], this.clock - a.clock, a.row);
        gate.answer(a.id);
      }
      for (; row < l.n && l.pos[row] === pos; row++) {
        if (!gate) this.replayRow(row);
        else if (l.undoes[row] === -1 && l.volunteered[row] && !l.undone[row]) this.replayRow(row);
      }
      this.remember(pos);
      if (pos % 64 === 63) yield pos / n;
    }
    result.meanBonus = scored > 0 ? bonus / scored : NaN;
  }

  // labelsOnly goes from label to label. A κ is answered for the labels that
  // the log holds: those below it would not have been asked for.
  *labelsOnly() {
    const { study, gate, belief, result, data } = this;
    const l = study.labels, moments = data.moments.pos;
    result.exact = gate === null;
    for (let row = 0; row < l.n; row++) {
      yield* this.rememberUntil(l.pos[row], moments);
      yield* this.advanceSlowly(l.clock[row]);
      if (!gate) this.replayRow(row);
      else if (l.undoes[row] === -1 && !l.undone[row]) {
        if (l.volunteered[row]) this.replayRow(row);
        else if (belief.normSq(l.phi, row * this.d) >= gate.threshold) {
          result.asked++;
          result.byLabel++;
          this.enterRow(row);
        }
      }
      if (row % 64 === 63) yield row / l.n;
    }
    yield* this.rememberUntil(Infinity, moments);
    yield* this.advanceSlowly(study.last_clock);
    if (this.params.lambda === null && this.params.rho === null && gate === null) result.meanBonus = this.beta * study.mean_spread;
  }

  *advanceSlowly(clock) {
    while (this.clock < clock) {
      this.advance(this.rho === 1 ? clock : Math.min(clock, this.clock + 64));
      yield this.clock / this.study.last_clock;
    }
  }

  *rememberUntil(pos, moments) {
    while (this.nextMoment < moments.length && moments[this.nextMoment] < pos) {
      yield* this.advanceSlowly(this.data.moments.clock[this.nextMoment]);
      this.remember(moments[this.nextMoment]);
    }
  }

  // remember keeps ẑ if the belief is shown after this tick.
  remember(pos) {
    if (this.data.moments.pos[this.nextMoment] !== pos) return;
    const z = this.belief.mean();
    this.result.norm[this.nextMoment] = Math.sqrt(product(z, z, 0));
    this.result.z.set(z, this.nextMoment * this.d);
    this.nextMoment++;
  }

  finish() {
    const r = this.result;
    r.unanswered = r.asked - r.byLabel - r.byReward - r.cantTell;
    r.finalZ = Float64Array.from(this.belief.mean());
    r.finalNorm = Math.sqrt(product(r.finalZ, r.finalZ, 0));
    r.cosine = cosine(r.finalZ, this.study.logged_z);
  }
}

// product returns xᵀy, y starting at off.
function product(x, y, off) {
  let sum = 0;
  for (let i = 0; i < x.length; i++) sum += x[i] * y[off + i];
  return sum;
}
