// usage: kit_test.mjs KIT_PAGE: what client/page promises of every page.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { contrasts, openPage, overflow, withBrowser } from "./page.mjs";

const folder = mkdtempSync(join(tmpdir(), "attend-kit-"));
process.on("exit", () => rmSync(folder, { recursive: true }));
const file = join(folder, "kit.html");
writeFileSync(file, execFileSync(process.argv[2]));

await test("pages of the kit", () =>
  withBrowser(async (browser) => {
    for (const dark of [false, true]) {
      const { page, problems } = await openPage(browser, file, { width: 360, height: 740, dark });
      await test(`text is text, ${dark ? "dark" : "light"}`, async () => {
        assert.equal(await page.$$eval("script", (scripts) => scripts.length), 2);
        assert.equal(await page.$$eval("img, [onerror]", (elements) => elements.length), 0);
        const [heading, shown, quoted] = await Promise.all([
          page.$eval("h1", (element) => element.textContent),
          page.$eval("#shown", (element) => element.textContent),
          page.$eval("#quoted", (element) => element.title),
        ]);
        assert.match(heading, /<script>alert\(1\)<\/script>.*\ufffdgnp\.exe \u05e9\u05dc\u05d5\u05dd \ufffd$/);
        assert.equal(shown, heading);
        assert.equal(quoted, heading);
        assert.equal(await page.title(), heading);
      });
      await test(`readable, ${dark ? "dark" : "light"}`, async () => {
        assert.ok((await overflow(page)) <= 0);
        for (const [selector, property] of [["h1", "color"], [".muted", "color"], ["svg text", "fill"]]) {
          for (const contrast of await contrasts(page, selector, property)) {
            assert.ok(contrast >= 4.5, `${selector}: ${contrast}`);
          }
        }
        for (const contrast of await contrasts(page, "svg rect[style]", "fill")) assert.ok(contrast >= 3, `${contrast}`);
      });
      await test("what slips in does not run, and that is all that is wrong", async () => {
        await page.click("#slipped");
        assert.equal(problems.length, 1, problems.join("\n"));
        assert.match(problems[0], /Content Security Policy/);
      });
    }
  }));
