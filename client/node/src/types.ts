/**
 * The types of requests and answers; attention.proto describes their fields. B batch size, S sequence length, E d_model, H query
 * heads, Hkv key/value heads, D key width, Dv value width, T total tokens of a packed batch, V vocabulary size.
 */

import type { AttentionOptions as WireOptions } from "./generated/attention/v1/AttentionOptions.js";
import type { ModelOutput as WireModelOutput } from "./generated/attention/v1/ModelOutput.js";
import type { OpenSession } from "./generated/attention/v1/OpenSession.js";
import type { SetLoggingRequest as WireLogging } from "./generated/attention/v1/SetLoggingRequest.js";
import type { SessionUsage__Output } from "./generated/attention/v1/SessionUsage.js";
import type { Summary__Output } from "./generated/attention/v1/Summary.js";
import type { TokenizedText__Output } from "./generated/attention/v1/TokenizedText.js";
import type { TopLogits__Output } from "./generated/attention/v1/TopLogits.js";
import type { Mask, Tensor } from "./tensor.js";

export type { Layer__Output as Layer } from "./generated/attention/v1/Layer.js";
export type { Logging__Output as Logging } from "./generated/attention/v1/Logging.js";
export type { Model__Output as Model } from "./generated/attention/v1/Model.js";
export type { ModelLimits__Output as ModelLimits } from "./generated/attention/v1/ModelLimits.js";
export type { ModelState__Output as ModelState } from "./generated/attention/v1/ModelState.js";
export type { ServerStatistics__Output as ServerStatistics } from "./generated/attention/v1/ServerStatistics.js";
export type { VerifyModelResponse__Output as Verification } from "./generated/attention/v1/VerifyModelResponse.js";
export type SetLoggingRequest = GivenFields<WireLogging>;
export type Summary = Summary__Output;
export type TokenizedText = TokenizedText__Output;
export type SessionUsage = SessionUsage__Output;
/** The largest logits in descending order; exp(logit - logSumExp) is the probability of a token. */
export type TopLogits = TopLogits__Output;
export type ModelOutput = Given<WireModelOutput>;

/** What callers give for a field: names of enums in capitals or small letters, numbers as numbers, lists also as typed arrays. */
export type Given<T> = number extends T
  ? number
  : string extends T
    ? string
    : T extends string
      ? T | Lowercase<T>
      : T extends number
        ? never
        : T extends readonly (infer E)[]
          ? readonly Given<E>[] | (number extends E ? Int32Array | Float32Array : never)
          : T extends object
            ? GivenFields<T>
            : T;
type GivenFields<T> = { [K in keyof T as K extends `_${string}` ? never : K]: Given<T[K]> };

/** A tensor, or a list of tensors [n, ...]: sequences of different lengths, which are packed one after the other. */
export type Rows = Tensor | readonly Tensor[];
/** Integers. */
export type Ids = readonly number[] | Int32Array;
/** The ids of tokens, each an integer of 32 bits. */
export type TokenIds = Ids | readonly bigint[] | BigInt64Array;

/** The options of attention. Bias (FP32) and mask are [Sq, Sk], [H, Sq, Sk] or [1 or B, 1 or H, Sq, Sk]. */
export interface AttentionOptions extends GivenFields<Omit<WireOptions, "bias" | "mask">> {
  bias?: Tensor;
  mask?: Mask;
}

/** The input: one of hiddenStates, tokenIds, text, and query with key and value. */
export interface Input {
  /** [B, S, E] or [T, E], or a list of [n, E]. */
  hiddenStates?: Rows;
  /** The ids of one sequence, or a list of sequences of ids. */
  tokenIds?: TokenIds | readonly TokenIds[];
  /** The type of each token, in the form of tokenIds. */
  typeIds?: TokenIds | readonly TokenIds[];
  /** A text, or several, for the model's tokenizer. */
  text?: string | readonly string[];
  /** Whether to omit the special tokens that the tokenizer adds to a text. */
  noSpecialTokens?: boolean;
  /** [B, Sq, H, D] or [T, H, D], or a list of [n, H, D]. */
  query?: Rows;
  /** [B, Sk, Hkv, D] or [Tk, Hkv, D], or a list of [n, Hkv, D]. */
  key?: Rows;
  /** [B, Sk, Hkv, Dv] or [Tk, Hkv, Dv], or a list of [n, Hkv, Dv]. */
  value?: Rows;
  modelOutput?: ModelOutput;
}

