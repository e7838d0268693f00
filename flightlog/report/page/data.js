// data.js: from the JSON in the page to typed arrays.

function bytesFromBase64(text) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes.buffer;
}

const f32 = (text) => new Float32Array(bytesFromBase64(text));
const f64 = (text) => new Float64Array(bytesFromBase64(text));
const u32 = (text) => new Uint32Array(bytesFromBase64(text));
const i32 = (text) => new Int32Array(bytesFromBase64(text));
const u8 = (text) => new Uint8Array(bytesFromBase64(text));

// unpack replaces the base64 of each named field by an array of its type.
function unpack(object, types) {
  for (const [name, type] of Object.entries(types)) object[name] = type(object[name]);
}

// readData returns the page's data with typed arrays, see data.go.
function readData(text) {
  const data = JSON.parse(text);
  unpack(data.columns, {
    dgap: f32, estimate: f32, spread: f32, reward: f32, age: f32, turn: f32, late: f32, busy: f32, skipped: f32,
  });
  unpack(data.starts, { tick: u32, time: f64, flags: u32 });
  unpack(data.labels, { pos: u32, about: i32, value: f32, kind: u8, outcome: u8, asked: u8, row: i32, trust: f32 });
  unpack(data.requests, { from: u32, to: u32, state: u8, dgap: f32 });
  unpack(data.moments, { pos: u32, clock: u32, norm: f64, z: f32, sigma: f32 });
  unpack(data, { episodes: u32 });
  const study = data.study;
  unpack(study, { start: f64, logged_z: f64 });
  unpack(study.labels, {
    pos: u32, clock: u32, age: u32, undoes: i32, volunteered: u8, unasked: u8, undone: u8, known: u8,
    value: f64, confidence: f64, phi: f64,
  });
  unpack(study.ticks, { index: u32, clock: u32, flags: u8, reward: f64, phi: f64 });
  unpack(study.answers, { pos: u32, row: u32, cant_tell: u32 });
  return data;
}
