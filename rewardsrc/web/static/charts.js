// Small line charts on canvas. Each call draws the whole chart from its points.

const span = 60; // visible seconds

/** The points that the server sent at the start and since. */
export class History {
  constructor(points) { this.points = points ?? []; }

  /** Adds a view, unless it is not newer than the last. */
  add(v) {
    const last = this.points.at(-1);
    if (!v || v.elapsed_s === null || (last && v.elapsed_s <= last[0])) return;
    this.points.push([v.elapsed_s, v.dgap, v.estimate, v.reward, v.information, v.belief_norm, v.late_ms, v.labels, v.asked]);
    if (this.points.length > 600) this.points.splice(0, 150);
  }

  /** The visible points. */
  shown() {
    const end = this.points.at(-1)?.[0] ?? 0;
    return this.points.filter((p) => p[0] >= end - span);
  }
}

/** Draws lines over time: [{index, colour, width, fill}], with an optional limit and marks; root uses a square-root scale. */
export function draw(canvas, points, { lines, limit = null, zero = false, marks = null, root = false }) {
  const scale = window.devicePixelRatio || 1;
  const width = canvas.clientWidth, height = canvas.clientHeight;
  if (!width || !height) return;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  const g = canvas.getContext('2d');
  g.setTransform(scale, 0, 0, scale, 0, 0);
  g.clearRect(0, 0, width, height);
  const css = getComputedStyle(document.documentElement);
  const colour = (name) => css.getPropertyValue(name).trim();
  const [low, high] = range(points, lines, limit, zero);
  const left = 0, right = width - 44, top = 8, bottom = height - 14;
  const end = points.at(-1)?.[0] ?? span;
  const x = (t) => right - ((end - t) / span) * (right - left);
  const share = (v) => (root ? Math.sqrt(Math.max(0, (v - low) / (high - low))) : (v - low) / (high - low));
  const y = (v) => bottom - share(v) * (bottom - top);

  g.font = '11px system-ui, "DejaVu Sans", sans-serif';
  g.textBaseline = 'middle';
  g.lineWidth = 1;
  for (const v of [low, low + (high - low) * (root ? 0.25 : 0.5), high]) {
    g.strokeStyle = colour('--line');
    rule(g, left, right, y(v));
    g.fillStyle = colour('--dim');
    g.fillText(short(v), right + 5, y(v));
  }
  g.textBaseline = 'alphabetic';
  for (const ago of [45, 30, 15]) g.fillText(`−${ago} s`, x(end - ago) - 12, height - 2);
  g.save();
  g.beginPath();
  g.rect(left, 0, right - left, height);
  g.clip();
  for (const line of lines) trace(g, points, line, x, y, colour, bottom);
  if (limit !== null) {
    g.strokeStyle = colour('--amber');
    g.setLineDash([5, 4]);
    rule(g, left, right, y(limit));
    g.setLineDash([]);
  }
  if (marks) mark(g, points, marks, x, y, colour);
  g.restore();
}

function range(points, lines, limit, zero) {
  let low = zero ? 0 : Infinity, high = zero ? 0 : -Infinity;
  const take = (v) => { if (v !== null && v !== undefined) { low = Math.min(low, v); high = Math.max(high, v); } };
  for (const p of points) for (const line of lines) take(p[line.index]);
  if (limit !== null) take(limit);
  if (low > high) return [0, 1];
  const margin = Math.max((high - low) * 0.06, Math.abs(high) * 1e-3, 1e-9);
  return [zero && low >= 0 ? 0 : low - margin, high + margin];
}

function rule(g, from, to, y) {
  g.beginPath();
  g.moveTo(from, Math.round(y) + 0.5);
  g.lineTo(to, Math.round(y) + 0.5);
  g.stroke();
}

function trace(g, points, line, x, y, colour, bottom) {
  g.strokeStyle = colour(line.colour);
  g.lineWidth = line.width ?? 2;
  g.lineJoin = 'round';
  g.beginPath();
  let pen = false, first = 0, last = 0;
  for (const p of points) {
    const v = p[line.index];
    if (v === null) { pen = false; continue; }
    if (pen) g.lineTo(x(p[0]), y(v)); else { g.moveTo(x(p[0]), y(v)); first = x(p[0]); }
    pen = true;
    last = x(p[0]);
  }
  g.stroke();
  if (!line.fill || !pen) return;
  g.lineTo(last, bottom);
  g.lineTo(first, bottom);
  g.globalAlpha = 0.16;
  g.fillStyle = colour(line.colour);
  g.fill();
  g.globalAlpha = 1;
}

// Marks the increments of a counter: a ring for a question, a dot for a label.
function mark(g, points, marks, x, y, colour) {
  for (let i = 1; i < points.length; i++) {
    for (const m of marks) {
      if (points[i][m.counter] <= points[i - 1][m.counter] || points[i][m.on] === null) continue;
      g.beginPath();
      g.arc(x(points[i][0]), y(points[i][m.on]), m.hollow ? 5 : 3, 0, 7);
      g.lineWidth = 1.5;
      g.strokeStyle = g.fillStyle = colour(m.colour);
      if (m.hollow) g.stroke(); else g.fill();
    }
  }
}

/** A number in about five characters. */
export function short(v) {
  if (v === null || v === undefined) return '–';
  const a = Math.abs(v);
  if (a >= 1e5) return v.toExponential(0).replace('e+', 'e');
  if (a >= 100) return v.toFixed(0);
  if (a >= 10) return v.toFixed(1);
  if (a >= 0.1) return v.toFixed(2);
  if (a < 5e-7) return '0';
  if (a >= 0.001) return v.toFixed(3);
  return v.toExponential(0);
}
