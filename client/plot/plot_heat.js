"use strict";

// Maps of weights: small ones to choose from, and a large one with tokens on both axes.

// One pixel for each cell; hidden ones are left clear, so that the pattern behind shows.
// `scale`: {top, isRoot}: colours end at weight `top`, and rise with the weight or with its square root, in which small
// weights differ too.
function paintCells(canvas, grid, scale, colors) {
  canvas.width = Math.max(1, grid.keys);
  canvas.height = Math.max(1, grid.rows);
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  for (let cell = 0; cell < grid.weights.length; ++cell) {
    if (grid.hidden[cell]) continue;
    const share = scale.top > 0 ? Math.min(1, grid.weights[cell] / scale.top) : 0;
    const color = 3 * Math.round(255 * (scale.isRoot ? Math.sqrt(share) : share));
    image.data[4 * cell] = colors[color];
    image.data[4 * cell + 1] = colors[color + 1];
    image.data[4 * cell + 2] = colors[color + 2];
    image.data[4 * cell + 3] = 255;
  }
  context.putImageData(image, 0, 0);
}

const THUMBNAIL_CELLS = 64;
// A side of a thumbnail by the other; an oblong map is drawn within.
const MOST_ASPECT = 4;
// Layers with more heads take several lines.
const MOST_COLUMNS = 16;

class Overview {
  constructor(place, data, choose) {
    Object.assign(this, {place, data, choose});
    place.addEventListener("keydown", (event) => this.move(event));
  }

  show(sequence) {
    this.rows = [];
    this.place.replaceChildren();
    const widest = Math.max(...sequence.layers.map((layer) => layer.heads.length));
    const isFolded = widest > MOST_COLUMNS;
    this.place.classList.toggle("folded", isFolded); // each map has its own number then
    const columns = isFolded ? MOST_COLUMNS : widest + 1;
    this.place.style.setProperty("--heads", columns);
    if (!isFolded) this.addHeader(sequence, widest);
    // Where each layer has a line, the means stand below each other.
    sequence.layers.forEach((layer, index) => this.addLayer(layer, index, columns, isFolded ? layer.heads.length : widest));
  }

  addHeader(sequence, widest) {
    this.place.append(element("span"));
    for (let column = 0; column < widest; ++column) {
      const same = new Set(sequence.layers.map((layer) => layer.heads[column]));
      this.place.append(element("span", "column", same.size === 1 ? [...same][0] : ""));
    }
    this.place.append(element("span", "column", "mean"));
  }

  addLayer(layer, index, columns, mean) {
    const buttons = [];
    for (let at = 0; at <= mean || at % columns !== 0; ++at) {
      if (at % columns === 0) {
        this.place.append(element("span", "layer", at === 0 ? layer.name : ""));
        this.rows.push([]);
      }
      if (at !== mean && at >= layer.heads.length) {
        this.place.append(element("span"));
        continue;
      }
      const one = this.buttonOf(layer, index, at === mean ? -1 : at);
      this.place.append(one.button);
      this.rows.at(-1).push(one);
      buttons.push(one);
    }
    // One task for each layer, so that the page stays responsive.
    setTimeout(() => buttons.forEach(({canvas, head}) => {
      const grid = pooled(layer.grid(head), THUMBNAIL_CELLS, THUMBNAIL_CELLS);
      paintCells(canvas, grid, {top: grid.largest, isRoot: true}, this.data.colorBytes);
    }));
  }

  buttonOf(layer, index, head) {
    const button = element("button", "thumbnail");
    const canvas = element("canvas", "cells");
    canvas.width = canvas.height = 1;
    button.type = "button";
    button.tabIndex = -1;
    button.title = `${layer.name}, ${layer.headName(head)}`;
    button.setAttribute("aria-label", button.title);
    const aspect = (layer.keys.length || 1) / (layer.rows.length || 1);
    button.style.setProperty("--aspect", Math.min(MOST_ASPECT, Math.max(1 / MOST_ASPECT, aspect)));
    button.append(canvas, element("span", "column", head < 0 ? "mean" : layer.heads[head]));
    button.addEventListener("click", () => this.choose(index, head));
    return {button, canvas, head, layer: index};
  }

  mark(layer, head) {
    for (const one of this.rows.flat()) {
      const isChosen = one.layer === layer && one.head === head;
      one.button.setAttribute("aria-pressed", isChosen);
      one.button.tabIndex = isChosen ? 0 : -1;
      if (isChosen) this.reveal(one.button);
    }
  }

  // Scrolls sideways until the button is seen; scrollIntoView would move the page, too.
  reveal(button) {
    const strip = this.place.parentElement, around = strip.getBoundingClientRect(), box = button.getBoundingClientRect();
    if (box.left < around.left || box.right > around.right) {
      strip.scrollLeft += box.left + box.width / 2 - around.left - around.width / 2;
    }
  }

  move(event) {
    const step = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]}[event.key];
    const row = this.rows.findIndex((buttons) => buttons.some(({button}) => button === event.target));
    if (!step || row < 0) return;
    const column = this.rows[row].findIndex(({button}) => button === event.target);
    const next = this.rows[row + step[0]]?.[column + step[1]];
    event.preventDefault();
    if (!next) return;
    next.button.focus();
    next.button.click();
  }
}

