// Large streamed answers: the time to join one grows with its size, not with the square of it.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

const main = createRequire(import.meta.url).resolve("@attend/client");
const url = (name) => pathToFileURL(join(dirname(main), "../esm", name)).href;

test("weights of 30,000 sequences are joined, which would take many minutes if each looked at all others", () => {
  const program = `
    import { Assembler } from "${url("assembler.js")}";
    import { Tensor } from "${url("tensor.js")}";
    const ones = Array(30_000).fill(1);
    const layers = [0, 1];
    const assembler = new Assembler({ tokenIds: { ids: ones, lengths: ones }, weightsChoice: { layers } });
    ones.forEach((_, sequence) => {
      const rows = Tensor.fp32([sequence], [1, 1]);
      assembler.add({ kind: "rows", sequence, firstRow: 0, rows });
      layers.forEach((layer) => assembler.add({ kind: "layerWeights", layer, sequence, head: 0, firstRow: 0, rows }));
    });
    const { layerWeights } = assembler.finish({});
    console.log(layerWeights.length, layerWeights.at(-1).sequence, layerWeights.at(-1).weights.data[0]);`;
  // A process of its own, because nothing else could end it.
  const { stdout, stderr } = spawnSync(process.execPath, ["--input-type=module", "-e", program], { encoding: "utf8", timeout: 120_000 });
  assert.equal(stdout, "60000 29999 29999\n", stderr);
});

test("a block of scores without rows, whose width is anything, is refused", async () => {
  const { Assembler } = await import(url("assembler.js"));
  const { Tensor } = await import(url("tensor.js"));
  const assembler = new Assembler({ tokenIds: { ids: [1], lengths: [1] } }, { returnWeights: true });
  const block = { kind: "weights", sequence: 0, head: 0, firstRow: 0, rows: Tensor.fp32([], [0, 2 ** 52]) };
  assert.throws(() => assembler.add(block), /rows of a block of weights, at least: expected 1, found 0/);
});

test("scores beyond the rows and heads of the request are refused when they come", async () => {
  const { Assembler } = await import(url("assembler.js"));
  const { Tensor } = await import(url("tensor.js"));
  const query = { shape: [2, 1, 4] };
  const ofQuery = [{ queryKeyValue: { query, key: { shape: [3, 1, 4] }, value: { shape: [3, 1, 4] } } }, { returnWeights: true }];
  const ofMemory = [{ hiddenStates: { tensor: { shape: [2, 4] }, memory: { shape: [3, 4] } }, weightsChoice: { layers: [0] } }, {}];
  const ofBlock = (kind, count, place = {}) =>
    ({ kind, sequence: 0, layer: 0, head: 0, firstRow: 0, rows: Tensor.fp32(new Float32Array(3 * count), [count, 3]), ...place });
  for (const [words, asked, ...blocks] of [
    ["rows of head 0 of weights, at most: expected 2, found 3", ofQuery, ofBlock("weights", 3)],
    ["rows of head 0 of weights, at most: expected 2, found 3", ofQuery, ofBlock("weights", 2), ofBlock("weights", 1, { firstRow: 2 })],
    ["head of weights: expected 0 to 0, found 1", ofQuery, ofBlock("weights", 2), ofBlock("weights", 2, { head: 1 })],
    ["head of weights: expected 0 to 0, found -1", ofQuery, ofBlock("weights", 2, { head: -1 })],
    ["rows of head 0 of layerWeights, at most: expected 3, found 4", ofMemory, ofBlock("layerWeights", 3), ofBlock("layerWeights", 1, { firstRow: 3 })],
    ["head of layerWeights: expected 0 to 1, found 2", ofMemory, ofBlock("layerWeights", 3), ofBlock("layerWeights", 3, { head: 2 })],
  ]) {
    const assembler = new Assembler(...asked);
    const last = blocks.pop();
    blocks.forEach((block) => assembler.add(block));
    assert.throws(() => assembler.add(last), { code: "INTERNAL", message: `malformed answer: ${words}` });
  }
});

test("a block whose width no array has room for is refused", async () => {
  const { Assembler } = await import(url("assembler.js"));
  const { Tensor } = await import(url("tensor.js"));
  const width = 2 ** 22;
  const rows = Tensor.bits("FP16", new Uint16Array(width), [1, width]);
  const assembler = new Assembler({ tokenIds: { ids: Array(2 ** 20).fill(1) } }, {});
  const wanted = {
    code: "INTERNAL",
    message: "malformed answer: width of a block: expected one that fits into memory, found [4194304] for 1048576 rows",
  };
  assert.throws(() => assembler.add({ kind: "rows", sequence: 0, firstRow: 0, rows }), wanted);
});

test("a block may have more tokens than a call has arguments", async () => {
  const { Assembler } = await import(url("assembler.js"));
  const assembler = new Assembler({ text: { texts: ["a"] } }, {});
  const tokens = { ids: Array(200_000).fill(1), tokens: Array(200_000).fill("a") };
  assembler.add({ kind: "tokens", sequence: 0, firstToken: 0, tokens });
  assert.deepEqual(assembler.tokens, [tokens]);
});
