// Which calls are made again, and how a call ends: by its deadline or its signal.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import grpc from "@grpc/grpc-js";
import {  } from "@attend/client";
import { faking, using } from "./support.mjs";

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
        const error = { code: name };
        if (name === "DEADLINE_EXCEEDED") {
          error.message = /^server 127.0.0.1:\d+: refused with a timeout of 30000 ms: as told/; // at once
        }
        await assert.rejects(client.listModels(), error);
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

  test("an abort ends it at whatever moment it comes", async () => {
    const request = { model: "demo", tokenIds: [1] };
    const silent = { Attend: () => {}, AttendStream: () => {}, Decode: () => {} };
    await faking(silent, async (client) => {
      for (const start of [
        (call) => client.attend(request, call),
        (call) => client.attendStream(request, call).result(),
        (call) => client.session({ model: "demo" }, call),
      ]) {
        for (let moments = 0; moments < 16; ++moments) {
          const controller = new AbortController();
          const check = assert.rejects(start({ signal: controller.signal, timeoutMs: 20_000 }), /enough/);
          for (let i = 0; i < moments; ++i) {
            await null;
          }
          controller.abort(new Error("enough"));
          await check;
        }
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
