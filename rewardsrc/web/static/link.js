// Connections to the robot's computer: a WebSocket or, where the browser refuses it, an event stream and POST.
// A connection has a name, open, send(text, atOnce) and close(). Messages that are not to be sent at once arrive in order.

const patience = 5000; // ms for an answer: packets of an attempt may be lost, and the next attempt waits for its end

export async function post(path, body) {
  return fetch(path, { method: 'POST', body, keepalive: true, credentials: 'same-origin', signal: AbortSignal.timeout(patience) });
}

/** Opens a connection of JSON messages; null if there is none. */
export async function connect(received, closed) {
  return await openSocket('/socket', (data) => received(JSON.parse(data)), closed) ?? openMessages(received, closed);
}

/** Opens a connection that only receives: messages in an ArrayBuffer each. It is of the kind of another one. */
export async function connectFrames(other, received, closed) {
  return other.name === 'WebSocket' ? openSocket('/frames', received, closed) : openFrames(received, closed);
}

function openSocket(path, received, closed) {
  return new Promise((resolve) => {
    const socket = new WebSocket(`${location.protocol === 'https:' ? 'wss' : 'ws'}://${location.host}${path}`);
    const link = {
      name: 'WebSocket',
      get open() { return socket.readyState === WebSocket.OPEN; },
      send: (text) => socket.send(text),
      close: () => socket.close(),
    };
    let opened = false;
    setTimeout(() => { if (!opened) socket.close(); }, patience);
    socket.binaryType = 'arraybuffer';
    socket.onopen = () => { opened = true; resolve(link); };
    socket.onmessage = (e) => received(e.data);
    socket.onclose = () => {
      resolve(null);
      if (opened) closed();
    };
  });
}

/** Receives server-sent events, and sends each message with a POST. */
async function openMessages(received, closed) {
  let number = 0, sent = Promise.resolve(), text = '';
  const decoder = new TextDecoder();
  const link = await openStream('/stream', (bytes) => {
    const events = (text + decoder.decode(bytes, { stream: true })).split('\n\n');
    text = events.pop();
    for (const event of events) {
      const message = JSON.parse(event.slice('data: '.length));
      if (message.type === 'hello') number = message.conn;
      received(message);
    }
  }, closed);
  if (!link) return null;
  const give = async (message) => {
    try {
      if ((await post(`/message?conn=${number}`, message)).ok) return;
    } catch { /* the connection broke */ }
    link.close();
  };
  link.send = (message, atOnce) => {
    if (atOnce) give(message);
    else sent = sent.then(() => give(message));
  };
  return link;
}

/** Receives frames, each after its length. */
function openFrames(received, closed) {
  let rest = new Uint8Array(0);
  return openStream('/frames', (bytes) => {
    const all = new Uint8Array(rest.length + bytes.length);
    all.set(rest);
    all.set(bytes, rest.length);
    let at = 0;
    for (let length; at + 4 <= all.length; at += 4 + length) {
      length = new DataView(all.buffer).getUint32(at, true);
      if (at + 4 + length > all.length) break;
      received(all.buffer.slice(at + 4, at + 4 + length));
    }
    rest = all.slice(at);
  }, closed);
}

/** Reads the endless answer to a POST. */
async function openStream(path, chunk, closed) {
  const end = new AbortController();
  const late = setTimeout(() => end.abort(), patience);
  try {
    const answer = await fetch(path, { method: 'POST', credentials: 'same-origin', cache: 'no-store', signal: end.signal });
    if (!answer.ok) return null;
    const link = { name: 'event stream', open: true, close: () => end.abort() };
    setTimeout(() => read(answer.body.getReader(), chunk).finally(() => { link.open = false; closed(); }));
    return link;
  } catch {
    return null;
  } finally {
    clearTimeout(late);
  }
}

async function read(reader, chunk) {
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      chunk(value);
    }
  } catch { /* the connection broke or was closed */ }
}
