// scene.js: the robot at the cursor: its picture, its path and its channels.

class Scene {
  constructor(page) {
    this.page = page;
    const { channels, pictures } = page.data;
    this.rows = channels.names.length ? channels.values.length / channels.names.length : 0;
    const column = (name) => channels.names.indexOf(name);
    this.pose = ["x", "y", "heading_cos", "heading_sin"].map(column);
    if (this.pose.includes(-1) || !this.rows) this.pose = null;
    this.shown = null; // picture on the canvas
    const { time } = pictures, mean = time.length > 1 ? (time[time.length - 1] - time[0]) / (time.length - 1) : 0;
    this.far = Math.max(1, 2 * mean); // s; a picture farther from the cursor is not shown
    byId("picture-part").hidden = !pictures.jpeg.length;
    byId("path-part").hidden = !this.pose;
    byId("scene").hidden = !pictures.jpeg.length && !this.pose;
    byId("channels-part").hidden = !this.rows;
    byId("channels-note").textContent = channels.every > 1 ? `of one in ${channels.every} ticks` : "";
    this.listChannels();
    byId("path").addEventListener("pointerdown", (event) => this.pick(event));
  }

  draw(colours) {
    if (!this.page.points) return;
    this.showPicture();
    if (this.pose) this.drawPath(colours);
    this.showChannels();
  }

  // --- the picture ---

  // nearest returns the index of the picture nearest to a time, -1 if all are too far.
  nearest(time) {
    const times = this.page.data.pictures.time, after = lowerBound(times, time);
    const away = (i) => Math.abs(times[i] - time);
    const best = after > 0 && !(away(after) < away(after - 1)) ? after - 1 : after;
    return away(best) <= this.far ? best : -1;
  }

  async showPicture() {
    const { pictures } = this.page.data, at = this.page.view.time[this.page.cursor], i = this.nearest(at);
    if (!pictures.jpeg.length || i === this.shown) return;
    this.shown = i;
    const canvas = byId("robot"), note = (text) => { byId("picture-note").textContent = text; };
    const blank = (text) => {
      canvas.getContext("2d").clearRect(0, 0, canvas.width, canvas.height);
      note(text);
    };
    if (i < 0) return blank("none here");
    try {
      const bitmap = await createImageBitmap(new Blob([bytesFromBase64(pictures.jpeg[i])], { type: "image/jpeg" }));
      if (i !== this.shown) return; // the cursor moved on
      Object.assign(canvas, { width: bitmap.width, height: bitmap.height });
      canvas.getContext("2d").drawImage(bitmap, 0, 0);
      bitmap.close();
      note(`of ${pictures.time[i].toFixed(3)} s`);
    } catch {
      if (i === this.shown) blank("damaged");
    }
  }

  // --- the path ---

  value(row, column) { return this.page.data.channels.values[row * this.page.data.channels.names.length + column]; }
  rowOf(pos) { return Math.min(this.rows - 1, Math.floor(pos / this.page.data.channels.every)); }
  rowAt(point) { return this.rowOf(point * this.page.data.bucket); }

  // place returns the pixel of a row's position, or null.
  place(row) {
    const x = this.value(row, this.pose[0]), y = this.value(row, this.pose[1]);
    return Number.isFinite(x) && Number.isFinite(y) ? [this.left + x * this.scale, this.bottom - y * this.scale] : null;
  }

  // fit chooses the scale so that the whole path fits.
  fit(width, height) {
    const [xs, ys] = [0, 1].map((k) => {
      let low = Infinity, high = -Infinity;
      for (let row = 0; row < this.rows; row++) {
        const v = this.value(row, this.pose[k]);
        if (Number.isFinite(v)) [low, high] = [Math.min(low, v), Math.max(high, v)];
      }
      return low > high ? [0, 1] : [low, high];
    });
    const air = 28, span = ([low, high]) => Math.max(high - low, 1e-6);
    this.scale = Math.min((width - air) / span(xs), (height - air) / span(ys));
    this.left = width / 2 - (this.scale * (xs[0] + xs[1])) / 2;
    this.bottom = height / 2 + (this.scale * (ys[0] + ys[1])) / 2;
  }

