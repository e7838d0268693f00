// The dialog that saves the task of the robot, loads another one and begins a new one.

const $ = (id) => document.getElementById(id);

export class Tasks {
  names = [];
  agreed = null; // what a confirmation sends

  /** send(message) returns whether it is on its way; armed() whether the robot moves. */
  constructor(send, armed) {
    Object.assign(this, { send, armed });
    const show = (focus) => () => this.show(focus);
    for (const [opener, focus] of [['task-menu', 'tasks-close'], ['task-new', 'task-begin'], ['task-save', 'task-name'], ['task-load', 'task-list']]) {
      $(opener).onclick = show(focus);
    }
    $('task-form').onsubmit = (e) => { e.preventDefault(); this.save(); };
    $('task-begin').onclick = () => this.confirm('Begin a new task?', 'The robot forgets all labels.', 'Begin', { kind: 'new' });
    $('task-yes').onclick = () => { this.ask(this.agreed); this.back(); };
    $('task-no').onclick = () => this.back();
    $('tasks-close').onclick = () => $('tasks').close();
    $('tasks').addEventListener('close', () => this.back());
  }

  show(focus) {
    this.say('');
    $('tasks').showModal();
    (focus === 'task-list' ? $('task-list').querySelector('button') ?? $('tasks-close') : $(focus)).focus();
    this.ask({ kind: 'list' });
  }

  save() {
    const name = $('task-name').value.trim();
    if (!/^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$/.test(name)) return this.say('Use letters, digits, dots, hyphens and underscores.', true);
    if (!this.names.includes(name)) return this.ask({ kind: 'save', name });
    this.confirm(`Replace ${name}?`, 'A task of this name exists.', 'Replace', { kind: 'save', name, replace: true });
  }

  /** Asks before a change that cannot be undone. */
  confirm(question, effect, verb, message) {
    this.agreed = message;
    this.say('');
    const moves = message.kind !== 'save' && this.armed();
    $('task-question').textContent = question;
    $('task-effect').textContent = effect + (moves ? ' The robot moves: it follows the task at once. Keep clear of it.' : '');
    $('task-yes').textContent = verb;
    $('task-choice').hidden = true;
    $('task-confirm').hidden = false;
    $('task-no').focus();
  }

  back() {
    this.agreed = null;
    $('task-choice').hidden = false;
    $('task-confirm').hidden = true;
  }

  ask(message) {
    this.asked = message;
    if (!this.send({ type: 'task', ...message })) return this.say('Not connected.', true);
    if (message.kind !== 'list') this.say('Please wait…');
  }

  say(text, failed = false) {
    $('task-note').textContent = text;
    $('task-note').dataset.failed = failed;
  }

  /** Takes the answer of the robot's computer; returns the new task in words, '' for none. */
  answer(m) {
    const name = this.asked?.name ?? '';
    if (m.names || !m.error) this.list(m.names ?? []);
    if (m.error) { this.say(`${m.error}.`, true); return ''; }
    if (m.kind === 'list') return '';
    if (m.kind === 'save') {
      $('task-name').value = '';
      this.say(`Saved as ${name}.`);
      return '';
    }
    $('tasks').close();
    return m.kind === 'new' ? 'A new task begins.' : `The robot follows the task ${name}.`;
  }

  list(names) {
    this.names = names;
    $('task-none').hidden = names.length > 0;
    $('task-list').replaceChildren(...names.map((name) => {
      const item = document.createElement('li'), load = document.createElement('button');
      load.type = 'button';
      load.className = 'quiet';
      load.textContent = name;
      load.ariaLabel = `Load ${name}`;
      load.onclick = () => this.confirm(`Load ${name}?`, 'The robot forgets labels that are not saved.', 'Load', { kind: 'load', name });
      item.append(load);
      return item;
    }));
  }
}
