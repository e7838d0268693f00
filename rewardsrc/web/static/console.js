import { History, draw, short } from '/charts.js';
import { Film, Live, Loop, Photo, Arena } from '/film.js';
import { connect as openLink, connectFrames, post } from '/link.js';
import { Tasks } from '/tasks.js';

const $ = (id) => document.getElementById(id);
const staleAfter = 1500, deadAfter = 4000, movedAfter = 8000; // ms without a state
const firstRetry = 250, longestRetry = 5000;

let link = null, opening = false, hello = null, state = null, history = new History();
let stateAt = 0, retry = firstRetry, retryTimer = 0, over = false;
let clock = { known: false, rtt_ms: null, bound_ms: null };
let shownRequest = { id: 0, at: 0 }; // the request on the screen, and since when
let stopSent = 0, stoppedAt = 0;

/* ---- connection ---------------------------------------------------------- */

async function start() {
  const token = location.hash.slice(1);
  if (token) {
    window.history.replaceState(null, '', location.pathname); // keep the code out of the browser's history
    await pair(token);
  }
  connect();
}

async function pair(token) {
  try {
    const answer = await post('/pair', JSON.stringify({ token }));
    if (answer.ok) return true;
    $('pair-error').textContent = (await answer.text()).trim();
  } catch {
    $('pair-error').textContent = 'The robot’s computer does not answer.';
  }
  return false;
}

async function connect() {
  clearTimeout(retryTimer);
  if (link || opening) return;
  opening = true;
  try {
    const answer = await post('/session');
    if (answer.status === 401) return show('pairing');
    if (answer.ok) link = await openConnection();
  } catch { /* no network */ } finally {
    opening = false;
  }
  if (!link) later();
}

async function openConnection() {
  let mine;
  const received = (m) => { if (link === mine) receive(m); };
  mine = await openLink(received, () => { if (link === mine) lost(); });
  return mine;
}

function lost() {
  const was = link;
  link = null;
  clock.known = false;
  letGo();
  presses.disconnected();
  was?.close();
  render();
  if (!over) later();
}

function later() {
  show(hello ? 'console' : 'connecting');
  render();
  retryTimer = setTimeout(connect, retry * (0.75 + Math.random() / 2));
  retry = Math.min(retry * 1.7, longestRetry);
}

function hurry() {
  if (link || over || document.body.dataset.view === 'pairing') return;
  retry = firstRetry;
  connect();
}

function send(message, atOnce) {
  if (!connected()) return false;
  link.send(JSON.stringify(message), atOnce);
  return true;
}

const connected = () => Boolean(link?.open && hello && state);
/** Whether `state` is the robot's present one: without a connection another operator may arm it. An ended run stays so. */
const current = () => Boolean(state?.ended || connected() && performance.now() - stateAt <= staleAfter);

function receive(m) {
  switch (m.type) {
    case 'clock':
      link.send(JSON.stringify({ type: 'clock', id: m.id, at: performance.now() }), true);
      clock = m;
      renderLink();
      break;
    case 'hello':
      hello = m;
      state = null;
      retry = firstRetry;
      history = new History(m.history);
      receivePictures();
      show('console');
      describe();
      keepAwake();
      break;
    case 'state':
      take(m);
      break;
    case 'refused':
      presses.settle(m.press, 'refused', m.text);
      break;
    case 'notice':
      banner.flash(m.text);
      break;
    case 'invite':
      invitation(m);
      break;
    case 'tasks': {
      const done = tasks.answer(m);
      if (done) banner.flash(done);
      break;
    }
  }
}

function take(m) {
  const first = state === null;
  state = m;
  stateAt = performance.now();
  over = Boolean(m.ended);
  stoppedAt = m.stopped ? stoppedAt || stateAt : 0; // a reset clears it
  if (m.stopped) stopSent = 0;
  history.add(m.view);
  addArena(m.view);
  for (const o of m.outcomes ?? []) presses.settle(o.press, o.status, o.text);
  if (first) presses.reconnected();
  noteRequest(m.request);
  render();
}

/* ---- pictures ------------------------------------------------------------ */

const film = new Film();
const live = new Live($('picture'), film);
const clip = new Loop($('moment'), film, (yes) => { $('then').dataset.marked = yes; });
let pictures = false;

/** Receives frames over a connection of their own: the age in ms, a float64, and a JPEG. */
async function receivePictures() {
  if (pictures || !hello.pictures || !link) return;
  pictures = true;
  const ended = () => { pictures = false; if (connected()) setTimeout(receivePictures, 1000); };
  const add = (data) => film.add(performance.now() - new DataView(data).getFloat64(0, true), new Photo(data.slice(8)));
  if (!await connectFrames(link, add, ended)) ended();
}

