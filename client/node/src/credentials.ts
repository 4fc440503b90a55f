/** The certificates of a connection. */

import { readFileSync } from "node:fs";
import { credentials, type ChannelCredentials } from "@grpc/grpc-js";

/** Certificates, as PEM text or bytes, or the paths of files. */
export interface Tls {
  /** The certificates of the trusted authorities. Default: those of Node. */
  ca?: string | Buffer;
  /** The chain of the client's own certificate, for servers that demand one (mutual TLS); it needs `key`. */
  certificate?: string | Buffer;
  /** The private key of `certificate`. */
  key?: string | Buffer;
  /** The name that the server's certificate must have. Default: the host of its address. */
  serverName?: string;
}

// What PEM files have, and the lines by which they are recognized.
const CERTIFICATE = { name: "certificate", line: "-----BEGIN CERTIFICATE-----" };
const KEY = { name: "private key", line: "PRIVATE KEY-----" };

/** Returns what `tls` says. TypeError for half a key pair, and for what is no PEM. */
export function credentialsOf(tls: boolean | Tls, { ca, key, certificate }: Tls): ChannelCredentials {
  if (tls === false) {
    return credentials.createInsecure();
  }
  if ((key === undefined) !== (certificate === undefined)) {
    const found = key === undefined ? "no key" : "no certificate";
    throw new TypeError(`tls: expected both certificate and key, or none, found ${found}`);
  }
  return credentials.createSsl(pem("ca", ca, CERTIFICATE), pem("key", key, KEY), pem("certificate", certificate, CERTIFICATE));
}

/** Returns the PEM bytes of `source`. Errors show a path only: PEM text may be a secret. */
function pem(option: string, source: string | Buffer | undefined, kind: { name: string; line: string }): Buffer | null {
  if (source === undefined) {
    return null;
  }
  const isPath = typeof source === "string" && !source.includes("-----BEGIN");
  const bytes = isPath ? readFileSync(source) : Buffer.from(source);
  if (!bytes.includes(kind.line)) {
    throw new TypeError(`tls.${option}: expected a PEM ${kind.name}, found none${isPath ? ` at ${source}` : ""}`);
  }
  return bytes;
}
