/** Sessions: sequences that grow step by step. */

import type { Client as GrpcClient, ClientDuplexStream, Metadata } from "@grpc/grpc-js";
import { readBlock, readTopLogits, sent } from "./answers.js";
import { Assembler } from "./assembler.js";
import { alarm, checkMs, whenAborted } from "./attempts.js";
import type { Connection } from "./connection.js";
import { AttendError, codeName, fromStatus, malformed } from "./errors.js";
import type { AttentionOptions } from "./generated/attention/v1/AttentionOptions.js";
import type { DecodeRequest } from "./generated/attention/v1/DecodeRequest.js";
import type { DecodeResponse__Output } from "./generated/attention/v1/DecodeResponse.js";
import type { DecodeResult__Output } from "./generated/attention/v1/DecodeResult.js";
import { method, valueOf } from "./messages.js";
import { decodeStep, openSession } from "./requests.js";
import type { CallOptions, SessionRequest, SessionState, StepRequest, StepResult } from "./types.js";

const DECODE = method<DecodeRequest, DecodeResponse__Output>("Decode");
const MAX_SEQUENCE = 65535; // of the numbers of a fork
const DAY_MS = 24 * 3600 * 1000;

/** The options of a session; `timeoutMs` is the deadline of each action. */
export interface SessionOptions extends CallOptions {
  /** The deadline of the session as a whole, in milliseconds; default: one day. */
  lifetimeMs?: number;
}

interface Waiting {
  readonly parts: Assembler | undefined;
  readonly timer: NodeJS.Timeout;
  readonly accept: (result: DecodeResult__Output) => void; // throws what is wrong with the answer
  readonly reject: (error: unknown) => void;
}

/**
 * Sequences that grow step by step, whose keys and values the server keeps. Client.session() makes it. Actions on one sequence run
 * in the order of the calls, which need not wait for each other. An action that the server refuses leaves the session as it was.
 * When the stream breaks, or an answer does not come in time, the session ends, and all later actions throw the same error. If its
 * connection broke, a session that was opened with `resumeTtlMs` can be opened again with its `resumeToken`; after a late answer,
 * `cancel()` or an abort it cannot.
 */
export class Session {
  /** The token that opens the session again after a break: keep it secret. Empty without resumeTtlMs. */
  resumeToken = "";
  /** The number of tokens of sequence 0, as the last answer about it says. */
  length = 0;
  /** The maximum size of the message of an action. A larger one is not sent: RESOURCE_EXHAUSTED. 0: an old server does not tell. */
  maxMessageBytes = 0;

  readonly #call: ClientDuplexStream<Buffer, DecodeResponse__Output>; // console.log() leaves it out: it has the token
  private readonly waiting = new Map<number, Waiting>();
  private readonly sequences = new Set([0]); // those that exist, or may exist once an action under way has ended
  private readonly server: string;
  private readonly timeoutMs: number;
  private readonly ended: Promise<void>;
  private broken: unknown;
  private closing: Promise<void> | undefined;
  private lastId = 0;

  static async open(connection: Connection, request: SessionRequest, options: SessionOptions): Promise<Session> {
    const open = openSession(request);
    const attempts = connection.attempts(options, DECODE.path, ["lifetimeMs"]);
    const lifetimeMs = checkMs("lifetimeMs", options.lifetimeMs ?? DAY_MS);
    const { grpc, metadata } = await connection.ready(options, attempts);
    const session = new Session(connection, grpc, metadata, options, lifetimeMs, open.resumeToken ? undefined : (open.options ?? {}));
    try {
      const opened = await session.act({ open }, (result) => result);
      session.resumeToken = opened.resumeToken;
      session.maxMessageBytes = opened.maxMessageBytes;
      return session;
    } catch (failure) {
      session.break(failure);
      await attempts.afterFailure(failure);
      throw failure;
    }
  }

