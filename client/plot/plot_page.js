"use strict";

// The controls of the page. They keep the choice and update the maps and the lists.

// Indices of the `count` largest of `weights` above 0, largest first.
function heaviest(weights, count) {
  const order = [];
  weights.forEach((weight, index) => weight > 0 && order.push(index));
  return order.sort((a, b) => weights[b] - weights[a] || a - b).slice(0, count);
}

class PlotPage {
  constructor(data) {
    this.data = data;
    this.state = {sequence: 0, layer: 0, head: -1};
    this.find = (id) => document.getElementById(id);
    this.overview = new Overview(this.find("overview"), data, (layer, head) => this.choose({layer, head}));
    this.heat = new HeatMap(this.find("heat"), data, (cell) => this.point(cell));
    this.addControls();
    this.find("sequence").selectedIndex = data.firstSequence;
    this.showSequence(data.firstSequence);
  }

  get layers() {
    return this.data.sequences[this.state.sequence].layers;
  }

  addControls() {
    const names = this.data.sequences.map((sequence) => sequence.name);
    this.fill("sequence", names);
    this.find("sequence").parentElement.hidden = names.length < 2;
    this.find("sequence").addEventListener("change", (event) => this.showSequence(event.target.selectedIndex));
    this.find("layer").addEventListener("change", (event) => this.choose({layer: event.target.selectedIndex}));
    this.find("head").addEventListener("change", (event) => this.choose({head: event.target.selectedIndex - 1}));
    this.find("scale-kind").addEventListener("change", () => this.choose({}));
    this.find("count").addEventListener("change", () => this.list());
    this.find("hidden-note").hidden = !this.data.hiddenBy;
    this.find("hidden-by").textContent = this.data.hiddenBy;
  }

  fill(id, names) {
    this.find(id).replaceChildren(...names.map((name) => element("option", "", name)));
  }

  showSequence(index) {
    this.state = {...this.state, sequence: index};
    const panels = this.layers.reduce((sum, layer) => sum + layer.heads.length, 0);
    this.find("overview-card").hidden = panels < 2;
    this.overview.show(this.data.sequences[index]);
    this.fill("layer", this.layers.map((layer) => layer.name));
    this.choose({layer: Math.min(this.state.layer, this.layers.length - 1)});
  }

  choose(change) {
    Object.assign(this.state, change);
    const layer = this.layers[this.state.layer];
    this.state.head = layer.heads.length === 1 ? 0 : Math.min(this.state.head, layer.heads.length - 1);
    const {head} = this.state;
    this.grid = layer.grid(head);
    this.find("layer").selectedIndex = this.state.layer;
    this.fill("head", [`mean of ${layer.heads.length}`, ...layer.heads.map((number) => `head ${number}`)]);
    this.find("head").selectedIndex = head + 1;
    this.find("heat-title").textContent = `${layer.name}, ${layer.headName(head)}`;
    const mean = statisticsOf(this.grid);
    const ofItself = layer.rows === layer.keys ? `, ${percent(mean.own)} on itself, distance ${mean.distance.toFixed(1)}` : "";
    this.find("statistics").textContent =
        `A row on average: entropy ${mean.entropy.toFixed(2)} bits, ${percent(mean.first)} on the first key${ofItself}.`;
    const kind = this.find("scale-kind").value;
    const scale = {top: kind === "whole" ? 1 : this.grid.largest, isRoot: kind === "root"};
    this.overview.mark(this.state.layer, layer.heads.length === 1 ? 0 : head);
    this.heat.show(layer, this.grid, scale);
    this.showLegend(scale);
    this.listed = null;
    this.list();
    this.point(null);
  }

  showLegend(scale) {
    const ramp = {rows: 1, keys: 256, weights: new Float32Array(256), hidden: new Uint8Array(256)};
    ramp.weights.forEach((_, index) => { ramp.weights[index] = index / 255; });
    paintCells(this.find("ramp"), ramp, {top: 1, isRoot: false}, this.data.colorBytes);
    this.find("ramp-ticks").replaceChildren(
        ...[0, 0.25, 0.5, 0.75, 1].map((share) => element("span", "", percent(scale.top * (scale.isRoot ? share ** 2 : share)))));
  }

  // A cell of the large map, or none.
  point(cell) {
    this.heat.mark(cell);
    const readout = this.find("readout");
    if (cell === null || this.grid.weights.length === 0) {
      readout.textContent = "Point at a cell, or move through them with the arrow keys.";
      return;
    }
    const layer = this.layers[this.state.layer], at = cell.row * this.grid.keys + cell.key;
    const weight = element("strong", "", this.grid.hidden[at] ? "hidden" : percent(this.grid.weights[at]));
    readout.replaceChildren("row ", ...numberedToken(cell.row, layer.rows), " attends to key ",
                            ...numberedToken(cell.key, layer.keys), ": ", weight);
    this.listed = cell;
    this.list();
  }

  // Lists what the row of the last cell attends to, and what attends to its key.
  list() {
    if (this.listed === null) {
      this.find("lists").replaceChildren();
      return;
    }
    const {rows, keys} = this.layers[this.state.layer], {row, key} = this.listed, {weights} = this.grid;
    this.find("lists").replaceChildren(
        this.table("attends", [tokenElement(rows[row]), " attends to"], keys, keys.map((_, other) => weights[row * keys.length + other])),
        this.table("attended", [tokenElement(keys[key]), " is attended to by"], rows, rows.map((_, other) => weights[other * keys.length + key])));
  }

  table(className, title, tokens, weights) {
    const table = element("table", className), caption = element("caption"), body = element("tbody");
    caption.append(...title);
    for (const other of heaviest(weights, Number(this.find("count").value) || weights.length)) {
      const row = element("tr"), name = element("td");
      name.append(...numberedToken(other, tokens));
      row.append(name, element("td", "", percent(weights[other])));
      row.style.setProperty("--share", weights[other]);
      body.append(row);
    }
    table.append(caption, body);
    return table;
  }
}

new PlotPage(loadData());
