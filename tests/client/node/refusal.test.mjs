// What the server refuses.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import grpc from "@grpc/grpc-js";
import { AttendError, Client, Tensor } from "@attend/client";
import { seeded, serving, startServer, using } from "./support.mjs";

const x = Tensor.fp32(seeded(1024), [2, 512]);
const h = Tensor.fp32(seeded(5 * 16), [5, 2, 8]);
const qkv = { query: h, key: h, value: h };
const cut = (row) => [h.rows(0, row), h.rows(row, 5)];

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
      [{ model: "demo", text: "the cat \u{1F600}".slice(0, 9) }, /text\[0\]: expected characters of UTF-8, found a lone surrogate/],
      [{ model: "demo", tokenIds: [1], options: new Map([["causal", true]]) }, /options: expected an object, found Map/],
      [{ model: "\udc00", tokenIds: [1] }, /model: expected characters of UTF-8, found a lone surrogate/],
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