/** A request. */
export interface AttendRequest extends Input {
  /** The name of a model of listModels(); absent for query, key and value. */
  model?: string;
  /** The version of the model; absent: the highest. */
  modelVersion?: number;
  /** The layer to run; absent: the whole stack. */
  layer?: number;
  options?: AttentionOptions;
  /** The layers and heads of a whole stack whose weights are returned too. */
  weightsChoice?: { layers: readonly number[]; heads?: readonly number[] };
  /** The rows of the keys and values of cross-attention: [B, Sm, E] or [Tm, E], or a list. */
  memory?: Rows;
  /** The rows of the values alone, if they differ from `memory`. */
  memoryValues?: Rows;
  /** The number of rows of each sequence of hiddenStates, tokenIds or query; not beside a list. */
  lengths?: Ids;
  /** The number of rows of each sequence of memory; not beside a list. */
  memoryLengths?: Ids;
  /** The number of keys of each sequence; not beside a list. */
  kvLengths?: Ids;
  /** The position of the first row of each sequence of query. */
  queryOffsets?: Ids;
}

/** The options of one call. */
export interface CallOptions {
  /** The deadline in milliseconds; absent: the client's. */
  timeoutMs?: number;
  /** A signal that cancels the call, which then throws the signal's reason. */
  signal?: AbortSignal;
  /** Metadata, as "attend-priority", "attend-tenant", "x-request-id", "traceparent". */
  metadata?: Readonly<Record<string, string | Buffer>>;
}

/** The k largest weights of each row in descending order, both [H, query_len, k]; the key is -1 where a row has fewer keys. */
export interface TopWeights {
  readonly weights: Tensor;
  readonly keys: Int32Array;
}

/** The weights of one layer in a run of the whole stack: [chosen heads, query_len, kv_len]. */
export interface LayerWeights {
  readonly layer: number;
  readonly sequence: number;
  readonly weights: Tensor;
}

/** Rows of an answer: [rows, E], [rows, V] or [rows, H, Dv]; of one head [rows, kv_len], [rows] or [rows, k]. */
export type Block =
  | { readonly kind: "rows"; readonly sequence: number; readonly firstRow: number; readonly rows: Tensor }
  | { readonly kind: "weights" | "logSumExp"; readonly sequence: number; readonly head: number; readonly firstRow: number; readonly rows: Tensor }
  | { readonly kind: "topWeights"; readonly sequence: number; readonly head: number; readonly firstRow: number; readonly rows: Tensor; readonly keys: Int32Array }
  | { readonly kind: "layerWeights"; readonly layer: number; readonly sequence: number; readonly head: number; readonly firstRow: number; readonly rows: Tensor }
  | { readonly kind: "tokens"; readonly sequence: number; readonly firstToken: number; readonly tokens: TokenizedText };

/** The model or heads of a session, and its options. */
export interface SessionRequest extends GivenFields<Omit<OpenSession, "options">> {
  options?: AttentionOptions;
}

/** A step: the next tokens of a sequence. */
export interface StepRequest extends Input {
  /** The number of the sequence; default: 0. */
  sequence?: number;
  /** One value: the position of the first row of query. Query and key may then differ in rows, and either may have none. */
  queryOffsets?: Ids;
  /** k > 0: the answer has the k largest logits after the last token instead of an output. */
  topLogits?: number;
  /** Whether the step only adds the tokens. */
  noOutput?: boolean;
}

/** A session after an action. `length` is the number of tokens of the action's sequence. */
export interface SessionState {
  readonly length: number;
  readonly usage: SessionUsage;
}

/** The answer to a step. */
export interface StepResult extends SessionState {
  /** [n, E], [n, V], [1, V] or [n, H, Dv]; undefined with topLogits or noOutput. */
  readonly output?: Tensor;
  readonly topLogits?: TopLogits;
  /** The tokens of the step's text. */
  readonly tokens?: TokenizedText;
  /** FP32 [H, n, kv_len], with returnWeights. */
  readonly weights?: Tensor;
  /** FP32 [H, n], with returnLogSumExp. */
  readonly logSumExp?: Tensor;
  /** The largest weights, with weightsTopK. */
  readonly topWeights?: TopWeights;
  readonly summary: Summary;
}
