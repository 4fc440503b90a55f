// The real server, a fake one that misbehaves, and attention in plain loops.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import grpc from "@grpc/grpc-js";
import protoLoader from "@grpc/proto-loader";
import { Client } from "@attend/client";

export const repository = process.env.ATTEND_REPOSITORY;
export const certificateAt = (name) => join(repository, "tests/data/tls", name);
export const tlsFlags = [`--tls-certificate=${certificateAt("server.pem")}`, `--tls-key=${certificateAt("server.key")}`];
const TIMEOUT_MS = 300_000;

export const offersFlag = (flag) => execFileSync(process.env.ATTEND_SERVER, ["--help"], { encoding: "utf8" }).includes(flag);

/** attend-server, on a free port unless told otherwise; resolves once it listens. */
export async function startServer(flags = [], listen = "127.0.0.1:0") {
  // It would listen on ports that others of this machine may have.
  const others = { "--admin-listen": "127.0.0.1:0", "--metrics-listen": "none" };
  const offered = Object.entries(others).filter(([flag]) => offersFlag(flag));
  const hasAdmin = offersFlag("--admin-listen");
  const all = [`--listen=${listen}`, "--log-requests=none", ...offered.map((pair) => pair.join("=")), ...flags];
  const child = spawn(process.env.ATTEND_SERVER, all, { stdio: ["ignore", "pipe", "pipe"] });
  let log = "";
  child.stderr.on("data", (text) => (log += text));
  const stop = async () => {
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGTERM");
    const timer = setTimeout(() => child.kill("SIGKILL"), TIMEOUT_MS);
    await ended;
    clearTimeout(timer);
  };
  const timer = setTimeout(() => child.kill("SIGKILL"), TIMEOUT_MS);
  const found = {};
  for await (const line of createInterface({ input: child.stdout })) {
    const said = /^attend-server (listening|admin) on (.*)$/.exec(line);
    if (said) {
      found[said[1]] = said[2];
    }
    if (found.listening && (!hasAdmin || found.admin)) {
      clearTimeout(timer);
      child.stdout.resume();
      return { address: found.listening, admin: found.admin ?? found.listening, stop };
    }
  }
  clearTimeout(timer);
  throw new Error(`the server did not say where it listens, log: ${log}`);
}

/** Whether it holds in time: a server counts a call once its answer is sent, which the client may have by then. */
export async function eventually(condition) {
  const deadline = Date.now() + TIMEOUT_MS;
  while (!(await condition())) {
    if (Date.now() > deadline) {
      return false;
    }
    await delay(1);
  }
  return true;
}

/** A folder with the checkpoint `gpt2` and a tokenizer for it. */
export function makeModels() {
  const path = mkdtempSync(join(tmpdir(), "attend-models-"));
  cpSync(join(repository, "tests/data/models/gpt2"), join(path, "gpt2"), { recursive: true });
  const header = readFileSync(join(repository, "tests/support/word_tokenizer.h"), "utf8");
  writeFileSync(join(path, "gpt2/tokenizer.json"), header.split('R"(')[1].split(')"')[0]);
  return { path, remove: () => rmSync(path, { recursive: true }) };
}

/** A server with `gpt2` and `demo`, ready. */
export async function startServerWithModels(Client, ...flags) {
  const models = makeModels();
  const server = await startServer([`--models=${models.path}`, ...flags]);
  const client = new Client({ server: server.address });
  assert.ok(await eventually(() => client.checkHealth())); // models are loaded beside listening
  client.close();
  return { ...server, stop: () => server.stop().finally(models.remove) };
}

/** A way to `address` that can be cut. */
export async function startProxy(address) {
  const [host, port] = address.split(":");
  const sockets = [];
  const proxy = createServer((near) => {
    const far = connect(Number(port), host);
    sockets.push(near, far);
    for (const [from, to] of [[near, far], [far, near]]) {
      from.on("error", () => to.destroy()).pipe(to);
    }
  });
  await new Promise((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  const stop = () => {
    proxy.close();
    sockets.forEach((socket) => socket.destroy());
  };
  return { address: `127.0.0.1:${proxy.address().port}`, stop };
}

/** Calls `answers[name](call, callback)`; `calls` says which came. */
export async function startFakeServer(answers) {
  const { attention } = grpc.loadPackageDefinition(
    protoLoader.loadSync("attention/v1/attention.proto", { includeDirs: [join(repository, "proto")], longs: Number }),
  );
  const calls = [];
  const counted = Object.entries(answers).map(([name, answer]) => [
    name,
    (call, callback) => {
      calls.push(name);
      return answer(call, callback);
    },
  ]);
  const server = new grpc.Server();
  server.addService(attention.v1.AttentionService.service, Object.fromEntries(counted));
  const port = await new Promise((resolve, reject) => {
    const insecure = grpc.ServerCredentials.createInsecure();
    server.bindAsync("127.0.0.1:0", insecure, (error, bound) => (error ? reject(error) : resolve(bound)));
  });
  return { address: `127.0.0.1:${port}`, calls, stop: () => server.forceShutdown() };
}

/** N(0, 1)-like, by a small generator. */
export function seeded(size, seed = 1) {
  let state = seed * 2654435761;
  const next = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
  return Float32Array.from({ length: size }, () => next() + next() + next() + next() - 2);
}

/** Of one sequence in doubles: query [n, H, D], key and value [m, Hkv, D] to [n, H, D]. */
export function plainAttention(query, key, value, { causal = false } = {}) {
  const [n, H, D] = query.shape;
  const [m, Hkv] = key.shape;
  const output = new Float64Array(n * H * D);
  for (let i = 0; i < n; i++) {
    for (let h = 0; h < H; h++) {
      const kv = Math.floor(h / (H / Hkv));
      const weights = Array.from({ length: m }, (_, j) => {
        let dot = 0;
        for (let d = 0; d < D; d++) dot += query.data[(i * H + h) * D + d] * key.data[(j * Hkv + kv) * D + d];
        return causal && j > i + m - n ? 0 : Math.exp(dot / Math.sqrt(D));
      });
      const sum = weights.reduce((a, b) => a + b, 0);
      for (let d = 0; d < D; d++) {
        for (let j = 0; j < m; j++) {
          output[(i * H + h) * D + d] += (weights[j] / sum) * value.data[(j * Hkv + kv) * D + d];
        }
      }
    }
  }
  return output;
}

/** Relative L2. */
export function errorOf(found, expected) {
  let difference = 0;
  let norm = 0;
  expected.forEach((value, i) => {
    difference += (found[i] - value) ** 2;
    norm += value ** 2;
  });
  return found.length === expected.length ? Math.sqrt(difference / norm) : Infinity;
}

/** Lets `use` have a client with these options, which is closed afterwards. */
export async function using(options, use) {
  const client = new Client(options);
  try {
    return await use(client);
  } finally {
    client.close();
  }
}

/** Lets `use` have a server with these flags. */
export async function serving(flags, use, listen) {
  const server = await startServer(flags, listen);
  try {
    return await use(server);
  } finally {
    await server.stop();
  }
}

/** Lets `use` have a client, with these options, of a server that gives these answers, and that server. */
export async function faking(answers, use, options = {}) {
  const fake = await startFakeServer(answers);
  try {
    return await using({ server: fake.address, ...options }, (client) => use(client, fake));
  } finally {
    fake.stop();
  }
}
