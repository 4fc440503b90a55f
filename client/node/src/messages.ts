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

/** Throws TypeError for a key of `object` that the message does not have: it would be ignored. */
export function checkKeys(object: object, message: string, where: string): void {
  const { type } = definition[`attention.v1.${message}`] as MessageTypeDefinition<object, object>;
  const known = (type as { field: { name: string }[] }).field.map((field) => field.name);
  for (const key of Object.keys(object)) {
    if (!known.includes(key)) {
      throw new TypeError(`${where}: expected one of ${known.join(", ")}; found ${key}`);
    }
  }
}
