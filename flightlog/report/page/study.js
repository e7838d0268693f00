// study.js: the what-if study. Go computed its settings; this panel shows one of them.

// shellWord quotes a text for a shell where necessary.
const shellWord = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : "'" + text.replaceAll("'", "'\\''") + "'");

class StudyPanel {
  constructor(page) {
    this.page = page;
    this.study = page.data.study;
    const { config } = page.data;
    this.choices = [
      this.addChoice("kappa", "κ", `labels as they came (κ ${config.kappa})`,
        "the gate asks for a label if the D-gap is at least κ, nats"),
      this.addChoice("rho", "ρ", `as it was (${config.rho})`, "forgetting: the weight of a label after one period"),
    ];
    byId("reset").addEventListener("click", () => this.choose({}));
    this.show();
  }

  // addChoice adds a list of the values of a parameter. Its first entry is the run.
  addChoice(name, sign, asItWas, title) {
    const values = [null, ...new Set(this.study.settings.map((s) => s[name]).filter((v) => v !== null))];
    const row = element("div", undefined, "choice"), label = element("label", sign), select = element("select");
    values.forEach((v) => select.append(element("option", v === null ? asItWas : String(v))));
    select.id = label.htmlFor = "set-" + name;
    select.disabled = values.length === 1;
    row.title = title;
    select.setAttribute("aria-label", title);
    select.addEventListener("change", () => this.show());
    row.append(label, select);
    byId("choices").append(row);
    return { name, values, row, select, value: () => values[select.selectedIndex] };
  }

  // choose selects values by name. A value that is not in the grid selects the run.
  choose(wanted) {
    for (const { name, values, select } of this.choices) {
      select.selectedIndex = Math.max(0, values.indexOf(wanted[name] === undefined ? null : +wanted[name]));
    }
    this.show();
  }

  // show shows the chosen setting, or the run alone.
  show() {
    const { page, study } = this, params = {};
    for (const c of this.choices) {
      params[c.name] = c.value();
      c.row.classList.toggle("changed", c.value() !== null);
    }
    page.params = params;
    page.setting = study.settings.find((s) => s.kappa === params.kappa && s.rho === params.rho) ?? null;
    byId("study-note").textContent = this.note();
    byId("command").textContent = ["optibfm replay", shellWord(page.data.name),
      ...Object.entries(params).filter(([, v]) => v !== null).map(([name, v]) => `--${name} ${v}`)].join(" ");
    this.fillTable();
    page.redraw();
  }

  note() {
    const { why, warm, missing, settings } = this.study;
    return [
      why && `Not computed: ${why}.`,
      warm && "A belief in the log holds labels of earlier runs: ρ cannot change.",
      settings.length > 0 && missing > 0 && `${missing} periods are not in the log: the study is approximate.`,
    ].filter(Boolean).join(" ");
  }

  fillTable() {
    const run = this.study.run, s = this.page.setting, gate = s !== null && s.kappa !== null;
    const fixed = (v) => (v === null ? "–" : v.toFixed(4));
    const rows = [
      ["requests", run.asked, gate ? s.asked : null],
      ["– answered by a logged label", null, gate ? s.by_label : null],
      ["– by the simulator's reward", null, gate ? s.by_reward : null],
      ["– can't tell", null, gate ? s.cant_tell : null],
      ["– no answer in the log", null, gate ? s.unanswered : null],
      ["labels in the belief", run.labels, s?.labels ?? null],
      ["– of them unasked", null, s?.unasked ?? null],
      ["labels of the run left out", null, s?.skipped.size ?? null],
      ["‖ẑ‖ at the end", fixed(run.norm), s ? fixed(s.norm) : null],
      ["cosine to the run's ẑ", null, s ? fixed(s.cosine) : null],
      ["mean bonus β‖φ‖", fixed(run.mean_bonus), s ? fixed(s.mean_bonus) : null],
    ].filter(([, a, b]) => a !== null || b !== null);
    const head = element("tr");
    head.append(element("th", ""), element("th", "the run"), element("th", "what if"));
    byId("answers").replaceChildren(head, ...rows.map(([name, a, b]) => {
      const tr = element("tr");
      const changed = b !== null && String(a) !== String(b) ? "changed" : "";
      tr.append(element("th", name), element("td", a ?? ""), element("td", b ?? "", changed));
      return tr;
    }));
  }
}
