// Makes the calls that run.py asks for, with the Node client.
import { createInterface } from "node:readline";
import { AttendError, Client, Tensor } from "@attend/client";

const hiddenStates = Tensor.fp32([1, 2, 3, 4, 5, 6, 7, 8], [1, 2, 4]);
const states = { model: "m", hiddenStates, options: { causal: true } };
const text = {
  model: "m",
  modelVersion: 3,
  text: "the cat",
  noSpecialTokens: true,
  modelOutput: "MEAN_POOLED",
  weightsChoice: { layers: [1], heads: [0] },
  options: { window: 2, scale: 0.5 },
};
const [query, key, value] = Array(3).fill(Tensor.fp32([1, 2, 3, 4], [2, 2, 1]));
const options = { returnWeights: true, returnLogSumExp: true, weightsTopK: 1 };
const scores = { query, key, value, options };
const huge = { model: "m", modelOutput: "LOGITS", hiddenStates: Tensor.fp32([], [2 ** 31, 0]) };

/** Returns the arrays of an answer, or of a step's. */
function arrays({ output, weights = [], logSumExp = [], topWeights = [], layerWeights = [] }) {
  const top = [topWeights].flat().flatMap((one) => [one.weights.data, one.keys]);
  const tensors = [[weights, logSumExp].flat(2), layerWeights.map((layer) => layer.weights)];
  return [output.data, ...tensors[0].map((table) => table.data), ...top, ...tensors[1].map((table) => table.data)];
}

async function rows(client, request) {
  const found = [];
  for await (const block of client.attendStream(request, { assemble: false })) {
    found.push(...(block.kind === "rows" ? [block.rows.data] : []));
  }
  return found;
}

async function session(client, request, step) {
  const opened = await client.session(request);
  const result = await opened.step(step);
  await opened.close();
  return arrays(result);
}

async function branches(client) {
  const opened = await client.session({ model: "m" });
  await opened.fork(0, 1);
  const { topLogits } = await opened.step({ tokenIds: [7, 8], sequence: 1, topLogits: 2 });
  const quiet = await opened.prefill({ tokenIds: [7, 8], sequence: 1 });
  const [cut, released] = [await opened.truncate(2, 1), await opened.release(1)];
  await opened.close();
  const lengths = [quiet.length, cut.length, released.usage.sequences];
  return [Int32Array.from(topLogits.ids), Float32Array.from(topLogits.logits), Int32Array.from(lengths)];
}

const whole = (request) => async (client) => arrays(await client.attend(request));
const streamed = (request) => async (client) => arrays(await client.attendStream(request).result());
const calls = {
  attend: whole(states),
  attend_stream: streamed(states),
  text: whole(text),
  text_stream: streamed(text),
  scores: whole(scores),
  scores_stream: streamed(scores),
  rows: (client) => rows(client, scores),
  huge_rows: (client) => rows(client, huge),
  huge: streamed(huge),
  session: (client) => session(client, { model: "m" }, { tokenIds: [7, 8] }),
  session_scores: (client) => session(client, { heads: { numHeads: 2, headDim: 1 }, options }, { query, key, value }),
  branches,
  ready: (client) => client.waitUntilReady(),
  get_model: async (client) => void (await client.getModel("m")),
  load_model: async (client) => void (await client.loadModel("m")),
};

async function answer(call, client) {
  try {
    const found = (await calls[call](client)) ?? [];
    return `OK ${found.map((data) => Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString("hex")).join("") || "-"}`;
  } catch (error) {
    if (error instanceof AttendError) {
      return `${error.code} ${error.message}`;
    }
    throw error;
  }
}

let client;
for await (const line of createInterface({ input: process.stdin })) {
  const [call, server, seconds, retries, token] = line.split(" ");
  let said = "OK";
  if (call === "open") {
    try {
      client = new Client({ server, timeoutMs: 1000 * seconds, retries: retries === "1", ...(token !== "-" && { token }) });
    } catch (error) {
      said = error instanceof TypeError ? "REFUSED" : String(error);
    }
  } else if (call === "close") {
    client?.close();
  } else {
    said = await answer(call, client);
  }
  console.log(said);
}
