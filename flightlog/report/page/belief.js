// belief.js: the belief of package posterior, in the same order of operations.
// JavaScript's numbers are float64 and never fused, so what comes out agrees
// with the robot's to the last bits.

class Belief {
  constructor(d, lambda, rho, exact) {
    Object.assign(this, { d, lambda, rho, exact, rootRho: Math.sqrt(rho), cursor: 0 });
    this.floor = lambda;
    for (let i = 1; i < d && !exact; i++) this.floor *= rho;
    this.r = new Float64Array((d * (d + 1)) / 2); // upper triangle, row by row
    this.b = new Float64Array(d);
    this.prior = new Float64Array(d).fill(lambda);
    for (let k = 0, off = 0; k < d; off += d - k, k++) this.r[off] = Math.sqrt(lambda);
    this.x = new Float64Array(d);
    this.p = new Float64Array(d);
    this.z = new Float64Array(d);
    this.zKnown = false;
  }

  // restore sets what posterior.Belief.State wrote.
  restore(state) {
    const n = this.r.length, d = this.d;
    this.r.set(state.subarray(0, n));
    this.b.set(state.subarray(n, n + d));
    this.prior.set(state.subarray(n + d, n + 2 * d));
    this.cursor = state[n + 2 * d];
    this.zKnown = false;
  }

  // update takes a label in: V += w φφᵀ, b += w r φ; phi starts at off.
  update(phi, off, reward, weight) {
    const root = Math.sqrt(weight);
    for (let i = 0; i < this.d; i++) {
      this.x[i] = root * phi[off + i];
      this.b[i] += weight * reward * phi[off + i];
    }
    this.rotateIn(0);
    this.zKnown = false;
  }

  // rotateIn makes RᵀR + xxᵀ of RᵀR; the entries of x before start are zero.
  rotateIn(start) {
    const { d, r, x } = this;
    let off = start * d - (start * (start - 1)) / 2;
    for (let k = start; k < d; off += d - k, k++) {
      if (x[k] === 0) continue;
      const norm = Math.sqrt(r[off] * r[off] + x[k] * x[k]);
      const c = r[off] / norm, s = x[k] / norm;
      r[off] = norm;
      for (let j = k + 1, o = off + 1; j < d; j++, o++) {
        const a = r[o], b = x[j];
        r[o] = c * a + s * b;
        x[j] = c * b - s * a;
      }
    }
  }

  // downdate takes a label out: false where no such label can be in V.
  downdate(phi, off, reward, weight) {
    const { d, r, x, p } = this;
    const root = Math.sqrt(weight);
    let size = 0, taken = 0;
    for (let i = 0; i < d; i++) {
      p[i] = x[i] = root * phi[off + i];
      size += x[i] * x[i];
    }
    this.solveTransposed(p);
    for (let i = 0; i < d; i++) taken += p[i] * p[i];
    const rest = 1 - taken;
    if (!(rest > 2 ** -42 * d) || taken * this.floor > 1.01 * rest * size) return false;
    let alphaSq = rest, alpha = Math.sqrt(rest);
    for (let k = d - 1, at = r.length; k >= 0; k--) {
      at -= d - k;
      alphaSq += p[k] * p[k];
      const norm = Math.sqrt(alphaSq), c = alpha / norm, diagonal = c * r[at];
      if (!(diagonal * diagonal >= 0.5 * this.floor)) return false;
      x[k] = c;
      p[k] /= norm;
      alpha = norm;
    }
    for (let k = d - 1, at = r.length; k >= 0; k--) {
      at -= d - k;
      const c = x[k], s = p[k];
      x[k] = s * r[at];
      r[at] *= c;
      for (let j = k + 1, o = at + 1; j < d; j++, o++) {
        const a = r[o], b = x[j];
        r[o] = c * a - s * b;
        x[j] = c * b + s * a;
      }
    }
    for (let i = 0; i < d; i++) this.b[i] -= weight * reward * phi[off + i];
    this.zKnown = false;
    return true;
  }

  // forget lets one period elapse: labels lose weight, the prior stays.
  forget() {
    if (this.rho === 1) return;
    const { d, r, b, prior } = this;
    for (let i = 0; i < r.length; i++) r[i] *= this.rootRho;
    for (let i = 0; i < d; i++) {
      b[i] *= this.rho;
      prior[i] *= this.rho;
    }
    if (this.exact) {
      for (let i = 0; i < d; i++) this.bringBack(i);
    } else {
      this.bringBack(this.cursor);
      this.cursor = (this.cursor + 1) % d;
    }
    this.zKnown = false;
  }

  // bringBack makes the prior of direction i λ again.
  bringBack(i) {
    this.flush(i);
    this.x.fill(0);
    this.x[i] = Math.sqrt(this.lambda - this.prior[i]);
    this.prior[i] = this.lambda;
    this.rotateIn(i);
  }

  // flush sets to zero what has decayed to nothing in row i.
  flush(i) {
    const { d, r, b } = this;
    if (Math.abs(b[i]) < 1e-250) b[i] = 0;
    const off = i * d - (i * (i - 1)) / 2;
    for (let o = off; o < off + d - i; o++) if (Math.abs(r[o]) < 1e-250) r[o] = 0;
  }

  // solveTransposed does x ← R⁻ᵀx.
  solveTransposed(x) {
    const { d, r } = this;
    for (let k = 0, off = 0; k < d; off += d - k, k++) {
      const v = (x[k] /= r[off]);
      for (let j = k + 1, o = off + 1; j < d; j++, o++) x[j] -= v * r[o];
    }
  }

  // mean returns ẑ = V⁻¹b, in memory of the belief.
  mean() {
    if (this.zKnown) return this.z;
    const { d, r, z } = this;
    z.set(this.b);
    this.solveTransposed(z);
    for (let k = d - 1, off = r.length; k >= 0; k--) {
      off -= d - k;
      let s = z[k];
      for (let j = k + 1, o = off + 1; j < d; j++, o++) s -= r[o] * z[j];
      z[k] = s / r[off];
    }
    this.zKnown = true;
    return z;
  }

  // normSq returns ‖φ‖² in V⁻¹; phi starts at off.
  normSq(phi, off) {
    const x = this.x;
    for (let i = 0; i < this.d; i++) x[i] = phi[off + i];
    this.solveTransposed(x);
    let sum = 0;
    for (let i = 0; i < this.d; i++) sum += x[i] * x[i];
    return sum;
  }
}
