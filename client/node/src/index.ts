/** Client of Attend, an attention-inference server: typed arrays in and out, async iterators, sessions. */

export type { AttendResult } from "./answers.js";
export { Client } from "./client.js";
export type { ClientOptions } from "./connection.js";
export type { Tls } from "./credentials.js";
export { AttendError, type Code } from "./errors.js";
export type { Session, SessionOptions } from "./session.js";
export type { AttendStream } from "./stream.js";
export { Tensor, type Dtype, type Mask } from "./tensor.js";
export type * from "./types.js";
