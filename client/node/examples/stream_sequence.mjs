// Streams attention over a long sequence: each block of rows is used when it arrives, and none is kept.
// node stream_sequence.mjs [--length 4096] [--server 127.0.0.1:8001]
import { parseArgs } from "node:util";
import { Client, Tensor } from "@attend/client";

const { values } = parseArgs({
  options: { length: { type: "string", default: "4096" }, server: { type: "string", default: "127.0.0.1:8001" } },
});
const length = Number(values.length);
const rows = Tensor.fp32(Float32Array.from({ length: length * 512 }, () => Math.random() - 0.5), [length, 512]);
const client = new Client({ server: values.server });
const request = { model: "demo", hiddenStates: rows, options: { causal: true } };
const stream = client.attendStream(request, { assemble: false });
let last = -1;
for await (const block of stream) {
  last = block.firstRow + block.rows.shape[0] - 1;
  console.log(`rows ${block.firstRow} to ${last}, first value ${block.rows.data[0].toFixed(4)}`);
}
console.log(`${last + 1} rows, computed in ${(stream.summary.computeNs / 1e6).toFixed(1)} ms`);
client.close();
