/** Joins the blocks of a streamed answer, or only counts their rows. A block that does not fit is an INTERNAL error. */

import { AttendResult } from "./answers.js";
import { malformed } from "./errors.js";
import type { AttendRequest as WireRequest } from "./generated/attention/v1/AttendRequest.js";
import type { AttentionOptions as WireOptions } from "./generated/attention/v1/AttentionOptions.js";
import type { DecodeStep } from "./generated/attention/v1/DecodeStep.js";
import { checkShape, layoutOf, queryHeadsOf, rowShapeOf, sum, type Layout, type WireInput } from "./layout.js";
import { Tensor } from "./tensor.js";
import type { Block, LayerWeights, Summary, TokenizedText, TopWeights } from "./types.js";

type ScoreKind = "weights" | "logSumExp" | "topWeights" | "topKeys" | "layerWeights";
type Elements = Float32Array | Int32Array;
/** The rows of each head that have come, and their blocks, in order, unless rows are only counted. */
type Heads = { rows: number; width: number; blocks: Elements[] }[];
/** The heads of each sequence, of one kind and layer. */
type Table = { numHeads: number; sequences: Heads[] };

export class Assembler {
  readonly tokens: TokenizedText[];
  /** Whether the answer has rows, and scores if they were asked for. */
  readonly hasOutput: boolean;
  private layout: Layout | undefined;
  private output: Tensor | undefined; // [rows, ...]: all leading extents in one
  private received: number[] = [];
  private readonly scores = new Map<string, Table>(); // by kind and layer
  private readonly tokenCounts: number[];
  private readonly topK: number;
  private readonly choice: { readonly layers: readonly number[]; readonly heads: readonly number[] };

  /**
   * `request` may also be a step, whose `options` are those of its session; undefined: not known, and any scores fit. Without `joins`
   * it keeps neither rows nor tokens.
   */
  constructor(
    private readonly request: WireInput & Pick<WireRequest, "weightsChoice"> & Pick<DecodeStep, "topLogits" | "noOutput">,
    private readonly options?: WireOptions,
    private readonly joins = true,
  ) {
    const { layers = [], heads = [] } = request.weightsChoice ?? {};
    this.choice = { layers: layers.map(Number), heads: heads.map(Number) };
    this.hasOutput = !request.noOutput && Number(request.topLogits ?? 0) === 0;
    this.topK = Number(options?.weightsTopK ?? 0);
    this.tokens = (request.text?.texts ?? []).map(() => ({ ids: [], tokens: [] }));
    this.tokenCounts = this.tokens.map(() => 0);
  }

  add(block: Block): void {
    expect("parts of an answer without an output", "tokens", block.kind, this.hasOutput || block.kind === "tokens");
    const { returnWeights = false, returnLogSumExp = false } = this.options ?? {};
    const asked = { weights: returnWeights, logSumExp: returnLogSumExp, topWeights: this.topK > 0 };
    const kind = block.kind in asked ? (block.kind as keyof typeof asked) : undefined;
    expect(block.kind, "none", "some", this.options === undefined || kind === undefined || asked[kind]);
    switch (block.kind) {
      case "tokens":
        return this.addTokens(block);
      case "rows":
        return this.addRows(block);
      case "topWeights":
        this.addScores("topWeights", 0, block.head, block, block.rows.toFloat32());
        return this.addScores("topKeys", 0, block.head, block, block.keys);
      case "layerWeights": {
        const { layers, heads } = this.choice;
        const head = heads.length > 0 ? heads.indexOf(block.head) : block.head;
        const found = `layer ${block.layer}, head ${block.head}`;
        expect("layerWeights", "those of a chosen layer and head", found, layers.includes(block.layer) && head >= 0);
        return this.addScores("layerWeights", block.layer, head, block, block.rows.toFloat32());
      }
      default:
        return this.addScores(block.kind, 0, block.head, block, block.rows.toFloat32());
    }
  }

  /** Throws INTERNAL unless all rows have come. */
  checkWhole(): void {
    this.laidOut().spans.forEach((span, i) => {
      expect("rows of a sequence", span.outputRows, this.received[i], this.received[i] === span.outputRows);
    });
    for (const { kind, heads, numHeads, rows, columns } of this.tables()) {
      const expected = rows === 0 ? 0 : numHeads;
      expect(`heads of ${kind} of a sequence of ${rows} rows`, expected, heads.length, heads.length === expected);
      heads.forEach((head, i) => {
        expect(`rows of head ${i} of ${kind}`, rows, head.rows, head.rows === rows);
        expect(`width of head ${i} of ${kind}`, columns, head.width, head.width === columns);
      });
    }
  }