/** A robot without pictures is drawn from its position, if the state has one. */
function addArena(v) {
  if (!v?.pose || hello.pictures) return;
  const trail = film.shots.slice(-100).map((s) => s.picture);
  film.add(performance.now(), new Arena(v.pose, trail));
}

function renderPictures() {
  $('pictures').hidden = !(film.newest() || hello?.pictures);
  const age = film.newest() ? performance.now() - film.newest().at : Infinity;
  const note = state?.picture ? `No picture: ${state.picture}` : (age < 2000 || !hello?.pictures ? '' : Number.isFinite(age) ? `${Math.round(age / 1000)} s old` : 'waiting for a picture');
  if ($('picture-note').textContent !== note) $('picture-note').textContent = note;
  $('now').dataset.old = age > 2000;
  $('recorded').hidden = !hello?.about.record_view;
  $('now').dataset.empty = !film.newest();
  live.render();
  renderMoment();
}

/** Shows the moment of the open question, or for a while the stretch that the last press is about. */
function renderMoment() {
  const r = state?.request, now = performance.now(), p = presses.list[0], c = hello?.about.credit;
  let shown = false, note = '';
  if (r && canLabel() && !c.until_press) {
    const at = stateAt - r.age_ms;
    asked = asked?.id === r.id ? asked : { id: r.id, at };
    shown = now - asked.at > c.clip_ms && clip.show(asked.at - c.clip_ms, asked.at + c.clip_ms, asked.at);
    note = `Label this: ${seconds(now - asked.at)} ago`;
  } else if (p && c && !p.request && !['undone', 'refused', 'lost'].includes(p.status) && ['good', 'bad', 'value'].includes(p.kind) && hello.mode !== 'continuous' && now - p.at < 3000) {
    const to = p.at - c.delay_ms;
    shown = clip.show(to - c.width_ms, to, to - c.width_ms / 2);
    note = `${named(p)} counts for this, ${seconds(c.delay_ms)} to ${seconds(c.delay_ms + c.width_ms)} before the press`;
  }
  if (!shown) clip.stop();
  $('then').hidden = !shown;
  if (shown) $('moment-note').textContent = note;
}
let asked = null;

/* ---- request ------------------------------------------------------------- */

function noteRequest(r) {
  const id = r && canLabel() ? r.id : 0;
  if (id === shownRequest.id) return;
  shownRequest = { id, at: performance.now() };
  if (!id) { $('spoken').textContent = 'The question is closed.'; return; }
  $('spoken').textContent = `A label is wanted. ${Math.round(r.left_ms / 1000)} seconds left.`;
  if (options.vibrate) navigator.vibrate?.([70, 50, 70]);
  if (options.sound) beep();
}

const canLabel = () => Boolean(state && hello && !hello.watch_only && !state.ended && state.operator.conn === hello.conn);

/* ---- presses ------------------------------------------------------------- */

const words = {
  good: 'Good', bad: 'Bad', better: 'Better', worse: 'Worse', goal: 'This is it', cant_tell: 'Can’t tell', undo: 'Undo', keep: 'Keep',
};
const answers = ['good', 'bad', 'value', 'cant_tell'];
// The buttons between Bad (0) and Good (1).
const grades = { 'rather-bad': 0.25, 'so-so': 0.5, 'rather-good': 0.75 };

