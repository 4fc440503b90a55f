// What goes wrong: refusals, deadlines, servers that go away, answers that do not hold together.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { inspect } from "node:util";
import grpc from "@grpc/grpc-js";
import { AttendError, Client, Tensor } from "@attend/client";
import { certificateAt, eventually, offersFlag, seeded, startFakeServer, startServer, tlsFlags } from "./support.mjs";

const x = Tensor.fp32(seeded(1024), [2, 512]);
const h = Tensor.fp32(seeded(5 * 16), [5, 2, 8]);
const qkv = { query: h, key: h, value: h };
const cut = (row) => [h.rows(0, row), h.rows(row, 5)];

async function using(options, use) {
  const client = new Client(options);
  try {
    return await use(client);
  } finally {
    client.close();
  }
}

async function serving(flags, use, listen) {
  const server = await startServer(flags, listen);
  try {
    return await use(server);
  } finally {
    await server.stop();
  }
}

async function faking(answers, use, options = {}) {
  const fake = await startFakeServer(answers);
  try {
    return await using({ server: fake.address, ...options }, (client) => use(client, fake));
  } finally {
    fake.stop();
  }
}

describe("a server that refuses", () => {
  let server;
  let client;
  before(async () => {
    server = await startServer();
    client = new Client({ server: server.address });
  });
  after(async () => {
    client?.close();
    await server?.stop();
  });

  test("is quoted, under the code's name", async () => {
    const wrong = client.attend({ model: "demo", hiddenStates: Tensor.fp32([1, 2, 3, 4], [2, 2]) });
    await assert.rejects(wrong, (error) => {
      assert.ok(error instanceof AttendError);
      assert.equal(error.code, "INVALID_ARGUMENT");
      assert.equal(error.message, "hidden_states.tensor.shape: expected rows of 512, found [2, 2]");
      return true;
    });
    await assert.rejects(client.attend({ model: "nobody", hiddenStates: x }), { code: "NOT_FOUND" });
    await assert.rejects(client.attendStream({ model: "nobody", hiddenStates: x }).result(), { code: "NOT_FOUND" });
    await assert.rejects(client.session({ model: "nobody" }), { code: "NOT_FOUND" });
    await assert.rejects(client.listModelStates(), { code: "FAILED_PRECONDITION" });
  });

  test("echoes request ids", async () => {
    const call = client.attend({ model: "nobody", tokenIds: [1] }, { metadata: { "x-request-id": "abc-1" } });
    await assert.rejects(call, (error) => error.trailers["x-request-id"] === "abc-1");
  });

  test("is not asked what says nothing, too much, or what has no name", async () => {
    for (const [request, words] of [
      [{ model: "demo" }, /input: expected one of .*; found none/],
      [{ model: "demo", hiddenStates: x, tokenIds: [1] }, /found hiddenStates and tokenIds/],
      [{ hiddenStates: x }, /model: expected a name/],
      [{ query: x }, /expected key and value/],
      [{ model: "demo", hiddenStates: [x], lengths: [2] }, /lengths: expected none beside a list/],
      [{ model: "demo", hiddenStates: [x, x.reshape([4, 256])] }, /differ in n only/],
      [{ model: "demo", hiddenStates: x, options: { casual: true } }, /options: expected one of .*; found casual/],
      [{ model: "demo", hiddenStates: x, causal: true }, /request: expected one of .*; found causal/],
      [{ model: "demo", hiddenStates: x, options: { causal: "false" } }, /options.causal: expected true or false, found 'false'/],
      [{ model: "demo", hiddenStates: x, options: { window: 2.5 } }, /options.window: expected an integer, found 2.5/],
      [{ model: "demo", hiddenStates: x, options: { scale: "1" } }, /options.scale: expected a number, found '1'/],
      [{ model: "demo", hiddenStates: x, options: { globalTokens: [0, NaN] } }, /options.globalTokens\[1\]: .* found NaN/],
      [{ model: "demo", hiddenStates: x, layer: 0.5 }, /request.layer: expected an integer, found 0.5/],
      [{ model: "demo", hiddenStates: x.data }, /hiddenStates: expected a Tensor/],
      [{ model: "demo", hiddenStates: [x.data] }, /hiddenStates: expected a Tensor/],
      // Each would become another value, or be ignored.
      [{ model: "demo", tokenIds: [1], modelOutput: "pooled" }, /request.modelOutput: expected one of .* LOGITS, .* found 'pooled'/],
      [{ model: "demo", tokenIds: [1], modelOutput: 99 }, /request.modelOutput: .* found 99/],
      [{ ...qkv, options: { similarity: "LINEER" } }, /options.similarity: expected one of DOT_PRODUCT, .* found 'LINEER'/],
      [{ ...qkv, options: { rotary: { based: 5 } } }, /options.rotary: expected one of dim, .*; found based/],
      [{ ...qkv, options: { rotary: { scaling: "lineer" } } }, /options.rotary.scaling: expected one of NONE, .* found 'lineer'/],
      [{ ...qkv, options: { queryNorm: { eps: 1 } } }, /options.queryNorm: .* found eps/],
      [{ ...qkv, options: { sequences: [{}, { causl: true }] } }, /options.sequences\[1\]: .* found causl/],
      [{ ...qkv, options: { sequences: [{ window: 1.9 }] } }, /options.sequences\[0\].window: expected an integer, found 1.9/],
      [{ ...qkv, options: { bias: [1] } }, /options.bias: expected a Tensor/],
      [{ ...qkv, options: { mask: { shape: [1, 1], data: new Float32Array(1) } } }, /options.mask.data: expected a Uint8Array/],
      [{ ...qkv, options: null }, /options: expected an object, found null/],
      [{ ...qkv, options: [] }, /options: expected an object, found \[\]/],
      [{ ...qkv, queryOffsets: [1.5] }, /queryOffsets\[0\]: expected an integer, found 1.5/],
      [{ model: "demo", tokenIds: [1], weightsChoice: { layers: [0], head: [1] } }, /request.weightsChoice: .* found head/],
      [{ model: "demo", tokenIds: [1], weightsChoice: { layers: [0.5] } }, /request.weightsChoice.layers\[0\]: .* found 0.5/],
      [{ model: "demo", hiddenStates: x, lengths: 5 }, /lengths: expected a list, found 5/],
      [{ model: "demo", hiddenStates: x, lengths: [1.5, 0.5] }, /lengths\[0\]: expected an integer, found 1.5/],
      [{ model: "demo", hiddenStates: x, lengths: [2, "0"] }, /lengths\[1\]: expected an integer, found '0'/],
      [{ model: "demo", hiddenStates: null }, /hiddenStates: expected a Tensor/],
      [{ model: "demo", text: [null] }, /text\[0\]: expected a text, found null/],
      [{ model: "demo", text: 5 }, /text: expected a list, found 5/],
      // Inputs of another kind.
      [{ model: "demo", hiddenStates: x, kvLengths: [1] }, /kvLengths: expected none beside hiddenStates/],
      [{ model: "demo", hiddenStates: x, queryOffsets: [1] }, /queryOffsets: expected none beside hiddenStates/],
      [{ model: "demo", hiddenStates: x, key: x }, /key: expected none beside hiddenStates/],
      [{ model: "demo", text: "a", lengths: [1] }, /lengths: expected none beside text/],
      [{ model: "demo", text: "a", typeIds: [1] }, /typeIds: expected none beside text/],
      [{ ...qkv, memory: x }, /memory: expected none beside query/],
      [{ model: "demo", tokenIds: [1], memoryLengths: [1] }, /memoryLengths: expected none beside tokenIds/],
      // Lists.
      [{ model: "demo", hiddenStates: [x.reshape([1, 2, 512])] }, /hiddenStates: expected sequences \[n, E\], found \[1, 2, 512\]/],
      [{ query: [h.reshape([1, 5, 2, 8])], key: h, value: h }, /query: expected sequences \[n, H, D\], found \[1, 5, 2, 8\]/],
      [{ query: cut(2), key: cut(3), value: cut(2) }, /value\[0\]: expected the length of that sequence of key, 3, found 2/],
      [{ query: cut(2), key: cut(3), value: [h] }, /value: expected as many sequences as key has, 2, found 1/],
      [{ query: cut(2), key: h, kvLengths: [3, 2], value: cut(2) }, /value\[0\]: .* of key, 3, found 2/],
      [{ model: "demo", hiddenStates: [x], memory: [x], memoryValues: [x.rows(0, 1)] }, /memoryValues\[0\]: .* of memory, 2, found 1/],
      [{ model: "demo", tokenIds: [[1, 2], [3]], typeIds: [[0], [0, 0]] }, /typeIds\[0\]: .* of tokenIds, 2, found 1/],
      [{ model: "demo", tokenIds: "12" }, /tokenIds: expected a list, found '12'/],
      [{ model: "demo", tokenIds: [[1], 2] }, /tokenIds\[1\]: expected a list, found 2/],
    ]) {
      await assert.rejects(client.attend(request), { name: "TypeError", message: words });
    }
    // Each would be the id of another token.
    for (const wrong of [1.5, NaN, 2 ** 31, 2 ** 32 + 1, 2n ** 32n, "1", null, undefined]) {
      const words = /tokenIds\[1\]: expected an integer of 32 bits, found /;
      await assert.rejects(client.attend({ model: "demo", tokenIds: [7, wrong] }), { name: "TypeError", message: words });
    }
    // grpc-js would end the process.
    for (const timeoutMs of [1e13, Infinity, "5"]) {
      await assert.rejects(client.attend({ model: "demo", tokenIds: [1] }, { timeoutMs }), { name: "RangeError", message: /timeoutMs: expected/ });
    }
    assert.throws(() => Tensor.fp32([1, 2, 3], [2, 2]), /expected 4 elements, found 3/);
    for (const [ask, words] of [
      [() => client.attend(null), /request: expected an object, found null/],
      [() => client.getModel("demo", 1.5), /getModel.version: expected an integer, found 1.5/],
      [() => client.getModel(5), /getModel.model: expected a text, found 5/],
      [() => client.checkHealth(5), /service: expected a text, found 5/],
      [() => client.session(null), /session: expected an object, found null/],
      [() => client.session({ heads: { num_heads: 2 } }), /session.heads: .* found num_heads/],
      [() => client.session({ model: "demo", cacheDtype: "bf8" }), /session.cacheDtype: .* INT8, found 'bf8'/],
    ]) {
      await assert.rejects(ask(), { name: "TypeError", message: words });
    }
    await assert.rejects(client.attend({ model: "demo", tokenIds: [1] }, { timeoutMs: 0 }), /timeoutMs: expected/);
  });

  test("tells the flag when a message is past its limit", async () => {
    await serving(["--max-message-bytes=10000"], ({ address }) =>
      using({ server: address }, async (small) => {
        const large = Tensor.fp32(seeded(20 * 512), [20, 512]);
        const wanted = { code: "RESOURCE_EXHAUSTED", message: /--max-message-bytes/ };
        await assert.rejects(small.attend({ model: "demo", hiddenStates: large }), wanted);
      }),
    );
  });
});

