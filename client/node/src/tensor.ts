/** Dense row-major arrays of numbers, in the form of messages. */

import { endianness } from "node:os";
import { listOf, wrong } from "./messages.js";

if (endianness() !== "LE") {
  throw new Error("@attend/client: expected a little-endian machine, as the wire is; found a big-endian one");
}

export type Dtype = "FP32" | "BF16" | "FP16";

/** A tensor, which borrows its data. FP32 elements are numbers; BF16 and FP16 elements are their 16 bits (see `toFloat32`). */
export class Tensor {
  readonly shape: readonly number[];

  private constructor(
    readonly dtype: Dtype,
    shape: readonly number[],
    readonly data: Float32Array | Uint16Array,
  ) {
    this.shape = listOf<number>("int64", shape, "shape");
    const expected = this.shape.reduce((product, extent) => product * extent, 1);
    if (this.shape.some((extent) => extent < 0) || expected !== data.length) {
      throw new RangeError(`tensor [${this.shape.join(", ")}]: expected ${expected} elements, found ${data.length}`);
    }
  }

  /** Makes an FP32 tensor. RangeError if shape and data differ in size, TypeError for data of another type, here and below. */
  static fp32(data: Float32Array | readonly number[], shape: readonly number[]): Tensor {
    return new Tensor("FP32", shape, data instanceof Float32Array ? data : Float32Array.from(listOf<number>("float", data, "data")));
  }

  /** Makes a BF16 tensor: rounds to the nearest, ties to even. */
  static bf16(values: Float32Array, shape: readonly number[]): Tensor {
    return new Tensor("BF16", shape, convert(values, toBf16));
  }

  /** Makes an FP16 tensor: rounds to the nearest, ties to even. */
  static fp16(values: Float32Array, shape: readonly number[]): Tensor {
    return new Tensor("FP16", shape, convert(values, toFp16));
  }

  /** Makes a tensor of the bits of BF16 or FP16 elements. */
  static bits(dtype: "BF16" | "FP16", data: Uint16Array, shape: readonly number[]): Tensor {
    if (dtype !== "BF16" && dtype !== "FP16") {
      throw wrong("dtype", "BF16 or FP16", dtype);
    }
    if (!(data instanceof Uint16Array)) {
      throw wrong("data", "a Uint16Array", data);
    }
    return new Tensor(dtype, shape, data);
  }

  /** Returns `data` itself if it is FP32, else an exact FP32 copy. */
  toFloat32(): Float32Array {
    if (this.data instanceof Float32Array) {
      return this.data;
    }
    return Float32Array.from(this.data, this.dtype === "BF16" ? fromBf16 : fromFp16);
  }

  /** The number of elements of one row of the first extent. */
  get rowLength(): number {
    return this.shape.slice(1).reduce((product, extent) => product * extent, 1);
  }

  /** Returns a view of rows [first, last) of the first extent. */
  rows(first: number, last: number): Tensor {
    const width = this.rowLength;
    const data = this.data.subarray(first * width, last * width);
    return new Tensor(this.dtype, [last - first, ...this.shape.slice(1)], data);
  }

  /** Returns a view of the same elements with another shape. */
  reshape(shape: readonly number[]): Tensor {
    return new Tensor(this.dtype, shape, this.data);
  }
}

/** A mask of keys by row: 1 lets the row attend to the key, 0 hides it. */
export interface Mask {
  readonly shape: readonly number[];
  readonly data: Uint8Array;
}

const single = new Float32Array(1);
const bits = new Uint32Array(single.buffer);

function convert(values: Float32Array, toBits: (pattern: number) => number): Uint16Array {
  if (!(values instanceof Float32Array)) {
    throw wrong("values", "a Float32Array", values);
  }
  const patterns = new Uint32Array(values.buffer.slice(values.byteOffset, values.byteOffset + values.byteLength));
  return Uint16Array.from(patterns, toBits);
}

function toBf16(pattern: number): number {
  if ((pattern & 0x7fffffff) > 0x7f800000) {
    return (pattern >>> 16) | 0x40; // NaN stays NaN
  }
  return (pattern + 0x7fff + ((pattern >>> 16) & 1)) >>> 16;
}

function fromBf16(half: number): number {
  bits[0] = half << 16;
  return single[0]!;
}

function toFp16(pattern: number): number {
  const sign = (pattern >>> 16) & 0x8000;
  const magnitude = pattern & 0x7fffffff;
  if (magnitude > 0x7f800000) {
    return sign | 0x7e00;
  }
  if (magnitude >= 0x477ff000) {
    return sign | 0x7c00; // 65520 and more round to infinity
  }
  if (magnitude >= 0x38800000) {
    return sign | ((magnitude + 0xfff + ((magnitude >>> 13) & 1) - 0x38000000) >>> 13);
  }
  bits[0] = magnitude;
  const units = single[0]! * 2 ** 24; // of the smallest subnormal
  const below = Math.floor(units);
  const up = units - below > 0.5 || (units - below === 0.5 && below % 2 === 1);
  return sign | (below + (up ? 1 : 0));
}

function fromFp16(half: number): number {
  const sign = half & 0x8000 ? -1 : 1;
  const exponent = (half >>> 10) & 0x1f;
  const fraction = half & 0x3ff;
  if (exponent === 31) {
    return fraction === 0 ? sign * Infinity : NaN;
  }
  return exponent === 0 ? sign * fraction * 2 ** -24 : sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}
