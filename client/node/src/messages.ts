/** The methods of the published .proto, which convert its messages to bytes and objects, and the check of what callers put in. */

import { inspect } from "node:util";
import { fromJSON, type ServiceDefinition } from "@grpc/proto-loader";
import { definition as published } from "./generated/definition.js";

const definition = fromJSON(published as Parameters<typeof fromJSON>[0], { longs: Number, enums: String, defaults: true });

export interface Method<Request, Response> {
  readonly path: string;
  encode(request: Request): Buffer;
  decode(bytes: Buffer): Response;
}

export function method<Request, Response>(
  name: string,
  service = "attention.v1.AttentionService",
): Method<Request, Response> {
  const found = (definition[service] as ServiceDefinition)[name]!;
  return {
    path: found.path,
    encode: (request) => found.requestSerialize(request as object),
    decode: (bytes) => found.responseDeserialize(bytes) as Response,
  };
}

/** Makes the error of an argument. */
export function wrong(where: string, expected: string, found: unknown): TypeError {
  const shown = inspect(found, { depth: 0, breakLength: Infinity, maxArrayLength: 4, maxStringLength: 60 });
  return new TypeError(`${where}: expected ${expected}, found ${shown}`);
}

/** Throws TypeError for what is no object with keys. */
export function checkObject(given: unknown, where: string): asserts given is object {
  // The keys of a Map are none of the object's.
  if (typeof given !== "object" || given === null || Array.isArray(given) || ArrayBuffer.isView(given) || given instanceof Map) {
    throw wrong(where, "an object", given);
  }
}

/** Throws TypeError for what is no object, and for a key that is not among `known`: it would be ignored. */
export function checkKnown(given: unknown, known: readonly string[], where: string): asserts given is object {
  checkObject(given, where);
  for (const key of Object.keys(given)) {
    if (!known.includes(key)) {
      throw new TypeError(`${where}: expected one of ${known.join(", ")}; found ${key}`);
    }
  }
}

/** What the .proto declares: a package, a message or an enum. */
interface Declared {
  readonly nested?: Readonly<Record<string, Declared>>;
  readonly fields?: Readonly<Record<string, { readonly type: string; readonly rule?: string }>>;
  readonly values?: Readonly<Record<string, number>>;
}

const declared = (within: Declared | undefined, path: string): Declared | undefined =>
  path.split(".").reduce((found, name) => found?.nested?.[name], within);
const PACKAGE = declared(published as Declared, "attention.v1")!;

/** Half of a character beyond U+FFFF, which no UTF-8 has. */
const LONE_SURROGATE = /\p{Surrogate}/u;
const INTEGER = ["an integer", Number.isSafeInteger] as const;
const NUMBER = ["a number", (value: unknown) => typeof value === "number"] as const;
const SCALARS: Readonly<Record<string, readonly [kind: string, holds: (value: unknown) => boolean]>> = {
  bool: ["true or false", (value) => typeof value === "boolean"],
  string: ["a text", (value) => typeof value === "string" && !LONE_SURROGATE.test(value)],
  int32: ["an integer of 32 bits", (value) => typeof value === "number" && value === (value | 0)],
  int64: INTEGER,
  float: NUMBER,
  double: NUMBER,
};

/**
 * Returns `given` as the value of a field of `type`, a scalar, message or enum of attention.v1. Names of enums may have any case;
 * fields of messages may be undefined. TypeError, which says `where`, for anything else: it would become some other value.
 */
export function valueOf<T>(type: string, given: unknown, where: string, within = PACKAGE): T {
  const scalar = SCALARS[type];
  if (scalar !== undefined) {
    const value = typeof given === "bigint" ? Number(given) : given;
    if (typeof value === "string" && LONE_SURROGATE.test(value)) {
      throw new TypeError(`${where}: expected characters of UTF-8, found a lone surrogate`);
    }
    if (!scalar[1](value)) {
      throw wrong(where, scalar[0], given);
    }
    return value as T;
  }
  const of = declared(within, type) ?? declared(PACKAGE, type)!;
  return (of.values ? enumName(of.values, given, where) : fieldsOf(of, given, where)) as T;
}

/** Returns an array, or an array of numbers, as the values of a repeated field. */
export function listOf<T>(type: string, given: unknown, where: string, within = PACKAGE): T[] {
  if (!Array.isArray(given) && (!ArrayBuffer.isView(given) || given instanceof DataView)) {
    throw wrong(where, "a list", given);
  }
  const holds = SCALARS[type]?.[1];
  return Array.from(given as ArrayLike<T>, (one, i) => (holds?.(one) ? one : valueOf<T>(type, one, `${where}[${i}]`, within)));
}

function fieldsOf(message: Declared, given: unknown, where: string): object {
  const fields = message.fields ?? {};
  checkKnown(given, Object.keys(fields), where);
  const present = Object.entries(given).filter(([, value]) => value !== undefined);
  return Object.fromEntries(
    present.map(([name, value]) => {
      const { type, rule } = fields[name]!;
      return [name, (rule === "repeated" ? listOf : valueOf)(type, value, `${where}.${name}`, message)];
    }),
  );
}

function enumName(values: Readonly<Record<string, number>>, given: unknown, where: string): string {
  const upper = typeof given === "string" ? given.toUpperCase() : undefined;
  const name = Object.keys(values).find((known) => known === upper || values[known] === given);
  if (name === undefined) {
    throw wrong(where, `one of ${Object.keys(values).join(", ")}`, given);
  }
  return name;
}
