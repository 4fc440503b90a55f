/** What is asked and what comes back. Shapes and meanings are those of attention.proto. */

import type { AttentionHeads } from "./generated/attention/v1/AttentionHeads.js";
import type { AttentionOptions as WireOptions } from "./generated/attention/v1/AttentionOptions.js";
import type { ModelOutput as WireModelOutput } from "./generated/attention/v1/ModelOutput.js";
import type { SessionUsage__Output } from "./generated/attention/v1/SessionUsage.js";
import type { Summary__Output } from "./generated/attention/v1/Summary.js";
import type { TokenizedText__Output } from "./generated/attention/v1/TokenizedText.js";
import type { TopLogits__Output } from "./generated/attention/v1/TopLogits.js";
import type { Mask, Tensor } from "./tensor.js";

export type { Layer__Output as Layer } from "./generated/attention/v1/Layer.js";
export type { Logging__Output as Logging } from "./generated/attention/v1/Logging.js";
export type { SetLoggingRequest } from "./generated/attention/v1/SetLoggingRequest.js";
export type { Model__Output as Model } from "./generated/attention/v1/Model.js";
export type { ModelLimits__Output as ModelLimits } from "./generated/attention/v1/ModelLimits.js";
export type { ModelState__Output as ModelState } from "./generated/attention/v1/ModelState.js";
export type { ServerStatistics__Output as ServerStatistics } from "./generated/attention/v1/ServerStatistics.js";
export type { VerifyModelResponse__Output as Verification } from "./generated/attention/v1/VerifyModelResponse.js";
export type Summary = Summary__Output;
export type TokenizedText = TokenizedText__Output;
export type SessionUsage = SessionUsage__Output;
/** The largest logits, largest first; exp(logit - logSumExp) is the probability of a token. */
export type TopLogits = TopLogits__Output;
export type ModelOutput = Extract<WireModelOutput, string>;

/** One tensor, or sequences of different lengths, each a tensor [n, ...]: they are packed one after the other. */
export type Rows = Tensor | readonly Tensor[];
export type Ids = readonly number[] | Int32Array;

/** Bias FP32 and mask: [Sq, Sk], [H, Sq, Sk] or [1 or B, 1 or H, Sq, Sk]. */
export interface AttentionOptions extends Omit<WireOptions, "bias" | "mask"> {
  bias?: Tensor;
  mask?: Mask;
}

/** One of hiddenStates, tokenIds, text, or query with key and value. */
export interface Input {
  /** [B, S, E] or [T, E], or a list of [n, E]. */
  hiddenStates?: Rows;
  /** Ids of one sequence, or of several. */
  tokenIds?: Ids | readonly Ids[];
  /** In the form of tokenIds. */
  typeIds?: Ids | readonly Ids[];
  /** For the model's own tokenizer. */
  text?: string | readonly string[];
  /** Leave out what the tokenizer puts around a text. */
  noSpecialTokens?: boolean;
  /** [B, Sq, H, D] or [T, H, D], or a list of [n, H, D]. */
  query?: Rows;
  /** [B, Sk, Hkv, D] or [Tk, Hkv, D], or a list. */
  key?: Rows;
  /** [B, Sk, Hkv, Dv] or [Tk, Hkv, Dv], or a list. */
  value?: Rows;
  modelOutput?: ModelOutput;
}

export interface AttendRequest extends Input {
  /** A name from listModels(); none for query, key and value. */
  model?: string;
  /** Absent: the highest. */
  modelVersion?: number;
  /** Attention of this layer; absent: the whole stack. */
  layer?: number;
  options?: AttentionOptions;
  /** Of a whole stack: also the attention weights of these layers. */
  weightsChoice?: { layers: readonly number[]; heads?: readonly number[] };
  /** What keys and values come from: [B, Sm, E] or [Tm, E], or a list. */
  memory?: Rows;
  memoryValues?: Rows;
  /** Not with lists, which tell theirs; so the next two. */
  lengths?: Ids;
  memoryLengths?: Ids;
  kvLengths?: Ids;
  queryOffsets?: Ids;
}

/** Of one call. */
export interface CallOptions {
  /** Deadline; the client's unless set. */
  timeoutMs?: number;
  /** Cancels the call, which then throws the signal's reason. */
  signal?: AbortSignal;
  /** "attend-priority", "attend-tenant", "x-request-id", "traceparent", ... */
  metadata?: Readonly<Record<string, string>>;
}

/** The largest weights of each row, largest first, both [H, query_len, k]; key -1 for none. */
export interface TopWeights {
  readonly weights: Tensor;
  readonly keys: Int32Array;
}

/** Weights [chosen heads, query_len, kv_len] of one layer in a run of the whole stack. */
export interface LayerWeights {
  readonly layer: number;
  readonly sequence: number;
  readonly weights: Tensor;
}

/** Some rows of an answer. `rows`: [rows, E], [rows, H, Dv], or of one head [rows, kv_len], [rows] or [rows, k]. */
export type Block =
  | { readonly kind: "rows"; readonly sequence: number; readonly firstRow: number; readonly rows: Tensor }
  | { readonly kind: "weights" | "logSumExp"; readonly sequence: number; readonly head: number; readonly firstRow: number; readonly rows: Tensor }
  | { readonly kind: "topWeights"; readonly sequence: number; readonly head: number; readonly firstRow: number; readonly rows: Tensor; readonly keys: Int32Array }
  | { readonly kind: "layerWeights"; readonly layer: number; readonly sequence: number; readonly head: number; readonly firstRow: number; readonly rows: Tensor }
  | { readonly kind: "tokens"; readonly sequence: number; readonly firstToken: number; readonly tokens: TokenizedText };

/** What a session runs through. */
export interface SessionRequest {
  model?: string;
  modelVersion?: number;
  layer?: number;
  /** Attention without a model. */
  heads?: AttentionHeads;
  options?: AttentionOptions;
  cacheDtype?: "FP32" | "BF16" | "INT8";
  /** How long a session whose stream broke waits to be resumed. */
  resumeTtlMs?: number;
  /** Of the session to take over; nothing else goes with it. */
  resumeToken?: string;
}

/** The next tokens of a sequence: a prompt, one token, or several. */
export interface StepRequest extends Input {
  sequence?: number;
  /** Instead of an output, so many of the largest logits. */
  topLogits?: number;
  /** The tokens are only taken in. */
  noOutput?: boolean;
}

/** `length` is that of the sequence that was acted on. */
export interface SessionState {
  readonly length: number;
  readonly usage: SessionUsage;
}

export interface StepResult extends SessionState {
  /** [n, E], [n, V], [1, V] or [n, H, Dv]; undefined with topLogits or noOutput. */
  readonly output?: Tensor;
  readonly topLogits?: TopLogits;
  /** Of a text. */
  readonly tokens?: TokenizedText;
  /** [H, n, kv_len], as the session's options ask; so the next two. */
  readonly weights?: Tensor;
  readonly logSumExp?: Tensor;
  readonly topWeights?: TopWeights;
  readonly summary: Summary;
}
