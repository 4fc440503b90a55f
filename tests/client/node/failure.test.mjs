// What goes wrong: refusals, deadlines, servers that go away, answers that do not hold together.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import grpc from "@grpc/grpc-js";
import { AttendError, Client, Tensor } from "@attend/client";
import { certificateAt, eventually, offersFlag, seeded, startFakeServer, startServer, tlsFlags } from "./support.mjs";

const x = Tensor.fp32(seeded(1024), [2, 512]);

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
      [{ model: "demo", hiddenStates: x, options: { causal: "false" } }, /options.causal: expected true or false, found false/],
      [{ model: "demo", hiddenStates: x, options: { window: 2.5 } }, /options.window: expected an integer, found 2.5/],
      [{ model: "demo", hiddenStates: x, options: { scale: "1" } }, /options.scale: expected a number, found 1/],
      [{ model: "demo", hiddenStates: x, options: { globalTokens: [0, NaN] } }, /options.globalTokens: .* found NaN/],
      [{ model: "demo", hiddenStates: x, layer: 0.5 }, /request.layer: expected an integer, found 0.5/],
      [{ model: "demo", hiddenStates: x.data }, /hiddenStates: expected a Tensor/],
      [{ model: "demo", hiddenStates: [x.data] }, /hiddenStates: expected a Tensor/],
      [{ model: "demo", tokenIds: "12" }, /tokenIds: expected integers, or lists of integers, found 12/],
      [{ model: "demo", tokenIds: [[1], 2] }, /tokenIds: expected integers, or lists of integers, found 2/],
    ]) {
      await assert.rejects(client.attend(request), { name: "TypeError", message: words });
    }
    // Each would be the id of another token.
    for (const wrong of [1.5, NaN, 2 ** 31, 2 ** 32 + 1, 2n ** 32n, "1", null, undefined]) {
      const words = /tokenIds: expected integers of 32 bits, found .* at position 1/;
      await assert.rejects(client.attend({ model: "demo", tokenIds: [7, wrong] }), { name: "TypeError", message: words });
    }
    // grpc-js would end the process.
    for (const timeoutMs of [1e13, Infinity, "5"]) {
      await assert.rejects(client.attend({ model: "demo", tokenIds: [1] }, { timeoutMs }), { name: "RangeError", message: /timeoutMs: expected/ });
    }
    assert.throws(() => Tensor.fp32([1, 2, 3], [2, 2]), /expected 4 elements, found 3/);
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
      const late = { code: "DEADLINE_EXCEEDED", message: /no answer within 50 ms/ };
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

  test("is INTERNAL when blocks are out of order, or the stream ends early", async () => {
    const streams = [
      [{ rows: { firstRow: 1, output: tensor([1, 4], 16) } }],
      [{ rows: { sequence: 1, output: tensor([1, 4], 16) } }],
      [{ rows: { output: tensor([2, 4], 32) } }],
      [{}],
      [{ rows: { output: tensor([1, 4], 16) } }],
      [{ summary: {} }],
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
