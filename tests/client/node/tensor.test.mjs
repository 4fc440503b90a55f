// Half-precision numbers.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Tensor } from "@attend/client";

const round = (kind, ...values) => [...Tensor[kind](Float32Array.from(values), [values.length]).toFloat32()];

test("BF16 rounds to the nearest even and keeps what is no number", () => {
  assert.deepEqual(round("bf16", 1, 1 + 2 ** -8, 1 + 3 * 2 ** -8, -Infinity, 3.4e38, NaN), [1, 1, 1 + 2 ** -6, -Infinity, Infinity, NaN]);
});

test("FP16 rounds to the nearest even, down to its subnormals and up to infinity", () => {
  assert.deepEqual(round("fp16", 1, 1 + 2 ** -11, 1 + 3 * 2 ** -11, 65504, 65519, 65520, -Infinity, NaN), [
    1, 1, 1 + 2 ** -9, 65504, 65504, Infinity, -Infinity, NaN,
  ]);
  assert.deepEqual(round("fp16", 2 ** -24, 2 ** -25, 3 * 2 ** -25, -(2 ** -14), 2 ** -14 - 2 ** -26), [2 ** -24, 0, 2 ** -23, -(2 ** -14), 2 ** -14]);
});

test("every number of 16 bits survives being widened and rounded", () => {
  for (const dtype of ["BF16", "FP16"]) {
    const bits = Uint16Array.from({ length: 1 << 16 }, (_, i) => i);
    const wide = Tensor.bits(dtype, bits, [1 << 16]).toFloat32();
    const back = Tensor[dtype.toLowerCase()](wide, [1 << 16]).data;
    bits.forEach((pattern, i) => Number.isNaN(wide[i]) || assert.equal(back[i], pattern));
  }
});

test("rows and other shapes are views", () => {
  const tensor = Tensor.fp32([1, 2, 3, 4, 5, 6], [3, 2]);
  const last = tensor.rows(1, 3);
  assert.deepEqual([last.shape, [...last.data], last.data.buffer === tensor.data.buffer], [[2, 2], [3, 4, 5, 6], true]);
  assert.deepEqual(tensor.reshape([1, 6]).shape, [1, 6]);
});

test("data and shapes of another type are refused, and named", () => {
  for (const [make, words] of [
    [() => Tensor.fp32(["a"], [1]), /data\[0\]: expected a number, found 'a'/],
    [() => Tensor.fp32([[1, 2], [3, 4]], [2]), /data\[0\]: expected a number, found \[ 1, 2 \]/],
    [() => Tensor.fp32(new Set([1]), [1]), /data: expected a list/],
    [() => Tensor.bf16([1, 2], [2]), /values: expected a Float32Array, found \[ 1, 2 \]/],
    [() => Tensor.bf16(new Float64Array([1, 2]), [4]), /values: expected a Float32Array, found Float64Array/],
    [() => Tensor.fp16(new Uint16Array([1, 2]), [1]), /values: expected a Float32Array/],
    [() => Tensor.bits("FP32", new Uint16Array(4), [4]), /dtype: expected BF16 or FP16, found 'FP32'/],
    [() => Tensor.bits("BF16", new Float32Array(4), [4]), /data: expected a Uint16Array/],
    [() => Tensor.fp32([1, 2], ["2"]), /shape\[0\]: expected an integer, found '2'/],
    [() => Tensor.fp32([1]), /shape: expected a list, found undefined/],
  ]) {
    assert.throws(make, { name: "TypeError", message: words });
  }
  assert.throws(() => Tensor.fp32([], [-1, 0]), RangeError);
});