// The smallest of 1, 2, 5, 10, 20, 50, ... that is not below `step`.
function roundStep(step) {
  const unit = 10 ** Math.floor(Math.log10(Math.max(1, step)));
  return unit * [1, 2, 5, 10].find((factor) => factor * unit >= step);
}

const LARGEST_CELL = 40;
const LABEL_PIXELS = 13;
const LOWEST_ROW = 15;
const HIGHEST_MAP = 2000;
// Pixels by which the label of the last key extends beyond the map.
const LEANING = 44;

class HeatMap {
  constructor(place, data, point) {
    Object.assign(this, {place, data, point});
    this.canvas = place.querySelector("canvas");
    this.cursor = place.querySelector(".cursor");
    this.note = document.getElementById("pooled-note");
    this.labels = {rows: place.querySelector(".row-labels"), keys: place.querySelector(".key-labels")};
    this.canvas.addEventListener("pointermove", (event) => this.pointAt(event));
    this.canvas.addEventListener("pointerdown", (event) => this.pointAt(event));
    this.canvas.addEventListener("pointerleave", () => this.point(null));
    this.canvas.addEventListener("keydown", (event) => this.move(event));
    this.canvas.addEventListener("blur", () => this.point(null));
    new ResizeObserver(() => this.layer && this.layOut()).observe(place);
  }

  show(layer, grid, scale) {
    Object.assign(this, {layer, grid, scale});
    this.layOut();
    this.mark(null);
  }

  layOut() {
    const longest = (tokens) => Math.max(1, ...tokens.map((token) => token.length));
    this.labels.rows.style.setProperty("--longest", longest(this.layer.rows));
    this.labels.keys.style.setProperty("--longest", longest(this.layer.keys));
    const gutter = this.labels.rows.offsetWidth;
    const width = Math.min(this.place.clientWidth - gutter - LEANING, LARGEST_CELL * this.grid.keys);
    // Cells are square, unless few rows would be too low for their labels, or many would make a page without end.
    const square = width / Math.max(1, this.grid.keys) * this.grid.rows;
    const lowest = Math.min(width, LOWEST_ROW * this.grid.rows);
    const height = Math.max(lowest, Math.min(square, Math.max(width, HIGHEST_MAP)));
    if (width <= 0 || width === this.width && this.painted === this.grid && this.paintedScale === this.scale) return;
    Object.assign(this, {width, height, painted: this.grid, paintedScale: this.scale});
    const pixels = (length) => Math.max(1, Math.ceil(length * (window.devicePixelRatio || 1)));
    const dots = pooled(this.grid, pixels(height), pixels(width));
    paintCells(this.canvas, dots, this.scale, this.data.colorBytes);
    this.note.hidden = dots.rowsEach * dots.keysEach === 1;
    this.note.textContent = `each dot: the largest of ${dots.rowsEach} rows x ${dots.keysEach} keys`;
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    this.addLabels(this.labels.rows, this.layer.rows, "top", height);
    this.addLabels(this.labels.keys, this.layer.keys, "left", width);
  }

  // Adds as many labels as there is room for.
  addLabels(place, tokens, edge, pixels) {
    const each = roundStep(LABEL_PIXELS * tokens.length / Math.max(1, pixels));
    const labels = [];
    for (let index = 0; index < tokens.length; index += each) {
      const label = element("span", "label");
      label.append(tokenElement(tokens[index]));
      label.style[edge] = `${(index + 0.5) / tokens.length * 100}%`;
      label.dataset.index = index;
      labels.push(label);
    }
    place.style[edge === "top" ? "height" : "width"] = `${pixels}px`;
    place.replaceChildren(...labels);
  }

  pointAt(event) {
    const box = this.canvas.getBoundingClientRect();
    const place = (at, size, count) => Math.min(count - 1, Math.max(0, Math.floor(at / size * count)));
    this.point({
      row: place(event.clientY - box.top, box.height, this.grid.rows),
      key: place(event.clientX - box.left, box.width, this.grid.keys),
    });
  }

  move(event) {
    const step = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]}[event.key];
    if (!step || this.grid.weights.length === 0) return;
    event.preventDefault();
    const {row, key} = this.cell ?? {row: -step[0], key: -step[1]};
    this.point({
      row: Math.min(this.grid.rows - 1, Math.max(0, row + step[0])),
      key: Math.min(this.grid.keys - 1, Math.max(0, key + step[1])),
    });
  }

  mark(cell) {
    this.cell = cell;
    this.cursor.hidden = cell === null;
    for (const [place, index] of [[this.labels.rows, cell?.row], [this.labels.keys, cell?.key]]) {
      for (const label of place.children) label.classList.toggle("on", Number(label.dataset.index) === index);
    }
    if (cell === null) return;
    const share = (part, whole) => `${part / whole * 100}%`;
    Object.assign(this.cursor.style, {
      top: share(cell.row, this.grid.rows), height: share(1, this.grid.rows),
      left: share(cell.key, this.grid.keys), width: share(1, this.grid.keys),
    });
  }
}
