// Opens a page of ours in Chromium as a reader would, and notes whatever a page must not do.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// The packages stand in the build folder, where imports from here would not look.
const puppeteer = createRequire(`${process.env.ATTEND_BROWSER_PACKAGES}/`)("puppeteer-core");

/** Runs `use(browser)` and ends the browser, whatever comes of it. */
export async function withBrowser(use) {
  const browser = await puppeteer.launch({
    executablePath: process.env.ATTEND_CHROMIUM,
    // Containers have neither the privileges for its sandbox nor much shared memory; the pages are our own.
    args: ["--no-sandbox", "--disable-dev-shm-usage"],
    timeout: 300_000,
    protocolTimeout: 30_000,
  });
  try {
    return await use(browser);
  } finally {
    await browser.close();
  }
}

/**
 * The file, opened in a window of that size. `problems` of what is returned grows as the page writes errors or warnings
 * to its console, throws, opens a dialogue, or asks for anything but itself.
 */
export async function openPage(browser, file, { width = 1280, height = 900, dark = false, scripts = true } = {}) {
  const page = await browser.newPage();
  const problems = [];
  const address = pathToFileURL(file).href;
  page.setDefaultTimeout(30_000);
  page.on("console", (message) => {
    if (["error", "warn"].includes(message.type())) problems.push(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => problems.push(`exception: ${error.message}`));
  page.on("dialog", async (dialog) => {
    problems.push(`dialogue: ${dialog.message()}`);
    await dialog.dismiss();
  });
  page.on("request", (request) => {
    const url = request.url();
    if (url !== address && !url.startsWith("data:")) problems.push(`request: ${url}`);
  });
  await page.setViewport({ width, height });
  await page.setJavaScriptEnabled(scripts);
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }]);
  await page.goto(address, { waitUntil: "load" });
  return { page, problems };
}

/** By how many pixels the page is wider than its window. */
export function overflow(page) {
  return page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
}

/**
 * The contrast (WCAG 2.2, 1..21) of each element that matches: of `property` ("color", "fill", "stroke") with the nearest
 * background painted behind it.
 */
export function contrasts(page, selector, property = "color") {
  return page.$$eval(
    selector,
    (elements, name) => {
      const channels = (color) => (color.match(/[\d.]+/g) ?? []).map(Number);
      const luminance = (color) => {
        const [red, green, blue] = channels(color).map((byte) => {
          const share = byte / 255;
          return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
      };
      const backgroundOf = (element) => {
        for (let at = element; at; at = at.parentElement) {
          const color = getComputedStyle(at).backgroundColor;
          if (channels(color)[3] !== 0) return color;
        }
        return "rgb(255, 255, 255)";
      };
      return elements.map((element) => {
        const pair = [luminance(getComputedStyle(element)[name]), luminance(backgroundOf(element))];
        return (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
      });
    },
    property,
  );
}
