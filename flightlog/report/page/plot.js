// plot.js: curves over time on a canvas.

const gutter = { left: 58, right: 10, top: 6, bottom: 18 };

// palette reads the colours of the style sheet. They depend on the light or dark theme.
function palette() {
  const style = getComputedStyle(document.documentElement);
  const colours = {};
  for (const name of ["paper", "ink", "dim", "line", "blue", "orange", "green", "red", "purple", "fill", "warn", "bad"]) {
    colours[name] = style.getPropertyValue("--" + name).trim();
  }
  return colours;
}

// prepare sets the size of a canvas in pixels and clears it.
function prepare(canvas, height) {
  const scale = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.height = height + "px";
  const ctx = canvas.getContext("2d");
  ctx.setTransform(scale, 0, 0, scale, 0, 0);
  ctx.clearRect(0, 0, width, height);
  ctx.font = "11px system-ui, sans-serif";
  return { ctx, width, height };
}

// niceSteps returns about count round numbers from low to high.
function niceSteps(low, high, count) {
  const span = high - low;
  if (!(span > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(span / count));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => span / s <= count) ?? 10 * power;
  const out = [];
  for (let v = Math.ceil(low / step) * step; v <= high + step * 1e-9; v += step) out.push(Math.abs(v) < step * 1e-9 ? 0 : v);
  return out;
}

const shortNumber = (v) => (v !== 0 && (Math.abs(v) >= 1e5 || Math.abs(v) < 1e-3) ? v.toExponential(0) : String(+v.toPrecision(4)));

// Series holds the least and the greatest value of each point.
class Series {
  constructor(values, paired) {
    this.values = values;
    this.paired = paired;
  }
  low(i) { return this.values[this.paired ? 2 * i : i]; }
  high(i) { return this.values[this.paired ? 2 * i + 1 : i]; }
}

// Frame maps times and values of one plot to pixels and draws into it.
class Frame {
  constructor(canvas, height, view, colours) {
    Object.assign(this, prepare(canvas, height), { view, colours });
    this.x0 = gutter.left;
    this.x1 = this.width - gutter.right;
    this.y0 = height - gutter.bottom;
    this.y1 = gutter.top;
    this.log = false;
  }

  x(time) {
    const { from, to } = this.view;
    return this.x0 + ((time - from) / (to - from)) * (this.x1 - this.x0);
  }

  y(value) {
    const v = this.log ? Math.log10(Math.max(value, 10 ** this.low)) : value;
    return this.y0 + ((v - this.low) / (this.high - this.low)) * (this.y1 - this.y0);
  }

  // range sets the value axis so that it holds the visible values and those in include.
  range(series, { include = [], log = false } = {}) {
    let low = Infinity, high = -Infinity;
    const take = (v) => {
      if (!Number.isFinite(v) || (log && v <= 0)) return;
      low = Math.min(low, v);
      high = Math.max(high, v);
    };
    include.forEach(take);
    for (const s of series) {
      for (let i = this.view.first; i <= this.view.last; i++) {
        take(s.low(i));
        take(s.high(i));
      }
    }
    if (low > high) [low, high] = log ? [0.1, 1] : [0, 1];
    this.log = log;
    if (log) {
      low = Math.floor(Math.log10(Math.max(low, high / 1e5)) * 2) / 2;
      high = Math.ceil(Math.log10(high) * 2 + 1e-9) / 2;
    }
    if (low === high) high = low + 1;
    const air = log ? 0 : 0.06 * (high - low);
    this.low = low - (low === 0 ? 0 : air);
    this.high = high + air;
  }

  axes() {
    const { ctx, colours } = this;
    ctx.lineWidth = 1;
    ctx.textAlign = "right";
    ctx.textBaseline = "middle";
    const steps = this.log
      ? niceSteps(this.low, this.high, 4).filter(Number.isInteger).map((e) => 10 ** e)
      : niceSteps(this.low, this.high, 4);
    for (const v of steps) {
      const y = Math.round(this.y(v)) + 0.5;
      this.rule(this.x0, y, this.x1, y, colours.line);
      ctx.fillStyle = colours.dim;
      ctx.fillText(shortNumber(v), this.x0 - 6, y);
    }
    this.verticals();
  }

  // verticals draws the time axis, in seconds.
  verticals() {
    const { ctx, colours, view } = this;
    ctx.fillStyle = colours.dim;
    ctx.textAlign = "center";
    ctx.textBaseline = "top";
    for (const t of niceSteps(view.from, view.to, Math.max(2, (this.x1 - this.x0) / 90))) {
      const x = Math.round(this.x(t)) + 0.5;
      this.rule(x, this.y1, x, this.y0, colours.line);
      ctx.fillText(+t.toPrecision(7) + " s", Math.min(x, this.x1 - 12), this.y0 + 4);
    }
  }

  rule(xa, ya, xb, yb, colour, dash = []) {
    const ctx = this.ctx;
    ctx.strokeStyle = colour;
    ctx.setLineDash(dash);
    ctx.beginPath();
    ctx.moveTo(xa, ya);
    ctx.lineTo(xb, yb);
    ctx.stroke();
    ctx.setLineDash([]);
  }

  level(value, colour, text) {
    const y = this.y(value);
    this.rule(this.x0, y, this.x1, y, colour, [6, 4]);
    this.tag(text, colour, y - this.y1 < 16 ? y + 9 : y - 9);
  }

