/** The rows of each sequence in an answer. */

import { malformed } from "./errors.js";
import type { AttendRequest as WireRequest } from "./generated/attention/v1/AttendRequest.js";

/** The rows of a sequence; they are counted over all leading extents of the output. */
export interface Span {
  readonly firstRow: number;
  readonly outputRows: number;
  readonly queryLen: number;
  readonly kvLen: number;
}

export interface Layout {
  /** Extents of the output that count rows: [T], [B, S] or [N]. */
  readonly leading: readonly number[];
  readonly isPooled: boolean;
  readonly spans: readonly Span[];
}

export type WireInput = Pick<WireRequest, "hiddenStates" | "tokenIds" | "queryKeyValue" | "text" | "modelOutput">;
/** The extents of a row; undefined stands for any. */
export type RowShape = readonly (number | undefined)[];

/** Returns the extents of a row of the output, [E] or [H, Dv], as far as the request says them. */
export function rowShapeOf({ queryKeyValue, hiddenStates, modelOutput }: WireInput): RowShape {
  if (queryKeyValue) {
    return [queryHeadsOf({ queryKeyValue }), extentOf(queryKeyValue.value?.shape?.at(-1))];
  }
  const isLogits = modelOutput === "LOGITS" || modelOutput === "LAST_LOGITS";
  return [isLogits ? undefined : extentOf((hiddenStates?.tensor ?? hiddenStates?.memory)?.shape?.at(-1))];
}

/** Returns the number of heads, H, where the request says it: in that of a model it is not known. */
export function queryHeadsOf({ queryKeyValue }: WireInput): number | undefined {
  return extentOf(queryKeyValue?.query?.shape?.at(-2));
}

const extentOf = (extent: unknown): number | undefined => (extent === undefined ? undefined : Number(extent));

/** Throws INTERNAL unless `found` has the extents `leading`, and then those of `row`. */
export function checkShape(what: string, leading: readonly number[], row: RowShape, found: readonly number[]): void {
  const expected = [...leading, ...row];
  const holds = (extent: number | undefined, i: number): boolean => extent === undefined || extent === found[i];
  if (found.length !== expected.length || !expected.every(holds)) {
    throw malformed(`${what}: expected [${expected.map((extent) => extent ?? "any").join(", ")}], found [${found.join(", ")}]`);
  }
}

type Cuts = { first: number; count: number }[];

/** Returns the layout of the answer to a request, whose texts have `tokenCounts` tokens. */
export function layoutOf(request: WireInput, tokenCounts: readonly number[]): Layout {
  const { leading, rows, keys } = rowsAndKeys(request, tokenCounts);
  const isPooled = ["MEAN_POOLED", "CLS_POOLED", "LAST_LOGITS"].includes(String(request.modelOutput));
  const spans = rows.map(({ first, count }, index) => ({
    firstRow: isPooled ? index : first,
    outputRows: isPooled ? Math.min(1, count) : count,
    queryLen: count,
    kvLen: keys[index]?.count ?? 0,
  }));
  return { leading: isPooled ? [spans.length] : leading, isPooled, spans };
}

function rowsAndKeys(request: WireInput, tokenCounts: readonly number[]): { leading: number[]; rows: Cuts; keys: Cuts } {
  if (request.queryKeyValue) {
    const { query, key, lengths, kvLengths } = request.queryKeyValue;
    const leading = numbers(query?.shape).slice(0, -2);
    return { leading, rows: cut(leading, numbers(lengths)), keys: cut(numbers(key?.shape).slice(0, -2), numbers(kvLengths)) };
  }
  if (request.hiddenStates) {
    const { tensor, lengths, memory, memoryLengths } = request.hiddenStates;
    const outer = numbers(memory?.shape).slice(0, -1);
    const keys = memory ? cut(outer, numbers(memoryLengths)) : undefined;
    if (!tensor) {
      return { leading: outer, rows: keys ?? [], keys: keys ?? [] }; // the encoder alone
    }
    const leading = numbers(tensor.shape).slice(0, -1);
    const rows = cut(leading, numbers(lengths));
    return { leading, rows, keys: keys ?? rows };
  }
  const lengths = request.text ? tokenCounts : numbers(request.tokenIds?.lengths);
  const total = request.text ? sum(tokenCounts) : (request.tokenIds?.ids?.length ?? 0);
  const rows = request.text && lengths.length === 0 ? [] : cut([total], lengths);
  return { leading: [total], rows, keys: rows };
}

function cut(leading: readonly number[], lengths: readonly number[]): Cuts {
  if (leading.length === 2) {
    const [batch, width] = leading as [number, number];
    return Array.from({ length: batch }, (_, b) => ({ first: b * width, count: lengths[b] ?? width }));
  }
  let first = 0;
  return (lengths.length > 0 ? lengths : leading).map((count) => {
    first += count;
    return { first: first - count, count };
  });
}

function numbers(values: readonly unknown[] | undefined): number[] {
  return (values ?? []).map(Number);
}

export function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
