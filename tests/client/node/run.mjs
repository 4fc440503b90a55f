// Installs npm's tarball of client/node into an application, and runs the tests beside this file there.
// run.mjs install WORK NPM: builds the tarball in WORK, and installs it in WORK/app, with the compiler that built it.
// run.mjs test WORK SERVER: SERVER is attend-server.
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const [verb, work, program] = process.argv.slice(2);
const here = dirname(fileURLToPath(import.meta.url));
const repository = join(here, "../../..");
const app = join(work, "app");
process.env.ATTEND_SOURCE_URL = "https://sources.invalid/attend"; // the tests look for it in the package

if (verb === "install") {
  const run = (command, args, cwd) => execFileSync(command, args, { cwd, stdio: "inherit", timeout: 1_200_000 });
  rmSync(work, { recursive: true, force: true });
  mkdirSync(app, { recursive: true });
  run(join(repository, "deploy/client_packages.sh"), ["node", work, program], repository);
  const tarball = readdirSync(work).find((name) => name.endsWith(".tgz"));
  writeFileSync(join(app, "package.json"), "{}");
  const locked = JSON.parse(readFileSync(join(repository, "client/node/package-lock.json"), "utf8")).packages;
  const tools = ["typescript", "@types/node"].map((name) => `${name}@${locked[`node_modules/${name}`].version}`);
  run(program, ["install", "--no-audit", "--no-fund", "--prefer-offline", "--loglevel=error", join(work, tarball), ...tools], app);
  cpSync(join(repository, "tests/conformance/driver.mjs"), join(app, "conformance_driver.mjs"));
} else {
  const tests = join(app, "tests");
  rmSync(tests, { recursive: true, force: true });
  cpSync(here, tests, { recursive: true });
  const files = readdirSync(tests).filter((name) => name.endsWith(".test.mjs"));
  const { status } = spawnSync(process.execPath, ["--test", ...files.map((name) => join(tests, name))], {
    stdio: "inherit",
    env: { ...process.env, ATTEND_SERVER: program, ATTEND_REPOSITORY: repository },
  });
  process.exit(status ?? 1);
}
