/** Failed calls. */

import { status as Status, type Metadata } from "@grpc/grpc-js";

export type Code = Exclude<keyof typeof Status, "OK">;

/** A call failed; `code` is the status code's name, `message` the server's own words. */
export class AttendError extends Error {
  override readonly name = "AttendError";

  constructor(
    readonly code: Code,
    message: string,
    /** After which the server says to try again; undefined when it does not. */
    readonly retryAfterMs?: number,
    /** What the server sent beside its answer: x-request-id, attend-estimated-wait-ms. */
    readonly trailers: Readonly<Record<string, string>> = {},
  ) {
    super(message);
  }
}

export function malformed(what: string): AttendError {
  return new AttendError("INTERNAL", `malformed answer: ${what}`);
}

export function codeName(code: number): Code {
  return (Status[code] ?? "UNKNOWN") as Code;
}

/** From what grpc-js throws, with what the caller can do about it; other errors as they are. */
export function fromStatus(error: unknown, server: string, timeoutMs: number): unknown {
  if (!(error instanceof Error) || !("code" in error) || typeof error.code !== "number" || !("details" in error)) {
    return error;
  }
  const code = codeName(error.code);
  let message = String(error.details);
  if (code === "UNAVAILABLE") {
    message = `server ${server}: ${message}`;
  } else if (code === "DEADLINE_EXCEEDED") {
    message = `server ${server}: no answer within ${timeoutMs} ms: ${message}`;
  } else if (message.includes("larger than max")) {
    message += " (the server's flag --max-message-bytes sets the limit)";
  }
  const trailers: Record<string, string> = {};
  const metadata = "metadata" in error ? (error.metadata as Metadata | undefined) : undefined;
  for (const [key, value] of Object.entries(metadata?.getMap() ?? {})) {
    trailers[key] = value.toString();
  }
  const pushback = trailers["grpc-retry-pushback-ms"] ?? "";
  return new AttendError(code, message, /^\d+$/.test(pushback) ? Number(pushback) : undefined, trailers);
}
