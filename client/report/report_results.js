// Chooses what is drawn of the results in #data, a list of {name, result}, each result as `attend bench --json` writes it.
// Times are milliseconds.
"use strict";
const report = (() => {
  const runs = JSON.parse(document.getElementById("data").textContent);
  const MOST_CURVES = 16; // eight colours, each once more dashed
  const PHASES = ["receive", "queue", "compute", "return"];

  const loadOf = (level) => level.options.rate_per_s ?? level.options.concurrency;
  const isOpen = (level) => level.options.rate_per_s !== undefined;
  const rounded = (value) => `${+value.toPrecision(6)}`;
  /** "100/s", of a ramp "10 to 200/s", "4 in flight", or "4 sessions". */
  const nameOf = (level) => {
    const end = level.options.ramp_to_per_s;
    return `${rounded(loadOf(level))}${end === undefined ? "" : ` to ${rounded(end)}`}${isOpen(level) ? "/s" : level.options.decode ? " sessions" : " in flight"}`;
  };

  /** The levels of a result, lowest first, each with all of its options. */
  const levelsOf = ({ result }) =>
    (result.levels ?? [result])
      .map((level) => ({ ...level, options: { ...result.options, ...level.options } }))
      .sort((a, b) => loadOf(a) - loadOf(b));

  /** What is drawn as one line each: of one run its levels, of several runs the highest level that met its targets. */
  function curvesOf() {
    if (runs.length > 1) {
      return runs.map((run) => {
        const levels = levelsOf(run);
        const level = levels.findLast(({ met }) => met) ?? levels[0];
        return { name: levels.length > 1 ? `${run.name}, ${nameOf(level)}` : run.name, level };
      });
    }
    const levels = levelsOf(runs[0]);
    const shown = Math.min(levels.length, MOST_CURVES);
    const indices = [...Array(shown).keys()].map((i) => (shown === 1 ? 0 : Math.floor((i * (levels.length - 1)) / (shown - 1))));
    return indices.map((index) => ({ name: nameOf(levels[index]), level: levels[index] }));
  }

  /** A histogram of the JSON with its buckets: [largest value in nanoseconds, count], ascending. */
  const timesOf = (json) =>
    json && { ...json, buckets: json.histogram.split(" ").filter(Boolean).map((pair) => pair.split(":").map(Number)) };

  function joined(all) {
    const parts = all.filter(({ count }) => count > 0);
    return {
      count: parts.reduce((sum, { count }) => sum + count, 0),
      min: Math.min(...parts.map(({ min }) => min)),
      max: Math.max(...parts.map(({ max }) => max)),
      buckets: parts.flatMap(({ buckets }) => buckets).sort((a, b) => a[0] - b[0]),
    };
  }

  function percentile(times, percent) {
    // In whole millionths: in binary, 99.9 / 100 * 1000 is more than 999.
    let left = Math.max(1, Math.ceil((Math.round(percent * 1e6) * times.count) / 1e8));
    const [end] = times.buckets.find(([, count]) => (left -= count) <= 0);
    return Math.min(times.max, Math.max(times.min, end / 1e6));
  }

  /** Slices of the window; those with few answers are joined, as long as 20 are left. */
  function slicesOf(level) {
    const { slice_s: length, slices } = level.series;
    const most = Math.max(1, Math.floor(slices.length / 20));
    const each = Math.min(most, Math.max(1, Math.ceil((20 * slices.length) / Math.max(1, level.answers))));
    const result = [];
    for (let first = 0; first < slices.length; first += each) {
      const parts = slices.slice(first, first + each);
      const sum = (key) => parts.reduce((total, part) => total + part[key], 0);
      const start = first * length;
      result.push({
        end: 1e3 * (first + each) * length,
        seconds: Math.min(each * length, level.window_s - start),
        isWhole: level.window_s - start > 0.5 * each * length, // a slice that is mostly after the window has no rate
        sum,
        times: joined(parts.map((part) => timesOf(part.latency_ms))),
      });
    }
    return result;
  }

  const OVER_TIME = { title: "since the measurement began", unit: "ms" };
  const SHARE = { title: "share of answers that took no longer", isPercentile: true };

  /** Round percentiles, ever closer to 100; x is 1 / (1 - share), as HdrHistogram plots it. The last is the highest value. */
  function percentilePoints(times) {
    const points = [];
    for (let power = 1; power < times.count; power *= 10) {
      for (const factor of [1, 1.25, 1 / 0.6, 2, 2.5, 1 / 0.3, 4, 5, 1 / 0.15]) {
        const place = factor * power;
        if (place < times.count) points.push([place, percentile(times, 100 * (1 - 1 / place))]);
      }
    }
    return [...points, [times.count, times.max]];
  }

  const percentileSeries = (named) =>
    named
      .map(([name, json]) => ({ name, times: timesOf(json) }))
      .filter(({ times }) => times && times.count > 0)
      .map(({ name, times }) => ({ name, points: percentilePoints(times) }));

  function latencyChart(curves) {
    const [{ level }] = curves;
    const note = level.due !== undefined
      ? "Latency counts from when a request was due, service time from when it was sent: the difference is waiting in the client."
      : "A closed loop slows down with the server: users who arrive regardless may wait longer.";
    const one = () => [
      ["latency", level.latency_ms],
      ["service time", level.service_ms],
      [level.options.decode ? "first token" : "first block", level.first_block_ms],
      ["next block", level.next_block_ms],
    ];
    return {
      id: "latency",
      title: "Latency by percentile",
      note: curves.length > 1 ? "The further right, the rarer: each nine has as much room as the last." : note,
      x: SHARE,
      y: { title: "time", unit: "ms" },
      series: percentileSeries(curves.length > 1 ? curves.map((curve) => [curve.name, curve.level.latency_ms]) : one()),
    };
  }

  function throughputChart(curves) {
    const [{ level }] = curves;
    const rates = (from, key) =>
      slicesOf(from).filter(({ isWhole }) => isWhole).map(({ end, seconds, sum }) => [end, key(sum) / seconds]);
    const answered = (sum) => sum("answers");
    const one = () => [
      ...(level.due === undefined ? [] : [{ name: "offered", points: rates(level, (sum) => sum("due")), width: 9 }]),
      ...(level.options.decode ? [] : [{ name: "sent", points: rates(level, (sum) => sum("sent")), width: 5 }]),
      { name: "answered", points: rates(level, answered) },
      { name: "failed", points: rates(level, (sum) => sum("errors") + sum("not_sent")) },
    ];
    return {
      id: "throughput",
      title: "Throughput over time",
      note: curves.length > 1 ? "Requests that were answered." : isOpen(level) ? "Failed requests include those that were due but not sent." : "",
      x: OVER_TIME,
      y: { title: level.options.decode ? "steps/s" : "requests/s" },
      series: curves.length > 1 ? curves.map((curve) => ({ name: curve.name, points: rates(curve.level, answered) })) : one(),
    };
  }

  function latencyOverTimeChart(curves) {
    const points = (level, percent) =>
      slicesOf(level).map(({ end, times }) => [end, times.count === 0 ? null : percentile(times, percent)]);
    const percents = [["p50", 50], ["p90", 90], ["p99", 99], ["max", 100]];
    return {
      id: "latency-over-time",
      title: "Latency over time",
      note: curves.length > 1 ? "The 99th percentile of each."
        : isOpen(curves[0].level) ? "By when requests were due. A gap: none that was due then was answered."
        : "A gap: no answer came in that time.",
      x: OVER_TIME,
      y: { title: "latency", unit: "ms" },
      series: curves.length > 1
        ? curves.map(({ name, level }) => ({ name, points: points(level, 99) }))
        : percents.map(([name, percent]) => ({ name, points: points(curves[0].level, percent) })),
    };
  }

  /** Charts of several levels, by load. */
  function levelCharts() {
    const all = runs.map((run) => ({ name: run.name, levels: levelsOf(run) }));
    const [first] = all[0].levels;
    const share = all.every(({ levels }) => isOpen(levels[0]) === isOpen(first)); // otherwise they share no axis
    if (!share || all.every(({ levels }) => levels.length === 1)) return [];
    const by = (levels, value) => [...new Map(levels.map((level) => [loadOf(level), value(level)]))];
    const latency = (percent) => ({ latency_ms: json }) =>
      json.count * (100 - percent) < 100 - 1e-9 ? null : percentile(timesOf(json), percent);
    const answered = ({ requests_per_s: rate }) => rate;
    const ofSessions = Boolean(first.options.decode);
    const x = { title: isOpen(first) ? "offered requests/s" : ofSessions ? "sessions" : "requests in flight" };
    const several = all.length > 1;
    const percents = [["p50", 50], ["p90", 90], ["p99", 99], ["p99.9", 99.9]];
    return [
      {
        id: "latency-by-load",
        title: "Latency by load",
        note: several ? "The 99th percentile of each." : "",
        x,
        y: { title: "latency", unit: "ms" },
        series: several
          ? all.map(({ name, levels }) => ({ name, points: by(levels, latency(99)) }))
          : percents.map(([name, percent]) => ({ name, points: by(all[0].levels, latency(percent)) })),
        limits: first.slo.filter(({ target }) => !target.startsWith("errors=")).map(({ target, limit }) => ({ name: target, y: limit })),
      },
      {
        id: "throughput-by-load",
        title: "Throughput by load",
        note: several || !isOpen(first) ? "" : "Where answered falls below offered, the server no longer keeps up.",
        x,
        y: { title: ofSessions ? "steps/s" : "requests/s" },
        series: [
          ...(several || !isOpen(first) ? [] : [{ name: "offered", points: by(all[0].levels, (level) => level.offered_per_s), width: 7 }]),
          ...all.map(({ name, levels }) => ({ name: several ? name : "answered", points: by(levels, answered) })),
        ],
      },
    ];
  }

  // Version 0.2 wrote `send` for receiving the request, and `receive` for returning the answer.
  const phasesOf = ({ phases_ms: phases }) =>
    phases.send ? { ...phases, receive: phases.send, return: phases.receive } : phases;

  const phaseChart = ({ level }) => ({
    id: "phase-percentiles",
    title: "Where slow answers spent their time",
    note: "Percentiles of each part on its own: they do not add up.",
    x: SHARE,
    y: { title: "time", unit: "ms" },
    series: percentileSeries(PHASES.map((name) => [name, phasesOf(level)[name]])),
  });

  const curves = curvesOf();
  const accounted = curves.filter(({ level }) => level.phases_ms);
  return {
    charts: [...levelCharts(), latencyChart(curves), throughputChart(curves), latencyOverTimeChart(curves)],
    // Means of the parts of an answer's time.
    bars: accounted.map(({ name, level }) => ({ name, parts: PHASES.map((phase) => [phase, phasesOf(level)[phase].mean]) })),
    phaseCharts: curves.length === 1 ? accounted.map(phaseChart) : [],
  };
})();