  // tag writes a text at the right edge, on a background that hides curves.
  tag(text, colour, y) {
    const ctx = this.ctx, width = ctx.measureText(text).width;
    ctx.fillStyle = this.colours.paper;
    ctx.fillRect(this.x1 - width - 6, y - 7, width + 6, 14);
    ctx.fillStyle = colour;
    ctx.textAlign = "right";
    ctx.textBaseline = "middle";
    ctx.fillText(text, this.x1 - 3, y);
  }

  // line draws a series. If several points share a pixel, it draws from the least to
  // the greatest of them. It does not join points that are more than join seconds apart.
  line(series, colour, { dash = [], width = 1.3, time = this.view.time, join = this.view.join } = {}) {
    const { ctx, view } = this;
    this.clip();
    ctx.strokeStyle = colour;
    ctx.lineWidth = width;
    ctx.setLineDash(dash);
    ctx.beginPath();
    let pen = false, column = NaN, low = 0, high = 0;
    const flush = () => {
      if (Number.isNaN(column)) return;
      if (!pen) ctx.moveTo(column, this.y(low));
      ctx.lineTo(column, this.y(low));
      if (high !== low) ctx.lineTo(column, this.y(high));
      pen = true;
      column = NaN;
    };
    for (let i = Math.max(0, view.first - 1); i <= Math.min(view.last + 1, time.length - 1); i++) {
      const a = series.low(i), b = series.high(i);
      if (Number.isNaN(a) || time[i] - time[i - 1] > join) {
        flush();
        pen = false;
      }
      if (Number.isNaN(a)) continue;
      const x = Math.round(this.x(time[i]) * 2) / 2;
      if (x !== column) {
        flush();
        [column, low, high] = [x, a, b];
      } else {
        low = Math.min(low, a);
        high = Math.max(high, b);
      }
    }
    flush();
    ctx.stroke();
    ctx.setLineDash([]);
    ctx.restore();
  }

  // sparse draws a series with other times than those of the view.
  sparse(times, series, colour, options) {
    const [first, last] = [lowerBound(times, this.view.from), lowerBound(times, this.view.to)];
    const sub = Object.create(this);
    sub.view = { ...this.view, first, last: Math.min(last, times.length - 1) };
    Frame.prototype.line.call(sub, series, colour, { ...options, time: times });
  }

  // band fills the area between two functions of a point.
  band(lower, upper, colour) {
    const { ctx, view } = this;
    const step = Math.max(1, Math.floor((view.last - view.first) / (2 * (this.x1 - this.x0))));
    this.clip();
    ctx.fillStyle = colour;
    let run = [];
    const flush = () => {
      if (run.length > 1) {
        ctx.beginPath();
        run.forEach((i) => ctx.lineTo(this.x(view.time[i]), this.y(upper(i))));
        run.reverse().forEach((i) => ctx.lineTo(this.x(view.time[i]), this.y(lower(i))));
        ctx.fill();
      }
      run = [];
    };
    for (let i = view.first; i <= view.last; i += step) {
      if (Number.isNaN(upper(i)) || view.time[i] - view.time[i - step] > view.join * step) flush();
      if (!Number.isNaN(upper(i))) run.push(i);
    }
    flush();
    ctx.restore();
  }

  // span fills a rectangle between two times.
  span(fromTime, toTime, y, height, colour) {
    const a = Math.max(this.x(fromTime), this.x0), b = Math.min(this.x(toTime), this.x1);
    if (b < this.x0 || a > this.x1) return;
    this.ctx.fillStyle = colour;
    this.ctx.fillRect(a, y, Math.max(b - a, 1.5), height);
  }

  dot(time, y, radius, colour, hollow) {
    const x = this.x(time), ctx = this.ctx;
    if (x < this.x0 - 3 || x > this.x1 + 3) return;
    if (radius < 2) { // many dots: squares are faster
      ctx.fillStyle = colour;
      ctx.fillRect(x - radius, y - radius, 2 * radius, 2 * radius);
      return;
    }
    ctx.beginPath();
    ctx.arc(x, y, radius, 0, 2 * Math.PI);
    if (hollow) {
      ctx.strokeStyle = colour;
      ctx.lineWidth = 1.2;
      ctx.stroke();
      return;
    }
    ctx.fillStyle = colour;
    ctx.fill();
  }

  diamond(time, y, colour, hollow) {
    const x = this.x(time), ctx = this.ctx, radius = 5;
    if (x < this.x0 - radius || x > this.x1 + radius) return;
    ctx.beginPath();
    ctx.moveTo(x, y - radius);
    ctx.lineTo(x + radius, y);
    ctx.lineTo(x, y + radius);
    ctx.lineTo(x - radius, y);
    ctx.closePath();
    ctx.fillStyle = hollow ? this.colours.paper : colour;
    ctx.fill();
    ctx.strokeStyle = hollow ? colour : this.colours.paper;
    ctx.lineWidth = 1.2;
    ctx.stroke();
  }

  cursor(time) {
    const x = Math.round(this.x(time)) + 0.5;
    if (x < this.x0 || x > this.x1 + 1) return;
    this.ctx.lineWidth = 1;
    this.rule(x, 0, x, this.y0, this.colours.ink);
  }

  note(text) {
    this.ctx.fillStyle = this.colours.dim;
    this.ctx.textAlign = "center";
    this.ctx.textBaseline = "middle";
    this.ctx.fillText(text, (this.x0 + this.x1) / 2, this.height / 2);
  }

  clip() {
    this.ctx.save();
    this.ctx.beginPath();
    this.ctx.rect(this.x0, 0, this.x1 - this.x0, this.height);
    this.ctx.clip();
  }
}

// lowerBound returns the first index of a value that is not below x.
function lowerBound(values, x) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < x) low = middle + 1;
    else high = middle;
  }
  return low;
}
