// The examples of the package's README, run as they stand.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { Client } from "@attend/client";
import { repository, startServerWithModels } from "./support.mjs";

test("every example of the README runs", async () => {
  const text = readFileSync(join(repository, "client/node/README.md"), "utf8");
  const examples = [...text.matchAll(/^```js\n(.*?)^```/gms)].map(([, program]) => program);
  assert.ok(examples.length > 2);
  const server = await startServerWithModels(Client);
  try {
    examples.forEach((example, i) => {
      const file = join(dirname(fileURLToPath(import.meta.url)), `example${i}.mjs`);
      assert.ok(example.includes("127.0.0.1:8001"));
      writeFileSync(file, example.replaceAll("127.0.0.1:8001", server.address));
      execFileSync(process.execPath, [file], { stdio: "inherit", timeout: 300_000 });
    });
  } finally {
    await server.stop();
  }
});
