// usage: report_test.mjs ATTEND ATTEND_SERVER: reports of real runs, as a reader sees them.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { contrasts, openPage, overflow, withBrowser } from "./page.mjs";

const [attend, server] = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), "attend-report-"));
process.on("exit", () => rmSync(folder, { recursive: true }));
const at = (name) => join(folder, name);
const run = (...words) => execFileSync(attend, words, { encoding: "utf8", timeout: 300_000 });

/** Runs `use(address)` while a server runs. */
async function withServer(use) {
  // Its options may be variables too; what is ours to know is none of them.
  const foreign = Object.entries(process.env).filter(([name]) => !name.startsWith("ATTEND_"));
  const child = spawn(server, ["--listen=127.0.0.1:0", "--admin-listen=none", "--metrics-listen=none"], {
    env: { ...Object.fromEntries(foreign), ATTEND_ADMIN_LISTEN: "none", ATTEND_METRICS_LISTEN: "none" },
    stdio: ["ignore", "pipe", "inherit"],
  });
  try {
    const address = await new Promise((resolve, reject) => {
      let text = "";
      child.stdout.on("data", (data) => {
        text += data;
        const match = text.match(/^attend-server listening on (\S+)/m);
        if (match) resolve(match[1]);
      });
      child.on("exit", (code) => reject(new Error(`the server ended with ${code}: ${text}`)));
    });
    return await use(address);
  } finally {
    child.kill();
  }
}

/** "1.25 ms" in seconds; plain and k, M numbers as they are. */
function valueOf(text) {
  const [, number, unit] = text.match(/^([-\d.]+)\s*(\S*)$/);
  const units = { "": 1, k: 1e3, M: 1e6, ns: 1e-9, "\u00b5s": 1e-6, ms: 1e-3, s: 1 };
  assert.ok(unit in units, text);
  return Number(number) * units[unit];
}

/** What the table of a chart says: [[x, {column: text}]], top to bottom. */
function tableOf(page, id) {
  return page.$eval(`#${id} details table`, (table) => {
    const names = [...table.tHead.rows[0].cells].slice(1).map((cell) => cell.textContent.trim());
    return [...table.tBodies[0].rows].map((row) => {
      const [head, ...cells] = [...row.cells].map((cell) => cell.textContent.trim());
      return [head, Object.fromEntries(names.map((name, index) => [name, cells[index]]))];
    });
  });
}

/** Points of a chart's lines in the picture: [{series: [[x, y], ...]}]. */
function linesOf(page, id) {
  return page.$eval(`#${id}`, (figure) => {
    const names = [...figure.querySelectorAll(".legend li")].map((item) => item.textContent.trim());
    const shown = figure.querySelector(".pictures > svg");
    return Object.fromEntries(
      [...shown.querySelectorAll("path.line")].map((path, index) => [
        names[index],
        [...path.getAttribute("d").matchAll(/[ML]([-\d.]+),([-\d.]+)/g)].map(([, x, y]) => [Number(x), Number(y)]),
      ]),
    );
  });
}

const ascends = (values) => values.every((value, index) => index === 0 || value >= values[index - 1]);

await withServer(async (address) => {
  const load = ["bench", "--server", address, "--shape", "1x8x512", "--warmup", "100ms", "--duration", "2s"];
  run(...load, "--rate", "150", "--slo", "p99=5s", "--json", at("open.json"), "--html", at("open.html"));
  run(...load, "-c", "2", "--json", at("closed.json"));
  run(...load, "--ramp", "50:150", "--html", at("ramp.html"));
  run(...load.slice(0, -1), "300ms", "-c", "1:3:1", "--json", at("range.json"), "--html", at("range.html"));
});
run("report", at("open.json"), at("closed.json"), "--html", at("compared.html"));

test("a saved result makes the same page as the run itself", () => {
  assert.equal(run("report", at("open.json"), "--html", "-"), readFileSync(at("open.html"), "utf8"));
  assert.equal(run("report", at("range.json"), "--html", "-"), readFileSync(at("range.html"), "utf8"));
});