describe("a connection", () => {
  test("names a server that is not there", async () => {
    await using({ server: "unix:/nonexistent/attend.sock" }, async (client) => {
      await assert.rejects(client.listModels(), { code: "UNAVAILABLE", message: /^server unix:\/nonexistent\/attend.sock: / });
    });
  });

  test("finds a server again that comes back", async () => {
    const folder = mkdtempSync(join(tmpdir(), "attend-"));
    const address = `unix:${folder}/attend.sock`;
    await using({ server: address }, async (client) => {
      const open = async () => {
        await client.waitUntilReady("", { timeoutMs: 300_000 });
        return client.session({ model: "demo" });
      };
      for (let i = 0; i < 2; i++) {
        const session = await serving([], open, address);
        await assert.rejects(session.step({ tokenIds: [1] }), AttendError);
      }
    });
    rmSync(folder, { recursive: true });
  });

  test("says that a server is not ready in time", async () => {
    await using({ server: "unix:/nonexistent/attend.sock" }, async (client) => {
      const late = { code: "DEADLINE_EXCEEDED", message: /nonexistent.*: not ready in time/ };
      await assert.rejects(client.waitUntilReady("", { timeoutMs: 200 }), late);
    });
  });

  test("takes turns between servers", async () => {
    await serving([], (one) =>
      serving([], (other) =>
        using({ server: [one.address, other.address] }, async (client) => {
          const hasSome = async (server) => {
            await client.attend({ model: "demo", tokenIds: [1] }); // its connection may come later than the other's
            return using({ server: server.address }, async (c) => (await c.getStatistics()).succeeded > 0);
          };
          for (const server of [one, other]) {
            assert.ok(await eventually(() => hasSome(server)));
          }
        }),
      ),
    );
  });

  test("speaks TLS, to the name and by the authority it expects", async () => {
    const ca = certificateAt("ca.pem");
    await serving(tlsFlags, async ({ address }) => {
      for (const tls of [{ ca }, { ca, serverName: "localhost" }]) {
        await using({ server: address, tls, token: "secret" }, async (client) => assert.ok(await client.checkHealth()));
      }
      for (const tls of [{ ca: readFileSync(ca), serverName: "elsewhere" }, { ca: certificateAt("other_ca.pem") }]) {
        await using({ server: address, tls }, (client) => assert.rejects(client.checkHealth(), { code: "UNAVAILABLE" }));
      }
    });
  });

  test("shows a certificate to servers that demand one", async (t) => {
    if (!offersFlag("--tls-client-ca")) {
      return t.skip("this server does not demand certificates");
    }
    const ca = certificateAt("ca.pem");
    const own = { certificate: certificateAt("client.pem"), key: certificateAt("client.key") };
    await serving([...tlsFlags, `--tls-client-ca=${ca}`], async ({ address }) => {
      await using({ server: address, tls: { ca, ...own } }, async (client) => assert.ok(await client.listModels()));
      await using({ server: address, tls: { ca } }, (client) => assert.rejects(client.listModels(), { code: "UNAVAILABLE" }));
    });
  });

  test("sends no token to another machine in plaintext", () => {
    for (const servers of ["example.com:8001", "dns:///example.com:8001", "127.example.com:1", ["127.0.0.1:1", "10.0.0.1:2"]]) {
      for (const secret of [{ token: "secret" }, { metadata: { Authorization: "Bearer secret" } }]) {
        assert.throws(() => new Client({ server: servers, ...secret }), /token: expected TLS/);
      }
    }
    for (const servers of ["127.0.0.1:1", "localhost:1", "[::1]:1", "unix:/a", "dns:///localhost:1"]) {
      new Client({ server: servers, token: "secret" }).close();
    }
  });

  test("sends no token of a call to another machine in plaintext", async () => {
    const metadata = { Authorization: "Bearer secret" };
    const refused = { name: "TypeError", message: /token: expected TLS/ };
    await using({ server: "example.com:8001" }, async (client) => {
      await assert.rejects(client.attend({ model: "demo", hiddenStates: x }, { metadata }), refused);
      assert.throws(() => client.attendStream({ model: "demo", hiddenStates: x }, { metadata }), refused);
      await assert.rejects(client.session({ model: "demo" }, { metadata }), refused);
      await assert.rejects(client.waitUntilReady("", { metadata }), refused);
    });
  });

  test("does not show a token that cannot be sent", async () => {
    const isSafe = ({ name, message }) =>
      name === "TypeError" && /^(token|metadata.authorization): expected/.test(message) && !message.includes("secret");
    for (const token of ["secret\nsecret", "s\u00e9cret", ["secret"]]) {
      assert.throws(() => new Client({ token }), isSafe);
      assert.throws(() => new Client({ metadata: { authorization: token } }), isSafe);
      await using({ token: () => token }, (client) => assert.rejects(client.listModels(), isSafe));
      await using({}, (client) => assert.rejects(client.listModels({ metadata: { authorization: token } }), isSafe));
    }
  });

  test("keeps its token to itself", async () => {
    const secret = { token: "s3cret", metadata: { authorization: "s3cret" } };
    await using(secret, (client) => {
      assert.doesNotMatch(inspect(client, { depth: Infinity, showHidden: true }), /s3cret/);
      assert.doesNotMatch(JSON.stringify(client), /s3cret/);
    });
    const Decode = (call) => call.on("data", ({ id }) => call.write({ id, result: { length: 0, usage: {} } }));
    await faking({ Decode }, async (client) => {
      const session = await client.session({ model: "demo" });
      assert.doesNotMatch(inspect(session, { depth: Infinity }), /s3cret/);
    }, secret);
  });

  test("sends no token that is empty", async () => {
    const seen = [];
    const ListModels = ({ metadata }, callback) => {
      seen.push(...metadata.get("authorization"));
      callback(null, {});
    };
    for (const token of ["", " \n", () => ""]) {
      await faking({ ListModels }, (client) => client.listModels(), { token });
    }
    assert.deepEqual(seen, []);
    new Client({ server: "example.com:1", token: " " }).close();
  });

  test("refuses metadata that HTTP/2 does not carry", async () => {
    const names = ["", "a b", "\u00e9", ":path", "grpc-timeout", "connection", "Keep-Alive", "te", "transfer-encoding", "upgrade"];
    const refusals = names.map((name) => [{ [name]: "x" }, `metadata: expected a name`, `found ${JSON.stringify(name)}`]);
    for (const [metadata, begin, end] of [...refusals, [{ "x-bin": "s3cret" }, "metadata.x-bin: expected a Buffer", "string"]]) {
      const isRefusal = ({ name, message }) => name === "TypeError" && message.startsWith(begin) && message.endsWith(end);
      assert.throws(() => new Client({ metadata }), isRefusal);
      await using({}, (client) => assert.rejects(client.listModels({ metadata }), isRefusal));
    }
  });

  test("sends bytes under names in -bin", async () => {
    const seen = [];
    const ListModels = ({ metadata }, callback) => {
      seen.push(...metadata.get("trace-bin"));
      callback(null, {});
    };
    const bytes = Buffer.from([0, 255]);
    await faking({ ListModels }, (client) => client.listModels({ metadata: { "Trace-bin": bytes } }));
    assert.deepEqual(seen, [bytes]);
  });

  test("reads certificates as text, and refuses what is none, without showing it", () => {
    const [ca, certificate, key] = ["ca.pem", "client.pem", "client.key"].map((name) => readFileSync(certificateAt(name), "utf8"));
    new Client({ tls: { ca, certificate, key } }).close();
    for (const [tls, words] of [
      [{ ca: Buffer.from("junk") }, /^tls.ca: expected a PEM certificate, found none$/],
      [{ ca: Buffer.alloc(0) }, /^tls.ca: expected a PEM certificate, found none$/],
      [{ ca: certificateAt("client.key") }, /^tls.ca: expected a PEM certificate, found none at .*client.key$/],
      [{ certificate: key, key }, /^tls.certificate: expected a PEM certificate, found none$/],
      [{ certificate, key: certificate }, /^tls.key: expected a PEM private key, found none$/],
      [{ key }, /^tls: expected both certificate and key, or none, found no certificate$/],
    ]) {
      assert.throws(() => new Client({ tls }), { name: "TypeError", message: words });
    }
    assert.throws(() => new Client({ tls: { ca: "/nonexistent/ca.pem" } }), { code: "ENOENT", path: "/nonexistent/ca.pem" });
  });

  test("refuses options that it does not have", async () => {
    for (const [options, words] of [
      [{ adress: "a:1" }, /client: expected one of server, .*; found adress/],
      [{ tls: { cert: "a" } }, /tls: expected one of ca, certificate, .*; found cert/],
      [{ tls: null }, /tls: expected an object, found null/],
      [{ server: 5 }, /server: expected a list, found 5/],
      [{ retries: "no" }, /retries: expected true or false, found 'no'/],
      [null, /client: expected an object, found null/],
    ]) {
      assert.throws(() => new Client(options), { name: "TypeError", message: words });
    }
    await using({}, async (client) => {
      for (const [call, words] of [
        [{ timeout: 50 }, /call: expected one of timeoutMs, signal, metadata.*; found timeout/],
        [{ signal: {} }, /signal: expected an AbortSignal, found {}/],
        [{ metadata: { "x-request-id": 42 } }, /metadata.x-request-id: expected a text/],
        [null, /call: expected an object, found null/],
      ]) {
        const refused = { name: "TypeError", message: words };
        await assert.rejects(client.attend({ model: "demo", hiddenStates: x }, call), refused);
        assert.throws(() => client.attendStream({ model: "demo", hiddenStates: x }, call), refused);
        await assert.rejects(client.session({ model: "demo" }, call), refused);
        await assert.rejects(client.waitUntilReady("", call), refused);
      }
    });
  });

  test("ends its wait for a server with the signal's reason", async () => {
    await using({ server: "unix:/nonexistent/attend.sock", retries: false }, async (client) => {
      const controller = new AbortController();
      const waiting = assert.rejects(client.waitUntilReady("", { signal: controller.signal }), /enough/);
      await delay(150);
      controller.abort(new Error("enough"));
      await waiting;
    });
  });

  test("refuses addresses that are none", () => {
    for (const servers of ["", [], ["1.2.3.4:1", ""], ["unix:/a", "1.2.3.4:1"], "a,b", ["1.2.3.4:1", "::1:2"], "a", "a:0", "a:73537", "http://a:1"]) {
      assert.throws(() => new Client({ server: servers }), /server: expected/);
    }
  });
});

