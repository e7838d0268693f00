// The newest pictures of the robot, and the canvases that show them.

const kept = 20000; // ms
const behind = 700; // ms to the next picture, at most, for a moment to be shown
const speed = 1000 / 15;

/** Pictures in the order of their times. A picture has size() -> [width, height] and draw(g, width, height). */
export class Film {
  shots = [];

  /** Adds a picture with its time, of performance.now(). */
  add(at, picture) {
    let i = this.shots.length;
    while (i > 0 && this.shots[i - 1].at > at) i--;
    this.shots.splice(i, 0, { at, picture });
    while (this.shots[0].at < at - kept) this.shots.shift();
  }

  newest() { return this.shots.at(-1); }

  /** The picture nearest to a time, or undefined. */
  near(at) {
    let best;
    for (const s of this.shots) if (!best || Math.abs(s.at - at) <= Math.abs(best.at - at)) best = s;
    return best && Math.abs(best.at - at) <= behind ? best : undefined;
  }
}

/** A JPEG picture. It is decoded when it is drawn: 20 s of bitmaps would take 100 MB. */
export class Photo {
  constructor(bytes) { this.blob = new Blob([bytes], { type: 'image/jpeg' }); }

  async draw(canvas) {
    const bitmap = await createImageBitmap(this.blob);
    fit(canvas, bitmap.width, bitmap.height);
    canvas.getContext('2d').drawImage(bitmap, 0, 0);
    bitmap.close();
  }
}

/** A robot in a square arena: x, y in [-1, 1], and the cosine and sine of its heading. */
export class Arena {
  constructor([x, y, cos, sin], trail) { Object.assign(this, { x, y, cos, sin, trail }); }

  async draw(canvas) {
    const side = 480, g = canvas.getContext('2d');
    fit(canvas, side, side);
    const css = getComputedStyle(document.documentElement), colour = (name) => css.getPropertyValue(name).trim();
    const to = (x, y) => [side * (0.5 + 0.46 * x), side * (0.5 - 0.46 * y)];
    g.fillStyle = colour('--panel');
    g.fillRect(0, 0, side, side);
    g.strokeStyle = colour('--line');
    g.lineWidth = 1;
    for (let i = -4; i <= 4; i++) {
      line(g, [to(i / 4, -1), to(i / 4, 1)]);
      line(g, [to(-1, i / 4), to(1, i / 4)]);
    }
    g.lineWidth = 3;
    g.strokeRect(...to(-1, 1), 0.92 * side, 0.92 * side);
    g.strokeStyle = colour('--blue');
    g.globalAlpha = 0.4;
    line(g, this.trail.map((p) => to(p.x, p.y)));
    g.globalAlpha = 1;
    const r = 0.045 * side, [px, py] = to(this.x, this.y);
    g.fillStyle = colour('--blue');
    g.beginPath();
    g.arc(px, py, r, 0, 7);
    g.fill();
    g.strokeStyle = colour('--ink');
    g.lineWidth = 4;
    line(g, [[px, py], [px + 1.6 * r * this.cos, py - 1.6 * r * this.sin]]);
    g.font = '15px system-ui, "DejaVu Sans", sans-serif';
    g.fillStyle = colour('--dim');
    g.textAlign = 'center';
    g.fillText('north', side / 2, 14);
  }
}

function fit(canvas, width, height) {
  if (canvas.width === width && canvas.height === height) return;
  canvas.width = width;
  canvas.height = height;
}

function line(g, points) {
  g.beginPath();
  for (const p of points) g.lineTo(...p);
  g.stroke();
}

/** Shows the newest picture of a film. */
export class Live {
  constructor(canvas, film) { Object.assign(this, { canvas, film, busy: false }); }

  async render() {
    const shot = this.film.newest();
    if (!shot || shot === this.shown || this.busy) return;
    this.busy = true;
    try {
      await shot.picture.draw(this.canvas);
      this.shown = shot;
    } catch { /* a damaged picture */ } finally { this.busy = false; }
  }
}

/** Repeats a stretch of a film, with a pause, and marks a moment of it. */
export class Loop {
  constructor(canvas, film, marked) { Object.assign(this, { canvas, film, marked }); }

  /** Shows the stretch from one time to another; returns whether the film has it. */
  show(from, to, mark) {
    if (!this.film.near(mark)) { this.stop(); return false; }
    if (this.mark === mark) return true;
    this.stop();
    this.mark = mark;
    const begin = performance.now(), pause = 400;
    let drawn;
    const step = async () => {
      const at = from + (performance.now() - begin) % (to - from + pause); // as fast as it was, also on a busy computer
      const shot = this.film.near(Math.min(at, to));
      if (!shot || shot === drawn) return;
      drawn = shot;
      try { await shot.picture.draw(this.canvas); } catch { return; }
      this.marked(Math.abs(shot.at - mark) <= Math.max(speed, Math.abs(this.film.near(mark)?.at - mark)));
    };
    this.timer = setInterval(step, speed);
    step();
    return true;
  }

  stop() {
    clearInterval(this.timer);
    this.timer = this.mark = undefined;
  }
}