  private constructor(
    connection: Connection,
    grpc: GrpcClient,
    metadata: Metadata,
    call: SessionOptions,
    lifetimeMs: number,
    private readonly options: AttentionOptions | undefined, // of a session that was resumed the server alone knows them
  ) {
    this.server = connection.name;
    this.timeoutMs = call.timeoutMs ?? connection.timeoutMs;
    const deadline = Date.now() + lifetimeMs;
    const asIs = (bytes: Buffer): Buffer => bytes;
    this.#call = grpc.makeBidiStreamRequest(DECODE.path, asIs, DECODE.decode, metadata, { deadline });
    this.#call.on("data", (message: DecodeResponse__Output) => this.receive(message));
    let stopListening = (): void => {};
    this.ended = new Promise((resolve) => {
      const end = (error: unknown): void => {
        stopListening();
        this.break(error);
        resolve();
      };
      this.#call.on("error", (status) => {
        const error = fromStatus(status, connection.name, lifetimeMs);
        const isOver = error instanceof AttendError && error.code === "DEADLINE_EXCEEDED"; // the deadlines of actions are timers
        const over = `server ${connection.name}: the lifetime of the session, ${lifetimeMs} ms (lifetimeMs), is over`;
        end(isOver ? new AttendError("DEADLINE_EXCEEDED", over) : error);
      });
      this.#call.on("end", () => end(malformed("the stream ended before its last answer")));
    });
    stopListening = whenAborted(call.signal, () => this.break(call.signal!.reason));
  }

  /** Adds tokens to a sequence, and returns the output of their rows. */
  async step(step: StepRequest): Promise<StepResult> {
    const wire = decodeStep(step);
    const parts = new Assembler(wire, this.options);
    const { sequence = 0 } = step;
    const finish = (result: DecodeResult__Output): StepResult => {
      const summary = sent(result.summary, "summary");
      const answer = parts.hasOutput ? parts.finish(summary) : undefined;
      const topLogits = readTopLogits(Number(wire.topLogits ?? 0), result.topLogits);
      return {
        ...stateOf(result),
        summary,
        ...(answer && { output: answer.output }),
        ...(answer?.weights[0] && { weights: answer.weights[0] }),
        ...(answer?.logSumExp[0] && { logSumExp: answer.logSumExp[0] }),
        ...(answer?.topWeights[0] && { topWeights: answer.topWeights[0] }),
        ...(parts.tokens[0] && { tokens: parts.tokens[0] }),
        ...(topLogits && { topLogits }),
      };
    };
    return this.act({ sequence: integer(sequence, "step.sequence"), step: wire }, finish, parts);
  }

  /** Adds tokens to a sequence without an output. */
  async prefill(step: StepRequest): Promise<StepResult> {
    return this.step({ ...step, noOutput: true });
  }

  /** Runs the steps one after the other, and yields their answers in order. */
  async *steps(steps: AsyncIterable<StepRequest> | Iterable<StepRequest>): AsyncGenerator<StepResult, void, undefined> {
    for await (const step of steps) {
      yield await this.step(step);
    }
  }

  /** Makes a new sequence with the tokens of `sequence`. Returns its number: `newSequence`, or the lowest that is free. */
  async fork(sequence = 0, newSequence?: number): Promise<number> {
    const from = integer(sequence, "fork.sequence");
    const wanted = newSequence === undefined ? undefined : integer(newSequence, "fork.newSequence");
    const deadline = Date.now() + this.timeoutMs; // of all attempts
    for (;;) {
      let number = wanted ?? 1;
      while (wanted === undefined && this.sequences.has(number)) {
        number += 1;
      }
      const isNew = !this.sequences.has(number);
      this.sequences.add(number);
      try {
        return await this.act({ sequence: from, fork: { newSequence: number } }, () => number, undefined, deadline);
      } catch (failure) {
        // A session that was resumed has sequences of before.
        const exists = failure instanceof AttendError && failure.code === "ALREADY_EXISTS";
        if (isNew && !exists) {
          this.sequences.delete(number);
        }
        if (!exists || wanted !== undefined || number >= MAX_SEQUENCE || Date.now() >= deadline) {
          throw failure;
        }
      }
    }
  }

  /** Removes the tokens of a sequence from position `length` on. */
  async truncate(length: number, sequence = 0): Promise<SessionState> {
    const truncate = { length: integer(length, "truncate.length") };
    return this.act({ sequence: integer(sequence, "truncate.sequence"), truncate }, stateOf);
  }

  /** Removes a sequence, whose number is then free. */
  async release(sequence: number): Promise<SessionState> {
    const number = integer(sequence, "release.sequence");
    const state = await this.act({ sequence: number, release: {} }, stateOf);
    this.sequences.delete(number);
    return state;
  }

  /** Ends the session after the last answer, and frees its keys and values. Actions after this call are refused. */
  async close(): Promise<void> {
    if (this.broken === undefined) {
      await (this.closing ??= this.finish());
    }
  }

  private async finish(): Promise<void> {
    this.#call.end();
    const timer = alarm(this.timeoutMs, () => this.cancel());
    await this.ended;
    clearTimeout(timer);
    this.broken = closed();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Ends the session at once. One with `resumeTtlMs` ends, too, because grpc-js ends the requests before it cancels. */
  cancel(): void {
    this.break(new AttendError("CANCELLED", "the session was cancelled"));
  }

  /** Returns what `finish` makes of the result. The session ends if that throws: the server has done what the answer does not tell. */
  private act<T>(
    action: DecodeRequest,
    finish: (result: DecodeResult__Output) => T,
    parts?: Assembler,
    deadline = Date.now() + this.timeoutMs,
  ): Promise<T> {
    if (this.broken !== undefined) {
      return Promise.reject(this.broken);
    }
    if (this.closing !== undefined) {
      return Promise.reject(closed());
    }
    this.lastId += 1;
    const id = this.lastId;
    const bytes = DECODE.encode({ ...action, id });
    if (this.maxMessageBytes > 0 && bytes.length > this.maxMessageBytes) {
      const flag = `expected at most ${this.maxMessageBytes} bytes (the server's flag --max-message-bytes)`; // gRPC would end the stream
      const text = `message of an action: ${flag}, found ${bytes.length}`;
      return Promise.reject(new AttendError("RESOURCE_EXHAUSTED", text));
    }
    return new Promise((resolve, reject) => {
      const late = new AttendError("DEADLINE_EXCEEDED", `server ${this.server}: no answer within ${this.timeoutMs} ms, so the session has ended`);
      const timer = alarm(deadline - Date.now(), () => this.break(late));
      this.waiting.set(id, { parts, timer, accept: (result) => resolve(finish(result)), reject });
      this.#call.write(bytes);
    });
  }

  private receive(message: DecodeResponse__Output): void {
    const waiting = this.waiting.get(message.id);
    if (waiting === undefined) {
      return this.break(malformed(`id: expected that of an action under way, found ${message.id}`));
    }
    const { result } = message;
    try {
      for (const part of message.part ? [message.part, ...message.parts] : message.parts) {
        if (waiting.parts === undefined) {
          throw malformed("parts of an answer: expected none, found some");
        }
        waiting.parts.add(readBlock(part));
      }
      if (!result) {
        return;
      }
      if (result.code === 0) {
        sent(result.usage, "usage");
        waiting.accept(result);
        this.length = message.sequence === 0 ? result.length : this.length;
      } else {
        const retryAfterMs = result.retryAfterMs > 0 ? result.retryAfterMs : undefined;
        waiting.reject(new AttendError(codeName(result.code), result.message, retryAfterMs));
      }
    } catch (error) {
      return this.break(error);
    }
    this.waiting.delete(message.id);
    clearTimeout(waiting.timer);
  }

  private break(error: unknown): void {
    this.broken ??= error;
    for (const { timer, reject } of this.waiting.values()) {
      clearTimeout(timer);
      reject(this.broken);
    }
    this.waiting.clear();
    this.#call.cancel();
  }
}

const integer = (value: number, where: string): number => valueOf("int64", value, where);
const closed = (): AttendError => new AttendError("FAILED_PRECONDITION", "the session was closed");

function stateOf({ length, usage }: DecodeResult__Output): SessionState {
  return { length, usage: usage! };
}
