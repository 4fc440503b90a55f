/** Makes all requests: messages of the arguments of calls. The server checks all but their form. */

import type { AttendRequest as WireRequest } from "./generated/attention/v1/AttendRequest.js";
import type { AttentionOptions as WireOptions } from "./generated/attention/v1/AttentionOptions.js";
import type { DecodeStep } from "./generated/attention/v1/DecodeStep.js";
import type { OpenSession } from "./generated/attention/v1/OpenSession.js";
import type { Tensor as WireTensor } from "./generated/attention/v1/Tensor.js";
import { checkKnown, checkObject, listOf, valueOf, wrong } from "./messages.js";
import { Tensor } from "./tensor.js";
import type { AttendRequest, AttentionOptions, Ids, Input, Rows, SessionRequest, StepRequest, TokenIds } from "./types.js";

/** The kinds of input, and what may stand beside each: anything else would be ignored. */
const BESIDE = {
  hiddenStates: ["lengths", "memory", "memoryLengths", "memoryValues"],
  tokenIds: ["lengths", "typeIds"],
  text: ["noSpecialTokens"],
  query: ["key", "value", "lengths", "kvLengths", "queryOffsets"],
} as const;
const KINDS = Object.keys(BESIDE) as (keyof typeof BESIDE)[];
const INPUT_KEYS = [...new Set([...KINDS, ...KINDS.flatMap((kind): (keyof AttendRequest)[] => [...BESIDE[kind]])])];
const REQUEST_KEYS: readonly (keyof AttendRequest)[] = [
  ...INPUT_KEYS,
  ...(["model", "modelVersion", "layer", "modelOutput", "options", "weightsChoice"] as const),
];
const STEP_KEYS: readonly (keyof StepRequest)[] = [
  ...(["hiddenStates", "tokenIds", "typeIds", "text", "noSpecialTokens", "query", "key", "value", "queryOffsets"] as const),
  ...(["modelOutput", "sequence", "topLogits", "noOutput"] as const),
];

export function attendRequest(request: AttendRequest): WireRequest {
  checkKnown(request, REQUEST_KEYS, "request");
  const { model, layer, modelVersion, modelOutput, weightsChoice } = request;
  const input = inputOf(request);
  if (model === undefined && request.query === undefined) {
    throw new TypeError("model: expected a name, found none (only query, key and value go without)");
  }
  const part = valueOf<WireRequest>("AttendRequest", { model, layer, modelVersion, modelOutput, weightsChoice }, "request");
  return { ...input, ...optionsOf(request.options), ...part };
}

export function openSession(request: SessionRequest): OpenSession {
  checkObject(request, "session");
  const { options, ...rest } = request;
  return { ...valueOf<OpenSession>("OpenSession", rest, "session"), ...optionsOf(options) };
}

export function decodeStep(step: StepRequest): DecodeStep {
  checkKnown(step, STEP_KEYS, "step");
  const { modelOutput, topLogits, noOutput } = step;
  const fields = valueOf<DecodeStep>("DecodeStep", { modelOutput, topLogits, noOutput }, "step");
  return { ...inputOf(step), ...fields, joinParts: true };
}

type WireInput = Pick<WireRequest, "hiddenStates" | "tokenIds" | "queryKeyValue" | "text">;

