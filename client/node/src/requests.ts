/** Makes all requests: messages of the arguments of calls. The server checks all but their form. */

import type { AttendRequest as WireRequest } from "./generated/attention/v1/AttendRequest.js";
import type { AttentionOptions as WireOptions } from "./generated/attention/v1/AttentionOptions.js";
import type { DecodeStep } from "./generated/attention/v1/DecodeStep.js";
import type { OpenSession } from "./generated/attention/v1/OpenSession.js";
import type { Tensor as WireTensor } from "./generated/attention/v1/Tensor.js";
import { checkFields, checkKnown } from "./messages.js";
import { Tensor } from "./tensor.js";
import type { AttendRequest, AttentionOptions, Ids, Input, Rows, SessionRequest, StepRequest, TokenIds } from "./types.js";

const INPUT_KEYS: readonly (keyof AttendRequest)[] = [
  ...(["hiddenStates", "tokenIds", "typeIds", "text", "noSpecialTokens", "query", "key", "value", "modelOutput"] as const),
];
const REQUEST_KEYS: readonly (keyof AttendRequest)[] = [
  ...INPUT_KEYS,
  ...(["model", "modelVersion", "layer", "options", "weightsChoice", "memory", "memoryValues"] as const),
  ...(["lengths", "memoryLengths", "kvLengths", "queryOffsets"] as const),
];
const STEP_KEYS: readonly (keyof AttendRequest | keyof StepRequest)[] = [...INPUT_KEYS, "sequence", "topLogits", "noOutput"];

export function attendRequest(request: AttendRequest): WireRequest {
  checkKnown(request, REQUEST_KEYS, "request");
  const wire: WireRequest = { ...inputOf(request), ...optionsOf(request.options) };
  if (request.model === undefined && request.query === undefined) {
    throw new TypeError("model: expected a name, found none (only query, key and value go without)");
  }
  const { model, layer, modelVersion, modelOutput } = request;
  const part = defined({ model, layer, modelVersion, modelOutput });
  checkFields(part, "AttendRequest", "request");
  return {
    ...wire,
    ...part,
    ...defined({
      weightsChoice: request.weightsChoice && {
        layers: [...request.weightsChoice.layers],
        heads: [...(request.weightsChoice.heads ?? [])],
      },
    }),
  };
}

export function openSession(request: SessionRequest): OpenSession {
  const { options, ...rest } = request;
  checkFields(rest, "OpenSession", "session");
  return { ...defined(rest), ...optionsOf(options) };
}

export function decodeStep(step: StepRequest): DecodeStep {
  checkKnown(step, STEP_KEYS, "step");
  const { modelOutput, topLogits, noOutput } = step;
  const wanted = defined({ modelOutput, topLogits, noOutput });
  checkFields(wanted, "DecodeStep", "step");
  return { ...inputOf(step), ...wanted };
}

type WireInput = Pick<WireRequest, "hiddenStates" | "tokenIds" | "queryKeyValue" | "text">;

function inputOf(request: Input & Partial<AttendRequest>): WireInput {
  const kinds = (["hiddenStates", "tokenIds", "text", "query"] as const).filter((kind) => request[kind] !== undefined);
  if (kinds.length === 0 && request.memory !== undefined) {
    kinds.push("hiddenStates"); // the encoder alone
  }
  if (kinds.length !== 1) {
    const found = kinds.join(" and ") || "none";
    throw new TypeError(`input: expected one of hiddenStates, tokenIds, text, or query with key and value; found ${found}`);
  }
  switch (kinds[0]!) {
    case "hiddenStates":
      return { hiddenStates: hiddenStatesOf(request) };
    case "query":
      return { queryKeyValue: queryKeyValueOf(request) };
    case "text": {
      const texts = typeof request.text === "string" ? [request.text] : [...request.text!];
      return { text: { texts, noSpecialTokens: request.noSpecialTokens ?? false } };
    }
    case "tokenIds": {
      const ids = packIds(request.tokenIds!, "tokenIds");
      const typeIds = request.typeIds === undefined ? [] : packIds(request.typeIds, "typeIds").values;
      return { tokenIds: { ids: ids.values, lengths: lengthsOf("lengths", request.lengths, ids.lengths), typeIds } };
    }
  }
}

