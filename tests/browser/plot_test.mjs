// usage: plot_test.mjs ATTEND: pages of `attend plot`, of weights that are known here.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";

import { contrasts, openPage, overflow, withBrowser } from "./page.mjs";

const folder = mkdtempSync(join(tmpdir(), "attend-plot-"));
after(() => rmSync(folder, { recursive: true }));

const TOKENS = ["␣the", "</script><img␣src=x␣onerror=alert(1)>", "<U+202E>gnp.exe", "שלום", "猫", "↵", "&lt;", "␣last"];
const LAYERS = 3, HEADS = 4, LENGTH = TOKENS.length;

/** Causal; every head has other weights. Rows sum to 1. */
function weightAt(layer, head, row, key) {
  if (key > row) return 0;
  const share = (at) => 1 + ((layer * 7 + head * 3 + row + at * at) % 5);
  let sum = 0;
  for (let at = 0; at <= row; ++at) sum += share(at);
  return share(key) / sum;
}

/** A file as `attend run --output` writes it: FP32 [heads, rows, keys] for each layer, and what the picture says beside. */
function writeWeights(file, layers, heads, tokens, keyTokens = tokens) {
  const rows = tokens.length, keys = keyTokens.length;
  const bytesEach = 4 * heads * rows * keys;
  const indices = (count) => [...Array(count).keys()];
  const mask = Buffer.alloc(Math.ceil((rows * keys) / 8));
  indices(rows * keys).forEach((cell) => {
    if (cell % keys > Math.floor(cell / keys)) mask[cell >> 3] |= 1 << (cell & 7);
  });
  const facts = {
    title: "Attention", source: file, hiddenBy: "causal", texts: [tokens, keyTokens], masks: [mask.toString("base64")],
    sequences: [{
      name: "sequence 0",
      layers: indices(layers).map((number) => ({
        name: `layer ${number}`, number, heads: indices(heads), rows: 0, keys: 1, mask: 0, maskHeads: 1, tensor: `weights.${number}`,
      })),
    }],
  };
  const header = { __metadata__: { "attend.picture": JSON.stringify(facts) } };
  const weights = new Float32Array((layers * bytesEach) / 4);
  for (let layer = 0; layer < layers; ++layer) {
    header[`weights.${layer}`] = {
      dtype: "F32", shape: [heads, rows, keys], data_offsets: [layer * bytesEach, (layer + 1) * bytesEach],
    };
  }
  for (let cell = 0; cell < weights.length; ++cell) {
    const [row, key] = [Math.floor(cell / keys) % rows, cell % keys];
    const matrix = Math.floor(cell / keys / rows);
    weights[cell] = weightAt(Math.floor(matrix / heads), matrix % heads, row, key);
  }
  const text = Buffer.from(JSON.stringify(header));
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(text.length));
  writeFileSync(file, Buffer.concat([size, text, Buffer.from(weights.buffer)]));
}

function makePage(name, layers, heads, tokens, keyTokens = tokens) {
  const [weights, page] = [join(folder, `${name}.safetensors`), join(folder, `${name}.html`)];
  writeWeights(weights, layers, heads, tokens, keyTokens);
  execFileSync(process.argv[2], ["plot", weights, "-o", page], { stdio: "pipe" });
  return page;
}

const small = makePage("small", LAYERS, HEADS, TOKENS);

/** What the page says of a share: as many decimals, whatever they are. */
function assertPercent(text, share) {
  assert.match(text, /^[\d.]+%$/);
  assert.ok(Math.abs(parseFloat(text) - 100 * share) <= 0.06, `${text} is not ${100 * share}%`);
}

const textsOf = (page, selector) => page.$$eval(selector, (all) => all.map((one) => one.textContent));
const choose = async (page, layer, head) => {
  await page.select("#layer", `layer ${layer}`);
  await page.select("#head", head < 0 ? `mean of ${HEADS}` : `head ${head}`);
};

async function pointAt(page, row, key, length = LENGTH) {
  const map = await page.$("#heat canvas");
  await map.scrollIntoView();
  const { x, y, width, height } = await map.boundingBox();
  await page.mouse.move(x + ((key + 0.5) * width) / length, y + ((row + 0.5) * height) / length);
}

/** Of a list below the map: the numbers of the tokens, and what is said of each. */
const listOf = (page, name) =>
  page.$$eval(
    `#lists .${name} tbody tr`,
    (rows, tokens) => rows.map((row) => [tokens.indexOf(row.querySelector(".token").textContent), row.lastChild.textContent]),
    TOKENS,
  );