  /** Returns all blocks joined. REQUIRES: `joins`. */
  finish(summary: Summary): AttendResult {
    this.checkWhole();
    const { leading } = this.laidOut();
    const output = this.output ?? zeros(withoutRows(this.request), leading.reduce((rows, extent) => rows * extent, 1));
    const joined = this.tables().map((table) => ({ ...table, ...join(table) }));
    const of = (kind: ScoreKind): typeof joined => joined.filter((table) => table.kind === kind);
    const topKeys = of("topKeys");
    return new AttendResult(
      output.reshape([...leading, ...output.shape.slice(1)]),
      summary,
      this.laidOut(),
      of("weights").map(toTensor),
      of("logSumExp").map(({ data, shape }) => toTensor({ data, shape: shape.slice(0, 2) })),
      of("topWeights").map((table, i): TopWeights => ({ weights: toTensor(table), keys: Int32Array.from(topKeys[i]!.data) })),
      this.tokens,
      of("layerWeights").map((table): LayerWeights => ({ layer: table.layer, sequence: table.sequence, weights: toTensor(table) })),
    );
  }

  private laidOut(): Layout {
    if (this.layout === undefined) {
      this.layout = layoutOf(this.request, this.tokenCounts);
      this.received = this.layout.spans.map(() => 0);
    }
    return this.layout;
  }

  private addTokens(block: Extract<Block, { kind: "tokens" }>): void {
    const { sequence, firstToken, tokens } = block;
    const received = this.layout === undefined ? this.tokenCounts[sequence] : undefined;
    if (received === undefined) {
      throw malformed(`tokens of text ${sequence}: expected those of ${this.tokens.length} texts, before all rows`);
    }
    expect("first token of a block", received, firstToken, received === firstToken);
    this.tokenCounts[sequence] = received + tokens.ids.length;
    if (this.joins) {
      const text = this.tokens[sequence]!;
      tokens.ids.forEach((id) => text.ids.push(id)); // one by one: they may be more than a call's arguments
      tokens.tokens.forEach((token) => text.tokens.push(token));
    }
  }

  private addRows(block: Extract<Block, { kind: "rows" }>): void {
    const { leading, spans } = this.laidOut();
    const { sequence, firstRow, rows } = block;
    const span = spans[sequence];
    const received = this.received[sequence];
    if (span === undefined || received === undefined) {
      throw malformed(`sequence of a block: expected 0 to ${spans.length - 1}, found ${sequence}`);
    }
    const count = rows.shape[0] ?? 0;
    expect("rows of a block, at least", 1, count, count > 0); // the width of no rows would be that of nothing
    checkShape("rows of a block", [count], this.output?.shape.slice(1) ?? rowShapeOf(this.request), rows.shape);
    this.output ??= zeros(rows, this.joins ? leading.reduce((product, extent) => product * extent, 1) : 0); // padding is never sent
    expect("first row of a block", received, firstRow, firstRow === received);
    expect("rows of a sequence, at most", span.outputRows, received + count, received + count <= span.outputRows);
    expect("dtype of a block", this.output.dtype, rows.dtype, rows.dtype === this.output.dtype);
    if (this.joins) {
      this.output.data.set(rows.data, (span.firstRow + received) * rows.rowLength);
    }
    this.received[sequence] = received + count;
  }

  private addScores(kind: ScoreKind, layer: number, head: number, block: Block & { rows: Tensor; firstRow: number }, data: Elements): void {
    const { spans } = this.laidOut();
    expect("sequence of a block", `0 to ${spans.length - 1}`, block.sequence, spans[block.sequence] !== undefined);
    const span = spans[block.sequence]!;
    const key = `${kind}/${layer}`;
    const table = this.scores.get(key) ?? { numHeads: 0, sequences: spans.map(() => []) };
    this.scores.set(key, table);
    const heads = table.sequences[block.sequence]!;
    const [rows = 0, width = 1] = block.rows.shape;
    expect(`rows of a block of ${kind}, at least`, 1, rows, rows > 0); // the width of no rows would be that of nothing
    const last = Math.min(heads.length, (queryHeadsOf(this.request) ?? Infinity) - 1);
    expect(`head of ${kind}`, `0 to ${last}`, head, head >= 0 && head <= last);
    const known = (heads[head] ??= { rows: 0, width, blocks: [] });
    table.numHeads = Math.max(table.numHeads, heads.length);
    expect(`first row of ${kind}`, known.rows, block.firstRow, block.firstRow === known.rows);
    // Weights of an encoder's layers have the rows of the memory.
    const most = kind === "layerWeights" ? Math.max(span.queryLen, span.kvLen) : span.queryLen;
    expect(`rows of head ${head} of ${kind}, at most`, most, known.rows + rows, known.rows + rows <= most);
    expect(`width of ${kind}`, known.width, width, width === known.width);
    known.rows += rows;
    if (this.joins) {
      known.blocks.push(data);
    }
  }

