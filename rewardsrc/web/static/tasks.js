// The dialog that saves the task of the robot, loads another one and begins a new one.

const $ = (id) => document.getElementById(id);

export class Tasks {
  tasks = []; // saved: name, robot, other (of another model)
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
    this.refuse('');
    $('tasks').showModal();
    (focus === 'task-list' ? $('task-list').querySelector('button') ?? $('tasks-close') : $(focus)).focus();
    this.ask({ kind: 'list' });
  }

  save() {
    const name = $('task-name').value.trim();
    if (!/^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$/.test(name)) return this.refuse('Use letters, digits, dots, hyphens and underscores.');
    this.refuse('');
    const same = this.tasks.find((t) => t.name === name);
    if (!same) return this.ask({ kind: 'save', name });
    this.confirm(`Replace ${name}?`, same.other ? `${same.robot || 'Another robot'} has a task of this name.` : 'A task of this name exists.', 'Replace', { kind: 'save', name, replace: true });
  }

  /** Says what is wrong with the name, next to it. */
  refuse(text) {
    $('task-name-error').textContent = text;
    $('task-name').ariaInvalid = Boolean(text);
    if (text) this.say('');
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
    if (m.tasks || !m.error) this.list(m.tasks ?? []);
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

  /** Lists the tasks of this robot's model, then those of others, which it cannot follow, by robot. */
  list(tasks) {
    this.tasks = tasks;
    $('task-none').hidden = tasks.some((t) => !t.other);
    let group = '';
    $('task-list').replaceChildren(...tasks.flatMap((t) => {
      const item = document.createElement('li'), title = t.other ? t.robot || 'Unknown robot' : '';
      if (t.other) {
        item.className = 'other';
        item.textContent = t.name;
      } else {
        const load = document.createElement('button');
        load.type = 'button';
        load.className = 'quiet';
        load.textContent = t.name;
        load.ariaLabel = `Load ${t.name}`;
        load.onclick = () => this.confirm(`Load ${t.name}?`, 'The robot forgets labels that are not saved.', 'Load', { kind: 'load', name: t.name });
        item.append(load);
      }
      if (title === group) return [item];
      group = title;
      const head = document.createElement('li');
      head.className = 'group';
      head.textContent = `${title}: another model`;
      return [head, item];
    }));
  }
}
