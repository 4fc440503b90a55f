/** The options of a client, and its connection. */

import { Client as GrpcClient, Metadata, type ChannelCredentials, type ChannelOptions } from "@grpc/grpc-js";
import { checkAddresses, hostAndPort, targetOf } from "./addresses.js";
import { Attempts, RETRY_TOKENS, checkMs } from "./attempts.js";
import { credentialsOf, type Tls } from "./credentials.js";
import { AttendError } from "./errors.js";
import { checkKnown, listOf, valueOf, wrong } from "./messages.js";
import { bearer, checkMetadata } from "./metadata.js";
import type { CallOptions } from "./types.js";

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
  // Each client has a connection of its own: a server bounds the calls of a connection, and sessions take theirs for long.
  "grpc.use_local_subchannel_pool": 1,
  // A broken connection is noticed within 25 s. A server that is back is found within 1 s, before the last retry of a call. A program
  // that computes for up to 15 s without a pause reads the answer to a ping in time.
  "grpc.keepalive_time_ms": 10_000,
  "grpc.keepalive_timeout_ms": 15_000,
  "grpc.keepalive_permit_without_calls": 1,
  "grpc.initial_reconnect_backoff_ms": 100,
  "grpc.max_reconnect_backoff_ms": 1_000,
  // A name may come to mean another server: it is looked up again after 2 s instead of 30 s.
  "grpc.dns_min_time_between_resolutions_ms": 2_000,
  // Proxies of the environment are not used: one would answer for a server that is down.
  "grpc.enable_http_proxy": 0,
  "grpc.service_config": JSON.stringify({ loadBalancingConfig: [{ round_robin: {} }] }),
  "grpc.service_config_disable_resolution": 1,
};
const CLIENT_KEYS: readonly (keyof ClientOptions)[] = ["server", "timeoutMs", "tls", "token", "metadata", "retries"];
const TLS_KEYS: readonly (keyof Tls)[] = ["ca", "certificate", "key", "serverName"];
const CALL_KEYS: readonly (keyof CallOptions)[] = ["timeoutMs", "signal", "metadata"];
// Methods that change nothing on the server. Decode is not among them: a session cannot be repeated.
const REPEATABLE = new Set([
  ...["Attend", "AttendStream", "ListModels", "GetModel", "GetStatistics", "ListModelStates"].map(
    (method) => `/attention.v1.AttentionService/${method}`,
  ),
  "/grpc.health.v1.Health/Check",
]);

/** The options of a client, checked, and its connection. */
export class Connection {
  /** The name of the server in errors. */
  readonly name: string;
  readonly timeoutMs: number;
  /** The retry budget: it stops retries while most calls fail, when they would only add to the load. */
  private readonly budget = { tokens: RETRY_TOKENS };
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
    const mayRepeat = this.options.retries !== false && REPEATABLE.has(path);
    return new Attempts(this.name, timeoutMs, signal, mayRepeat, this.budget);
  }
}
