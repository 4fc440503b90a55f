// Kubernetes' quantities and Go's durations as numbers.

const SUFFIXES = {
  '': 1, m: 1e-3, k: 1e3, K: 1e3, M: 1e6, G: 1e9, T: 1e12, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40,
};

/** Cores or bytes of "500m", "2", "2Gi". */
export function quantity(text) {
  const match = /^([0-9.]+)([A-Za-z]*)$/.exec(String(text));
  if (!match || !(match[2] in SUFFIXES)) throw new Error(`quantity: expected a number with a suffix, found ${text}`);
  return Number(match[1]) * SUFFIXES[match[2]];
}

/** Seconds of "30s", "5m", "1m30s", "30", 30. */
export function seconds(text) {
  if (/^[0-9.]+$/.test(String(text))) return Number(text);
  const units = { ms: 1e-3, s: 1, m: 60, h: 3600 };
  const parts = [...String(text).matchAll(/([0-9.]+)(ms|s|m|h)/g)];
  if (parts.length === 0) throw new Error(`duration: expected one such as 30s, found ${text}`);
  return parts.reduce((sum, [, number, unit]) => sum + Number(number) * units[unit], 0);
}