await test("one run", () =>
  withBrowser(async (browser) => {
    const { page, problems } = await openPage(browser, at("open.html"));
    const json = JSON.parse(readFileSync(at("open.json"), "utf8"));

    await test("its verdict and its text are those of the result", async () => {
      assert.equal(await page.$eval(".verdict h2", (element) => element.textContent), "Passed");
      assert.equal(await page.$eval(".verdict pre", (element) => element.textContent), run("report", at("open.json")));
      assert.equal(await page.$eval("#throughput table", (table) => table.tHead.rows[0].cells[3].textContent), "answered");
    });

    await test("latency rises with its percentile, and ends at the highest", async () => {
      const { latency } = await linesOf(page, "latency");
      const rows = await tableOf(page, "latency");
      assert.ok(latency.length > 10);
      assert.ok(ascends(latency.map(([x]) => x)));
      assert.ok(ascends(latency.map(([, y]) => -y)), "up is less in a picture");
      assert.match(rows.at(-1)[0], /^max of \d+$/);
      assert.ok(Math.abs(valueOf(rows.at(-1)[1].latency) / (json.latency_ms.max / 1e3) - 1) < 0.001);
      const [, median] = rows.find(([head]) => head === "50%");
      assert.ok(Math.abs(valueOf(median.latency) / (json.latency_ms.p50 / 1e3) - 1) < 0.001);
    });

    await test("throughput over time adds up to the answers", async () => {
      const rows = await tableOf(page, "throughput");
      const answered = rows.reduce((sum, [, values]) => sum + valueOf(values.answered) * valueOf(rows[0][0]), 0);
      const inTime = json.requests_per_s * json.window_s;
      assert.ok(Math.abs(answered / inTime - 1) < 0.15, `${answered} of ${inTime}`);
      assert.ok(rows.every(([, values]) => values.failed === "0"));
    });

    await test("pointing at a chart reads out the nearest row", async () => {
      const rows = await tableOf(page, "latency");
      const { latency } = await linesOf(page, "latency");
      const row = Math.floor(rows.length / 2);
      await page.$eval("#latency", (figure) => figure.scrollIntoView({ block: "center" }));
      const box = await (await page.$("#latency .pictures > svg")).boundingBox();
      await page.mouse.move(box.x + latency[row][0] + 0.25, box.y + box.height / 2);
      const readout = await page.$eval("#latency .readout", (element) => ({
        isHidden: element.hidden,
        head: element.querySelector("strong").textContent,
        values: [...element.querySelectorAll("tr")].map((line) => [...line.cells].map((cell) => cell.textContent.trim())),
      }));
      assert.equal(readout.isHidden, false);
      assert.equal(readout.head, rows[row][0]);
      assert.deepEqual(Object.fromEntries(readout.values), rows[row][1]);
      const dots = await page.$$eval("#latency .dot", (marks) => marks.map((mark) => [Number(mark.getAttribute("cx")), Number(mark.getAttribute("cy"))]));
      dots[0].forEach((place, i) => assert.ok(Math.abs(place - latency[row][i]) < 0.01));
      await page.mouse.move(0, 0);
      assert.equal(await page.$eval("#latency .readout", (element) => element.hidden), true);
    });

    await test("arrow keys read out row by row", async () => {
      const rows = await tableOf(page, "throughput");
      await page.focus("#throughput .pictures");
      const head = async (key) => {
        await page.keyboard.press(key);
        return page.$eval("#throughput .readout strong", (element) => element.textContent);
      };
      assert.equal(await head("Home"), rows[0][0]);
      assert.equal(await head("ArrowRight"), rows[1][0]);
      assert.equal(await head("ArrowLeft"), rows[0][0]);
      assert.equal(await head("ArrowLeft"), rows[0][0]);
      assert.equal(await head("End"), rows.at(-1)[0]);
      await page.keyboard.press("Escape");
      assert.equal(await page.$eval("#throughput .readout", (element) => element.hidden), true);
    });

    await test("the parts of the time add up", async () => {
      const [, parts] = (await tableOf(page, "phases"))[0];
      const sum = ["receive", "queue", "compute", "return"].reduce((total, name) => total + valueOf(parts[name]), 0);
      assert.ok(Math.abs(sum / valueOf(parts.together) - 1) < 0.01);
    });
    assert.deepEqual(problems, []);
  }));