const presses = {
  next: Math.floor(Math.random() * 2 ** 31) * 2 ** 20, // unique to this page
  list: [],

  /** Sends a press at a time of performance.now(). */
  make(kind, at, value) {
    const p = { id: ++this.next, kind, value, at, status: 'sent', text: '' };
    this.list.unshift(p);
    this.list.length = Math.min(this.list.length, 12);
    if (!connected()) {
      this.end(p, 'lost', 'not connected');
    } else if (!canLabel()) {
      this.end(p, 'refused', hello.watch_only ? 'this console only watches' : state.ended ? 'the run is over' : 'another device labels');
    } else {
      const message = { type: 'press', id: p.id, kind, at };
      if (value !== undefined) message.value = value;
      if (shownRequest.id && answers.includes(kind)) {
        message.request = p.request = shownRequest.id;
        message.shown = Math.min(shownRequest.at, at);
      }
      send(message);
    }
    this.render();
  },

  settle(id, status, text) {
    const p = this.list.find((q) => q.id === id);
    if (!p || p.status === status || p.status === 'undone' || p.status === 'counted' && status !== 'undone') return;
    if (status === 'undone') (this.list.find((q) => q.kind === 'undo' && !q.undid) ?? {}).undid = p;
    this.end(p, status, text);
    this.render();
  },

  end(p, status, text) {
    if (p.took === undefined && status !== 'lost') p.took = performance.now() - p.at;
    p.status = status;
    p.text = text ?? '';
    if (status === 'refused' || status === 'lost') {
      if (options.vibrate) navigator.vibrate?.(220);
    }
  },

  /** Presses that were sent may have arrived; the next state tells. */
  disconnected() {
    for (const p of this.list) if (p.status === 'sent') p.status = 'unknown';
    this.render();
  },

  /** The first state after a reconnection lists the presses that arrived. */
  reconnected() {
    setTimeout(() => {
      for (const p of this.list) if (p.status === 'unknown') this.end(p, 'lost', 'the connection broke');
      this.render();
    }, 500);
  },

  render() {
    $('presses').replaceChildren(...this.list.slice(0, 6).map((p) => {
      const item = document.createElement('li');
      item.dataset.status = p.status;
      const what = document.createElement('span');
      if (p.undid) what.append('Undo · ', struck(p.undid));
      else what.append(p.status === 'undone' ? struck(p) : named(p), p.text ? ` · ${p.text}` : '');
      const result = document.createElement('b');
      const took = p.took === undefined ? '' : ` · ${Math.round(p.took)} ms`;
      result.textContent = {
        sent: 'sending…', unknown: 'unknown', lost: 'LOST',
        saved: `saved${took}`, counted: `counted${took}`, refused: 'does NOT count', undone: 'undone',
      }[p.status];
      item.append(what, result);
      return item;
    }));
  },
};

function named(p) {
  if (p.kind !== 'value') return words[p.kind];
  const id = hello?.mode !== 'continuous' && Object.keys(grades).find((id) => graded(grades[id]) === p.value);
  return id ? $(id).textContent : `Reward ${p.value.toFixed(2)}`;
}

/** The reward of a part of the way from bad to good. */
const graded = (part) => hello ? hello.bad + part * (hello.good - hello.bad) : 0;

/** The name of a press that was undone. */
function struck(p) {
  const text = document.createElement('del');
  text.textContent = named(p);
  return text;
}

/** The time of an event on the clock of performance.now(). */
function moment(e) {
  const now = performance.now();
  return e.timeStamp > 0 && e.timeStamp <= now && now - e.timeStamp < 5000 ? e.timeStamp : now;
}

function button(id, kind) {
  const b = $(id), press = (e) => presses.make(kind, moment(e), id in grades ? graded(grades[id]) : undefined);
  b.addEventListener('pointerdown', (e) => {
    if (e.button !== 0) return;
    b.dataset.pressed = 'true';
    press(e);
  });
  for (const end of ['pointerup', 'pointercancel', 'pointerleave']) b.addEventListener(end, () => { b.dataset.pressed = 'false'; });
  // A keyboard or a screen reader clicks without a pointer.
  b.addEventListener('click', (e) => { if (e.detail === 0) press(e); });
}
for (const id of Object.keys(grades)) button(id, 'value');
button('good', 'good');
button('bad', 'bad');
button('worse', 'worse');
button('better', 'better');
button('goal', 'goal');
button('cant', 'cant_tell');
button('keep-task', 'keep');
button('undo', 'undo');

document.addEventListener('keydown', (e) => {
  if (e.repeat || e.ctrlKey || e.metaKey || e.altKey || document.querySelector('dialog[open]') || e.target.matches?.('input:not([type=range])')) return;
  if (state?.view?.waiting && canLabel() && starts(e)) return presses.make('good', moment(e));
  const kind = {
    '+': 'good', '=': 'good', '-': 'bad', '>': 'better', '<': 'worse', g: 'goal', '?': 'cant_tell', t: 'cant_tell', u: 'undo', k: 'keep',
  }[e.key];
  const grade = /^[1-9]$/.test(e.key) ? Number(e.key) : 0;
  if (document.body.dataset.view !== 'console' || hello?.mode === 'continuous' && (grade || kind === 'good' || kind === 'bad')) return;
  if (grade) presses.make('value', moment(e), graded((grade - 1) / 8));
  else if (kind) presses.make(kind, moment(e));
});