  /**
   * Returns the tables that were asked for or came, in the order of the answer. Scores that were asked for may lack blocks only if
   * there are no rows: they are then empty, of the heads of query; those of a model are left out, as the request does not say its
   * heads.
   */
  private tables(): Expected[] {
    const { spans } = this.laidOut();
    const { returnWeights = false, returnLogSumExp = false } = this.options ?? {};
    const hasTop = this.topK > 0;
    const wanted = { weights: returnWeights, logSumExp: returnLogSumExp, topWeights: hasTop, topKeys: hasTop };
    const known = queryHeadsOf(this.request);
    const mayLack = known === undefined && spans.every((span) => span.queryLen === 0);
    const tables = Object.entries(wanted).flatMap(([name, isWanted]) => {
      const kind = name as ScoreKind;
      const table = this.scores.get(`${kind}/0`);
      if (table === undefined && (!isWanted || mayLack)) {
        return [];
      }
      return spans.map((span, sequence) => {
        const heads = table?.sequences[sequence] ?? [];
        const width = kind.startsWith("top") ? Math.min(this.topK, span.kvLen) : span.kvLen;
        const columns = heads[0]?.width ?? width; // heads without rows have no blocks
        return { kind, layer: 0, sequence, heads, numHeads: known ?? table?.numHeads ?? 1, rows: span.queryLen, columns };
      });
    });
    const { layers, heads: chosen } = this.choice;
    const ofLayers = (layers.length === 0 ? [] : spans).flatMap((span, sequence) =>
      layers.map((layer): Expected => {
        const table = this.scores.get(`layerWeights/${layer}`);
        const heads = table?.sequences[sequence] ?? [];
        const numHeads = Math.max(1, chosen.length, table?.numHeads ?? 0);
        // Weights of an encoder's layers have the rows of the memory.
        const rows = heads[0]?.rows === span.kvLen ? span.kvLen : span.queryLen;
        return { kind: "layerWeights", layer, sequence, heads, numHeads, rows, columns: heads[0]?.width ?? span.kvLen };
      }),
    );
    return [...tables, ...ofLayers];
  }
}

/** What the answer must have of a kind, layer and sequence: numHeads heads [rows, columns]. */
interface Expected {
  readonly kind: ScoreKind;
  readonly layer: number;
  readonly sequence: number;
  readonly heads: Heads;
  readonly numHeads: number;
  readonly rows: number;
  readonly columns: number;
}

interface Joined {
  readonly data: Elements;
  readonly shape: number[];
}

/** Joins [numHeads, rows, columns]. REQUIRES: checkWhole passed. */
function join({ heads, numHeads, rows, columns }: Expected): Joined {
  const blocks = heads.flatMap((head) => head.blocks);
  const isKeys = blocks[0] instanceof Int32Array;
  const size = sum(blocks.map((block) => block.length));
  const data = isKeys ? new Int32Array(size) : new Float32Array(size);
  let at = 0;
  for (const block of blocks) {
    data.set(block, at);
    at += block.length;
  }
  return { data, shape: [numHeads, rows, columns] };
}

function toTensor({ data, shape }: Joined): Tensor {
  return Tensor.fp32(data as Float32Array, shape);
}

/** Returns no rows in the dtype and width of the answer, as far as the request says them. */
function withoutRows(request: WireInput): Tensor {
  const shape = [0, ...rowShapeOf(request).map((extent) => extent ?? 0)];
  const dtype = (request.queryKeyValue?.query ?? request.hiddenStates?.tensor ?? request.hiddenStates?.memory)?.dtype;
  return dtype === "BF16" || dtype === "FP16" ? Tensor.bits(dtype, new Uint16Array(0), shape) : Tensor.fp32([], shape);
}

function zeros(like: Tensor, rows: number): Tensor {
  const shape = [rows, ...like.shape.slice(1)];
  const size = rows * like.rowLength;
  try {
    return like.dtype === "FP32" ? Tensor.fp32(new Float32Array(size), shape) : Tensor.bits(like.dtype, new Uint16Array(size), shape);
  } catch {
    throw malformed(`width of a block: expected one that fits into memory, found [${shape.slice(1).join(", ")}] for ${rows} rows`);
  }
}

function expect(what: string, expected: unknown, found: unknown, holds: boolean): void {
  if (!holds) {
    throw malformed(`${what}: expected ${String(expected)}, found ${String(found)}`);
  }
}
