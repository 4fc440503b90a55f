// What a TypeScript project writes against the package; the wrong lines must be errors. Only compiled, in both ways to resolve
// modules (typescript.test.mjs).
import { AttendError, Client, Tensor, type AttendResult, type Block, type StepResult } from "@attend/client";

export async function ask(server: string): Promise<readonly number[]> {
  const client = new Client({ server, timeoutMs: 10_000, retries: false });
  const rows = Tensor.fp32(new Float32Array(2 * 512), [2, 512]);
  const result: AttendResult = await client.attend({ model: "demo", hiddenStates: rows, options: { causal: true, window: 4 } });
  for await (const block of client.attendStream({ model: "demo", tokenIds: [[1, 2], [3]] })) {
    const kind: Block["kind"] = block.kind;
    if (block.kind === "rows") {
      console.log(kind, block.firstRow, block.rows.toFloat32()[0]);
    }
  }
  await client.attend({ model: "demo", tokenIds: [1], modelOutput: "logits", options: { similarity: "linear", rotary: { scaling: "llama3" } } });
  const session = await client.session({ model: "gpt2", cacheDtype: "bf16" });
  const step: StepResult = await session.step({ text: "the cat", topLogits: 3 });
  console.log(step.topLogits?.ids[0], step.length);
  await session.close();
  try {
    await client.attend({ model: "demo", tokenIds: [1], modelOutput: "MEAN_POOLED" }, { signal: AbortSignal.timeout(100) });
  } catch (error) {
    console.log(error instanceof AttendError ? error.code : error);
  }
  return result.output.shape;
}

export async function wrong(client: Client): Promise<void> {
  // @ts-expect-error an option that does not exist
  await client.attend({ model: "demo", tokenIds: [1], options: { casual: true } });
  // @ts-expect-error the name of a model is a string
  await client.attend({ model: 3, tokenIds: [1] });
  // @ts-expect-error an output that does not exist
  await client.attend({ model: "demo", tokenIds: [1], modelOutput: "POOLED" });
  // @ts-expect-error a number is no text
  await client.attend({ model: "demo", tokenIds: [1], options: { window: "4" } });
  // @ts-expect-error a scaling that does not exist
  await client.attend({ model: "demo", tokenIds: [1], options: { rotary: { scaling: "Linear" } } });
  // @ts-expect-error a tensor's shape is read-only
  (await client.attend({ model: "demo", tokenIds: [1] })).output.shape[0] = 1;
}
