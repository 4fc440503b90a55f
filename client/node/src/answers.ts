/** Converts messages to results. A message that does not fit the request is an INTERNAL error. */

import type { AttendRequest as WireRequest } from "./generated/attention/v1/AttendRequest.js";
import type { AttendResponse__Output } from "./generated/attention/v1/AttendResponse.js";
import type { AttendStreamResponse__Output } from "./generated/attention/v1/AttendStreamResponse.js";
import type { Tensor__Output } from "./generated/attention/v1/Tensor.js";
import type { TopWeights__Output } from "./generated/attention/v1/TopWeights.js";
import { malformed } from "./errors.js";
import { checkShape, layoutOf, queryHeadsOf, rowShapeOf, type Layout, type RowShape, type Span } from "./layout.js";
import { Tensor } from "./tensor.js";
import type { Block, LayerWeights, Summary, TokenizedText, TopLogits, TopWeights } from "./types.js";

/**
 * The answer to a request. `output` has the form of the input: [B, S, E] or [T, E] ([T, E] for lists of sequences, token ids and
 * texts); [N, E], [T, V] or [N, V] as modelOutput says; [B, Sq, H, Dv] or [T, H, Dv] for query, key and value. Its dtype is that
 * of the input's rows, and FP32 for token ids and texts.
 */
export class AttendResult {
  /** The number of rows of each sequence. */
  readonly lengths: readonly number[];

  constructor(
    readonly output: Tensor,
    readonly summary: Summary,
    private readonly layout: Layout,
    /** FP32 [H, query_len, kv_len] of each sequence, with returnWeights. */
    readonly weights: readonly Tensor[],
    /** FP32 [H, query_len] of each sequence, with returnLogSumExp. */
    readonly logSumExp: readonly Tensor[],
    /** The largest weights of each sequence, with weightsTopK. */
    readonly topWeights: readonly TopWeights[],
    /** The tokens of each text. */
    readonly tokens: readonly TokenizedText[],
    /** The weights of the chosen layers, sequence by sequence, with weightsChoice. */
    readonly layerWeights: readonly LayerWeights[],
  ) {
    this.lengths = layout.spans.map((span) => span.queryLen);
  }

  /** Returns the output of each sequence without padding: views, [n, ...], or [...] if it is pooled. */
  split(): Tensor[] {
    const { leading, isPooled, spans } = this.layout;
    const inner = this.output.shape.slice(leading.length);
    const flat = this.output.reshape([leading.reduce((rows, extent) => rows * extent, 1), ...inner]);
    return spans.map(({ firstRow, outputRows }) =>
      isPooled ? flat.rows(firstRow, firstRow + 1).reshape(inner) : flat.rows(firstRow, firstRow + outputRows),
    );
  }
}

export function attendResult(request: WireRequest, message: AttendResponse__Output): AttendResult {
  const output = readTensor(sent(message.output, "output"));
  checkNumber("lists of tokens", request.text?.texts?.length ?? 0, message.tokens);
  const layout = layoutOf(request, message.tokens.map((text) => text.ids.length));
  checkShape("output", layout.leading, rowShapeOf(request), output.shape);
  const { returnWeights, returnLogSumExp, weightsTopK } = request.options ?? {};
  const weights = message.weights.map(readScores);
  const sums = message.logSumExp.map(readScores);
  const top = message.topWeights.map(readTopWeights);
  const heads = queryHeadsOf(request);
  checkTables("weights", returnWeights ? layout.spans : [], weights, heads, [undefined]);
  checkTables("logSumExp", returnLogSumExp ? layout.spans : [], sums, heads, []);
  checkTables("topWeights", Number(weightsTopK ?? 0) > 0 ? layout.spans : [], top.map((tables) => tables.weights), heads, [undefined]);
  const layerWeights = message.layerWeights.map(({ layer, sequence, weights: table }) => ({ layer, sequence, weights: readScores(table) }));
  checkLayers(request.weightsChoice, layout.spans.length, layerWeights);
  return new AttendResult(
    output,
    sent(message.summary, "summary"),
    layout,
    weights,
    sums,
    top,
    message.tokens.map(readTokens),
    layerWeights,
  );
}

function checkNumber(what: string, expected: number, found: readonly unknown[]): void {
  if (found.length !== expected) {
    throw malformed(`number of ${what}: expected ${expected}, found ${found.length}`);
  }
}

/** Checks that each sequence of `spans` has a table of its rows, [heads, rows, ...columns]. */
function checkTables(kind: string, spans: readonly Span[], tables: readonly Tensor[], heads: number | undefined, columns: RowShape): void {
  checkNumber(`tables of ${kind}`, spans.length, tables);
  spans.forEach((span, i) => checkShape(kind, [], [heads, span.queryLen, ...columns], tables[i]!.shape));
}

/** Checks that the weights are those of the chosen layers and heads, sequence by sequence. */
function checkLayers(choice: WireRequest["weightsChoice"], numSequences: number, tables: readonly LayerWeights[]): void {
  const layers = (choice?.layers ?? []).map(Number);
  checkNumber("tables of layerWeights", numSequences * layers.length, tables);
  tables.forEach(({ layer, sequence, weights }, i) => {
    const expected = { layer: layers[i % layers.length], sequence: Math.floor(i / layers.length) };
    if (layer !== expected.layer || sequence !== expected.sequence) {
      throw malformed(
        `layerWeights[${i}]: expected layer ${expected.layer} of sequence ${expected.sequence}, found layer ${layer} of sequence ${sequence}`,
      );
    }
    checkShape("layerWeights", [], [choice?.heads?.length || undefined, undefined, undefined], weights.shape);
  });
}

