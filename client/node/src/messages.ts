/** The methods of the published .proto, which convert its messages to bytes and objects. */

import { fromJSON, type MessageTypeDefinition, type ServiceDefinition } from "@grpc/proto-loader";
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

/** Throws TypeError for a key of `object` that is not among `known`: it would be ignored. */
export function checkKnown(object: object, known: readonly string[], where: string): void {
  for (const key of Object.keys(object)) {
    if (!known.includes(key)) {
      throw new TypeError(`${where}: expected one of ${known.join(", ")}; found ${key}`);
    }
  }
}

type Field = { name: string; type: string; label: string };
const KINDS: readonly [types: RegExp, kind: string, holds: (value: unknown) => boolean][] = [
  [/BOOL$/, "true or false", (value) => typeof value === "boolean"],
  [/INT(32|64)$/, "an integer", (value) => Number.isSafeInteger(value)],
  [/(FLOAT|DOUBLE)$/, "a number", (value) => typeof value === "number"],
];

/** Throws TypeError for a key that the message does not have, and for a value of another type: it would become some other value. */
export function checkFields(object: object, message: string, where: string): void {
  const { type } = definition[`attention.v1.${message}`] as MessageTypeDefinition<object, object>;
  const { field: fields } = type as { field: Field[] };
  checkKnown(object, fields.map(({ name }) => name), where);
  for (const [key, value] of Object.entries(object)) {
    const field = fields.find(({ name }) => name === key)!;
    const [, kind, holds] = KINDS.find(([types]) => types.test(field.type)) ?? [];
    const values: unknown[] = Array.isArray(value) && field.label === "LABEL_REPEATED" ? value : [value];
    const wrong = value === undefined || holds === undefined ? undefined : values.findIndex((one) => !holds(one));
    if (wrong !== undefined && wrong >= 0) {
      throw new TypeError(`${where}.${key}: expected ${kind}, found ${String(values[wrong])}`);
    }
  }
}
