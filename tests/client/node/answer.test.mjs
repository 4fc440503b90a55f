// Answers that do not hold together.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import grpc from "@grpc/grpc-js";
import { Tensor } from "@attend/client";
import { faking } from "./support.mjs";

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

  test("is INTERNAL when its tables and tokens are not those that were asked for", async () => {
    const output = tensor([1, 4], 16);
    const weightsChoice = { layers: [0], heads: [0, 1] };
    const [row, rows] = [tensor([1, 1, 1], 4), tensor([1, 2, 1], 8)];
    const halves = { ...tensor([1, 1, 1], 2), dtype: "BF16" };
    const cases = [
      ["number of tables of weights: expected 1, found 0", { options: { returnWeights: true } }, {}],
      ["number of tables of weights: expected 0, found 1", {}, { weights: [row] }],
      ["weights: expected [any, 1, any], found [1, 2, 1]", { options: { returnWeights: true } }, { weights: [rows] }],
      ["logSumExp: expected [any, 1], found [1, 1, 1]", { options: { returnLogSumExp: true } }, { logSumExp: [row] }],
      ["number of tables of topWeights: expected 1, found 0", { options: { weightsTopK: 2 } }, {}],
      ["number of tables of layerWeights: expected 1, found 0", { weightsChoice }, {}],
      ["layerWeights[0]: expected layer 0 of sequence 0, found layer 7 of sequence 0", { weightsChoice }, { layerWeights: [{ layer: 7, weights: row }] }],
      ["layerWeights: expected [2, any, any], found [1, 1, 1]", { weightsChoice }, { layerWeights: [{ weights: row }] }],
      ["number of lists of tokens: expected 0, found 1", {}, { tokens: [{ ids: [1] }] }],
      ...[
        [{ options: { returnWeights: true } }, { weights: [halves] }],
        [{ options: { returnLogSumExp: true } }, { logSumExp: [halves] }],
        [{ options: { weightsTopK: 1 } }, { topWeights: [{ weights: halves, keys: { ...row, dtype: "INT32" } }] }],
        [{ weightsChoice }, { layerWeights: [{ weights: halves }] }],
      ].map((tables) => ["dtype of weights or log-sum-exps: expected FP32, found BF16", ...tables]),
    ];
    for (const [words, asked, answer] of cases) {
      const Attend = (_, callback) => callback(null, { output, summary: {}, ...answer });
      const wanted = { code: "INTERNAL", message: `malformed answer: ${words}` };
      await faking({ Attend }, (client) => assert.rejects(client.attend({ ...request, ...asked }), wanted));
    }
  });

  // Blocks of the scores of one row.
  const weights = (head, shape = [1, 3]) => ({ weights: { head, weights: floats(shape) } });
  const logSumExp = (head, shape = [1]) => ({ logSumExp: { head, logSumExp: floats(shape) } });
  const topWeights = (head, shape = [1, 3], keysShape = shape) =>
    ({ topWeights: { head, topWeights: { weights: floats(shape), keys: { ...floats(keysShape), dtype: "INT32" } } } });
  const layerWeights = (head, shape) => ({ layerWeights: { head, weights: floats(shape) } });
  const floats = (shape) => tensor(shape, 4 * shape.reduce((product, extent) => product * extent, 1));
  const ofHeads = (shape) => Tensor.fp32(new Float32Array(shape.reduce((product, extent) => product * extent, 1)), shape);
  const ofQuery = (options, rows = 1) => ({ query: ofHeads([rows, 2, 4]), key: ofHeads([3, 2, 4]), value: ofHeads([3, 2, 4]), options });
  const streaming = (messages) => (call) => {
    messages.forEach((message) => call.write(message));
    call.end();
  };

  test("is INTERNAL when a block has another rank than its kind", async () => {
    const cases = [
      ...[[], [4], [1, 1, 1, 4]].map((shape) => [
        `number of extents of a block: expected 2 or 3, found ${shape.length}`,
        { rows: { output: floats(shape) } },
      ]),
      ["number of extents of a block: expected 2, found 1", weights(0, [3])],
      ["number of extents of a block: expected 2, found 3", weights(0, [1, 2, 3])],
      ["number of extents of a block: expected 1, found 2", logSumExp(0, [1, 3])],
      ["number of extents of a block: expected 2, found 1", topWeights(0, [3])],
      ["number of extents of a block: expected 2, found 3", layerWeights(0, [1, 1, 3])],
      ["keys of the largest weights: expected [1, 4], found [2, 2]", topWeights(0, [1, 4], [2, 2])],
    ];
    for (const [words, block] of cases) {
      const read = async (client, assemble) => {
        for await (const block of client.attendStream(request, { assemble })) {
          assert.fail(`expected no block, found ${block}`);
        }
      };
      await faking({ AttendStream: streaming([block, { summary: {} }]) }, async (client) => {
        for (const assemble of [true, false]) {
          await assert.rejects(read(client, assemble), { code: "INTERNAL", message: `malformed answer: ${words}` });
        }
      });
    }
  });

  test("is INTERNAL when scores that were asked for do not come, or come for other heads", async () => {
    const all = { returnWeights: true, returnLogSumExp: true, weightsTopK: 3 };
    const ofModel = (options, lengths = [1]) => ({ ...request, tokenIds: lengths.map((length) => Array(length).fill(1)), options });
    const cases = Object.entries({ returnWeights: weights, returnLogSumExp: logSumExp, weightsTopK: topWeights }).flatMap(([option, block]) => {
      const options = { [option]: all[option] };
      const sequence = (number) => ({ [block.name]: { ...block(0)[block.name], sequence: number } });
      const heads = `malformed answer: heads of ${block.name} of a sequence of`;
      return [
        [`${heads} 1 rows: expected 1, found 0`, ofModel(options), []],
        [`${heads} 1 rows: expected 1, found 0`, ofModel(options, [1, 1]), [sequence(0)]],
        [`malformed answer: rows of head 0 of ${block.name}, at most: expected 0, found 1`, ofModel(options, [1, 0]), [sequence(0), sequence(1)]],
        [`${heads} 1 rows: expected 2, found 0`, ofQuery(options), []],
        [`${heads} 1 rows: expected 2, found 1`, ofQuery(options), [block(0)]],
        [`malformed answer: head of ${block.name}: expected 0 to 1, found 2`, ofQuery(options), [block(0), block(1), block(2)]],
      ];
    });
    for (const [message, asked, blocks] of cases) {
      const counts = asked.tokenIds?.map((ids) => ids.length) ?? [1];
      const rows = counts.flatMap((count, sequence) => (count > 0 ? [{ rows: { sequence, output: floats(asked.query ? [1, 2, 4] : [1, 4]) } }] : []));
      const AttendStream = streaming([...rows, ...blocks, { summary: {} }]);
      await faking({ AttendStream }, (client) => assert.rejects(client.attendStream(asked).result(), { code: "INTERNAL", message }));
    }
    const whole = [
      ["weights: expected [2, 1, any], found [1, 1, 3]", { returnWeights: true }, { weights: [floats([1, 1, 3])] }],
      ["logSumExp: expected [2, 1], found [3, 1]", { returnLogSumExp: true }, { logSumExp: [floats([3, 1])] }],
      ["topWeights: expected [2, 1, any], found [1, 1, 3]", { weightsTopK: 3 }, { topWeights: [topWeights(0, [1, 1, 3]).topWeights.topWeights] }],
    ];
    for (const [words, options, answer] of whole) {
      const Attend = (_, callback) => callback(null, { output: floats([1, 2, 4]), summary: {}, ...answer });
      const wanted = { code: "INTERNAL", message: `malformed answer: ${words}` };
      await faking({ Attend }, (client) => assert.rejects(client.attend(ofQuery(options)), wanted));
    }
  });

  test("has no scores of a model when it has no rows, and empty ones of a query without rows", async () => {
    const options = { returnWeights: true, returnLogSumExp: true, weightsTopK: 2 };
    await faking({ AttendStream: streaming([{ summary: {} }]) }, async (client) => {
      const ofModel = await client.attendStream({ model: "demo", tokenIds: [[]], options }).result();
      assert.deepEqual([ofModel.weights, ofModel.logSumExp, ofModel.topWeights], [[], [], []]);
      const { weights, logSumExp, topWeights } = await client.attendStream(ofQuery(options, 0)).result();
      assert.deepEqual([weights[0].shape, logSumExp[0].shape, topWeights[0].weights.shape], [[2, 0, 3], [2, 0], [2, 0, 2]]);
    });
  });

  test("fails its stream with the same error each time", async () => {
    const AttendStream = (call) => call.emit("error", { code: grpc.status.NOT_FOUND, details: "as told" });
    await faking({ AttendStream }, async (client) => {
      const stream = client.attendStream(request);
      await assert.rejects(stream.result(), { code: "NOT_FOUND", message: "as told" });
      await assert.rejects(stream.result(), { code: "NOT_FOUND", message: "as told" });
      const read = async () => {
        for await (const block of stream) {
          assert.fail(`expected no block, found ${block}`);
        }
      };
      await assert.rejects(read(), { code: "NOT_FOUND", message: "as told" });
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
      [{ weights: { weights: { ...tensor([1, 1], 2), dtype: "FP16" } } }],
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
      const outlive = async () => {
        const session = await client.session({ model: "demo" }, { lifetimeMs: 200 }); // may take longer on a busy machine
        await delay(400);
        await session.step({ tokenIds: [1] });
      };
      await assert.rejects(outlive(), { code: "DEADLINE_EXCEEDED", message: /lifetime of the session, 200 ms/ });
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

  test("ends a fork whose numbers are all in use, at the last number or when its time is over", async (t) => {
    const now = Date.now;
    let passed = 0;
    t.mock.method(Date, "now", () => now() + passed);
    const numbers = [];
    const Decode = (call) =>
      call.on("data", ({ id, open, fork }) => {
        if (open) {
          return call.write({ id, result: { length: 0, usage: {} } });
        }
        numbers.push(fork.newSequence);
        passed += 1_000_000;
        call.write({ id, result: { code: grpc.status.ALREADY_EXISTS, message: "as told" } });
      });
    await faking({ Decode }, async (client) => {
      const session = await client.session({ model: "demo" }, { timeoutMs: 2_500_000 });
      await assert.rejects(session.fork(), { code: "ALREADY_EXISTS", message: "as told" });
      assert.deepEqual(numbers, [1, 2, 3]);
      for (let number = 4; number < 65535; number++) {
        session.sequences.add(number); // 65,531 forks would take a while
      }
      await assert.rejects(session.fork(), { code: "ALREADY_EXISTS", message: "as told" });
      assert.deepEqual(numbers, [1, 2, 3, 65535]);
    });
  });

  test("asks to retry after a positive time only", async () => {
    const times = [-5, 0, 7];
    const Decode = (call) =>
      call.on("data", ({ id, open }) => {
        const refused = () => ({ code: grpc.status.RESOURCE_EXHAUSTED, message: "as told", retryAfterMs: times.shift() });
        call.write({ id, result: open ? { length: 0, usage: {} } : refused() });
      });
    await faking({ Decode }, async (client) => {
      const session = await client.session({ model: "demo" });
      for (const retryAfterMs of [undefined, undefined, 7]) {
        await assert.rejects(session.step({ tokenIds: [1] }), { code: "RESOURCE_EXHAUSTED", retryAfterMs });
      }
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
      const wanted = { code: "INTERNAL", message: "malformed answer: id: expected that of an action under way, found 99" };
      await assert.rejects(session.step({ tokenIds: [1] }), wanted);
      await assert.rejects(session.step({ tokenIds: [1] }), wanted);
    });
  });

  test("breaks its session when the end of it shows that", async () => {
    const rows = { rows: { output: tensor([2, 4], 32) } };
    const [result, summary] = [{ length: 3, usage: {} }, {}];
    const step = (session) => session.step({ tokenIds: [1, 2, 3] });
    const cases = [
      ["rows of a sequence: expected 3, found 2", step, { parts: [rows], result: { ...result, summary } }],
      ...[
        ["1 to 2", { topLogits: 2 }, undefined, "0 and 0"],
        ["1 to 2", { topLogits: 2 }, {}, "0 and 0"],
        ["1 to 2", { topLogits: 2 }, { ids: [1, 2, 3], logits: [3, 2, 1] }, "3 and 3"],
        ["1 to 2", { topLogits: 2 }, { ids: [1, 2], logits: [2] }, "2 and 1"],
        ["no", { noOutput: true }, { ids: [1], logits: [1] }, "1 and 1"],
        ["no", { noOutput: true }, {}, "0 and 0"],
      ].map(([expected, asked, topLogits, found]) => [
        `topLogits: expected ${expected} ids and as many logits, found ${found}`,
        (session) => session.step({ tokenIds: [1, 2, 3], ...asked }),
        { result: { ...result, summary, topLogits } },
      ]),
      ...[{ noOutput: true }, { topLogits: 2 }].flatMap((asked) =>
        [rows, weights(0)].map((part) => [
          `parts of an answer without an output: expected tokens, found ${Object.keys(part)[0]}`,
          (session) => session.step({ tokenIds: [1, 2, 3], ...asked }),
          { parts: [part], result: { ...result, summary, ...(asked.topLogits && { topLogits: { ids: [1], logits: [1] } }) } },
        ]),
      ),
      ["summary: expected one, found none", step, { parts: [rows], result }],
      ["usage: expected one, found none", (session) => session.truncate(3), { result: { length: 3 } }],
    ];
    for (const [words, act, answer] of cases) {
      const ids = [];
      const Decode = (call) =>
        call.on("data", ({ id, open }) => {
          ids.push(id);
          call.write({ id, ...(open ? { result: { length: 0, usage: {} } } : answer) });
        });
      await faking({ Decode }, async (client) => {
        const session = await client.session({ model: "demo" });
        const wanted = { code: "INTERNAL", message: `malformed answer: ${words}` };
        await assert.rejects(act(session), wanted);
        await assert.rejects(act(session), wanted);
        assert.equal(ids.length, 2); // the opening, and the first action
        assert.equal(session.length, 0);
      });
    }
  });
});