/** Reads a message of a stream that is not the summary. */
export function readBlock(message: AttendStreamResponse__Output): Block {
  if (message.rows) {
    const { sequence, firstRow, output } = message.rows;
    return { kind: "rows", sequence, firstRow, rows: ofRank(readTensor(output), 2, 3) };
  }
  if (message.tokens) {
    const { sequence, firstToken, tokens } = message.tokens;
    return { kind: "tokens", sequence, firstToken, tokens: readTokens(tokens ?? { ids: [], tokens: [] }) };
  }
  if (message.weights) {
    const { sequence, head, firstRow, weights } = message.weights;
    return { kind: "weights", sequence, head, firstRow, rows: ofRank(readScores(weights), 2) };
  }
  if (message.logSumExp) {
    const { sequence, head, firstRow, logSumExp } = message.logSumExp;
    return { kind: "logSumExp", sequence, head, firstRow, rows: ofRank(readScores(logSumExp), 1) };
  }
  if (message.topWeights) {
    const { sequence, head, firstRow, topWeights } = message.topWeights;
    const { weights, keys } = readTopWeights(topWeights);
    return { kind: "topWeights", sequence, head, firstRow, rows: ofRank(weights, 2), keys };
  }
  if (message.layerWeights) {
    const { layer, sequence, head, firstRow, weights } = message.layerWeights;
    return { kind: "layerWeights", layer, sequence, head, firstRow, rows: ofRank(readScores(weights), 2) };
  }
  throw malformed("a message of the stream has no part");
}

function ofRank(rows: Tensor, ...ranks: number[]): Tensor {
  if (!ranks.includes(rows.shape.length)) {
    throw malformed(`number of extents of a block: expected ${ranks.join(" or ")}, found ${rows.shape.length}`);
  }
  return rows;
}

/** Returns a part that each answer has. */
export function sent<T>(part: T | null | undefined, name: string): T {
  if (!part) {
    throw malformed(`${name}: expected one, found none`);
  }
  return part;
}

function readTokens(text: TokenizedText): TokenizedText {
  if (text.ids.length !== text.tokens.length) {
    throw malformed(`tokens: expected one for each of ${text.ids.length} ids, found ${text.tokens.length}`);
  }
  return text;
}

/** Checks the largest logits, of which a step asked for `most`. */
export function readTopLogits(most: number, found: TopLogits | null): TopLogits | undefined {
  const [ids, logits] = [found?.ids.length ?? 0, found?.logits.length ?? 0];
  const fits = most > 0 ? ids > 0 && ids <= most && ids === logits : found === null;
  if (!fits) {
    throw malformed(`topLogits: expected ${most > 0 ? `1 to ${most}` : "no"} ids and as many logits, found ${ids} and ${logits}`);
  }
  return found ?? undefined;
}

/** Copies a tensor: its elements may begin anywhere in the message, but typed arrays demand alignment. */
export function readTensor(wire: Tensor__Output | null): Tensor {
  const { dtype, shape } = wire ?? { dtype: "none", shape: [] };
  if (dtype === "FP32") {
    return Tensor.fp32(new Float32Array(elements(wire!, 4)), shape);
  }
  if (dtype === "BF16" || dtype === "FP16") {
    return Tensor.bits(dtype, new Uint16Array(elements(wire!, 2)), shape);
  }
  throw malformed(`dtype of a tensor: expected FP32, BF16 or FP16, found ${dtype}`);
}

/** Reads weights or log-sum-exps, which are FP32 whatever the rows are. */
function readScores(wire: Tensor__Output | null): Tensor {
  if (wire?.dtype !== "FP32") {
    throw malformed(`dtype of weights or log-sum-exps: expected FP32, found ${wire?.dtype ?? "none"}`);
  }
  return readTensor(wire);
}

function readTopWeights(wire: TopWeights__Output | null): TopWeights {
  if (!wire?.keys || wire.keys.dtype !== "INT32") {
    throw malformed(`keys of the largest weights: expected INT32, found ${wire?.keys?.dtype ?? "none"}`);
  }
  const keys = new Int32Array(elements(wire.keys, 4));
  const weights = readScores(wire.weights);
  checkShape("keys of the largest weights", weights.shape, [], wire.keys.shape);
  return { weights, keys };
}

function elements(wire: Tensor__Output, elementBytes: number): ArrayBuffer {
  const expected = wire.shape.reduce((product, extent) => product * extent, elementBytes);
  if (wire.shape.some((extent) => !Number.isSafeInteger(extent) || extent < 0) || wire.data.length !== expected) {
    throw malformed(`tensor [${wire.shape.join(", ")}]: expected ${expected} bytes, found ${wire.data.length}`);
  }
  const { buffer, byteOffset, byteLength } = wire.data;
  return (buffer as ArrayBuffer).slice(byteOffset, byteOffset + byteLength);
}
