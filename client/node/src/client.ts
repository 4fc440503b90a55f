/** The client takes and returns typed arrays; every call has a deadline. */

import type { ClientReadableStream } from "@grpc/grpc-js";
import { attendResult, type AttendResult } from "./answers.js";
import { Assembler } from "./assembler.js";
import { type Attempts, whenAborted } from "./attempts.js";
import { Connection, type ClientOptions } from "./connection.js";
import { AttendError } from "./errors.js";
import type { AttendRequest as WireRequest } from "./generated/attention/v1/AttendRequest.js";
import type { AttendResponse__Output } from "./generated/attention/v1/AttendResponse.js";
import type { AttendStreamResponse__Output } from "./generated/attention/v1/AttendStreamResponse.js";
import type { ListModelsResponse__Output } from "./generated/attention/v1/ListModelsResponse.js";
import type { ModelStates__Output } from "./generated/attention/v1/ModelStates.js";
import type { HealthCheckResponse__Output } from "./generated/grpc/health/v1/HealthCheckResponse.js";
import { method, valueOf, type Method } from "./messages.js";
import { attendRequest } from "./requests.js";
import { Session, type SessionOptions } from "./session.js";
import { AttendStream } from "./stream.js";
import type {
  AttendRequest,
  CallOptions,
  Logging,
  Model,
  ModelState,
  ServerStatistics,
  SessionRequest,
  SetLoggingRequest,
  Verification,
} from "./types.js";

const ATTEND = method<WireRequest, AttendResponse__Output>("Attend");
const ATTEND_STREAM = method<WireRequest, AttendStreamResponse__Output>("AttendStream");
const CHECK = method<object, HealthCheckResponse__Output>("Check", "grpc.health.v1.Health");

const asIs = (bytes: Buffer): Buffer => bytes;

/** Calls a server, or several in turn. Calls run side by side. A failed call throws an AttendError with the server's code and message. */
export class Client {
  readonly #connection: Connection; // console.log() and JSON.stringify() leave it out: it has the token

  constructor(options: ClientOptions = {}) {
    this.#connection = new Connection(options);
  }

  /** Closes the connections when the calls under way have ended. */
  close(): void {
    this.#connection.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.close();
  }

  /**
   * Returns the output of a model's layer, of its whole stack, or of attention over query, key and value. TypeError for a request
   * that cannot be sent; else the server's error.
   */
  async attend(request: AttendRequest, call: CallOptions = {}): Promise<AttendResult> {
    const wire = attendRequest(request);
    return attendResult(wire, await this.unary(ATTEND, wire, call));
  }

  /**
   * Returns an iterator over the blocks of the answer, each of which comes as soon as it is computed. The bits are those of
   * attend(). AttendStream.result() joins the blocks, unless `assemble` is false. INTERNAL for a block that does not follow the one
   * before it, and when rows are missing at the end. The request is read and its deadline starts at once; it is sent when the first
   * block is asked for.
   */
  attendStream(request: AttendRequest, call: CallOptions & { assemble?: boolean } = {}): AttendStream {
    const wire = attendRequest(request);
    const attempts = this.#connection.attempts(call, ATTEND_STREAM.path, ["assemble"]);
    const messages = this.messages(ATTEND_STREAM.encode(wire), attempts, call);
    const assemble = call.assemble !== false;
    return new AttendStream(messages, new Assembler(wire, wire.options ?? {}, assemble), assemble);
  }