/** Of a cell of the large map: [red, green, blue, alpha]. */
const pixelOf = (page, row, key) =>
  page.$eval(
    "#heat canvas",
    (canvas, y, x) => [...canvas.getContext("2d").getImageData(x, y, 1, 1).data],
    row,
    key,
  );

await test("pages of attend plot", () =>
  withBrowser(async (browser) => {
    await test("a cell that is pointed at lists what its row attends to, and what attends to its key", async () => {
      const { page, problems } = await openPage(browser, small, { width: 360, height: 740 });
      await choose(page, 1, 2);
      await pointAt(page, 4, 2);
      const row = await listOf(page, "attends");
      assert.equal(row.length, 5);
      for (const [key, share] of row) assertPercent(share, weightAt(1, 2, 4, key));
      const key = await listOf(page, "attended");
      const heaviest = [2, 3, 4, 5, 6, 7].sort((a, b) => weightAt(1, 2, b, 2) - weightAt(1, 2, a, 2) || a - b).slice(0, 5);
      assert.deepEqual(key.map(([other]) => other), heaviest);
      for (const [other, share] of key) assertPercent(share, weightAt(1, 2, other, 2));
      for (const list of [row, key]) {
        const shares = list.map(([, share]) => parseFloat(share));
        assert.deepEqual(shares, [...shares].sort((a, b) => b - a));
      }
      await page.select("#count", "0");
      assert.equal((await listOf(page, "attended")).length, LENGTH - 2);
      await choose(page, 0, 0);
      assert.equal(await page.$$eval("#lists table", (tables) => tables.length), 0, "another map, another cell");
      assert.deepEqual(problems, []);
    });

    await test("the mean is the mean", async () => {
      const { page } = await openPage(browser, small);
      await choose(page, 2, -1);
      await page.focus("#heat canvas");
      // The first brings the cursor to the first cell.
      for (const key of ["ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight"]) await page.keyboard.press(key);
      const mean = [0, 1, 2, 3].reduce((sum, head) => sum + weightAt(2, head, 3, 1) / HEADS, 0);
      const readout = await page.$eval("#readout", (element) => element.textContent);
      assert.match(readout, /^row 3 .*attends to key 1 /);
      assertPercent(readout.split(": ").at(-1), mean);
    });

    await test("statistics are those of the map", async () => {
      const { page } = await openPage(browser, small);
      await choose(page, 1, 2);
      const mean = { entropy: 0, first: 0, own: 0, distance: 0 };
      for (let row = 0; row < LENGTH; ++row) {
        for (let key = 0; key <= row; ++key) {
          const weight = weightAt(1, 2, row, key);
          mean.entropy -= (weight * Math.log2(weight)) / LENGTH;
          mean.distance += (weight * (row - key)) / LENGTH;
        }
        mean.first += weightAt(1, 2, row, 0) / LENGTH;
        mean.own += weightAt(1, 2, row, row) / LENGTH;
      }
      const text = await page.$eval("#statistics", (element) => element.textContent);
      const [, entropy, first, own, distance] = text.match(
        /^A row on average: entropy ([\d.]+) bits, ([\d.]+%) on the first key, ([\d.]+%) on itself, distance ([\d.]+)\.$/,
      );
      assert.ok(Math.abs(entropy - mean.entropy) <= 0.006, `${entropy} is not ${mean.entropy}`);
      assertPercent(first, mean.first);
      assertPercent(own, mean.own);
      assert.ok(Math.abs(distance - mean.distance) <= 0.06, `${distance} is not ${mean.distance}`);
    });

    await test("hidden cells are clear of colour and striped", async () => {
      const { page } = await openPage(browser, small);
      await choose(page, 1, 0);
      for (let row = 0; row < LENGTH; ++row) {
        for (let key = 0; key < LENGTH; ++key) assert.equal((await pixelOf(page, row, key))[3], key > row ? 0 : 255);
      }
      // The first row gives all to one key: the end of the scale.
      const last = await page.evaluate(() => [...Uint8Array.from(atob(JSON.parse(document.getElementById("data").textContent).colors), (c) => c.charCodeAt(0)).slice(-3)]);
      assert.deepEqual((await pixelOf(page, 0, 0)).slice(0, 3), last);
      assert.match(await page.$eval("#heat canvas", (canvas) => getComputedStyle(canvas).backgroundImage), /repeating-linear-gradient/);
      assert.equal(await page.$eval("#hidden-by", (element) => element.textContent), "causal");
    });

    await test("small maps choose the large one, by mouse and keyboard", async () => {
      const { page } = await openPage(browser, small);
      assert.equal(await page.$$eval(".thumbnail", (all) => all.length), LAYERS * (HEADS + 1));
      await page.click('.thumbnail[title="layer 1, head 2"]');
      assert.equal(await page.$eval("#heat-title", (element) => element.textContent), "layer 1, head 2");
      await page.keyboard.press("ArrowRight");
      await page.keyboard.press("ArrowDown");
      assert.equal(await page.$eval("#heat-title", (element) => element.textContent), "layer 2, head 3");
      assert.equal(await page.$eval(":focus", (element) => element.title), "layer 2, head 3");
      assert.equal(await page.$eval("#layer", (select) => select.value), "layer 2");
    });

    await test("tokens are text, whatever they are", async () => {
      const { page, problems } = await openPage(browser, small);
      assert.deepEqual(await textsOf(page, "#heat .row-labels .token"), TOKENS);
      await pointAt(page, LENGTH - 1, 1);
      assert.deepEqual(await textsOf(page, "#lists caption .token"), [TOKENS.at(-1), TOKENS[1]]);
      assert.equal(await page.$$eval("img, [onerror]", (all) => all.length), 0);
      assert.deepEqual(problems, []);
    });

    for (const dark of [false, true]) {
      await test(`readable and within a phone, ${dark ? "dark" : "light"}`, async () => {
        const { page, problems } = await openPage(browser, small, { width: 360, height: 740, dark });
        await pointAt(page, 3, 1);
        assert.ok((await overflow(page)) <= 0);
        for (const selector of ["h1", "h2", ".muted", "#readout", "#legend", ".label", "select", "#lists td"]) {
          const all = await contrasts(page, selector);
          assert.ok(all.length > 0, selector);
          for (const contrast of all) assert.ok(contrast >= 4.5, `${selector}: ${contrast}`);
        }
        assert.deepEqual(problems, []);
      });
    }

    await test("oblong maps stay within sight, and few rows or keys stay apart", async () => {
      const numbers = (count) => [...Array(count).keys()].map(String);
      for (const [rows, keys] of [[200, 3], [3, 200]]) {
        const { page, problems } = await openPage(browser, makePage(`${rows}x${keys}`, 1, 2, numbers(rows), numbers(keys)));
        const sizeOf = ({ width, height }) => [width, height];
        for (const thumbnail of await page.$$(".thumbnail")) {
          const [width, height] = sizeOf(await thumbnail.boundingBox());
          assert.ok(height < 4.2 * width && width < 4.2 * height, `${rows}x${keys}: a small map of ${width} x ${height}`);
        }
        const [width, height] = sizeOf(await (await page.$("#heat canvas")).boundingBox());
        assert.ok(height >= 44 && height <= Math.max(width, 2001), `${rows}x${keys}: a map of ${width} x ${height}`);
        assert.deepEqual(await page.$eval("#heat canvas", (canvas) => [canvas.height, canvas.width]), [rows, keys]);
        const labels = await textsOf(page, rows < keys ? ".row-labels .label" : ".key-labels .label");
        assert.deepEqual(labels, ["0", "1", "2"]);
        assert.deepEqual(problems, []);
      }
    });

    await test("144 heads of 128 tokens show a chosen one in the next frame", async () => {
      const { page, problems } = await openPage(browser, makePage("large", 12, 12, [...Array(128).keys()].map(String)));
      await page.waitForFunction(() => [...document.querySelectorAll(".thumbnail canvas")].every((canvas) => canvas.width > 1));
      const drawn = await page.evaluate(async () => {
        document.querySelector('.thumbnail[title="layer 7, head 5"]').click();
        await new Promise((painted) => requestAnimationFrame(() => setTimeout(painted)));
        const canvas = document.querySelector("#heat canvas");
        return [canvas.width, canvas.height];
      });
      assert.deepEqual(drawn, [128, 128]);
      await pointAt(page, 127, 0, 128);
      assertPercent((await page.$eval("#readout", (element) => element.textContent)).split(": ").at(-1), weightAt(7, 5, 127, 0));
      assert.deepEqual(problems, []);
    });
  }));
