// Addresses, certificates, tokens and metadata; servers that go and come back.
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { inspect } from "node:util";
import { AttendError, Client, Tensor } from "@attend/client";
import { certificateAt, eventually, faking, offersFlag, seeded, serving, tlsFlags, using } from "./support.mjs";

const x = Tensor.fp32(seeded(1024), [2, 512]);

describe("a connection", () => {
  test("names a server that is not there", async () => {
    await using({ server: "unix:/nonexistent/attend.sock" }, async (client) => {
      await assert.rejects(client.listModels(), {
        code: "UNAVAILABLE",
        message: /^server unix:\/nonexistent\/attend.sock: Error: connect ENOENT \/nonexistent\/attend.sock$/,
      });
    });
  });

  test("names a port that speaks another protocol", async () => {
    const web = createServer().listen(0, "127.0.0.1");
    await once(web, "listening");
    const refuses = (server, tls, hint) =>
      using({ server, tls, retries: false }, async (client) => {
        const isNamed = ({ code, message }) => code === "UNAVAILABLE" && message.endsWith(` (the server ${hint})`);
        await assert.rejects(client.listModels(), isNamed);
        await assert.rejects(client.session({ model: "demo" }), isNamed);
      });
    const port = web.address().port;
    await refuses(`127.0.0.1:${port}`, false, "speaks no HTTP/2: is this the port of /metrics, or a proxy that needs tls?");
    web.close();
    await serving([], ({ address }) => refuses(address, true, "speaks no TLS: connect without tls"));
    await serving(tlsFlags, ({ address }) =>
      refuses(address, false, "closed the new connection: does it need tls, or a certificate in it?"),
    );
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
