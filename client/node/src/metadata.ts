/** What a call may carry beside its message: the token and metadata. */

import { checkObject } from "./messages.js";

// The headers of a connection, which HTTP/2 does not carry with a call.
const CONNECTION_HEADERS = new Set(
  ["connection", "http2-settings", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade"],
);

/** Returns the token as it is sent. */
export function bearer(token: unknown): string {
  const trimmed = typeof token === "string" ? token.trim() : token;
  checkPrintable("token", trimmed);
  return trimmed;
}

/** Throws TypeError for what HTTP/2 cannot send, or what grpc-js would ignore or try again until the deadline. */
export function checkMetadata(metadata: unknown): void {
  checkObject(metadata, "metadata");
  for (const [key, value] of Object.entries(metadata)) {
    const name = key.toLowerCase();
    if (!/^[a-z0-9_.-]+$/.test(name) || name.startsWith("grpc-") || CONNECTION_HEADERS.has(name)) {
      const expected = 'a name of a-z, 0-9, "-", "_" and "." that does not begin with "grpc-" and is no header of a connection';
      throw new TypeError(`metadata: expected ${expected}, found ${JSON.stringify(key)}`);
    }
    if (!name.endsWith("-bin")) {
      checkPrintable(`metadata.${key}`, value);
    } else if (!Buffer.isBuffer(value)) {
      throw new TypeError(`metadata.${key}: expected a Buffer, as for all names in -bin, found a value of type ${typeof value}`);
    }
  }
}

/** Throws TypeError for what HTTP/2 cannot send. It does not show the value, which may be a secret; grpc-js would. */
function checkPrintable(name: string, value: unknown): asserts value is string {
  if (typeof value !== "string") {
    throw new TypeError(`${name}: expected a text, found a value of type ${typeof value}`);
  }
  const at = value.search(/[^ -~]/);
  if (at >= 0) {
    throw new TypeError(`${name}: expected printable characters of ASCII, found another at position ${at}`);
  }
}