  /** Opens a session: sequences that grow step by step, whose keys and values the server keeps until close(). */
  async session(request: SessionRequest, options: SessionOptions = {}): Promise<Session> {
    return Session.open(this.#connection, request, options);
  }

  /** Returns the models that the caller may use, in the order of name, then version. */
  async listModels(call: CallOptions = {}): Promise<Model[]> {
    return (await this.ask<ListModelsResponse__Output>("ListModels", {}, call)).models;
  }

  /** Returns a model, of the highest version unless `version` names one. NOT_FOUND if the server does not have it. */
  async getModel(name: string, version?: number, call: CallOptions = {}): Promise<Model> {
    return this.ask<Model>("GetModel", { model: name, version }, call);
  }

  /** Returns the counters of the server since its start, and its present load. */
  async getStatistics(call: CallOptions = {}): Promise<ServerStatistics> {
    return this.ask<ServerStatistics>("GetStatistics", {}, call);
  }

  /** Returns whether the server, or `service` ("model/NAME" for a model), is serving. NOT_FOUND for an unknown service. */
  async checkHealth(service = "", call: CallOptions = {}): Promise<boolean> {
    const { status } = await this.unary(CHECK, { service: valueOf("string", service, "service") }, call);
    return status === "SERVING";
  }

  /** Waits until the server, or `service`, is serving. DEADLINE_EXCEEDED if it is not before the deadline. */
  async waitUntilReady(service = "", call: CallOptions = {}): Promise<void> {
    const attempts = this.#connection.attempts(call, CHECK.path);
    for (;;) {
      const timeoutMs = Math.max(1, attempts.deadline - Date.now());
      const found = await this.checkHealth(service, { ...call, timeoutMs }).catch((error: unknown) => error);
      if (found === true) {
        return;
      }
      if (found !== false && !(found instanceof AttendError && ["UNAVAILABLE", "NOT_FOUND", "DEADLINE_EXCEEDED"].includes(found.code))) {
        throw found;
      }
      if (Date.now() + 100 > attempts.deadline) {
        const reason = found instanceof AttendError ? found.message : "it is not serving";
        throw new AttendError("DEADLINE_EXCEEDED", `server ${this.#connection.name}: not ready in time: ${reason}`);
      }
      await attempts.pause(100);
    }
  }

  /** Returns the state of each model of the server's folder (--models). */
  async listModelStates(call: CallOptions = {}): Promise<ModelState[]> {
    return (await this.ask<ModelStates__Output>("ListModelStates", {}, call)).states;
  }

  /**
   * Loads a model of the folder that is not loaded or has changed, and returns the states of its versions. The call lasts until the
   * model is loaded. A server with --admin-listen takes this and the calls below only there.
   */
  async loadModel(name: string, version?: number, call: CallOptions = {}): Promise<ModelState[]> {
    return (await this.ask<ModelStates__Output>("LoadModel", { model: name, version }, call)).states;
  }

  /** Stops serving a model until loadModel(). Returns the states of its versions. */
  async unloadModel(name: string, version?: number, call: CallOptions = {}): Promise<ModelState[]> {
    return (await this.ask<ModelStates__Output>("UnloadModel", { model: name, version }, call)).states;
  }

  /** Loads new and changed models, and stops serving those that have disappeared. Returns all states, with errors. */
  async reloadModels(call: CallOptions = {}): Promise<ModelState[]> {
    return (await this.ask<ModelStates__Output>("ReloadModels", {}, call)).states;
  }

  /** Measures the loss of accuracy by the element type in which the model's weights are served. */
  async verifyModel(name: string, version?: number, call: CallOptions = {}): Promise<Verification> {
    return this.ask<Verification>("VerifyModel", { model: name, version }, call);
  }

  /** Sets the minimum level of the server's log, and which requests it logs; absent: unchanged. Returns both settings. */
  async setLogging(logging: SetLoggingRequest, call: CallOptions = {}): Promise<Logging> {
    return this.ask<Logging>("SetLogging", logging, call);
  }

  private ask<A>(name: string, request: object, call: CallOptions): Promise<A> {
    const argument = name[0]!.toLowerCase() + name.slice(1);
    return this.unary(method<object, A>(name), valueOf<object>(`${name}Request`, request, argument), call);
  }

  private async unary<Q, A>(kind: Method<Q, A>, request: Q, call: CallOptions): Promise<A> {
    const attempts = this.#connection.attempts(call, kind.path);
    const bytes = kind.encode(request);
    for (;;) {
      const { grpc, metadata } = await this.#connection.ready(call, attempts);
      try {
        const answer = await new Promise<A>((resolve, reject) => {
          const { deadline } = attempts;
          let stopListening = (): void => {};
          const done = (error: Error | null, answer?: A): void => {
            stopListening();
            return error ? reject(error) : resolve(answer!);
          };
          const started = grpc.makeUnaryRequest(kind.path, asIs, kind.decode, bytes, metadata, { deadline }, done);
          stopListening = whenAborted(call.signal, () => started.cancel());
        });
        attempts.giveBack();
        return answer;
      } catch (failure) {
        await attempts.afterFailure(failure);
      }
    }
  }

  private async *messages(bytes: Buffer, attempts: Attempts, call: CallOptions): AsyncGenerator<AttendStreamResponse__Output> {
    for (let hasBegun = false; ; ) {
      const { grpc, metadata } = await this.#connection.ready(call, attempts);
      const { path, decode } = ATTEND_STREAM;
      const started: ClientReadableStream<AttendStreamResponse__Output> = grpc.makeServerStreamRequest(
        ...([path, asIs, decode, bytes, metadata, { deadline: attempts.deadline }] as const),
      );
      const stopListening = whenAborted(call.signal, () => started.cancel());
      try {
        for await (const message of started) {
          if (!hasBegun) {
            attempts.giveBack();
          }
          hasBegun = true;
          yield message as AttendStreamResponse__Output;
        }
        return;
      } catch (failure) {
        await attempts.afterFailure(failure, hasBegun);
      } finally {
        stopListening();
        started.cancel();
      }
    }
  }
}
