// The package as an ES module and as CommonJS.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import * as imported from "@attend/client";
import { startServer } from "./support.mjs";

const require = createRequire(import.meta.url);

test("both kinds of modules export the same, and CommonJS asks a server", async () => {
  const required = require("@attend/client");
  assert.deepEqual(Object.keys(required).sort(), Object.keys(imported).sort());
  const server = await startServer();
  const client = new required.Client({ server: server.address });
  try {
    const { output } = await client.attend({ model: "demo", tokenIds: [1, 2] });
    assert.deepEqual(output.shape, [2, 512]);
    const session = await client.session({ model: "demo" });
    await session[Symbol.asyncDispose](); // what `await using` does
    await assert.rejects(session.step({ tokenIds: [1] }), { code: "FAILED_PRECONDITION" });
  } finally {
    await client[Symbol.asyncDispose]();
    await server.stop();
  }
});

const folder = join(dirname(require.resolve("@attend/client")), "../..");
const { exports, license, repository } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));

test("the package says its licence and where its sources are", () => {
  assert.equal(license, "Apache-2.0");
  assert.ok(existsSync(join(folder, "LICENSE")));
  assert.deepEqual(repository, { type: "git", url: process.env.ATTEND_SOURCE_URL, directory: "client/node" });
});

test("both have their types", () => {
  for (const kind of ["import", "require"]) {
    assert.ok(existsSync(join(folder, exports["."][kind].types)));
  }
});
