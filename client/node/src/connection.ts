/** How a server is reached, and when a call is tried again. */

import { readFileSync } from "node:fs";
import { isIP } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { ChannelCredentials, Client as GrpcClient, credentials, Metadata, type ChannelOptions } from "@grpc/grpc-js";
import { AttendError, fromStatus } from "./errors.js";
import type { CallOptions } from "./types.js";

/** Certificates, as PEM bytes or the paths of files. */
export interface Tls {
  /** Whom to believe; Node's roots unless set. */
  ca?: string | Buffer;
  /** This client's own chain, for servers that demand one; with `key`. */
  certificate?: string | Buffer;
  key?: string | Buffer;
  /** The name that the server's certificate must have, where that is not the name of its address. */
  serverName?: string;
}

/**
 * Calls are tried again when that can help and is sure to do no harm: UNAVAILABLE, and RESOURCE_EXHAUSTED when the server says
 * when to come back; never beyond the deadline, never once an answer has begun.
 */
export interface Retry {
  /** The first one counts. */
  attempts?: number;
  initialBackoffMs?: number;
  maxBackoffMs?: number;
}

export interface ClientOptions {
  /** host:port, dns:///name:port, unix:/path; or several addresses (numbers) in turn: a list, or with commas. */
  servers?: string | readonly string[];
  /** Deadline of a call that names none. A call never waits longer. */
  timeoutMs?: number;
  tls?: boolean | Tls;
  /** Goes along as a bearer token: itself, or what the function says at each call. */
  token?: string | (() => string | Promise<string>);
  /** Goes along with every call. */
  metadata?: Readonly<Record<string, string>>;
  retry?: Retry;
}

const CHANNEL: ChannelOptions = {
  // Tensors are as large as they are; the server has the limit.
  "grpc.max_receive_message_length": -1,
  "grpc.max_send_message_length": -1,
  "grpc-node.flow_control_window": 4 << 20,
  // A server that is gone is noticed, and found again when it is back.
  "grpc.keepalive_time_ms": 60_000,
  "grpc.keepalive_timeout_ms": 20_000,
  "grpc.keepalive_permit_without_calls": 1,
  "grpc.initial_reconnect_backoff_ms": 200,
  "grpc.max_reconnect_backoff_ms": 5_000,
  // A server that took another's place is there under the same name: look it up again soon, not after 30 s.
  "grpc.dns_min_time_between_resolutions_ms": 2_000,
  // A proxy of the environment would answer for a server that is not there.
  "grpc.enable_http_proxy": 0,
  "grpc.service_config": JSON.stringify({ loadBalancingConfig: [{ round_robin: {} }] }),
};

export class Connection {
  readonly grpc: GrpcClient;
  /** For people. */
  readonly name: string;
  readonly timeoutMs: number;

  constructor(private readonly options: ClientOptions) {
    const { servers = "127.0.0.1:8001", timeoutMs = 30_000, tls = false } = options;
    const addresses = (typeof servers === "string" ? servers.split(",") : servers).map((address) => address.trim());
    this.name = addresses.join(",");
    if (tls === false && (options.token !== undefined || hasAuthorization(options.metadata ?? {}))) {
      checkSecrecy(addresses);
    }
    this.timeoutMs = checkMs("timeoutMs", timeoutMs);
    const certificates = typeof tls === "object" ? tls : {};
    const channel = { ...CHANNEL };
    if (certificates.serverName !== undefined) {
      channel["grpc.ssl_target_name_override"] = certificates.serverName;
    }
    this.grpc = new GrpcClient(targetOf(addresses), credentialsOf(tls, certificates), channel);
  }

  async metadata(call: CallOptions): Promise<Metadata> {
    const metadata = new Metadata();
    for (const [key, value] of Object.entries({ ...this.options.metadata, ...call.metadata })) {
      metadata.set(key, value);
    }
    const { token } = this.options;
    const bearer = typeof token === "function" ? await token() : token;
    if (bearer !== undefined) {
      metadata.set("authorization", `Bearer ${bearer.trim()}`);
    }
    return metadata;
  }