await test("every report, in every window", () =>
  withBrowser(async (browser) => {
    for (const name of ["open", "range", "compared"]) {
      for (const dark of [false, true]) {
        await test(`${name} can be read on a phone, ${dark ? "dark" : "light"}`, async () => {
          const { page, problems } = await openPage(browser, at(`${name}.html`), { width: 360, height: 740, dark });
          assert.ok((await overflow(page)) <= 0);
          for (const [selector, property, least] of [
            ["h1, h2, p, pre, dd, dt, li, summary", "color", 4.5],
            ["svg text", "fill", 4.5],
            ["path.line", "stroke", 3],
          ]) {
            const all = await contrasts(page, selector, property);
            assert.ok(all.length > 0, selector);
            assert.ok(Math.min(...all) >= least, `${selector}: ${Math.min(...all)}`);
          }
          const sizes = await page.$$eval(".pictures > svg text", (texts) => texts.map((text) => text.getBoundingClientRect().height));
          assert.ok(Math.min(...sizes) >= 10, `${Math.min(...sizes)} pixels`);
          assert.deepEqual(problems, []);
          await page.close();
        });
      }
    }
    await test("without scripts the text is there", async () => {
      const { page, problems } = await openPage(browser, at("open.html"), { scripts: false });
      assert.equal(await page.$eval(".verdict pre", (element) => element.textContent), run("report", at("open.json")));
      assert.deepEqual(problems, []);
      await page.close();
    });
    await test("a ramp is named by both its rates", async () => {
      const { page } = await openPage(browser, at("ramp.html"));
      assert.match(await page.$eval("#phases p bdi", (element) => element.textContent), /^50 to 150\/s: /);
      await page.close();
    });
    await test("a comparison has a line for each run", async () => {
      const { page } = await openPage(browser, at("compared.html"));
      assert.deepEqual(Object.keys(await linesOf(page, "latency")), ["open", "closed"]);
      await page.close();
    });
    await test("a range has a point for each level", async () => {
      const { page } = await openPage(browser, at("range.html"));
      assert.deepEqual((await tableOf(page, "throughput-by-load")).map(([head]) => head), ["1", "2", "3"]);
      await page.close();
    });
  }));

await test("names are inert, whatever they are", () =>
  withBrowser(async (browser) => {
    const hostile = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'\u202e\u05e9\u05dc\u05d5\u05dd";
    const json = JSON.parse(readFileSync(at("open.json"), "utf8"));
    Object.assign(json, { command: hostile, tags: { [hostile]: hostile }, machine: { [hostile]: hostile } });
    Object.assign(json.options, { model: hostile, request: hostile, server: hostile, lengths: hostile });
    json.errors = { [hostile]: 1 };
    json.error_texts = { [hostile]: hostile };
    const file = at("<b onclick='alert(3)'>.json");
    writeFileSync(file, JSON.stringify(json));
    run("report", file, at("closed.json"), "--html", at("hostile.html"));
    const { page, problems } = await openPage(browser, at("hostile.html"));
    assert.equal(await page.$$eval("script", (scripts) => scripts.length), 3);
    assert.equal(await page.$$eval("img, b, [onclick], [onerror]", (elements) => elements.length), 0);
    assert.ok(!(await page.content()).includes("\u202e"));
    await page.$eval("#latency", (figure) => figure.scrollIntoView({ block: "center" }));
    await page.hover("#latency .pictures > svg");
    assert.match(await page.$eval("#latency .readout", (element) => element.textContent), /<b onclick='alert\(3\)'>/);
    assert.deepEqual(problems, []);
  }));
