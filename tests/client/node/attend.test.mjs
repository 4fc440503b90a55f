// Answers: against attention in plain loops, and against each other.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { Client, Tensor } from "@attend/client";
import { errorOf, eventually, plainAttention, seeded, startProxy, startServer, startServerWithModels } from "./support.mjs";

const F32 = 6e-7;
let server;
let client;
before(async () => {
  server = await startServerWithModels(Client);
  client = new Client({ server: server.address });
});
after(async () => {
  client?.close();
  await server?.stop();
});

const rows = (n, seed) => Tensor.fp32(seeded(n * 512, seed), [n, 512]);
const heads = (n, h, seed) => Tensor.fp32(seeded(n * h * 16, seed), [n, h, 16]);

async function collect(iterable) {
  const all = [];
  for await (const item of iterable) {
    all.push(item);
  }
  return all;
}

describe("attend", () => {
  test("agrees with attention in plain loops", async () => {
    const [q, k, v] = [heads(7, 4, 1), heads(9, 2, 2), heads(9, 2, 3)];
    const result = await client.attend({ query: q, key: k, value: v, options: { causal: true } });
    assert.deepEqual(result.output.shape, [7, 4, 16]);
    assert.ok(errorOf(result.output.data, plainAttention(q, k, v, { causal: true })) < F32);
    assert.ok(result.summary.computeNs > 0);
  });

  test("says how many tokens the server's prefix cache had", async () => {
    const caching = await startServerWithModels(Client, "--prefix-cache-bytes=1000000");
    const own = new Client({ server: caching.address });
    const request = { model: "gpt2", tokenIds: Array.from({ length: 20 }, (_, i) => i + 1) };
    const counts = [await own.attend(request), await own.attend(request), await own.attendStream(request).result()];
    const session = await own.session({ model: "gpt2" });
    counts.push(await session.step({ tokenIds: request.tokenIds }));
    await session.close();
    own.close();
    await caching.stop();
    assert.deepEqual(counts.map(({ summary }) => summary.cachedTokens), [0, 19, 19, 19]);
  });

  test("packs lists of sequences, and splits their answer", async () => {
    const q = [5, 1, 3].map((n) => heads(n, 2, n));
    const k = [6, 4, 3].map((n) => heads(n, 2, n + 9));
    const result = await client.attend({ query: q, key: k, value: k });
    assert.deepEqual([result.output.shape, result.lengths], [[9, 2, 16], [5, 1, 3]]);
    result.split().forEach((part, i) => assert.ok(errorOf(part.data, plainAttention(q[i], k[i], k[i])) < F32));
  });

  test("cuts padding off", async () => {
    const x = rows(10);
    const result = await client.attend({ model: "demo", hiddenStates: x.reshape([2, 5, 512]), lengths: [5, 2] });
    assert.deepEqual(result.split().map((part) => part.shape), [[5, 512], [2, 512]]);
    const single = await client.attend({ model: "demo", hiddenStates: x.rows(5, 7) });
    assert.deepEqual(result.split()[1].data, single.output.data);
  });

  test("takes arrays that lie anywhere in their buffer", async () => {
    const x = rows(4);
    const shifted = new Float32Array(new ArrayBuffer(4 + 4 * x.data.length), 4);
    shifted.set(x.data);
    const moved = await client.attend({ model: "demo", hiddenStates: Tensor.fp32(shifted, [4, 512]) });
    assert.deepEqual(moved.output.data, (await client.attend({ model: "demo", hiddenStates: x })).output.data);
  });

  test("gives weights, log-sum-exp and the largest weights", async () => {
    const q = heads(6, 2);
    const options = { returnWeights: true, returnLogSumExp: true, weightsTopK: 2 };
    const { weights, logSumExp, topWeights } = await client.attend({ query: q, key: q, value: q, options });
    assert.deepEqual([weights[0].shape, logSumExp[0].shape, topWeights[0].weights.shape], [[2, 6, 6], [2, 6], [2, 6, 2]]);
    for (let row = 0; row < 12; row++) {
      const values = [...weights[0].data.subarray(row * 6, row * 6 + 6)];
      assert.ok(Math.abs(values.reduce((a, b) => a + b) - 1) < 1e-5);
      assert.equal(values[topWeights[0].keys[row * 2]], Math.max(...values));
    }
  });

  test("takes masks and bias", async () => {
    const q = heads(6, 2);
    const data = Uint8Array.from({ length: 36 }, (_, i) => (i % 6 <= Math.floor(i / 6) ? 1 : 0));
    const causal = await client.attend({ query: q, key: q, value: q, options: { causal: true } });
    const masked = await client.attend({ query: q, key: q, value: q, options: { mask: { shape: [6, 6], data } } });
    const bias = Tensor.fp32(Float32Array.from(data, (seen) => (seen ? 0 : -Infinity)), [6, 6]);
    const biased = await client.attend({ query: q, key: q, value: q, options: { bias } });
    assert.deepEqual(masked.output.data, causal.output.data);
    assert.ok(errorOf(biased.output.data, Float64Array.from(causal.output.data)) < F32);
  });

  test("answers BF16 and FP16 in kind", async () => {
    const wide = heads(32, 2);
    const expected = plainAttention(wide, wide, wide);
    for (const [kind, bound] of [["bf16", 1.2e-2], ["fp16", 2e-3]]) {
      const q = Tensor[kind](wide.data, wide.shape);
      const { output } = await client.attend({ query: q, key: q, value: q });
      assert.equal(output.dtype, kind.toUpperCase());
      assert.ok(errorOf(output.toFloat32(), expected) < bound);
    }
  });

  test("runs texts, tokens, layers and stacks", async () => {
    const text = await client.attend({ model: "gpt2", text: ["the cat sat", "on the mat"], modelOutput: "LOGITS" });
    assert.deepEqual(text.tokens[0].tokens, ["[CLS]", "the", "cat", "sat", "[SEP]"]);
    const tokens = text.tokens.map(({ ids }) => Int32Array.from(ids));
    const ids = await client.attend({ model: "gpt2", tokenIds: tokens, modelOutput: "LOGITS" });
    assert.deepEqual(ids.output.data, text.output.data);
    const bigints = tokens.map((part) => BigInt64Array.from(part, BigInt));
    const same = await client.attend({ model: "gpt2", tokenIds: bigints, modelOutput: "LOGITS" });
    assert.deepEqual(same.output.data, text.output.data);
    const last = await client.attend({ model: "gpt2", tokenIds: tokens, modelOutput: "LAST_LOGITS" });
    assert.deepEqual(last.split()[1].data, text.split()[1].rows(4, 5).data);
    const model = await client.getModel("gpt2");
    const x = Tensor.fp32(seeded(4 * model.dModel), [4, model.dModel]);
    const layer = await client.attend({ model: "gpt2", modelVersion: model.version, layer: 1, hiddenStates: x });
    assert.deepEqual(layer.output.shape, [4, model.dModel]);
  });

  test("takes names of enums in small letters", async () => {
    const request = { model: "gpt2", tokenIds: [[1, 2], [3]] };
    const large = await client.attend({ ...request, modelOutput: "LAST_LOGITS" });
    const small = await client.attend({ ...request, modelOutput: "last_logits" });
    assert.deepEqual([small.output, small.split()], [large.output, large.split()]);
    const q = heads(6, 2);
    const outputs = (options) => client.attend({ query: q, key: q, value: q, options }).then(({ output }) => output);
    for (const [lower, upper, other] of [
      [{ similarity: "gaussian", bandwidth: 2 }, { similarity: "GAUSSIAN", bandwidth: 2 }, {}],
      [{ rotary: { scaling: "linear", factor: 4 } }, { rotary: { scaling: "LINEAR", factor: 4 } }, { rotary: {} }],
    ]) {
      assert.deepEqual(await outputs(lower), await outputs(upper));
      assert.notDeepEqual(await outputs(lower), await outputs(other));
    }
    const sizes = await Promise.all(["bf16", "BF16", "FP32"].map(async (cacheDtype) => {
      const session = await client.session({ model: "gpt2", cacheDtype });
      const { usage } = await session.step({ tokenIds: [1, 2, 3] });
      await session.close();
      return usage.cacheBytes;
    }));
    assert.ok(sizes[0] === sizes[1] && sizes[0] < sizes[2], sizes);
  });

  test("takes integers as bigints, and lists as typed arrays", async () => {
    const q = heads(6, 2);
    const arrays = { globalTokens: Int32Array.of(1), alibiSlopes: Float32Array.of(0.5, 0.25), window: 2n };
    const lists = { globalTokens: [1], alibiSlopes: [0.5, 0.25], window: 2 };
    const ask = (options, lengths) => client.attend({ query: q, key: q, value: q, lengths, kvLengths: lengths, options });
    const [found, expected] = [await ask(arrays, [4n, 2n]), await ask(lists, [4, 2])];
    assert.deepEqual([found.output, found.lengths], [expected.output, [4, 2]]);
  });

  test("says what servers say of themselves", async () => {
    const models = await client.listModels();
    assert.deepEqual(models.map(({ name, seed }) => [name, seed]), [["demo", 1], ["gpt2", undefined]]);
    assert.ok((await client.checkHealth()) && (await client.checkHealth("model/gpt2")));
    const before = await client.getStatistics();
    await client.attend({ model: "demo", tokenIds: [1] });
    assert.ok(await eventually(async () => (await client.getStatistics()).succeeded > before.succeeded));
  });

  test("unloads and loads models, and changes what is logged", async () => {
    const admin = new Client({ server: server.admin });
    const [unloaded] = await admin.unloadModel("gpt2");
    assert.deepEqual([unloaded.phase, unloaded.serving], ["UNLOADED", false]);
    await assert.rejects(client.getModel("gpt2"), { code: "NOT_FOUND" });
    const [loaded] = await admin.loadModel("gpt2", 1);
    assert.deepEqual([loaded.phase, loaded.serving], ["READY", true]);
    assert.equal((await admin.reloadModels()).length, 1);
    assert.equal((await admin.verifyModel("gpt2")).weightsDtype, "fp32");
    const logging = await admin.setLogging({});
    assert.deepEqual(await admin.setLogging({ level: "ERROR", requests: "ALL" }), { level: "ERROR", requests: "ALL" });
    assert.equal((await admin.setLogging({ level: "debug" })).level, "DEBUG");
    await assert.rejects(admin.setLogging({ level: "loud" }), { name: "TypeError", message: /setLogging.level: .* INFO, .* 'loud'/ });
    await assert.rejects(admin.setLogging({ levle: "INFO" }), { name: "TypeError", message: /found levle/ });
    assert.deepEqual(await admin.setLogging(logging), logging);
    admin.close();
  });
});