  attempts(call: CallOptions): Attempts {
    const timeoutMs = checkMs("timeoutMs", call.timeoutMs ?? this.timeoutMs);
    return new Attempts(this.name, timeoutMs, call.signal, this.options.retry ?? {});
  }
}

/** Of one call: until when, and whether to try again. */
export class Attempts {
  readonly deadline: number;
  private failed = 0;

  constructor(
    private readonly server: string,
    private readonly timeoutMs: number,
    private readonly signal: AbortSignal | undefined,
    private readonly retry: Retry,
  ) {
    this.deadline = Date.now() + timeoutMs;
    signal?.throwIfAborted();
  }

  /** Waits until the call may be tried again; throws what it failed with when it may not, or its signal's reason. */
  async afterFailure(failure: unknown, mayRetry = true): Promise<void> {
    this.signal?.throwIfAborted();
    const error = fromStatus(failure, this.server, this.timeoutMs);
    const delay = error instanceof AttendError && mayRetry ? this.delayAfter(error) : undefined;
    if (delay === undefined) {
      throw error;
    }
    await sleep(delay, undefined, this.signal && { signal: this.signal }).catch(() => this.signal?.throwIfAborted());
  }

  private delayAfter(error: AttendError): number | undefined {
    const { attempts = 4, initialBackoffMs = 100, maxBackoffMs = 2_000 } = this.retry;
    this.failed += 1;
    const isUnavailable = error.code === "UNAVAILABLE";
    if (this.failed >= attempts || (!isUnavailable && error.code !== "RESOURCE_EXHAUSTED")) {
      return undefined;
    }
    const backoff = Math.min(maxBackoffMs, initialBackoffMs * 2 ** (this.failed - 1)) * (0.5 + Math.random() / 2);
    const delay = error.retryAfterMs ?? (isUnavailable ? backoff : undefined);
    return delay !== undefined && Date.now() + delay < this.deadline ? delay : undefined;
  }
}

export function checkMs(name: string, ms: number): number {
  if (!(ms > 0 && Number.isFinite(ms))) {
    throw new RangeError(`${name}: expected a positive, finite number, found ${ms}`);
  }
  return ms;
}

function hasAuthorization(metadata: Readonly<Record<string, string>>): boolean {
  return Object.keys(metadata).some((key) => key.toLowerCase() === "authorization");
}

function checkSecrecy(addresses: readonly string[]): void {
  const onThisMachine = /^(unix:|unix-abstract:|(dns:\/*|ipv4:|ipv6:)?(localhost|\[::1\]|127\.[0-9.]+):\d+$)/;
  const away = addresses.find((address) => !onThisMachine.test(address));
  if (away !== undefined) {
    throw new TypeError(
      `token: expected TLS on the way to another machine, found a plaintext connection to ${away}, on which anybody could read it`,
    );
  }
}

function credentialsOf(tls: boolean | Tls, { ca, key, certificate }: Tls): ChannelCredentials {
  return tls === false ? credentials.createInsecure() : credentials.createSsl(pem(ca), pem(key), pem(certificate));
}

function pem(source: string | Buffer | undefined): Buffer | null {
  return source === undefined ? null : Buffer.isBuffer(source) ? source : readFileSync(source);
}

function targetOf(addresses: readonly string[]): string {
  const [only, ...others] = addresses;
  if (only === undefined || addresses.includes("")) {
    throw new TypeError(`servers: expected host:port, dns:///name:port or unix:/path, found "${addresses.join(",")}"`);
  }
  if (others.length === 0) {
    return only;
  }
  const families = new Set(addresses.map((address) => isIP(address.replace(/:\d+$/, "").replace(/^\[|\]$/g, ""))));
  const [family] = families;
  if (families.size !== 1 || family === 0 || !addresses.every((address) => /:\d+$/.test(address))) {
    throw new TypeError(
      `servers: expected several IP:PORT of one family (or one dns:///name:port that has them all), found ${addresses.join(",")}`,
    );
  }
  return `ipv${family}:${addresses.join(",")}`;
}
