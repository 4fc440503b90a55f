/** A streamed answer. */

import { AttendResult, readBlock, sent } from "./answers.js";
import type { Assembler } from "./assembler.js";
import { AttendError, malformed } from "./errors.js";
import type { AttendStreamResponse__Output } from "./generated/attention/v1/AttendStreamResponse.js";
import type { Block, Summary } from "./types.js";

/** A streamed answer: an iterator over its blocks, for one loop. Ending the loop early cancels the call. */
export class AttendStream implements AsyncIterable<Block> {
  private summaryOf: Summary | undefined;
  private failure: { readonly error: unknown } | undefined;
  private readonly blocks: AsyncGenerator<Block, void, undefined>;

  constructor(
    messages: AsyncIterable<AttendStreamResponse__Output>,
    private readonly assembler: Assembler,
    private readonly assemble: boolean,
  ) {
    this.blocks = this.read(messages);
  }

  [Symbol.asyncIterator](): AsyncIterator<Block, void, undefined> {
    return this.failure === undefined ? this.blocks : failed(this.failure.error);
  }

  /** Waits for the last block, and returns all blocks joined: the bits of attend(). FAILED_PRECONDITION without `assemble`. */
  async result(): Promise<AttendResult> {
    for await (const block of this) {
      void block;
    }
    if (this.failure !== undefined) {
      throw this.failure.error; // a loop over the blocks, or an earlier result(), had it
    }
    if (!this.assemble) {
      throw new AttendError("FAILED_PRECONDITION", "result: expected a stream with assemble, found one without");
    }
    if (this.summaryOf === undefined) {
      throw new AttendError("CANCELLED", "result: expected a stream that was read to its end");
    }
    return this.assembler.finish(this.summaryOf);
  }

  /** The times and the batch of the request; undefined until the last block has come. */
  get summary(): Summary | undefined {
    return this.summaryOf;
  }

  private async *read(messages: AsyncIterable<AttendStreamResponse__Output>): AsyncGenerator<Block, void, undefined> {
    try {
      for await (const message of messages) {
        if (this.summaryOf !== undefined) {
          throw malformed("expected the summary last, found a message after it");
        }
        if (message.summary) {
          this.summaryOf = message.summary;
          continue;
        }
        const block = readBlock(message);
        this.assembler.add(block);
        yield block;
      }
      sent(this.summaryOf, "summary");
      this.assembler.checkWhole();
    } catch (error) {
      this.failure = { error };
      throw error;
    }
  }
}

/** Throws the error of a stream that is read again. */
async function* failed(error: unknown): AsyncGenerator<never, void, undefined> {
  throw error;
}