describe("attendStream", () => {
  const everything = { causal: true, returnWeights: true, returnLogSumExp: true, weightsTopK: 3 };
  const q = [5, 1, 3].map((n) => heads(n, 2, n));
  const empty = Tensor.bf16(seeded(0), [0, 2, 16]);
  const requests = {
    padded: { model: "demo", hiddenStates: rows(10).reshape([2, 5, 512]), options: everything },
    shorter: { model: "demo", hiddenStates: rows(10).reshape([2, 5, 512]), lengths: [2, 5] },
    bf16: { model: "demo", hiddenStates: Tensor.bf16(seeded(512), [1, 512]) },
    ragged: { query: q, key: q, value: q, options: everything },
    logits: { model: "gpt2", tokenIds: [[1, 2, 3], [4]], modelOutput: "LOGITS" },
    pooled: { model: "gpt2", tokenIds: [[1, 2, 3], [4]], modelOutput: "LAST_LOGITS" },
    noRows: { query: empty, key: [empty, empty], value: empty, lengths: [0, 0], options: everything },
    noRowsOfModel: { model: "demo", hiddenStates: Tensor.bf16(seeded(0), [2, 0, 512]) },
    texts: { model: "gpt2", text: ["the cat", "sat"], weightsChoice: { layers: [0, 1], heads: [1, 2] } },
  };
  for (const [name, request] of Object.entries(requests)) {
    test(`equals attend bit for bit: ${name}`, async () => {
      const whole = await client.attend(request);
      const streamed = await client.attendStream(request).result();
      for (const part of ["output", "lengths", "weights", "logSumExp", "topWeights", "tokens", "layerWeights"]) {
        assert.deepEqual(streamed[part], whole[part], part);
      }
      assert.deepEqual(streamed.split(), whole.split());
    });
  }

  test("gives blocks in row order, and then the summary", async () => {
    const long = Tensor.fp32(seeded(3000 * 4 * 64), [3000, 4, 64]);
    const key = long.rows(0, 64);
    const stream = client.attendStream({ query: long, key, value: key }, { assemble: false });
    const blocks = await collect(stream);
    assert.ok(blocks.length > 2);
    let next = 0;
    for (const block of blocks) {
      assert.deepEqual([block.kind, block.sequence, block.firstRow], ["rows", 0, next]);
      next += block.rows.shape[0];
    }
    assert.deepEqual([next, stream.summary.batchTokens], [3000, 3000]);
    await assert.rejects(stream.result(), { code: "FAILED_PRECONDITION" });
  });

  test("ends the call when the loop ends early", async () => {
    const long = Tensor.fp32(seeded(3000 * 4 * 64), [3000, 4, 64]);
    const key = long.rows(0, 64);
    const stream = client.attendStream({ query: long, key, value: key });
    for await (const block of stream) {
      assert.equal(block.firstRow, 0);
      break;
    }
    await assert.rejects(stream.result(), { code: "CANCELLED" });
  });

  test("reads its request and starts its deadline at the call", async () => {
    const x = rows(2);
    const expected = await client.attend({ model: "demo", hiddenStates: x });
    const stream = client.attendStream({ model: "demo", hiddenStates: x });
    const late = client.attendStream({ model: "demo", hiddenStates: x }, { timeoutMs: 50 });
    x.data.fill(0);
    await delay(100);
    assert.deepEqual((await stream.result()).output, expected.output);
    await assert.rejects(late.result(), { code: "DEADLINE_EXCEEDED", message: /within 50 ms/ });
  });
});

