// Builds client/node as a person would, in a copy, and runs the tests beside this file on it.
// run.mjs NPM SERVER WORK: SERVER is attend-server, WORK a folder for the copy.
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, readdirSync, rmSync, symlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const [npm, server, work] = process.argv.slice(2);
const here = dirname(fileURLToPath(import.meta.url));
const repository = join(here, "../../..");
const source = join(work, "source/client/node");
const tests = join(work, "app/tests");

rmSync(work, { recursive: true, force: true });
for (const part of ["client/node", "proto"]) {
  const leaveOut = /client\/node\/(node_modules|dist|src\/generated)$/;
  cpSync(join(repository, part), join(work, "source", part), { recursive: true, filter: (path) => !leaveOut.test(path) });
}
// Its `prepare` builds.
execFileSync(npm, ["ci", "--no-audit", "--no-fund", "--prefer-offline"], { cwd: source, stdio: "inherit", timeout: 1_200_000 });

cpSync(here, tests, { recursive: true });
mkdirSync(join(work, "app/node_modules/@attend"), { recursive: true });
symlinkSync(source, join(work, "app/node_modules/@attend/client"));
symlinkSync(join(source, "node_modules/@grpc"), join(work, "app/node_modules/@grpc"));
const files = readdirSync(tests).filter((name) => name.endsWith(".test.mjs"));
const { status } = spawnSync(process.execPath, ["--test", ...files.map((name) => join(tests, name))], {
  stdio: "inherit",
  env: { ...process.env, ATTEND_SERVER: server, ATTEND_REPOSITORY: repository },
});
process.exit(status ?? 1);
