/** Dense row-major arrays of numbers, as they travel. */

import { endianness } from "node:os";

if (endianness() !== "LE") {
  throw new Error("@attend/client: expected a little-endian machine, as the wire is; found a big-endian one");
}

export type Dtype = "FP32" | "BF16" | "FP16";

/** Elements of FP32 are numbers; those of BF16 and FP16 their 16 bits, see `toFloat32`. Data is borrowed, not copied. */
export class Tensor {
  private constructor(
    readonly dtype: Dtype,
    readonly shape: readonly number[],
    readonly data: Float32Array | Uint16Array,
  ) {
    const expected = shape.reduce((product, extent) => product * extent, 1);
    if (shape.some((extent) => !Number.isInteger(extent) || extent < 0) || expected !== data.length) {
      throw new RangeError(`tensor [${shape.join(", ")}]: expected ${expected} elements, found ${data.length}`);
    }
  }

  static fp32(data: Float32Array | readonly number[], shape: readonly number[]): Tensor {
    return new Tensor("FP32", shape, data instanceof Float32Array ? data : Float32Array.from(data));
  }

  /** Rounds to the nearest, ties to even. */
  static bf16(values: Float32Array, shape: readonly number[]): Tensor {
    return new Tensor("BF16", shape, convert(values, toBf16));
  }

  /** Rounds to the nearest, ties to even. */
  static fp16(values: Float32Array, shape: readonly number[]): Tensor {
    return new Tensor("FP16", shape, convert(values, toFp16));
  }

  /** Elements that are BF16 or FP16 already. */
  static bits(dtype: "BF16" | "FP16", data: Uint16Array, shape: readonly number[]): Tensor {
    return new Tensor(dtype, shape, data);
  }

  /** `data` itself of FP32, else a widened copy, which is exact. */
  toFloat32(): Float32Array {
    if (this.data instanceof Float32Array) {
      return this.data;
    }
    return Float32Array.from(this.data, this.dtype === "BF16" ? fromBf16 : fromFp16);
  }

  /** Elements of one row of the first extent. */
  get rowLength(): number {
    return this.shape.slice(1).reduce((product, extent) => product * extent, 1);
  }

  /** Rows first..last-1 of the first extent: a view. */
  rows(first: number, last: number): Tensor {
    const width = this.rowLength;
    const data = this.data.subarray(first * width, last * width);
    return new Tensor(this.dtype, [last - first, ...this.shape.slice(1)], data);
  }

  /** The same elements: a view. */
  reshape(shape: readonly number[]): Tensor {
    return new Tensor(this.dtype, shape, this.data);
  }
}

/** Where a boolean mask lets a row see a key: 1, else 0. */
export interface Mask {
  readonly shape: readonly number[];
  readonly data: Uint8Array;
}

const single = new Float32Array(1);
const bits = new Uint32Array(single.buffer);

function convert(values: Float32Array, toBits: (pattern: number) => number): Uint16Array {
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