describe("a call", () => {
  const failing = (fake, code, times, pushback) => (call, callback) => {
    const metadata = new grpc.Metadata();
    if (pushback !== undefined) {
      metadata.set("grpc-retry-pushback-ms", pushback);
    }
    return fake().calls.length <= times ? callback({ code, details: "as told", metadata }) : callback(null, { models: [] });
  };
  const failingWith = async (use, code, times, pushback, options) => {
    let server;
    const answer = (call, callback) => failing(() => server, code, times, pushback)(call, callback);
    return faking({ ListModels: answer }, (client, fake) => ((server = fake), use(client, fake)), options);
  };

  test("is tried again when the server is unavailable, so often", async () => {
    await failingWith(async (client, { calls }) => {
      assert.deepEqual(await client.listModels(), []);
      assert.equal(calls.length, 3);
    }, grpc.status.UNAVAILABLE, 2);
    for (const [retries, attempts] of [[true, 5], [false, 1]]) {
      await failingWith(async (client, { calls }) => {
        await assert.rejects(client.listModels(), { code: "UNAVAILABLE", message: /as told/ });
        assert.equal(calls.length, attempts);
      }, grpc.status.UNAVAILABLE, 9, undefined, { retries });
    }
  });

  test("is tried again when the server is full and says when, within the deadline", async () => {
    const full = grpc.status.RESOURCE_EXHAUSTED;
    await failingWith(async (client) => assert.deepEqual(await client.listModels(), []), full, 2, "1");
    for (const [pushback, retryAfterMs] of [[undefined, undefined], ["60000", 60_000]]) {
      await failingWith(async (client, { calls }) => {
        await assert.rejects(client.listModels(), { code: "RESOURCE_EXHAUSTED", retryAfterMs });
        assert.equal(calls.length, 1);
      }, full, 1, pushback, { timeoutMs: 10_000 });
    }
  });

  test("is not tried again for anything else", async () => {
    for (const name of ["INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "UNAUTHENTICATED", "PERMISSION_DENIED", "INTERNAL", "ABORTED"]) {
      await failingWith(async (client, { calls }) => {
        await assert.rejects(client.listModels(), { code: name });
        assert.equal(calls.length, 1);
      }, grpc.status[name], 1);
    }
  });

  test("has a deadline, and ends with its signal", async () => {
    let cancelled;
    const never = (call) => call.on("cancelled", () => cancelled?.());
    const silent = { Attend: never, AttendStream: never, Decode: never };
    await faking(silent, async (client, { calls }) => {
      const request = { model: "demo", tokenIds: [1] };
      const late = { code: "DEADLINE_EXCEEDED", message: /^server 127.0.0.1:\d+: no answer within 50 ms/ };
      await assert.rejects(client.attend(request, { timeoutMs: 50 }), late);
      await assert.rejects(client.attendStream(request, { timeoutMs: 50 }).result(), late);
      await assert.rejects(client.session({ model: "demo" }, { timeoutMs: 50 }), late);
      for (const start of [
        (call) => client.attend(request, call),
        (call) => client.attendStream(request, call).result(),
        (call) => client.session({ model: "demo" }, call),
      ]) {
        const controller = new AbortController();
        const told = new Promise((resolve) => (cancelled = resolve));
        const before = calls.length;
        const answer = start({ signal: controller.signal });
        const check = assert.rejects(answer, /enough/);
        while (calls.length === before) {
          await new Promise((resolve) => setImmediate(resolve));
        }
        controller.abort(new Error("enough"));
        await check;
        await told;
        await assert.rejects(start({ signal: controller.signal }), /enough/);
      }
    });
  });

  test("waits for its token within its deadline and until its signal", async () => {
    const request = { model: "demo", tokenIds: [1] };
    await using({ token: () => new Promise(() => {}) }, async (client) => {
      for (const start of [
        (call) => client.attend(request, call),
        (call) => client.attendStream(request, call).result(),
        (call) => client.session({ model: "demo" }, call),
      ]) {
        await assert.rejects(start({ timeoutMs: 50 }), { code: "DEADLINE_EXCEEDED", message: /no token, or no address, within 50 ms/ });
        const controller = new AbortController();
        const check = assert.rejects(start({ signal: controller.signal }), /enough/);
        await delay(10);
        controller.abort(new Error("enough"));
        await check;
      }
    });
  });

  test("asks for its token each time", async () => {
    const seen = [];
    const answer = ({ metadata }, callback) => {
      seen.push([...metadata.get("authorization"), ...metadata.get("attend-priority")]);
      callback(null, {});
    };
    const tokens = ["first\n", "second"];
    const options = { token: () => tokens.shift(), metadata: { "attend-priority": "low" } };
    await faking({ ListModels: answer }, async (client) => {
      await client.listModels();
      await client.listModels();
    }, options);
    assert.deepEqual(seen, [["Bearer first", "low"], ["Bearer second", "low"]]);
  });
});

describe("an answer that does not hold together", () => {
  const tensor = (shape, bytes) => ({ dtype: "FP32", shape, data: Buffer.alloc(bytes) });
  const request = { model: "demo", tokenIds: [1] };

  test("is INTERNAL when a tensor lies about its size", async () => {
    for (const shape of [[2, 2], [-1, -1], [2 ** 40, 4]]) {
      const Attend = (_, callback) => callback(null, { output: tensor(shape, 4), summary: {} });
      const wanted = { code: "INTERNAL", message: /malformed answer: tensor/ };
      await faking({ Attend }, (client) => assert.rejects(client.attend(request), wanted));
    }
  });

  test("is INTERNAL when it has another shape than was asked for", async () => {
    for (const shape of [[], [1], [2, 4], [1, 4, 1]]) {
      const output = tensor(shape, 4 * shape.reduce((product, extent) => product * extent, 1));
      const Attend = (_, callback) => callback(null, { output, summary: {} });
      const wanted = { code: "INTERNAL", message: `malformed answer: output: expected [1, any], found [${shape.join(", ")}]` };
      await faking({ Attend }, (client) => assert.rejects(client.attend(request), wanted));
    }
  });

  test("fails its stream with the same error each time", async () => {
    const AttendStream = (call) => call.emit("error", { code: grpc.status.NOT_FOUND, details: "as told" });
    await faking({ AttendStream }, async (client) => {
      const stream = client.attendStream(request);
      await assert.rejects(stream.result(), { code: "NOT_FOUND", message: "as told" });
      await assert.rejects(stream.result(), { code: "NOT_FOUND", message: "as told" });
    });
  });

  test("is INTERNAL when blocks are out of order, or the stream ends early", async () => {
    const streams = [
      [{ rows: { firstRow: 1, output: tensor([1, 4], 16) } }],
      [{ rows: { sequence: 1, output: tensor([1, 4], 16) } }],
      [{ rows: { output: tensor([2, 4], 32) } }],
      [{}],
      [{ rows: { output: tensor([1, 4], 16) } }],
      [{ summary: {} }],
      [{ rows: { output: tensor([1], 4) } }, { summary: {} }],
      [{ rows: { output: tensor([0, 2 ** 40], 0) } }, { rows: { output: tensor([1, 4], 16) } }, { summary: {} }],
      [{ rows: { output: tensor([1, 0], 0) } }, { rows: { firstRow: 1, output: tensor([1, 4], 16) } }, { summary: {} }],
      [{ summary: {} }, { rows: { output: tensor([1, 4], 16) } }],
      [{ rows: { output: tensor([1, 4], 16) } }, { summary: {} }, { summary: {} }],
    ];
    for (const messages of streams) {
      const AttendStream = (call) => {
        messages.forEach((message) => call.write(message));
        call.end();
      };
      const wanted = { code: "INTERNAL", message: /malformed answer/ };
      await faking({ AttendStream }, (client) => assert.rejects(client.attendStream(request).result(), wanted));
    }
  });

  test("names the lifetime of a session that is over", async () => {
    const Decode = (call) => call.on("data", ({ id }) => call.write({ id, result: { length: 0, usage: {} } }));
    await faking({ Decode }, async (client) => {
      const session = await client.session({ model: "demo" }, { lifetimeMs: 200 });
      await delay(400);
      await assert.rejects(session.step({ tokenIds: [1] }), { code: "DEADLINE_EXCEEDED", message: /lifetime of the session, 200 ms/ });
    });
  });

  test("numbers the sequences of a session, by bigints too", async () => {
    const Decode = (call) => call.on("data", ({ id }) => call.write({ id, result: { length: 0, usage: {} } }));
    await faking({ Decode }, async (client) => {
      const session = await client.session({ model: "demo" });
      assert.equal(await session.fork(0, 7n), 7);
      assert.equal(await session.fork(), 1);
      await session.release(1n);
      assert.equal(await session.fork(), 1);
    });
  });

  test("breaks its session, once and for all", async () => {
    const Decode = (call) =>
      call.on("data", ({ id, open }) => {
        const result = { length: 0, usage: {} };
        call.write(open ? { id, result } : { id: 99, result });
      });
    await faking({ Decode }, async (client) => {
      const session = await client.session({ model: "demo" });
      const wanted = { code: "INTERNAL", message: /found one to 99/ };
      await assert.rejects(session.step({ tokenIds: [1] }), wanted);
      await assert.rejects(session.step({ tokenIds: [1] }), wanted);
    });
  });
});
