/** Addresses, channels, deadlines and retries. */

import { lookup } from "node:dns/promises";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { ChannelCredentials, Client as GrpcClient, credentials, Metadata, type ChannelOptions } from "@grpc/grpc-js";
import { AttendError, fromStatus } from "./errors.js";
import { checkKnown, checkObject, listOf, valueOf, wrong } from "./messages.js";
import type { CallOptions } from "./types.js";

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

/** The options of a client. */
export interface ClientOptions {
  /** host:port, dns:///name:port or unix:/path; or several host:port (a list, or with commas), to which calls go in turn. */
  server?: string | readonly string[];
  /** The deadline, in milliseconds, of a call that has no other; default: 30,000. */
  timeoutMs?: number;
  /** true: TLS with the certificates of Node. Default: plaintext. */
  tls?: boolean | Tls;
  /** The bearer token of every call: a string, or a function that is called for each. Empty or blank: none. */
  token?: string | (() => string | Promise<string>);
  /** The metadata of every call: texts, or Buffers for names that end in "-bin". */
  metadata?: Readonly<Record<string, string | Buffer>>;
  /** Whether calls that change nothing on the server are retried; default: true. client/README.md describes the policy. */
  retries?: boolean;
}

const CHANNEL: ChannelOptions = {
  // The size of messages has no limit here; the server has one.
  "grpc.max_receive_message_length": -1,
  "grpc.max_send_message_length": -1,
  "grpc-node.flow_control_window": 4 << 20,
  // A broken connection is noticed within 15 s, and a server that is back is found within 3 s.
  "grpc.keepalive_time_ms": 10_000,
  "grpc.keepalive_timeout_ms": 5_000,
  "grpc.keepalive_permit_without_calls": 1,
  "grpc.initial_reconnect_backoff_ms": 100,
  "grpc.max_reconnect_backoff_ms": 3_000,
  // A name may come to mean another server: it is looked up again after 2 s instead of 30 s.
  "grpc.dns_min_time_between_resolutions_ms": 2_000,
  // Proxies of the environment are not used: one would answer for a server that is down.
  "grpc.enable_http_proxy": 0,
  "grpc.service_config": JSON.stringify({ loadBalancingConfig: [{ round_robin: {} }] }),
  "grpc.service_config_disable_resolution": 1,
};
// Targets that gRPC reads in another way than host:port.
const SCHEMES = /^(dns|ipv4|ipv6|unix|unix-abstract|xds):/;
const CLIENT_KEYS: readonly (keyof ClientOptions)[] = ["server", "timeoutMs", "tls", "token", "metadata", "retries"];
const TLS_KEYS: readonly (keyof Tls)[] = ["ca", "certificate", "key", "serverName"];
const CALL_KEYS: readonly (keyof CallOptions)[] = ["timeoutMs", "signal", "metadata"];
// The headers of a connection, which HTTP/2 does not carry with a call.
const CONNECTION_HEADERS = new Set(
  ["connection", "http2-settings", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade"],
);
// What PEM files have, and the lines by which they are recognized.
const CERTIFICATE = { name: "certificate", line: "-----BEGIN CERTIFICATE-----" };
const KEY = { name: "private key", line: "PRIVATE KEY-----" };
// Methods that change nothing on the server. Decode is not among them: a session cannot be repeated.
const REPEATABLE = new Set(["Attend", "AttendStream", "ListModels", "GetModel", "GetStatistics", "ListModelStates", "Check"]);

/** The options of a client, checked, and its connection. */
export class Connection {
  /** The name of the server in errors. */
  readonly name: string;
  readonly timeoutMs: number;
  /** The retry budget: it stops retries while most calls fail, when they would only add to the load. */
  private readonly budget = { tokens: 1000 };
  private readonly addresses: readonly string[];
  private readonly commonHost: string | undefined;
  private readonly credentials: ChannelCredentials;
  private opened: GrpcClient | undefined;
  private isClosed = false;

  constructor(private readonly options: ClientOptions) {
    checkKnown(options, CLIENT_KEYS, "client");
    const { server = "127.0.0.1:8001", timeoutMs = 30_000, tls = false, token, metadata = {}, retries = true } = options;
    valueOf("bool", retries, "retries");
    if (typeof tls !== "boolean") {
      checkKnown(tls, TLS_KEYS, "tls");
    }
    const addresses = listOf<string>("string", typeof server === "string" ? server.split(",") : server, "server");
    this.addresses = addresses.map((address) => address.trim());
    this.name = this.addresses.join(",");
    checkAddresses(this.addresses);
    checkMetadata(metadata);
    this.checkSecrecy(token !== undefined && (typeof token === "function" || bearer(token) !== ""), metadata);
    this.timeoutMs = checkMs("timeoutMs", timeoutMs);
    const [first, ...others] = new Set(this.addresses.map((address) => hostAndPort(address)[0]));
    this.commonHost = others.length === 0 ? first : undefined;
    if (tls !== false && this.commonHost === undefined && (tls === true || tls.serverName === undefined)) {
      throw new TypeError("tls: expected a serverName for a list of different hosts, found none");
    }
    this.credentials = credentialsOf(tls, typeof tls === "object" ? tls : {});
    if (this.addresses.length === 1) {
      this.opened = this.dial(this.addresses[0]!);
    }
  }

  /** Returns what a call starts with: the connection, and its metadata with the token. */
  async ready(call: CallOptions, attempts: Attempts): Promise<{ grpc: GrpcClient; metadata: Metadata }> {
    const [metadata, grpc] = await attempts.within(Promise.all([this.metadata(call), this.grpc()]));
    return { grpc, metadata };
  }

  /** Returns the connection, which is made with the first call. It looks up the names of a list then. */
  private async grpc(): Promise<GrpcClient> {
    const target = this.opened ? "" : await targetOf(this.addresses);
    if (this.isClosed) {
      throw new AttendError("CANCELLED", "the client was closed");
    }
    return (this.opened ??= this.dial(target));
  }

  close(): void {
    this.isClosed = true;
    this.opened?.close();
  }

  private dial(target: string): GrpcClient {
    const { tls } = this.options;
    const name = (typeof tls === "object" ? tls.serverName : undefined) ?? (this.addresses.length > 1 ? this.commonHost : undefined);
    const channel = { ...CHANNEL };
    if (tls && name !== undefined) {
      channel["grpc.ssl_target_name_override"] = name;
    }
    return new GrpcClient(target, this.credentials, channel);
  }

  private async metadata(call: CallOptions): Promise<Metadata> {
    const metadata = new Metadata();
    for (const [key, value] of Object.entries({ ...this.options.metadata, ...call.metadata })) {
      metadata.set(key, value);
    }
    const { token = "" } = this.options;
    const sent = bearer(typeof token === "function" ? await token() : token);
    if (sent !== "") {
      metadata.set("authorization", `Bearer ${sent}`);
    }
    return metadata;
  }

  /** Throws TypeError if a token, or metadata with one, would be sent to another machine in plaintext. */
  private checkSecrecy(hasToken: boolean, metadata: Readonly<Record<string, unknown>>): void {
    const isSecret = hasToken || Object.keys(metadata).some((key) => key.toLowerCase() === "authorization");
    const onThisMachine = /^(unix:|unix-abstract:|(dns:\/*|ipv4:|ipv6:)?(localhost|\[::1\]|127\.[0-9.]+):\d+$)/;
    const away = this.addresses.find((address) => !onThisMachine.test(address));
    if (isSecret && (this.options.tls ?? false) === false && away !== undefined) {
      throw new TypeError(
        `token: expected TLS to another machine, found a plaintext connection to ${away}, which would disclose it`,
      );
    }
  }

  /** Begins a call of the method at `path`: checks its options, which may also have the keys `others`, and starts its deadline. */
  attempts(call: CallOptions, path: string, others: readonly string[] = []): Attempts {
    checkKnown(call, [...CALL_KEYS, ...others], "call");
    const { signal, metadata = {} } = call;
    if (signal !== undefined && typeof signal?.throwIfAborted !== "function") {
      throw wrong("signal", "an AbortSignal", signal);
    }
    checkMetadata(metadata);
    this.checkSecrecy(false, metadata);
    const timeoutMs = checkMs("timeoutMs", call.timeoutMs ?? this.timeoutMs);
    const mayRepeat = this.options.retries !== false && REPEATABLE.has(path.split("/").at(-1)!);
    return new Attempts(this.name, timeoutMs, signal, mayRepeat, this.budget);
  }
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
    this.budget.tokens = Math.min(1000, this.budget.tokens + 1);
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
    const isAllowed = this.budget.tokens > 500 && this.failed < 5 && Date.now() + delay < this.deadline;
    return isAllowed ? delay : undefined;
  }

  private pauseAfter({ code, retryAfterMs, trailers }: AttendError): number | undefined {
    if (code === "RESOURCE_EXHAUSTED" || "grpc-retry-pushback-ms" in trailers) {
      return code === "RESOURCE_EXHAUSTED" || code === "UNAVAILABLE" ? retryAfterMs : undefined;
    }
    return code === "UNAVAILABLE" ? 100 * 2 ** this.failed * (0.8 + 0.4 * Math.random()) : undefined;
  }
}

const YEAR_MS = 365 * 24 * 3600 * 1000;

/** Returns `ms`. RangeError unless it is a time of at most a year: grpc-js ends the process over deadlines much later. */
export function checkMs(name: string, ms: number): number {
  if (!(typeof ms === "number" && ms > 0 && ms <= YEAR_MS)) {
    throw new RangeError(`${name}: expected a positive number of at most ${YEAR_MS} (a year), found ${ms}`);
  }
  return ms;
}

/** setTimeout, which takes no more than 24 days, and would ring at once. */
export function alarm(ms: number, ring: () => void): NodeJS.Timeout {
  return setTimeout(ring, Math.min(ms, 2 ** 31 - 1));
}

/** Returns the token as it is sent. */
function bearer(token: unknown): string {
  const trimmed = typeof token === "string" ? token.trim() : token;
  checkPrintable("token", trimmed);
  return trimmed;
}

/** Throws TypeError for what HTTP/2 cannot send, or what grpc-js would ignore or try again until the deadline. */
function checkMetadata(metadata: unknown): void {
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

function credentialsOf(tls: boolean | Tls, { ca, key, certificate }: Tls): ChannelCredentials {
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

function checkAddresses(addresses: readonly string[]): void {
  if (addresses.length === 0 || addresses.includes("")) {
    throw new TypeError(`server: expected host:port, dns:///name:port or unix:/path, found "${addresses.join(",")}"`);
  }
  const hasScheme = addresses.length === 1 && SCHEMES.test(addresses[0] ?? "");
  const wrong = hasScheme ? undefined : addresses.find((address) => !isHostAndPort(address));
  if (wrong !== undefined) {
    throw new TypeError(`server: expected host:port with a port of 1 to 65535, found "${wrong}"`);
  }
}

function isHostAndPort(address: string): boolean {
  const port = /^(?:\[[^[\]/]*:[^[\]/]*\]|[^[\]:/]+):(\d{1,5})$/.exec(address)?.[1];
  return Number(port) >= 1 && Number(port) <= 65_535;
}

function hostAndPort(address: string): [string, string] {
  const colon = address.lastIndexOf(":");
  return [address.slice(0, colon).replace(/^\[|\]$/g, ""), address.slice(colon + 1)];
}

/** Returns grpc-js's target for several host:port. Its lists have numeric addresses of one family. Unknown names are left out. */
async function targetOf(addresses: readonly string[]): Promise<string> {
  const found = await Promise.all(
    addresses.map(async (address) => {
      const [host, port] = hostAndPort(address);
      const known = await lookup(host, { all: true }).catch(() => []);
      return known.map(({ address: number, family }) => ({ number, family, port }));
    }),
  );
  const all = found.flat();
  if (all.length === 0) {
    throw new AttendError("UNAVAILABLE", `server: expected hosts that the system knows, found none in ${addresses.join(",")}`);
  }
  if (all.every(({ family }) => family === 4)) {
    return `ipv4:${all.map(({ number, port }) => `${number}:${port}`).join(",")}`;
  }
  return `ipv6:${all.map(({ number, family, port }) => `[${family === 4 ? "::ffff:" : ""}${number}]:${port}`).join(",")}`;
}