function hiddenStatesOf(request: Partial<AttendRequest>): NonNullable<WireInput["hiddenStates"]> {
  const rows = request.hiddenStates && pack(request.hiddenStates, "hiddenStates");
  const memory = request.memory && pack(request.memory, "memory");
  const values = request.memoryValues && pack(request.memoryValues, "memoryValues");
  return {
    tensor: rows ? wireTensor(rows.tensor) : null,
    lengths: lengthsOf("lengths", request.lengths, rows?.lengths),
    memory: memory ? wireTensor(memory.tensor) : null,
    memoryLengths: lengthsOf("memoryLengths", request.memoryLengths, memory?.lengths),
    memoryValues: values ? wireTensor(values.tensor) : null,
  };
}

function queryKeyValueOf(request: Partial<AttendRequest>): NonNullable<WireInput["queryKeyValue"]> {
  if (request.key === undefined || request.value === undefined) {
    throw new TypeError("query: expected key and value beside it, found none");
  }
  const query = pack(request.query!, "query");
  const key = pack(request.key, "key");
  return {
    query: wireTensor(query.tensor),
    key: wireTensor(key.tensor),
    value: wireTensor(pack(request.value, "value").tensor),
    lengths: lengthsOf("lengths", request.lengths, query.lengths),
    kvLengths: lengthsOf("kvLengths", request.kvLengths, key.lengths),
    queryOffsets: [...(request.queryOffsets ?? [])],
  };
}

function optionsOf(options: AttentionOptions | undefined): { options?: WireOptions } {
  if (options === undefined) {
    return {};
  }
  checkFields(options, "AttentionOptions", "options");
  const { bias, mask, ...rest } = options;
  const wire: WireOptions = { ...rest };
  if (bias !== undefined) {
    wire.bias = { ...wireTensor(bias), shape: scoresShape(bias.shape) };
  }
  if (mask !== undefined) {
    wire.mask = { dtype: "BOOL", shape: scoresShape(mask.shape), data: Buffer.from(mask.data) };
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

function pack(rows: Rows, name: string): { tensor: Tensor; lengths?: number[] } {
  if (rows instanceof Tensor) {
    return { tensor: rows };
  }
  if (!Array.isArray(rows) || !rows.every((part) => part instanceof Tensor)) {
    throw new TypeError(`${name}: expected a Tensor, as Tensor.fp32(data, shape) makes, or a list of them`);
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
    const parts = ids.map((part) => idsOf(part, name));
    return { values: parts.flat(), lengths: parts.map((part) => part.length) };
  }
  return { values: idsOf(ids as TokenIds, name) };
}

/** Returns the ids. TypeError for what is none: on the wire it would be the id of another token. */
function idsOf(ids: TokenIds, name: string): number[] {
  if (!Array.isArray(ids) && !ArrayBuffer.isView(ids)) {
    throw new TypeError(`${name}: expected integers, or lists of integers, found ${String(ids)}`);
  }
  return Array.from(ids as ArrayLike<number | bigint>, (given, position) => {
    const id = typeof given === "bigint" ? Number(given) : given;
    if (id !== (id | 0)) {
      throw new TypeError(`${name}: expected integers of 32 bits, found ${String(given)} at position ${position}`);
    }
    return id;
  });
}

function lengthsOf(name: string, given: Ids | undefined, ofList: number[] | undefined): number[] {
  if (given !== undefined && ofList !== undefined) {
    throw new TypeError(`${name}: expected none beside a list of sequences, found [${given.join(", ")}]`);
  }
  return ofList ?? [...(given ?? [])];
}

type Defined<T> = { [K in keyof T]: Exclude<T[K], undefined> };

/** Returns the object without keys that are undefined. */
function defined<T extends object>(object: T): Partial<Defined<T>> {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined)) as Partial<Defined<T>>;
}
