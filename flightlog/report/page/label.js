// label.js: the labels that a person gives in this page, and the file of them for `optibfm log label`.

// momentsFile returns a file of moments: CSV with a row for each label.
function momentsFile(rows) {
  const fixed = (v) => (v === null ? "" : v.toFixed(3));
  const lines = rows.map((r) => [
    r.time.toFixed(3), r.tick, fixed(r.gain), fixed(r.expected), "s" + r.state.toString(16).padStart(8, "0"), r.label,
  ].join(","));
  return ["time_s,tick,gain_nats,expected,state,label", ...lines, ""].join("\n");
}

// momentsName returns the name of the file for a log. A shell and a browser leave it as it is.
function momentsName(log) {
  const base = log.split(/[\\/]/).pop().replace(/\.mcap$/, "").replace(/[^\w.-]+/g, "_").replace(/^[-.]+/, "");
  return (base.slice(0, 80) || "log") + "-moments.csv";
}

class LabelPanel {
  constructor(page) {
    this.page = page;
    this.given = page.data.given;
    this.rows = new Map(); // moments with a label, by tick
    this.proposed = [];
    this.keys = {};
    this.enabled = this.given !== null && !this.given.refused;
    byId("label").hidden = this.given === null;
    byId("label-tools").hidden = !this.enabled;
    if (!this.enabled) {
      if (this.given) byId("label-note").textContent = `Not possible: ${this.given.refused}.`;
      return;
    }
    this.proposed = this.given.proposed.map((p) => ({ ...p, point: page.pointOf(p.pos) }));
    this.addProposed();
    this.addKeys();
    byId("save-labels").addEventListener("click", () => this.save());
    const { name } = page.data;
    byId("label-command").textContent = ["optibfm log label", shellWord(name.startsWith("-") ? "./" + name : name),
      "--labels", momentsName(name), "--save NAME --config CONFIG"].join(" ");
    this.restore();
    this.list();
  }

  // addProposed adds a button for each proposed moment.
  addProposed() {
    byId("label-note").textContent = "Moments whose labels teach most, best first:";
    for (const m of this.proposed) {
      m.button = element("button");
      m.button.type = "button";
      m.button.title = [`tick ${m.tick}`, m.gain === null ? "" : `D-gap ${shortNumber(m.gain)} nats`,
        m.expected === null ? "" : `expected label ${m.expected.toFixed(2)}`].filter(Boolean).join(", ");
      m.button.addEventListener("click", () => this.page.moveTo(m.point));
      byId("proposed").append(m.button);
    }
  }

  // addKeys adds a button and a key for each label.
  addKeys() {
    const { good, bad, neutral } = this.given;
    const number = (v) => String(+v.toPrecision(12));
    this.buttons = [];
    const add = (group, text, title, label, ...keys) => {
      const button = element("button", text);
      button.type = "button";
      button.title = title;
      button.addEventListener("click", () => this.give(label));
      byId(group).append(button);
      this.buttons.push(button);
      for (const key of keys) this.keys[key] = () => this.give(label);
    };
    add("label-signs", "+ good", "the good button (+)", "+", "+", "=");
    add("label-signs", "− bad", "the bad button (-)", "-", "-");
    add("label-signs", "clear", "no label (Delete)", "", "Delete", "Backspace");
    for (let k = 1; k <= 9; k++) {
      const label = number(bad + ((good - bad) * (k - 1)) / 8);
      add("label-digits", String(k), `label ${label} (${k})`, label, String(k));
    }
    add("label-digits", "0", `neither: label ${number(neutral)} (0)`, number(neutral), "0");
    this.keys.m = () => this.next();
  }

  // momentHere returns the moment at the cursor: one with a label, a proposed one, or the first tick of the point.
  momentHere() {
    const { cursor, data } = this.page;
    const known = [...this.rows.values(), ...this.proposed].find((m) => m.point === cursor);
    return known ?? this.momentAt(cursor, data.first_tick + data.starts.tick[cursor]);
  }

  momentAt(point, tick) {
    const { time, state } = this.page.data.starts;
    return { point, tick, time: time[point], state: state[point], gain: null, expected: null };
  }

  // refusal returns why a label about a moment does not count, "" if it counts. Proposed moments count.
  refusal(m) {
    const flags = this.page.data.starts.flags[m.point];
    if (m.button) return "";
    return flags & (flag.stopped | flag.starting | flag.resting) ? "the robot was stopped or starting" : flags & flag.badObs ? "no valid observation" : "";
  }

  // give labels the moment at the cursor; "" removes its label.
  give(label) {
    const m = this.momentHere();
    if (this.refusal(m)) return;
    if (label === "") this.rows.delete(m.tick);
    else this.rows.set(m.tick, { ...m, label });
    this.changed();
  }

  changed() {
    this.keep();
    this.list();
    this.page.redraw();
  }