function inputOf(request: Input & Partial<AttendRequest>): WireInput {
  const kinds = KINDS.filter((kind) => request[kind] !== undefined);
  if (kinds.length === 0 && request.memory !== undefined) {
    kinds.push("hiddenStates"); // the encoder alone
  }
  if (kinds.length !== 1) {
    const found = kinds.join(" and ") || "none";
    throw new TypeError(`input: expected one of hiddenStates, tokenIds, text, or query with key and value; found ${found}`);
  }
  const kind = kinds[0]!;
  const beside: readonly string[] = BESIDE[kind];
  const ignored = INPUT_KEYS.find((key) => request[key] !== undefined && key !== kind && !beside.includes(key));
  if (ignored !== undefined) {
    throw new TypeError(`${ignored}: expected none beside ${kind}, which takes ${beside.join(", ")}; found one`);
  }
  switch (kind) {
    case "hiddenStates":
      return { hiddenStates: hiddenStatesOf(request) };
    case "query":
      return { queryKeyValue: queryKeyValueOf(request) };
    case "text": {
      const texts = listOf<string>("string", typeof request.text === "string" ? [request.text] : request.text, "text");
      return { text: { texts, noSpecialTokens: valueOf("bool", request.noSpecialTokens ?? false, "noSpecialTokens") } };
    }
    case "tokenIds":
      return { tokenIds: tokenIdsOf(request) };
  }
}

function hiddenStatesOf(request: Partial<AttendRequest>): NonNullable<WireInput["hiddenStates"]> {
  const [rows, memory, values] = (["hiddenStates", "memory", "memoryValues"] as const).map((name) =>
    request[name] === undefined ? undefined : pack(request[name], name, "n, E"),
  );
  const memoryLengths = lengthsOf("memoryLengths", request.memoryLengths, memory?.lengths);
  if (memory !== undefined) {
    checkLengths("memoryValues", values?.lengths, "memory", memoryLengths, memory.tensor.shape[0]);
  }
  return {
    tensor: rows ? wireTensor(rows.tensor) : null,
    lengths: lengthsOf("lengths", request.lengths, rows?.lengths),
    memory: memory ? wireTensor(memory.tensor) : null,
    memoryLengths,
    memoryValues: values ? wireTensor(values.tensor) : null,
  };
}

function queryKeyValueOf(request: Partial<AttendRequest>): NonNullable<WireInput["queryKeyValue"]> {
  if (request.key === undefined || request.value === undefined) {
    throw new TypeError("query: expected key and value beside it, found none");
  }
  const query = pack(request.query!, "query", "n, H, D");
  const key = pack(request.key, "key", "n, H, D");
  const value = pack(request.value, "value", "n, H, D");
  const kvLengths = lengthsOf("kvLengths", request.kvLengths, key.lengths);
  checkLengths("value", value.lengths, "key", kvLengths, key.tensor.shape[0]);
  return {
    query: wireTensor(query.tensor),
    key: wireTensor(key.tensor),
    value: wireTensor(value.tensor),
    lengths: lengthsOf("lengths", request.lengths, query.lengths),
    kvLengths,
    queryOffsets: listOf("int64", request.queryOffsets ?? [], "queryOffsets"),
  };
}

function tokenIdsOf(request: Partial<AttendRequest>): NonNullable<WireInput["tokenIds"]> {
  const ids = packIds(request.tokenIds!, "tokenIds");
  const types = packIds(request.typeIds ?? [], "typeIds");
  const lengths = lengthsOf("lengths", request.lengths, ids.lengths);
  checkLengths("typeIds", types.lengths, "tokenIds", lengths, ids.values.length);
  return { ids: ids.values, lengths, typeIds: types.values };
}

function optionsOf(options: AttentionOptions | undefined): { options?: WireOptions } {
  if (options === undefined) {
    return {};
  }
  checkObject(options, "options");
  const { bias, mask, ...rest } = options;
  const wire = valueOf<WireOptions>("AttentionOptions", rest, "options");
  if (bias !== undefined) {
    if (!(bias instanceof Tensor)) {
      throw wrong("options.bias", "a Tensor, as Tensor.fp32(data, shape) makes", bias);
    }
    wire.bias = { ...wireTensor(bias), shape: scoresShape(bias.shape) };
  }
  if (mask !== undefined) {
    checkKnown(mask, ["shape", "data"], "options.mask");
    if (!(mask.data instanceof Uint8Array)) {
      throw wrong("options.mask.data", "a Uint8Array", mask.data);
    }
    const shape = listOf<number>("int64", mask.shape, "options.mask.shape");
    wire.mask = { dtype: "BOOL", shape: scoresShape(shape), data: Buffer.from(mask.data) };
  }
  return { options: wire };
}