/** Whether a key starts a robot that waits: any that writes a character, and Enter beside the buttons. Space is STOP. */
function starts(e) {
  return document.body.dataset.view === 'console' && e.key !== ' ' && (e.key.length === 1 || e.key === 'Enter' && e.target === document.body);
}

/* ---- slider -------------------------------------------------------------- */

let holding = 0;

const sliderValue = () => graded((Number($('slider').value) + 100) / 200);

function hold() {
  if (holding || !hello) return;
  const sample = () => presses.make('value', performance.now(), sliderValue());
  holding = setInterval(sample, hello.sample_ms);
  setTimeout(() => { if (holding) sample(); }, 60); // once the thumb is under the finger
}

function letGo() {
  clearInterval(holding);
  holding = 0;
  $('slider').value = 0;
  $('slider-value').textContent = 'let go: no labels';
}

$('slider').addEventListener('pointerdown', hold);
$('slider').addEventListener('input', () => { if (hello) $('slider-value').textContent = `${holding ? 'holding' : ''} ${sliderValue().toFixed(2)}`; });
for (const end of ['pointerup', 'pointercancel', 'lostpointercapture', 'keyup', 'blur']) $('slider').addEventListener(end, letGo);
$('slider').addEventListener('keydown', (e) => { if (e.key.startsWith('Arrow')) hold(); });
document.addEventListener('visibilitychange', () => { if (document.hidden) letGo(); else { hurry(); keepAwake(); } });

/* ---- STOP ---------------------------------------------------------------- */

function stop() {
  stopSent = performance.now();
  send({ type: 'stop' }, true);
  post('/stop').catch(() => {}); // a second way, for a connection that hangs
  render();
  setTimeout(render, 1000);
}
for (const b of document.querySelectorAll('.stop')) {
  b.addEventListener('pointerdown', (e) => { if (e.button === 0) stop(); });
  b.addEventListener('click', (e) => { if (e.detail === 0) stop(); });
}

// The space bar is STOP, as on the terminal, also with a label button in focus: Enter presses that.
for (const event of ['keydown', 'keyup']) {
  document.addEventListener(event, (e) => {
    const other = e.target.closest?.('input:not([type=range]), summary, dialog, button:not(.pad, .stop)');
    if (e.key !== ' ' || other || document.body.dataset.view !== 'console' || !hello?.can_stop) return;
    e.preventDefault(); // of the click
    if (event === 'keydown' && !e.repeat) stop();
  });
}

/* ---- tasks --------------------------------------------------------------- */

const moving = ['armed', 'starting', 'resting'];
const tasks = new Tasks(send, () => moving.includes(state?.view?.mode));

function renderTasks() {
  document.querySelector('.pads').dataset.tasks = hello.tasks;
  for (const id of ['task-menu', 'task-new', 'task-save', 'task-load']) {
    $(id).hidden = !hello.tasks;
    $(id).disabled = !canLabel() || !connected();
  }
}

/* ---- settings ------------------------------------------------------------ */

const options = { vibrate: false, sound: false, theme: 'automatic' };
try { Object.assign(options, JSON.parse(localStorage.getItem('optibfm') ?? '{}')); } catch { /* private browsing */ }
let audio = null;

function beep() {
  if (!audio) return;
  const tone = audio.createOscillator(), volume = audio.createGain();
  tone.frequency.value = 880;
  volume.gain.setValueAtTime(0.2, audio.currentTime);
  volume.gain.exponentialRampToValueAtTime(0.001, audio.currentTime + 0.25);
  tone.connect(volume).connect(audio.destination);
  tone.start();
  tone.stop(audio.currentTime + 0.26);
}

// Browsers allow sound only after the first touch.
document.addEventListener('pointerdown', () => {
  if (!options.sound) return;
  audio ??= new AudioContext();
  audio.resume();
}, true);

function applyOptions() {
  try { localStorage.setItem('optibfm', JSON.stringify(options)); } catch { /* private browsing */ }
  $('vibrate').setAttribute('aria-pressed', options.vibrate);
  $('vibrate').hidden = !navigator.vibrate;
  $('sound').setAttribute('aria-pressed', options.sound);
  $('theme').textContent = `Theme: ${options.theme}`;
  if (options.theme === 'automatic') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = options.theme;
}