  // next moves the cursor to the next proposed moment without a label.
  next() {
    const at = this.proposed.findIndex((m) => m.point === this.page.cursor) + 1;
    const m = [...this.proposed.slice(at), ...this.proposed.slice(0, at)].find((p) => !this.rows.has(p.tick));
    if (m) this.page.moveTo(m.point);
  }

  // keep stores the labels, so that they survive a reload. A browser may refuse that to a file.
  keep() {
    const rows = Array.from(this.rows.values(), (r) => [r.tick, r.label]);
    try {
      if (rows.length) localStorage.setItem(this.given.key, JSON.stringify(rows));
      else localStorage.removeItem(this.given.key);
      byId("label-kept").textContent = "";
    } catch {
      byId("label-kept").textContent = "This browser does not keep the labels: save them before you close the page.";
    }
  }

  // restore reads the stored labels of this log. It skips what this page cannot have stored.
  restore() {
    let rows = [];
    try {
      rows = Array.from(JSON.parse(localStorage.getItem(this.given.key)) ?? []);
    } catch {
      // nothing to restore
    }
    const { first_tick, starts } = this.page.data;
    for (const row of rows) {
      if (!Number.isInteger(row?.[0])) continue;
      const [tick, label] = row, point = lowerBound(starts.tick, tick - first_tick);
      const number = Number.isFinite(Number(label)) && String(Number(label)) === label;
      const m = this.proposed.find((p) => p.tick === tick) ??
        (starts.tick[point] === tick - first_tick ? this.momentAt(point, tick) : null);
      if ((label === "+" || label === "-" || number) && m && !this.refusal(m)) this.rows.set(tick, { ...m, label });
    }
  }

  save() {
    const link = element("a");
    link.href = URL.createObjectURL(new Blob([momentsFile(this.sorted())], { type: "text/csv" }));
    link.download = momentsName(this.page.data.name);
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60e3);
  }

  sorted() { return [...this.rows.values()].sort((a, b) => a.tick - b.tick); }

  // rewardOf returns the reward that a label stands for.
  rewardOf({ label }) { return label === "+" ? this.given.good : label === "-" ? this.given.bad : Number(label); }

  // list lists the labels. The focus stays in the list if it was there.
  list() {
    const table = byId("given"), buttons = () => Array.from(table.querySelectorAll("button"));
    const focused = buttons().indexOf(document.activeElement);
    table.replaceChildren(...this.sorted().map((row) => {
      const time = row.time.toFixed(3) + " s", tr = element("tr");
      const moment = element("button", time), remove = element("button", "×");
      moment.type = remove.type = "button";
      moment.addEventListener("click", () => this.page.moveTo(row.point));
      remove.setAttribute("aria-label", "remove the label at " + time);
      remove.addEventListener("click", () => {
        this.rows.delete(row.tick);
        this.changed();
      });
      const cells = [element("td"), element("td", row.label), element("td")];
      cells[0].append(moment);
      cells[2].append(remove);
      tr.append(...cells);
      return tr;
    }));
    if (focused >= 0) (buttons()[Math.min(focused, buttons().length - 1)] ?? byId("label-signs").firstChild).focus();
    byId("save-labels").textContent = this.rows.size === 1 ? "Save 1 label" : `Save ${this.rows.size} labels`;
    byId("save-labels").disabled = !this.rows.size;
    for (const m of this.proposed) {
      const row = this.rows.get(m.tick);
      m.button.textContent = m.time.toFixed(2) + " s" + (row ? `: ${row.label}` : "");
      m.button.classList.toggle("given", row !== undefined);
    }
  }

  // textHere returns the label of the moment at the cursor, or null.
  textHere() { return this.enabled ? this.rows.get(this.momentHere().tick)?.label ?? null : null; }

  // showCursor shows the moment at the cursor.
  showCursor() {
    if (!this.enabled || !this.page.points) return;
    const m = this.momentHere(), refusal = this.refusal(m), label = this.textHere();
    byId("label-here").textContent = `At ${m.time.toFixed(3)} s: ` +
      (refusal ? `a label does not count, ${refusal}` : label === null ? "no label" : "label " + label);
    for (const button of this.buttons) button.disabled = refusal !== "";
    for (const p of this.proposed) p.button.setAttribute("aria-current", p.point === this.page.cursor);
  }

  // draw draws the proposed moments and the labels, at heights in a plot.
  draw(f, c, proposedAt, labelAt) {
    if (proposedAt !== null) {
      for (const m of this.proposed) if (!this.rows.has(m.tick)) f.diamond(m.time, proposedAt, c.dim, true);
    }
    for (const row of this.rows.values()) {
      const value = this.rewardOf(row);
      f.diamond(row.time, labelAt(value), this.colourOf(c, row), false);
    }
  }

  // colourOf returns the colour of a label.
  colourOf(c, row) { return colourOf(c, this.rewardOf(row) - (this.given.good + this.given.bad) / 2); }

  // values returns the rewards of the labels, for the axis of a plot.
  values() { return Array.from(this.rows.values(), (row) => this.rewardOf(row)); }
}