function scoresShape(shape: readonly number[]): number[] {
  return [...Array<number>(Math.max(0, 4 - shape.length)).fill(1), ...shape];
}

/** Borrows the elements until the message is encoded. */
function wireTensor(tensor: Tensor): WireTensor {
  const { buffer, byteOffset, byteLength } = tensor.data;
  return { dtype: tensor.dtype, shape: [...tensor.shape], data: Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength) };
}

/** Packs a list of sequences, each of the extents `form`. */
function pack(rows: Rows, name: string, form: string): { tensor: Tensor; lengths?: number[] } {
  if (rows instanceof Tensor) {
    return { tensor: rows };
  }
  if (!Array.isArray(rows) || !rows.every((part) => part instanceof Tensor)) {
    throw wrong(name, "a Tensor, as Tensor.fp32(data, shape) makes, or a list of them", rows);
  }
  const other = rows.find((part) => part.shape.length !== form.split(", ").length);
  if (other !== undefined) {
    throw new TypeError(`${name}: expected sequences [${form}], found [${other.shape.join(", ")}]`);
  }
  const [first] = rows;
  const inner = first?.shape.slice(1).join(", ");
  if (first === undefined || rows.some((part) => part.dtype !== first.dtype || part.shape.slice(1).join(", ") !== inner)) {
    const found = rows.slice(0, 4).map((part) => `${part.dtype} [${part.shape.join(", ")}]`);
    throw new TypeError(`${name}: expected sequences [n, ...] that differ in n only, found ${found.join(", ") || "none"}`);
  }
  const lengths = rows.map((part) => part.shape[0]!);
  const shape = [lengths.reduce((sum, length) => sum + length, 0), ...first.shape.slice(1)];
  const size = rows.reduce((sum, part) => sum + part.data.length, 0);
  const data = first.data instanceof Float32Array ? new Float32Array(size) : new Uint16Array(size);
  let at = 0;
  for (const part of rows) {
    data.set(part.data, at);
    at += part.data.length;
  }
  const tensor =
    data instanceof Float32Array ? Tensor.fp32(data, shape) : Tensor.bits(first.dtype as "BF16" | "FP16", data, shape);
  return { tensor, lengths };
}

function packIds(ids: TokenIds | readonly TokenIds[], name: string): { values: number[]; lengths?: number[] } {
  if (Array.isArray(ids) && typeof ids[0] === "object") {
    const parts = ids.map((part, i) => listOf<number>("int32", part, `${name}[${i}]`));
    return { values: parts.flat(), lengths: parts.map((part) => part.length) };
  }
  return { values: listOf("int32", ids, name) };
}

function lengthsOf(name: string, given: Ids | undefined, ofList: number[] | undefined): number[] {
  const lengths = listOf<number>("int64", given ?? [], name);
  if (given !== undefined && ofList !== undefined) {
    throw wrong(name, "none beside a list of sequences", lengths);
  }
  return ofList ?? lengths;
}

/** A list is packed as the sequences that it belongs to: the lengths of those are sent. No `lengths`: one sequence of `rows`. */
function checkLengths(name: string, found: number[] | undefined, of: string, lengths: number[], rows: number | undefined): void {
  const expected = lengths.length > 0 ? lengths : [rows];
  if (found !== undefined && found.length !== expected.length) {
    throw new TypeError(`${name}: expected as many sequences as ${of} has, ${expected.length}, found ${found.length}`);
  }
  const i = (found ?? []).findIndex((length, position) => length !== expected[position]);
  if (i >= 0) {
    throw new TypeError(`${name}[${i}]: expected the length of that sequence of ${of}, ${expected[i]}, found ${found![i]}`);
  }
}
