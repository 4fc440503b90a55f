"use strict";

// The data of the page (PageData in html_picture.h), as grids of weights.

function bytesOf(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length); // a loop: Uint8Array.from() takes seconds for a large page
  for (let i = 0; i < text.length; ++i) bytes[i] = text.charCodeAt(i);
  return bytes;
}

class Layer {
  constructor(layer, data) {
    this.name = layer.name;
    this.heads = layer.heads;
    this.rows = data.texts[layer.rows];
    this.keys = data.texts[layer.keys];
    this.cells = this.rows.length * this.keys.length;
    this.largest = layer.largest; // of each head
    this.roots = new Uint16Array(bytesOf(layer.weights).buffer); // of weights / largest, times 65535
    this.mask = layer.mask < 0 ? null : data.maskBytes[layer.mask];
    this.maskHasHeads = layer.maskHeads > 1;
  }

  isHidden(head, cell) {
    if (this.mask === null) return false;
    const bit = this.maskHasHeads ? head * this.cells + cell : cell;
    return (this.mask[bit >> 3] >> (bit & 7) & 1) === 1;
  }

  // The weights of one head (by index), or with -1 the mean over all heads, in which a cell is hidden if all heads hide
  // it.
  grid(head) {
    const chosen = head < 0 ? this.heads.map((_, index) => index) : [head];
    const grid = {
      rows: this.rows.length, keys: this.keys.length,
      weights: new Float32Array(this.cells), hidden: new Uint8Array(this.cells).fill(1), largest: 0,
    };
    for (const index of chosen) {
      const unit = this.largest[index] / 65535 ** 2 / chosen.length;
      for (let cell = 0; cell < this.cells; ++cell) {
        grid.weights[cell] += this.roots[index * this.cells + cell] ** 2 * unit;
        if (grid.hidden[cell] && !this.isHidden(index, cell)) grid.hidden[cell] = 0;
      }
    }
    grid.largest = grid.weights.reduce((most, weight) => Math.max(most, weight), 0);
    return grid;
  }

  headName(head) {
    if (head >= 0) return `head ${this.heads[head]}`;
    return this.heads.length === 1 ? `head ${this.heads[0]}` : `mean of ${this.heads.length} heads`;
  }
}

// A grid of at most so many rows and keys. Each cell has the largest weight of the cells that it combines.
function pooled(grid, mostRows, mostKeys) {
  const rowsEach = Math.max(1, Math.ceil(grid.rows / mostRows)), keysEach = Math.max(1, Math.ceil(grid.keys / mostKeys));
  if (rowsEach === 1 && keysEach === 1) return { ...grid, rowsEach, keysEach };
  const rows = Math.ceil(grid.rows / rowsEach), keys = Math.ceil(grid.keys / keysEach);
  const small = {
    rows, keys, rowsEach, keysEach, weights: new Float32Array(rows * keys), hidden: new Uint8Array(rows * keys).fill(1),
    largest: grid.largest,
  };
  for (let i = 0; i < grid.rows; ++i) {
    for (let j = 0; j < grid.keys; ++j) {
      const from = i * grid.keys + j, to = Math.floor(i / rowsEach) * keys + Math.floor(j / keysEach);
      small.weights[to] = Math.max(small.weights[to], grid.weights[from]);
      small.hidden[to] = Math.min(small.hidden[to], grid.hidden[from]);
    }
  }
  return small;
}

// Means over the rows that attend to something: the entropy of a row's weights in bits, their sum on the first key, on the
// key of the row itself, and by distance from it. The last two are those of maps whose rows are their keys.
function statisticsOf(grid) {
  const mean = {entropy: 0, first: 0, own: 0, distance: 0};
  let rows = 0;
  for (let row = 0; row < grid.rows; ++row) {
    const weights = grid.weights.subarray(row * grid.keys, (row + 1) * grid.keys);
    if (weights.every((weight) => weight === 0)) continue;
    rows += 1;
    mean.first += weights[0];
    mean.own += weights[row] ?? 0;
    weights.forEach((weight, key) => {
      mean.entropy -= weight > 0 ? weight * Math.log2(weight) : 0;
      mean.distance += weight * Math.abs(row - key);
    });
  }
  for (const name of Object.keys(mean)) mean[name] /= Math.max(1, rows);
  return mean;
}

// Three digits; of small weights the page's numbers of 16 bits have fewer.
function percent(weight) {
  if (weight > 0 && weight < 1e-5) return "<0.001%";
  return `${Number((100 * weight).toPrecision(3))}%`;
}

function loadData() {
  const data = JSON.parse(document.getElementById("data").textContent);
  data.maskBytes = data.masks.map(bytesOf);
  data.colorBytes = bytesOf(data.colors);
  for (const sequence of data.sequences) {
    sequence.layers = sequence.layers.map((layer) => new Layer(layer, data));
  }
  return data;
}

function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

// A token, in the direction of its own writing.
function tokenElement(text) {
  return element("bdi", "token", text);
}

// A token with its number, unless the token itself is that number.
function numberedToken(index, tokens) {
  const token = tokenElement(tokens[index]);
  return tokens[index] === String(index) ? [token] : [element("span", "number", index), " ", token];
}
