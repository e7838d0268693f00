// data.js: decodes the data of the page.

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

// unpack decodes each named field from base64 to an array of its type.
function unpack(object, types) {
  for (const [name, type] of Object.entries(types)) object[name] = type(object[name]);
}

// readData returns the page's data with typed arrays, see data.go.
function readData(text) {
  const data = JSON.parse(text);
  unpack(data.columns, {
    dgap: f32, estimate: f32, spread: f32, reward: f32, age: f32, turn: f32, late: f32, busy: f32, skipped: f32,
  });
  unpack(data.starts, { tick: u32, time: f64, flags: u32, state: u32 });
  unpack(data.labels, { pos: u32, about: i32, value: f32, kind: u8, outcome: u8, asked: u8 });
  unpack(data.requests, { from: u32, to: u32, state: u8, dgap: f32 });
  unpack(data.moments, { pos: u32, norm: f64, z: f32, sigma: f32 });
  unpack(data, { episodes: u32 });
  unpack(data.study, { moments: u32 });
  unpack(data.channels, { values: f32 });
  unpack(data.pictures, { time: f64 });
  for (const setting of data.study.settings) {
    unpack(setting, { dgap: f32, estimate: f32, norms: f64, z: f32, skipped: u32 });
  }
  return data;
}