describe("session", () => {
  test("does nothing for numbers that are none", async () => {
    const session = await client.session({ model: "gpt2" }, { timeoutMs: 1000 });
    await session.step({ tokenIds: [1, 2, 3] });
    const throwing = { get low() { throw new Error("not to be read"); } };
    for (const length of [undefined, NaN, "abc", { length: 2 }, null, 1.5, throwing]) {
      await assert.rejects(session.truncate(length), { name: "TypeError", message: /truncate.length: expected an integer/ });
    }
    for (const [act, words] of [
      [() => session.truncate(1, "0"), /truncate.sequence: expected an integer/],
      [() => session.release(), /release.sequence: expected an integer/],
      [() => session.fork(0, 5.5), /fork.newSequence: expected an integer/],
      [() => session.fork("0"), /fork.sequence: expected an integer/],
      [() => session.step({ tokenIds: [4], sequence: 1.7 }), /step.sequence: expected an integer/],
      [() => session.step({ tokenIds: [4], topLogits: "5" }), /step.topLogits: expected an integer/],
      [() => session.step({ tokenIds: [4], queryOffsets: [0] }), /queryOffsets: expected none beside tokenIds/],
    ]) {
      await assert.rejects(act(), { name: "TypeError", message: words });
    }
    await delay(1100); // a timer that one of them left would end the session
    const { length, usage } = await session.step({ tokenIds: [4] });
    assert.deepEqual([length, usage.sequences], [4, 1]);
    await session.close();
  });

  test("takes deadlines that are longer than a timer can wait", async () => {
    const session = await client.session({ model: "demo" }, { timeoutMs: 30 * 24 * 3600 * 1000 });
    assert.equal((await session.step({ tokenIds: [1] })).length, 1);
    await session.close();
  });

  test("takes the position of a step's rows", async () => {
    const [q, k] = [heads(1, 2, 1), heads(3, 2, 2)];
    const whole = await client.attend({ query: q, key: k, value: k, queryOffsets: [1], options: { causal: true } });
    const session = await client.session({ heads: { numHeads: 2, headDim: 16, dtype: "fp32" } });
    const { output, length } = await session.step({ query: q, key: k, value: k, queryOffsets: [1] });
    await session.close();
    assert.deepEqual([output, length], [whole.output, 3]);
  });

  test("gives a step without query rows the scores of none", async () => {
    const [q, k] = [heads(0, 2, 1), heads(3, 2, 2)];
    const options = { returnWeights: true, returnLogSumExp: true };
    const session = await client.session({ heads: { numHeads: 2, headDim: 16 }, options });
    const step = await session.step({ query: q, key: k, value: k, queryOffsets: [0] });
    await session.close();
    assert.deepEqual([step.output.shape, step.weights.shape, step.logSumExp.shape, step.length], [[0, 2, 16], [2, 0, 3], [2, 0], 3]);
  });

  test("stays as it was when a step is larger than the server takes", async () => {
    const small = await startServer(["--max-message-bytes=100000"]);
    const own = new Client({ server: small.address });
    const session = await own.session({ model: "demo" });
    assert.equal(session.maxMessageBytes, 100000);
    await session.step({ hiddenStates: rows(40) });
    await assert.rejects(session.step({ hiddenStates: rows(60) }), {
      code: "RESOURCE_EXHAUSTED",
      message: /expected at most 100000 bytes \(the server's flag --max-message-bytes\), found 12/,
    });
    assert.equal((await session.step({ hiddenStates: rows(1) })).length, 41);
    await session.close();
    own.close();
    await small.stop();
  });

  test("finishes what is under way when it is closed, and refuses what comes later", async () => {
    const session = await client.session({ model: "demo" });
    const step = session.step({ hiddenStates: rows(500) });
    const closing = [session.close(), session.close()];
    const closed = { code: "FAILED_PRECONDITION", message: "the session was closed" };
    const refused = [session.step({ hiddenStates: rows(1) }), session.fork(), session.truncate(0)].map((later) => assert.rejects(later, closed));
    assert.equal((await step).length, 500);
    await Promise.all([...closing, ...refused]);
    await assert.rejects(session.step({ hiddenStates: rows(1) }), closed);
  });

  test("equals one request bit for bit, however it is cut", async () => {
    const x = rows(9);
    const whole = await client.attend({ model: "demo", hiddenStates: x, options: { causal: true } });
    const session = await client.session({ model: "demo" });
    const steps = [[0, 4], [4, 5], [5, 9]].map(([first, last]) => ({ hiddenStates: x.rows(first, last) }));
    const results = await collect(session.steps(steps));
    await session.close();
    assert.deepEqual(results.flatMap(({ output }) => [...output.data]), [...whole.output.data]);
    assert.deepEqual(results.map(({ length }) => length), [4, 5, 9]);
    await assert.rejects(session.step(steps[0]), { code: "FAILED_PRECONDITION" });
  });

  test("answers what its options ask for", async () => {
    const [q, k] = [heads(6, 4, 1), heads(6, 2, 2)];
    const options = { window: 3, returnWeights: true, returnLogSumExp: true, weightsTopK: 2 };
    const whole = await client.attend({ query: q, key: k, value: k, options: { ...options, causal: true } });
    const session = await client.session({ heads: { numHeads: 4, numKvHeads: 2, headDim: 16 }, options });
    const step = await session.step({ query: q, key: k, value: k });
    await session.close();
    for (const part of ["weights", "logSumExp", "topWeights"]) {
      assert.deepEqual(step[part], whole[part][0], part);
    }
    assert.deepEqual(step.output, whole.output);
  });

  test("forks, truncates and releases; steps of many sequences side by side", async () => {
    const session = await client.session({ model: "gpt2", cacheDtype: "FP32" });
    assert.equal((await session.prefill({ tokenIds: [1, 2, 3] })).output, undefined);
    assert.deepEqual([await session.fork(), await session.fork(), await session.fork(1, 7)], [1, 2, 7]);
    session.truncate(2, 2); // actions on a sequence take place in the order of the calls
    const [first, second] = await Promise.all([
      session.step({ sequence: 1, tokenIds: [4], modelOutput: "LOGITS" }),
      session.step({ sequence: 2, tokenIds: [3, 4], modelOutput: "LOGITS" }),
    ]);
    assert.deepEqual(second.output.rows(1, 2).data, first.output.data);
    assert.equal((await session.release(7)).usage.sequences, 3);
    await assert.rejects(session.truncate(99), { code: "INVALID_ARGUMENT", message: /truncate.length: expected 0 to 3/ });
    assert.equal(session.length, 3); // sequence 0 is as it was
    assert.equal((await session.step({ tokenIds: [5] })).length, 4);
    assert.equal(session.length, 4);
    await session.close();
  });

  test("a number is free unless its sequence exists", async () => {
    const session = await client.session({ model: "gpt2" });
    await assert.rejects(session.fork(9), { code: "NOT_FOUND" });
    assert.equal(await session.fork(), 1);
    await assert.rejects(session.fork(0, 1), { code: "ALREADY_EXISTS" });
    const released = session.release(1); // may wait for an action before it
    assert.equal(await session.fork(), 2);
    await released;
    assert.equal(await session.fork(), 1);
    await session.close();
  });

  test("gives the largest logits of texts", async () => {
    const whole = await client.attend({ model: "gpt2", text: "the cat", modelOutput: "LAST_LOGITS" });
    const session = await client.session({ model: "gpt2" });
    const { topLogits, output, tokens } = await session.step({ text: "the cat", topLogits: 2 });
    await session.close();
    assert.deepEqual([output, tokens.tokens], [undefined, ["[CLS]", "the", "cat", "[SEP]"]]);
    assert.equal(topLogits.logits[0], Math.max(...whole.output.data));
    assert.equal(whole.output.data[topLogits.ids[1]], topLogits.logits[1]);
    assert.deepEqual(topLogits.tokens.map(Buffer.isBuffer), [true, true]);
  });

  test("is resumed when its connection broke", async () => {
    const x = rows(5);
    const proxy = await startProxy(server.address);
    const broken = new Client({ server: proxy.address });
    const whole = await client.attend({ model: "demo", hiddenStates: x, options: { causal: true } });
    const session = await broken.session({ model: "demo", resumeTtlMs: 60_000 });
    await session.step({ hiddenStates: x.rows(0, 3) });
    assert.equal(await session.fork(), 1);
    proxy.stop();
    await assert.rejects(session.step({ hiddenStates: x }), { code: "UNAVAILABLE" });
    broken.close();
    assert.ok(await eventually(async () => (await client.getStatistics()).parkedSessions === 1));
    const resumed = await client.session({ resumeToken: session.resumeToken });
    assert.equal(resumed.length, 3);
    assert.equal(await resumed.fork(), 2); // the first fork is there still
    const { output } = await resumed.step({ hiddenStates: x.rows(3, 5) });
    assert.deepEqual(output.data, whole.output.rows(3, 5).data);
    await resumed.close();
  });
});
