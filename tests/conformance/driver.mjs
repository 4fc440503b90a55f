// Makes the calls that run.py asks for, with the Node client.
import { createInterface } from "node:readline";
import { AttendError, Client, Tensor } from "@attend/client";

const hiddenStates = Tensor.fp32([1, 2, 3, 4, 5, 6, 7, 8], [1, 2, 4]);
const rows = { model: "m", hiddenStates, options: { causal: true } };
const text = {
  model: "m",
  modelVersion: 3,
  text: "the cat",
  noSpecialTokens: true,
  modelOutput: "MEAN_POOLED",
  weightsChoice: { layers: [1], heads: [0] },
  options: { window: 2, scale: 0.5 },
};

async function session(client) {
  const opened = await client.session({ model: "m" });
  const { output } = await opened.step({ tokenIds: [7, 8] });
  await opened.close();
  return output;
}

const calls = {
  attend: async (client) => (await client.attend(rows)).output,
  attend_stream: async (client) => (await client.attendStream(rows).result()).output,
  text: async (client) => (await client.attend(text)).output,
  session,
  ready: (client) => client.waitUntilReady(),
  get_model: async (client) => void (await client.getModel("m")),
  load_model: async (client) => void (await client.loadModel("m")),
};

async function answer(call, client) {
  try {
    const output = await calls[call](client);
    const data = output?.data;
    return `OK ${data ? Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString("hex") : "-"}`;
  } catch (error) {
    if (error instanceof AttendError) {
      return `${error.code} -`;
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