  // drawPath draws the path, the visible range in blue, its labels, and the robot.
  drawPath(c) {
    const { page } = this, { data, view } = page;
    const { ctx, width, height } = prepare(byId("path"), 240);
    if (this.fitted !== width) this.fit(width, height);
    this.fitted = width;
    const starts = new Set(Array.from(data.episodes, (pos) => this.rowOf(pos)));
    const stroke = (from, to, colour) => {
      ctx.strokeStyle = colour;
      ctx.lineWidth = 1.2;
      ctx.beginPath();
      let pen = false;
      for (let row = from; row <= to; row++) {
        const at = this.place(row);
        if (starts.has(row)) pen = false;
        if (at && pen) ctx.lineTo(...at);
        else if (at) ctx.moveTo(...at);
        pen = at !== null;
      }
      ctx.stroke();
    };
    const first = this.rowAt(Math.max(0, view.first)), last = this.rowAt(view.last);
    stroke(0, this.rows - 1, c.line);
    stroke(first, last, c.blue);
    const dot = (row, radius, colour) => {
      const at = this.place(row);
      if (!at || row < first || row > last) return;
      ctx.beginPath();
      ctx.arc(...at, radius, 0, 2 * Math.PI);
      ctx.fillStyle = colour;
      ctx.fill();
    };
    const { labels } = data, advantage = advantages(labels, data.config.middle), radius = labels.pos.length > 500 ? 1.5 : 3;
    for (let i = 0; i < labels.pos.length; i++) {
      if (labels.about[i] >= 0 && labels.outcome[i] === applied && teaching.includes(labels.kind[i])) {
        dot(this.rowOf(labels.about[i]), radius, colourOf(c, advantage[i]));
      }
    }
    for (const row of page.labels.rows.values()) dot(this.rowAt(row.point), 5, page.labels.colourOf(c, row));
    this.drawRobot(ctx, c);
  }

  drawRobot(ctx, c) {
    const row = this.rowAt(this.page.cursor), at = this.place(row);
    if (!at) return;
    const heading = Math.atan2(this.value(row, this.pose[3]), this.value(row, this.pose[2]));
    ctx.save();
    ctx.translate(...at);
    ctx.rotate(-heading); // y points up
    ctx.beginPath();
    [[11, 0], [-7, 6], [-4, 0], [-7, -6]].forEach((corner) => ctx.lineTo(...corner));
    ctx.closePath();
    ctx.fillStyle = c.orange;
    ctx.strokeStyle = c.paper;
    ctx.fill();
    ctx.stroke();
    ctx.restore();
  }

  // pick moves the cursor to the visible moment whose position is nearest to a press.
  pick(event) {
    const { page } = this, { view } = page;
    let best = Infinity, point = page.cursor;
    for (let p = Math.max(0, view.first); p <= view.last; p++) {
      const at = this.place(this.rowAt(p));
      const away = at ? Math.hypot(at[0] - event.offsetX, at[1] - event.offsetY) : Infinity;
      if (away < best) [best, point] = [away, p];
    }
    page.moveTo(point);
  }

  // --- the channels ---

  listChannels() {
    const { names, units } = this.page.data.channels;
    this.cells = names.map((name, i) => {
      const div = element("div"), value = element("dd");
      div.append(element("dt", name), value);
      byId("channels").append(div);
      return (v) => { value.textContent = `${Number.isFinite(v) ? v.toFixed(3) : "invalid"} ${units[i]}`; };
    });
  }

  showChannels() {
    const row = this.rowAt(this.page.cursor);
    this.cells.forEach((show, i) => show(this.value(row, i)));
  }
}
