// The charts of a report (report_results.js): drawn as wide as their place, with read-outs; the same numbers stand in a
// table below each.
"use strict";
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const draw = (parent, name, attributes, text = "") => {
    const element = parent.appendChild(document.createElementNS(SVG, name));
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.textContent = text;
    return element;
  };
  const write = (parent, name, text = "", className = "") => {
    const element = parent.appendChild(document.createElement(name));
    element.textContent = text;
    if (className) element.className = className;
    return element;
  };
  const colorOf = (index) => `series-${(index % 8) + 1}${index < 8 ? "" : " again"}`;

  function quantity(value, unit, digits = 3) {
    const units = unit === "ms" ? [[1e3, " s"], [1, " ms"], [1e-3, " \u00b5s"], [1e-6, " ns"]] : [[1e6, "M"], [1e3, "k"], [1, ""]];
    const [size, name] = units.find(([least]) => Math.abs(value) >= least) ?? [1, unit === "ms" ? " ms" : ""];
    return `${+(value / size).toPrecision(digits)}${name}`;
  }

  /** The percentile at 1 / (1 - q): "99.9%" for 1000. */
  function percentText(place) {
    const nines = Math.floor(Math.log10(place) + 1e-9);
    return `${+(100 * (1 - 1 / place)).toFixed(Math.max(0, nines - 1) + 1)}%`;
  }

  /** Multiples of 1, 2 or 5 times a power of ten, from 0 to the first at or above `high`; at most about `most`. */
  function linearTicks(high, most) {
    const power = 10 ** Math.floor(Math.log10(high / most));
    const step = power * [1, 2, 5, 10].find((factor) => high / (power * factor) <= most);
    return [...Array(Math.ceil(high / step - 1e-9) + 1).keys()].map((i) => i * step);
  }

  function logTicks(low, high, most) {
    const powers = [];
    for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; ++power) powers.push(10 ** power);
    const fine = powers.flatMap((power) => [power, 2 * power, 5 * power]).filter((tick) => tick >= low && tick <= high);
    const coarse = powers.filter((tick) => tick >= low);
    return fine.length <= most ? fine : coarse.filter((_, i) => i % Math.ceil(coarse.length / most) === 0);
  }

  /** Maps low..high to from..to; `isLog`: by logarithm. */
  function scaleOf(low, high, from, to, isLog) {
    const place = isLog ? Math.log : (value) => value;
    return (value) => from + ((place(value) - place(low)) / (place(high) - place(low))) * (to - from);
  }

  function axisOfX({ x, places }, isNarrow) {
    const high = places.at(-1);
    if (!x.isPercentile) {
      const end = high > 0 ? high : 1;
      return { low: 0, high: end, ticks: linearTicks(end, isNarrow ? 4 : 10).filter((tick) => tick <= end) };
    }
    const ticks = [1, 2];
    for (let place = 10; place <= high * (1 + 1e-9); place *= 10) ticks.push(place);
    return { low: 1, high: Math.max(2, high), ticks, isLog: true };
  }

  /** Logarithmic where values are so far apart that a linear axis would hide the lower ones. */
  function axisOfY({ series, limits = [] }) {
    const values = [...series.flatMap(({ points }) => points.map(([, y]) => y)), ...limits.map(({ y }) => y)].filter((y) => y !== null);
    const [low, high] = [Math.min(...values), Math.max(...values)];
    if (low > 0 && high > 30 * low) return { low: low / 1.15, high: high * 1.15, ticks: logTicks(low, high, 7), isLog: true };
    const ticks = linearTicks(high > 0 ? high : 1, 6);
    return { low: 0, high: ticks.at(-1), ticks };
  }

  function drawLine(svg, { points, width = 2 }, color, x, y) {
    let path = "";
    points.forEach(([at, value], i) => {
      if (value === null) return;
      const isFirst = i === 0 || points[i - 1][1] === null;
      const isLast = i + 1 === points.length || points[i + 1][1] === null;
      path += `${isFirst ? "M" : "L"}${x(at).toFixed(2)},${y(value).toFixed(2)}`;
      // A line through one point has no length.
      if (points.length <= 12 || (isFirst && isLast)) draw(svg, "circle", { class: `point ${color}`, cx: x(at), cy: y(value), r: 3 });
    });
    draw(svg, "path", { class: `line ${color}`, d: path, "stroke-width": width, "stroke-opacity": width > 2 ? 0.45 : 1 });
  }

  /** The picture of a chart in `width` pixels, and how x and y are mapped. */
  function drawChart(holder, chart, width) {
    const height = width < 600 ? 280 : 340;
    const svg = draw(holder, "svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${chart.title}; the numbers are in the table below` });
    const [axisX, axisY] = [axisOfX(chart, width < 600), axisOfY(chart)];
    const texts = axisY.ticks.map((tick) => quantity(tick, chart.y.unit));
    const [left, right, top, bottom] = [7.2 * Math.max(...texts.map((text) => text.length)) + 8, width - 24, 29, height - 42];
    const x = scaleOf(axisX.low, axisX.high, left, right, axisX.isLog);
    const y = scaleOf(axisY.low, axisY.high, bottom, top, axisY.isLog);
    axisY.ticks.forEach((tick, i) => {
      draw(svg, "line", { class: "grid", x1: left, x2: right, y1: y(tick), y2: y(tick) });
      draw(svg, "text", { class: "tick", x: left - 6, y: y(tick) + 4, "text-anchor": "end" }, texts[i]);
    });
    draw(svg, "text", { class: "tick", x: 0, y: 12 }, `${chart.y.title}${axisY.isLog ? " (log scale)" : ""}`);
    let free = 0;
    for (const tick of axisX.ticks) {
      const text = axisX.isLog ? percentText(tick) : quantity(tick, chart.x.unit);
      draw(svg, "line", { class: "grid", x1: x(tick), x2: x(tick), y1: bottom, y2: top });
      if (x(tick) - 3.6 * text.length < free) continue; // it would overlap the one before
      draw(svg, "text", { class: "tick", x: x(tick), y: bottom + 16, "text-anchor": "middle" }, text);
      free = x(tick) + 3.6 * text.length + 7;
    }
    draw(svg, "text", { class: "tick", x: right, y: bottom + 35, "text-anchor": "end" }, chart.x.title);
    for (const limit of chart.limits ?? []) {
      draw(svg, "line", { class: "limit", x1: left, x2: right, y1: y(limit.y), y2: y(limit.y) });
      draw(svg, "text", { class: "limit-name", x: right, y: y(limit.y) - 5, "text-anchor": "end" }, limit.name);
    }
    chart.series.forEach((series, i) => drawLine(svg, series, colorOf(i), x, y));
    return { svg, x, y, top, bottom };
  }

  /** Shows the values at the pointer, or row by row with the arrow keys. */
  class Readout {
    constructor(holder, chart) {
      Object.assign(this, { holder, chart, row: chart.places.length - 1, width: 0 });
      this.box = write(holder, "div", "", "readout");
      this.box.hidden = true;
      this.box.setAttribute("role", "status");
      holder.tabIndex = 0;
      holder.setAttribute("role", "group");
      holder.setAttribute("aria-label", "Chart; arrow keys read values out");
      const point = (event) => this.show(this.rowAt(event.clientX));
      const on = (name, listen) => holder.addEventListener(name, listen);
      on("pointermove", point);
      on("pointerdown", point);
      on("pointerleave", () => this.hide());
      on("focus", () => holder.matches(":focus-visible") && this.show(this.row));
      on("blur", () => this.hide());
      on("keydown", (event) => this.press(event));
      new ResizeObserver(() => this.fit()).observe(holder);
      this.fit();
    }
    /** Draws again when the width has changed. */
    fit() {
      const width = Math.round(this.holder.clientWidth);
      if (width === this.width || width === 0) return;
      this.width = width;
      this.picture?.svg.remove();
      this.picture = drawChart(this.holder, this.chart, width);
      this.marks = draw(this.picture.svg, "g", {});
      this.box.hidden = true;
    }
    rowAt(clientX) {
      const distance = (row) => Math.abs(this.picture.x(this.chart.places[row]) - at);
      const at = clientX - this.holder.getBoundingClientRect().left;
      return this.chart.places.reduce((nearest, _, row) => (distance(row) < distance(nearest) ? row : nearest), 0);
    }
    press(event) {
      const last = this.chart.places.length - 1;
      const rows = { ArrowLeft: this.row - 1, ArrowRight: this.row + 1, Home: 0, End: last };
      if (event.key === "Escape") this.hide();
      if (!(event.key in rows) || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      this.show(Math.min(last, Math.max(0, rows[event.key])));
    }
    show(row) {
      this.hide();
      this.row = row;
      const { x, y, top, bottom } = this.picture;
      const place = x(this.chart.places[row]);
      draw(this.marks, "line", { class: "crosshair", x1: place, x2: place, y1: top, y2: bottom });
      write(this.box, "strong", this.chart.rows[row][0]);
      const table = write(this.box, "table");
      this.chart.series.forEach(({ name, points }, i) => {
        const [, value] = points.find(([at]) => at === this.chart.places[row]) ?? [0, null];
        if (value === null) return;
        draw(this.marks, "circle", { class: `dot ${colorOf(i)}`, cx: place, cy: y(value), r: 4 });
        const line = table.insertRow();
        const head = write(line, "th");
        swatch(head, i);
        write(head, "bdi", name);
        write(line, "td", this.chart.rows[row][i + 1]);
      });
      this.box.hidden = false;
      // Beside the crosshair, on the side with more room, and never over the edge.
      const side = place < this.width / 2 ? place + 12 : place - this.box.offsetWidth - 12;
      this.box.style.left = `${Math.max(0, Math.min(this.width - this.box.offsetWidth, side))}px`;
    }
    hide() {
      this.box.hidden = true;
      this.box.replaceChildren();
      this.marks.replaceChildren();
    }
  }

  const swatch = (parent, index) =>
    draw(draw(parent, "svg", { class: "swatch", viewBox: "0 0 24 8", "aria-hidden": "true" }), "path", { class: colorOf(index), d: "M1,4L23,4" });

  function writeFigure({ id, title, note }, names) {
    const figure = write(document.getElementById("charts"), "figure", "", "card");
    figure.id = id;
    const caption = write(figure, "figcaption");
    write(caption, "h2", title);
    write(caption, "p", note, "muted");
    const legend = write(figure, "ul", "", "legend");
    names.forEach((name, i) => {
      const item = write(legend, "li");
      swatch(item, i);
      write(item, "bdi", name);
    });
    return figure;
  }

  function writeTable(figure, head, rows) {
    const details = write(figure, "details");
    write(details, "summary", "Numbers");
    const table = write(write(details, "div", "", "scroll"), "table");
    const line = table.createTHead().insertRow();
    for (const name of head) write(write(line, "th"), "bdi", name);
    const body = table.createTBody();
    for (const [first, ...cells] of rows) {
      const row = body.insertRow();
      write(write(row, "th"), "bdi", first);
      for (const cell of cells) write(row, "td", cell);
    }
  }

  function writeChart(chart) {
    const names = chart.series.map(({ name }) => name);
    const hasValues = chart.series.some(({ points }) => points.some(([, y]) => y !== null));
    const figure = writeFigure(chart, hasValues ? names : []);
    if (!hasValues) return write(figure, "p", "There is nothing to draw: no value was measured.");
    chart.places = [...new Set(chart.series.flatMap(({ points }) => points.map(([x]) => x)))].sort((a, b) => a - b);
    // A curve of percentiles ends at its largest value, where another may be on its way.
    const textOf = (x) => {
      if (!chart.x.isPercentile) return quantity(x, chart.x.unit, 4);
      const here = chart.series.filter(({ points }) => points.some(([at]) => at === x));
      const ending = here.filter(({ points }) => points.at(-1)[0] === x);
      if (ending.length === 0) return percentText(x);
      return ending.length === here.length ? `max of ${x}` : `${percentText(x)}, or max of ${x}`;
    };
    const maps = chart.series.map(({ points }) => new Map(points));
    chart.rows = chart.places.map((x) => [
      textOf(x),
      ...maps.map((map) => (map.get(x) === undefined || map.get(x) === null ? "" : quantity(map.get(x), chart.y.unit, 4))),
    ]);
    new Readout(write(figure, "div", "", "pictures"), chart);
    return writeTable(figure, [chart.x.title, ...names], chart.rows);
  }

  /** One bar for each curve, cut into the parts of an answer's time. */
  function writeBars(bars) {
    const note = "Means, as the server measured them: receiving the request, waiting for a batch, computing; returning the answer is the rest.";
    const phases = bars[0].parts.map(([phase]) => phase);
    const figure = writeFigure({ id: "phases", title: "Where the time went", note }, phases);
    const sum = (parts) => parts.reduce((total, [, mean]) => total + mean, 0);
    const longest = Math.max(...bars.map(({ parts }) => sum(parts))) || 1;
    for (const { name, parts } of bars) {
      write(write(figure, "p"), "bdi", `${name}: ${quantity(sum(parts), "ms")}`);
      const bar = write(figure, "div", "", "bar");
      parts.forEach(([, mean], i) => (write(bar, "span", "", colorOf(i)).style.width = `${(100 * mean) / longest}%`));
    }
    const texts = (parts) => [...parts.map(([, mean]) => mean), sum(parts)].map((mean) => quantity(mean, "ms", 4));
    writeTable(figure, ["", ...phases, "together"], bars.map(({ name, parts }) => [name, ...texts(parts)]));
  }

  report.charts.forEach(writeChart);
  if (report.bars.length > 0) writeBars(report.bars);
  report.phaseCharts.forEach(writeChart);
})();
