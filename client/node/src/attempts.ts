/** Deadlines and retries. */

import { setTimeout as sleep } from "node:timers/promises";
import { inspect } from "node:util";
import { AttendError, fromStatus } from "./errors.js";

/** The most attempts of a call. */
const MAX_ATTEMPTS = 5;
/** The pause after the first failed attempt; it doubles with each further one. */
const INITIAL_BACKOFF_MS = 100;
/** The retry budget of a client. No call is repeated while half of it or less is left. */
export const RETRY_TOKENS = 1000;

/** Calls `cancel` when the signal is aborted, at once if it is. Returns a function that ends this. */
export function whenAborted(signal: AbortSignal | undefined, cancel: () => void): () => void {
  signal?.addEventListener("abort", cancel, { once: true });
  if (signal?.aborted) {
    cancel();
  }
  return () => signal?.removeEventListener("abort", cancel);
}

/** The deadline and the retries of one call. client/README.md describes the retry policy. */
export class Attempts {
  readonly deadline: number;
  private failed = 0;

  constructor(
    private readonly server: string,
    private readonly timeoutMs: number,
    private readonly signal: AbortSignal | undefined,
    private readonly mayRepeat: boolean,
    private readonly budget: { tokens: number },
  ) {
    this.deadline = Date.now() + timeoutMs;
  }

  /** Returns what comes of `work`; DEADLINE_EXCEEDED or the reason of the signal if that comes first. */
  async within<T>(work: Promise<T>): Promise<T> {
    let giveUp: (reason: unknown) => void = () => {};
    const end = new Promise<never>((_, reject) => (giveUp = reject));
    const late = `server ${this.server}: no token, or no address, within ${this.timeoutMs} ms`;
    const timer = alarm(this.deadline - Date.now(), () => giveUp(new AttendError("DEADLINE_EXCEEDED", late)));
    const abort = (): void => giveUp(this.signal!.reason);
    this.signal?.addEventListener("abort", abort);
    if (this.signal?.aborted) {
      abort(); // it was before anybody listened
    }
    try {
      const result = await Promise.race([work, end]);
      this.signal?.throwIfAborted();
      return result;
    } finally {
      clearTimeout(timer);
      this.signal?.removeEventListener("abort", abort);
    }
  }

  /** Waits. Throws the reason of the signal if that comes first. */
  async pause(ms: number): Promise<void> {
    await sleep(ms, undefined, this.signal && { signal: this.signal }).catch(() => this.signal?.throwIfAborted());
  }

  /** Counts an attempt that succeeded, or may not be repeated. */
  giveBack(): void {
    this.budget.tokens = Math.min(RETRY_TOKENS, this.budget.tokens + 1);
  }

  /** Waits until the call may be retried. Throws its error if it may not, or the reason of its signal. */
  async afterFailure(failure: unknown, hasBegun = false): Promise<void> {
    this.signal?.throwIfAborted();
    const error = fromStatus(failure, this.server, this.timeoutMs);
    const delay = error instanceof AttendError && !hasBegun ? this.delayAfter(error) : undefined;
    if (delay === undefined) {
      throw error;
    }
    await this.pause(delay);
  }

  private delayAfter(error: AttendError): number | undefined {
    const delay = this.mayRepeat ? this.pauseAfter(error) : undefined;
    this.failed += 1;
    if (delay === undefined) {
      this.giveBack();
      return undefined;
    }
    this.budget.tokens = Math.max(0, this.budget.tokens - 1);
    const isAllowed = this.budget.tokens > RETRY_TOKENS / 2 && this.failed < MAX_ATTEMPTS && Date.now() + delay < this.deadline;
    return isAllowed ? delay : undefined;
  }

  private pauseAfter({ code, retryAfterMs, trailers }: AttendError): number | undefined {
    if (code === "RESOURCE_EXHAUSTED" || "grpc-retry-pushback-ms" in trailers) {
      return code === "RESOURCE_EXHAUSTED" || code === "UNAVAILABLE" ? retryAfterMs : undefined;
    }
    return code === "UNAVAILABLE" ? INITIAL_BACKOFF_MS * 2 ** this.failed * (0.8 + 0.4 * Math.random()) : undefined;
  }
}

const YEAR_MS = 365 * 24 * 3600 * 1000;

/** Returns `ms`. RangeError unless it is a time of at most a year: grpc-js ends the process over deadlines much later. */
export function checkMs(name: string, ms: number): number {
  if (!(typeof ms === "number" && ms > 0 && ms <= YEAR_MS)) {
    throw new RangeError(`${name}: expected a positive number of at most ${YEAR_MS} (a year), found ${inspect(ms)}`);
  }
  return ms;
}

/** setTimeout, which takes no more than 24 days, and would ring at once. */
export function alarm(ms: number, ring: () => void): NodeJS.Timeout {
  return setTimeout(ring, Math.min(ms, 2 ** 31 - 1));
}