$('menu').onclick = () => { facts(); $('invitation').hidden = true; $('settings').showModal(); };
$('close').onclick = () => $('settings').close();
$('vibrate').onclick = () => { options.vibrate = !options.vibrate; applyOptions(); if (options.vibrate) navigator.vibrate?.(70); };
$('sound').onclick = () => { options.sound = !options.sound; applyOptions(); if (options.sound) { audio ??= new AudioContext(); audio.resume().then(beep); } };
$('theme').onclick = () => { options.theme = { automatic: 'dark', dark: 'light', light: 'automatic' }[options.theme] ?? 'automatic'; applyOptions(); render(); };
$('invite-watch').onclick = () => send({ type: 'invite', role: 'watch' });
$('invite-label').onclick = () => send({ type: 'invite', role: 'label' });
$('take').onclick = () => send({ type: 'take' });
$('give').onclick = () => send({ type: 'give' });
$('keep').onclick = () => send({ type: 'keep' });
$('pair-form').onsubmit = async (e) => {
  e.preventDefault();
  if (await pair($('code').value.trim().replace(/^.*#/, ''))) connect();
};

/** Offers the root certificate of the robot's authority, if it has one. */
async function offerTrust() {
  const answer = await fetch('/trust');
  if (!answer.ok) return;
  const root = await answer.json();
  $('trust-sha').textContent = root.fingerprint;
  for (const e of document.querySelectorAll('.trust-name')) e.textContent = root.name;
  for (const b of document.querySelectorAll('button.trust')) {
    b.hidden = false;
    b.onclick = () => { $('settings').close(); $('trust').showModal(); };
  }
}
$('trust-close').onclick = () => $('trust').close();

function invitation(m) {
  const margin = 2;
  $('invite-qr').toggleAttribute('hidden', !m.qr); // no other device could use it
  $('invite-qr').setAttribute('viewBox', `${-margin} ${-margin} ${(m.qr_size ?? 0) + 2 * margin} ${(m.qr_size ?? 0) + 2 * margin}`);
  const path = document.createElementNS('http://www.w3.org/2000/svg', 'path');
  path.setAttribute('d', m.qr ?? '');
  path.setAttribute('fill', '#000');
  $('invite-qr').replaceChildren(path);
  $('invite-text').textContent = `${m.qr ? '' : 'On this computer only (optibfm run --lan admits others). '}Works once, within ${Math.round(m.expires_s / 60)} minutes: ${m.role === 'label' ? 'may label after a hand-over' : 'may watch, and stop'}.`;
  $('invite-url').textContent = m.url;
  $('invitation').hidden = false;
}

async function keepAwake() {
  try { await navigator.wakeLock?.request('screen'); } catch { /* not supported */ }
}

/* ---- display ------------------------------------------------------------- */

function show(view) { document.body.dataset.view = view; }

const banner = {
  text: '', until: 0,
  flash(text) { this.text = text; this.until = performance.now() + 4000; render(); setTimeout(render, 4100); },
  set(text, tone) {
    const b = $('banner');
    if (b.textContent !== text) b.textContent = text;
    b.dataset.tone = tone ?? '';
    b.hidden = !text;
  },
};

function describe() {
  const a = hello.about;
  $('robot').textContent = a.robot || 'optibfm';
  $('method').textContent = [
    `Method: ${a.strategy}`, a.task ? `the simulator’s task: ${a.task}` : '', a.period_ms ? `${short(1000 / a.period_ms)} ticks per second` : '',
  ].filter(Boolean).join(', ') + '.';
  $('ideas-list').replaceChildren(...(a.suggestions ?? []).map((text) => {
    const item = document.createElement('li'), [task, rule] = text.split(/:(.*)/s), name = document.createElement('b');
    name.textContent = task;
    item.append(name, rule ? `: ${rule.trim()}` : '');
    return item;
  }));
  document.title = `${a.robot} · optibfm`;
  const desk = document.querySelector('.desk');
  desk.dataset.mode = hello.mode;
  desk.dataset.watch = hello.watch_only;
  $('slider-row').hidden = hello.watch_only || hello.mode !== 'continuous';
  for (const b of document.querySelectorAll('.stop')) b.hidden = !hello.can_stop;
  $('stop-effect').textContent = a.stop_ends_run ? 'Halts the robot and ends the run.' : 'Halts the robot until an operator resets it.';
  $('invite-watch').disabled = $('invite-label').disabled = hello.role !== 'label';
}

function facts() {
  const a = hello?.about ?? {};
  const rows = [
    ['This device', hello ? `${hello.device}, ${hello.role === 'label' ? 'may label' : 'watches'}` : '–'],
    ['Labels come from', hello?.watch_only ? a.operator : state?.operator.device ?? 'no device'],
    ['Devices connected', state?.devices ?? '–'],
    ['Questions', state?.view ? `${state.view.asked} asked, ${state.view.answered} answered, ${state.view.expired} expired` : '–'],
    ['Labels refused, undone', state?.view ? `${state.view.refused}, ${state.view.undone}` : '–'],
    ['A tick’s work, p99', state?.view ? `${short(state.view.busy_p99_ms)} ms` : '–'],
    ['Records dropped', state?.view?.dropped ?? '–'],
    ['Clock', clock.known ? `agrees within ±${short(clock.bound_ms)} ms` : 'unknown'],
    ['Pictures on disk', a.record_view ? 'yes, they are recorded' : 'no'],
    ['Labels on disk', a.record ? 'yes, before they are shown as saved' : 'NO: the log is off'],
    ['Connection', `${location.protocol === 'https:' ? 'encrypted' : 'not encrypted'}, ${link?.name ?? 'none'}`],
    ['Not granted', (a.missing ?? []).join(', ') || 'nothing'],
    ['Program', a.program ?? '–'],
  ];
  $('facts').replaceChildren(...rows.flatMap(([name, value]) => {
    const dt = document.createElement('dt'), dd = document.createElement('dd');
    dt.textContent = name;
    dd.textContent = value;
    return [dt, dd];
  }));
}

function chip(id, text, tone) {
  if ($(id).textContent !== text) $(id).textContent = text;
  $(id).dataset.tone = tone;
}

function renderLink() {
  if (!connected()) return chip('link', 'offline', over ? 'idle' : 'bad');
  if (performance.now() - stateAt > staleAfter) return chip('link', 'stalled', 'bad');
  if (!clock.known) return chip('link', '… ms', 'warn');
  chip('link', `${clock.rtt_ms < 10 ? clock.rtt_ms.toFixed(1) : Math.round(clock.rtt_ms)} ms`, clock.rtt_ms > 250 ? 'warn' : 'good');
}

function render() {
  renderLink();
  renderBanner();
  if (!hello || !state) return;
  renderRequest();
  renderSeat();
  renderStop();
  renderTasks();
  renderLearning();
  renderView();
  if ($('settings').open) facts();
}

function renderBanner() {
  const now = performance.now(), stale = connected() && now - stateAt > staleAfter;
  document.body.dataset.stale = !connected() || stale;
  if (stopSent && !(state?.stopped && stateAt > stopSent) && !state?.ended && now - stopSent > 900 && now - stopSent < 60000) {
    return banner.set('STOP is NOT confirmed: use the emergency stop now.', 'bad');
  }
  if (current() && state.view?.fault) return banner.set(`The robot is stopped: ${state.view.fault}.`, 'bad');
  if (state?.ended) return banner.set(`The run is over: ${state.ended}.`, state.failed ? 'bad' : 'calm');
  if (stoppedAt && now - stoppedAt > 2000) {
    return banner.set('STOP was pressed, but the halt is NOT confirmed: use the emergency stop now.', 'bad');
  }
  if (current() && state.stopped) return banner.set(`STOP was pressed on ${state.stopped}.`, 'bad');
  if (hello && !connected()) {
    const moved = now - stateAt > movedAfter ? ' If the robot’s address changed, open the one on its terminal.' : '';
    return banner.set(`Connection lost: trying again. Presses made now are lost, and STOP may not reach the robot.${moved}`, 'bad');
  }
  if (stale) return banner.set('No data from the robot’s computer.', 'bad');
  if (now < banner.until) return banner.set(banner.text);
  if (hello && !hello.about.record && !hello.watch_only) return banner.set('The log is off: labels are not kept on disk.');
  banner.set('');
}

const seconds = (ms) => `${(ms / 1000).toFixed(1)} s`;

function renderRequest() {
  const r = state.request, since = performance.now() - stateAt, mine = canLabel();
  document.querySelector('.desk').dataset.live = mine && connected();
  const left = r ? Math.max(0, r.left_ms - since) : 0;
  const open = Boolean(r) && left > 0 && connected();
  $('request').dataset.open = open;
  $('request').dataset.waiting = mine && Boolean(state.view?.waiting);
  $('ring').style.strokeDasharray = `${open ? Math.min(100, 100 * left / Math.max(r.total_ms, 1)) : 0} 100`;
  $('ring-text').textContent = open ? Math.ceil(left / 1000) : '';
  const stopped = Boolean(state.view?.fault || state.stopped);
  const answersOnly = stopped || hello.mode === 'per_request';
  for (const id of ['good', 'bad', ...Object.keys(grades)]) $(id).dataset.idle = !open && answersOnly;
  for (const id of ['worse', 'better', 'goal']) $(id).dataset.idle = answersOnly;
  $('cant').dataset.idle = !open;
  if (open) {
    $('question').textContent = hello.about.credit?.until_press ? 'How is it now?' : `How was it ${seconds(r.age_ms + since)} ago?`;
    $('detail').textContent = stopped ? 'The robot is stopped: only the answer to this question counts.' : `${seconds(left)} left`;
    return;
  }
  $('question').textContent = idleQuestion();
  $('detail').textContent = idleDetail(mine, stopped);
}

function idleQuestion() {
  if (state.ended) return 'The run is over';
  if (!connected()) return 'Not connected';
  if (state.view?.mode === 'starting') return 'The robot moves to its start pose';
  if (state.view?.mode === 'resting') return 'The robot moves to its rest pose';
  if (!state.view?.waiting || !canLabel()) return 'No question';
  return hello.mode === 'continuous' ? 'Press any key or move the slider to start.' : 'Press any key or the Good button to start.';
}

/** What a press does while no question is open. */
function idleDetail(mine, stopped) {
  if (state.keep) return `Keep what it learnt, in a terminal: ${state.keep}`;
  if (state.ended || !connected()) return 'Presses do not count.';
  if (hello.watch_only) return `Labels come from: ${hello.about.operator || 'another source'}`;
  if (!mine) return 'This device watches.';
  if (stopped) return 'The robot is stopped: presses do not count. Undo works.';
  if (['starting', 'resting'].includes(state.view?.mode)) return 'Presses do not count now. Undo works.';
  if (state.view?.waiting) return 'This press is not a label.';
  if (state.view?.learnt) {
    return `Label what it does wrong: it asks again.${hello.tasks ? ' Save the task to keep it.' : ''}`;
  }
  return {
    per_request: 'Wait for a question.',
    sparse: 'Press when you like or dislike it.',
    continuous: 'Hold the slider while you judge.',
  }[hello.mode];
}

/** How well the robot knows the task, in words, and the filled part of the bar. */
function progress(v) {
  if (v.keepable && !state.ended) return { text: 'It seems that the task changed: it learns the new one.', part: 0 };
  return { text: v.known, part: v.known_part };
}

function renderLearning() {
  const v = state.view;
  if (!v) return;
  const { text, part } = progress(v), set = (id, s) => { if ($(id).textContent !== s) $(id).textContent = s; };
  set('learnt', text);
  $('keep-task').hidden = !v.keepable || Boolean(state.ended);
  $('learning').dataset.learnt = Boolean(v.learnt);
  $('learnt-bar').style.width = `${100 * part}%`;
  set('tally', v.labels === 1 ? '1 label' : `${v.labels} labels`);
  set('task', doing(v));
  $('ideas').hidden = !$('ideas-list').children.length || hello.watch_only || v.labels > 0 && !$('details').open;
}

/** What the robot does, in words. */
function doing(v) {
  if (state.ended) return 'the run is over';
  if (!current()) return 'is out of contact';
  if (v.fault || state.stopped) return 'is stopped';
  if (v.waiting) return 'waits for your first press';
  if (v.mode === 'starting') return 'moves to its start pose';
  if (v.mode === 'resting') return 'moves to its rest pose';
  if (v.mode === 'disarmed') return 'does not move: it is not armed';
  if (v.learnt) return 'does what it learnt';
  if (v.follows) return `follows ${v.follows}`;
  return v.labels ? 'learns from your labels' : 'tries out what it can do';
}

function renderSeat() {
  const o = state.operator, mine = o.conn === hello.conn, box = $('seat');
  $('give').hidden = $('keep').hidden = !(mine && o.asking);
  $('take').hidden = mine || hello.role !== 'label';
  box.hidden = hello.watch_only || Boolean(state.ended) || mine && !o.asking;
  $('seat-text').textContent = mine ? `${o.asking} wants to label.`
    : o.asking === hello.device ? `Asked ${o.device} to hand over…`
    : o.device === hello.device ? 'Another window of this device labels.'
    : !o.device ? 'No device labels.'
    : o.conn ? `${o.device} labels.` : `${o.device} labels, but is not connected.`;
  $('take').disabled = o.asking === hello.device;
}

function renderStop() {
  const halted = current() && state.stopped;
  $('stop').dataset.state = halted || state.ended ? 'stopped' : '';
  $('stop-text').textContent = state.ended ? 'The run is over' : halted ? (state.view?.fault ? 'Stopped' : 'Halting…') : stopSent && performance.now() - stopSent < 900 ? 'STOP…' : 'STOP';
}

function renderView() {
  const v = state.view;
  if (!v) return;
  const a = hello.about;
  const text = (id, s) => { if ($(id).textContent !== s) $(id).textContent = s; };
  renderArmed(v);
  text('per-minute', v.per_minute === null ? '–' : v.per_minute.toFixed(v.per_minute < 10 ? 1 : 0));
  text('labels', `${v.labels} count`);
  text('return-name', v.reward === null ? 'Estimated sum of rewards (return)' : 'Sum of rewards (return)');
  text('return', short(v.return));
  text('reward', `now ${short(v.reward ?? v.estimate)}`);
  text('z-age', v.has_z ? `${short(v.z_age_ms)} ms` : 'no z');
  text('z-limit', a.max_z_age_ms ? `limit ${short(a.max_z_age_ms)} ms` : '');
  text('belief', short(v.belief_norm));
  text('uncertainty', `here ±${short(v.uncertainty)} σ`);
  text('late', `${short(v.late_p99_ms)} ms`);
  text('late-max', `max ${short(v.late_max_ms)} ms`);
  text('faults', v.fault || 'none');
  $('fault-tile').dataset.tone = v.fault ? 'bad' : '';
  text('skipped', v.bad_obs ? `${v.bad_obs} bad samples` : `${v.skipped} skipped`);
  $('real-key').hidden = v.reward === null;
  const points = history.shown();
  chart('dgap', points, { lines: [{ index: 1, colour: '--blue', fill: true }], limit: v.kappa, zero: true, root: true,
    marks: [{ counter: 8, on: 1, colour: '--amber', hollow: true }, { counter: 7, on: 1, colour: '--green' }] },
    `${short(v.dgap)} nats${v.kappa === null ? '' : `; asks from ${short(v.kappa)} (κ)`}`, `Worth of a label now: ${short(v.dgap)} nats` + (v.kappa === null ? '' : `; a label is asked for at ${short(v.kappa)}`));
  chart('estimate', points, { lines: [{ index: 3, colour: '--dim', width: 1.5 }, { index: 2, colour: '--green' }] },
    short(v.estimate), `Expected reward ${short(v.estimate)}` + (v.reward === null ? '' : `; the simulator’s is ${short(v.reward)}`));
  chart('information', points, { lines: [{ index: 4, colour: '--blue', fill: true }], zero: true }, `${short(v.information)} nats`, `Knowledge ${short(v.information)} nats`);
  chart('lateness', points, { lines: [{ index: 6, colour: '--amber', fill: true, width: 1.5 }], zero: true }, `${short(v.late_ms)} ms`, `Worst wake-up lately ${short(v.late_ms)} milliseconds late`);
  const events = [...(state.events ?? [])].reverse().map((e) => {
    const item = document.createElement('li'), when = document.createElement('time');
    item.dataset.level = e.level;
    const ago = e.age_ms / 1000;
    when.textContent = ago < 60 ? `${ago.toFixed(0)} s ago` : `${Math.floor(ago / 60)} min ago`;
    item.append(when, e.text);
    return item;
  });
  $('events').replaceChildren(...events);
  document.querySelector('.events').hidden = events.length === 0;
}

// Without a connection the state of the robot is unknown.
function renderArmed(v) {
  if (!current()) chip('armed', 'unknown', 'idle');
  else if (v.fault) chip('armed', 'stopped', 'bad');
  else if (state.ended) chip('armed', state.failed ? 'check it' : 'ended', state.failed ? 'bad' : 'idle');
  else chip('armed', v.mode, moving.includes(v.mode) ? 'warn' : 'idle');
}

let spoken = 0;

function chart(id, points, how, now, description) {
  draw($(id), points, how);
  $(`${id === 'estimate' ? 'reward' : id}-now`).textContent = now;
  if (performance.now() - spoken < 5000 && $(id).ariaLabel) return; // not at every state
  $(id).ariaLabel = description;
  if (id === 'lateness') spoken = performance.now();
}

/* ---- start --------------------------------------------------------------- */

applyOptions();
window.addEventListener('online', hurry);
window.addEventListener('hashchange', start); // a code for this window
setInterval(() => {
  if (!hello) return;
  if (connected() && performance.now() - stateAt > deadAfter) lost();
  renderBanner();
  renderLink();
  if (state) renderRequest();
}, 100);
setInterval(renderPictures, 30);
if (location.protocol === 'https:') offerTrust().catch(() => {}); // the next load of the page offers it
start();
