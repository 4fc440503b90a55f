/** Errors of calls. */

import { status as Status, type Metadata } from "@grpc/grpc-js";

export type Code = Exclude<keyof typeof Status, "OK">;

/** The error of a failed call. `code` is the name of the status code, `message` the server's. */
export class AttendError extends Error {
  override readonly name = "AttendError";

  constructor(
    readonly code: Code,
    message: string,
    /** The milliseconds after which the server asks to retry; undefined if it does not ask. */
    readonly retryAfterMs?: number,
    /** The trailing metadata of the call, as x-request-id and attend-estimated-wait-ms. */
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

/** What to change, by the words of OpenSSL or of grpc-js about a connection that failed. */
const HINTS: [RegExp, string][] = [
  [/wrong version number/, "the server speaks no TLS: connect without tls"],
  [/Last error: Protocol error/, "the server speaks no HTTP/2: is this the port of /metrics, or a proxy that needs tls?"],
  [/Last error: (Failed to connect|read ECONNRESET)/, "the server closed the new connection: does it need tls, or a certificate in it?"],
];

/** What the balancers of grpc-js put around the error of a connection. */
const BALANCER = /^round_robin: |No connection established\. Last error: |\s*\. Resolution note: $/g;

/** Converts an error of grpc-js. Its message also names the server, the timeout or the flag to raise. Returns other errors as they are. */
export function fromStatus(error: unknown, server: string, timeoutMs: number): unknown {
  if (!(error instanceof Error) || !("code" in error) || typeof error.code !== "number" || !("details" in error)) {
    return error;
  }
  const code = codeName(error.code);
  let message = String(error.details);
  if (code === "UNAVAILABLE") {
    const hint = HINTS.find(([words]) => words.test(message));
    const cause = message.replace(BALANCER, "");
    message = `server ${server}: ${cause}${hint ? ` (${hint[1]})` : ""}`;
  } else if (code === "DEADLINE_EXCEEDED") {
    // The text of grpc-js says that the time is over. The server refuses what it could not compute in time.
    const cause = /^Deadline exceeded/i.test(message) ? "no answer within" : "refused with a timeout of";
    message = `server ${server}: ${cause} ${timeoutMs} ms: ${message}`;
  } else if (message.includes("larger than max")) {
    message += " (the server's flag --max-message-bytes sets the limit)";
  } else if (message.includes("metadata size exceeds")) {
    message += " (of metadata that is sent, the server's flag --max-header-bytes sets the limit)";
  }
  const trailers: Record<string, string> = {};
  const metadata = "metadata" in error ? (error.metadata as Metadata | undefined) : undefined;
  for (const [key, value] of Object.entries(metadata?.getMap() ?? {})) {
    trailers[key] = value.toString();
  }
  const pushback = trailers["grpc-retry-pushback-ms"] ?? "";
  return new AttendError(code, message, /^\d+$/.test(pushback) ? Number(pushback) : undefined, trailers);
}
