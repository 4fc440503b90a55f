"use strict";

// Two columns of tokens, rows and keys, with a line for each weight.

// While no token is chosen, only so many lines are drawn: the heaviest.
const MOST_LINES = 1200;
const SVG = "http://www.w3.org/2000/svg";

// Indices of the `count` largest of `weights` above 0, largest first.
function heaviest(weights, count) {
  const order = [];
  weights.forEach((weight, index) => weight > 0 && order.push(index));
  return order.sort((a, b) => weights[b] - weights[a] || a - b).slice(0, count);
}

class Links {
  constructor(place, choose) {
    Object.assign(this, {place, choose, chosen: null, isPinned: false});
    this.lists = {row: place.querySelector(".rows"), key: place.querySelector(".keys")};
    this.lines = place.querySelector("svg");
    for (const [side, list] of Object.entries(this.lists)) this.listen(side, list);
    place.addEventListener("keydown", (event) => this.press(event));
    new ResizeObserver(() => this.grid && this.draw()).observe(this.lists.row);
  }

  listen(side, list) {
    const tokenOf = (event) => {
      const button = event.target.closest("button");
      return button && {side, index: Number(button.dataset.index)};
    };
    const same = (token) => this.chosen && token.side === this.chosen.side && token.index === this.chosen.index;
    list.addEventListener("pointerover", (event) => {
      const token = tokenOf(event);
      if (token && !this.isPinned) this.pick(token);
    });
    list.addEventListener("pointerleave", () => this.isPinned || this.pick(null));
    list.addEventListener("focusin", (event) => {
      const token = tokenOf(event);
      if (token && event.target.matches(":focus-visible")) this.pick(token);
    });
    list.addEventListener("click", (event) => {
      const token = tokenOf(event);
      if (!token) return;
      this.isPinned = !(this.isPinned && same(token));
      this.pick(token);
    });
  }

  show(layer, grid) {
    const isOther = this.layer?.rows !== layer.rows || this.layer?.keys !== layer.keys;
    Object.assign(this, {layer, grid});
    if (isOther) {
      this.buttons = {row: this.addTokens("row", layer.rows), key: this.addTokens("key", layer.keys)};
      this.isPinned = false;
      this.chosen = null;
    }
    this.pick(this.chosen);
  }

  addTokens(side, tokens) {
    const buttons = tokens.map((token, index) => {
      const button = element("button");
      button.type = "button";
      button.dataset.index = index;
      button.tabIndex = index === 0 ? 0 : -1;
      button.append(numberElement(index, token), tokenElement(token), element("span", "weight"));
      return button;
    });
    this.lists[side].replaceChildren(...buttons.map((button) => {
      const item = element("li");
      item.append(button);
      return item;
    }));
    return buttons;
  }

  pick(token) {
    this.chosen = token;
    this.mark("row");
    this.mark("key");
    this.draw();
    this.choose(token);
  }

  // The weight between `token` and token number `other` of the other side.
  weightAt(token, other) {
    const cell = token.side === "row" ? token.index * this.grid.keys + other
                                      : other * this.grid.keys + token.index;
    return {weight: this.grid.weights[cell], isHidden: this.grid.hidden[cell] === 1};
  }

  mark(side) {
    const token = this.chosen;
    this.buttons[side].forEach((button, index) => {
      const isOther = token !== null && token.side !== side;
      const {weight, isHidden} = isOther ? this.weightAt(token, index) : {weight: 0, isHidden: false};
      const isChosen = token !== null && token.side === side && token.index === index;
      button.classList.toggle("chosen", isChosen);
      button.setAttribute("aria-pressed", isChosen && this.isPinned);
      button.classList.toggle("masked", isHidden);
      button.style.setProperty("--share", weight);
      button.lastChild.textContent = !isOther ? "" : isHidden ? "hidden" : percent(weight);
    });
  }

  draw() {
    const {rows, keys} = this.grid;
    const height = this.lists.row.offsetHeight / Math.max(1, rows);
    const all = this.chosen === null ? heaviest(this.grid.weights, MOST_LINES) : this.cellsOfChosen();
    this.lines.setAttribute("viewBox", `0 0 100 ${Math.max(rows, keys, 1) * height}`);
    this.lines.style.height = `${Math.max(rows, keys, 1) * height}px`;
    this.lines.replaceChildren(...all.map((cell) => {
      const from = (Math.floor(cell / keys) + 0.5) * height, to = (cell % keys + 0.5) * height;
      const line = document.createElementNS(SVG, "path");
      line.setAttribute("d", `M0 ${from}C45 ${from} 55 ${to} 100 ${to}`);
      line.setAttribute("stroke-opacity", this.grid.weights[cell].toFixed(3));
      return line;
    }));
  }

  cellsOfChosen() {
    const {side, index} = this.chosen;
    const {rows, keys} = this.grid;
    const cells = side === "row" ? Array.from({length: keys}, (_, key) => index * keys + key)
                                 : Array.from({length: rows}, (_, row) => row * keys + index);
    return cells.filter((cell) => this.grid.weights[cell] > 0);
  }

  press(event) {
    if (event.key === "Escape") {
      this.isPinned = false;
      this.pick(null);
      return;
    }
    const side = Object.keys(this.lists).find((name) => this.lists[name].contains(event.target));
    if (!side) return;
    const index = Number(event.target.dataset.index);
    const other = side === "row" ? "key" : "row";
    const next = {
      ArrowUp: [side, index - 1], ArrowDown: [side, index + 1],
      Home: [side, 0], End: [side, this.buttons[side].length - 1],
      ArrowLeft: [other, index], ArrowRight: [other, index],
    }[event.key];
    const button = next && this.buttons[next[0]][Math.min(next[1], this.buttons[next[0]].length - 1)];
    if (!next) return;
    event.preventDefault();
    if (!button) return;
    event.target.tabIndex = -1;
    button.tabIndex = 0;
    this.isPinned = false;
    button.focus();
  }
}
