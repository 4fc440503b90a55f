// Read-outs: pointing at a chart, or moving along it with the arrow keys, shows the values there. All it knows is what
// the page shows anyway: the lines' points, and the rows of the table.
"use strict";
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const make = (parent, name, attributes) => {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return parent.appendChild(element);
  };

  /** From the x of each point to its y, as they are written in the path. */
  const pointsOf = (path) =>
    new Map([...path.getAttribute("d").matchAll(/[ML]([-\d.]+),([-\d.]+)/g)].map(([, x, y]) => [x, y]));

  class Picture {
    constructor(svg) {
      this.svg = svg;
      const plot = svg.querySelector(".plot");
      this.places = plot.dataset.x.split(" ");
      this.lines = [...plot.querySelectorAll("path.line")].map((path) => ({ path, points: pointsOf(path) }));
      this.marks = make(svg, "g", {});
      this.range = { y1: plot.dataset.top, y2: plot.dataset.bottom };
    }
    /** The row whose x is nearest to the pointer. */
    rowAt(clientX) {
      const box = this.svg.getBoundingClientRect();
      const x = ((clientX - box.left) * this.svg.viewBox.baseVal.width) / box.width;
      let nearest = 0;
      this.places.forEach((place, row) => {
        if (Math.abs(place - x) < Math.abs(this.places[nearest] - x)) nearest = row;
      });
      return nearest;
    }
    mark(row) {
      this.clear();
      const x = this.places[row];
      make(this.marks, "line", { class: "crosshair", x1: x, x2: x, ...this.range });
      for (const { path, points } of this.lines) {
        if (!points.has(x)) continue;
        const color = [...path.classList].find((name) => name.startsWith("series-"));
        make(this.marks, "circle", { class: `dot ${color}`, cx: x, cy: points.get(x), r: 4 });
      }
    }
    clear() {
      this.marks.replaceChildren();
    }
    /** Where along its width the row is, 0 to 1. */
    shareOf(row) {
      return this.places[row] / this.svg.viewBox.baseVal.width;
    }
    get isShown() {
      return this.svg.getBoundingClientRect().width > 0;
    }
  }

  const textOf = (element) => element.textContent.trim();

  class Readout {
    constructor(figure) {
      this.holder = figure.querySelector(".pictures");
      this.pictures = [...this.holder.querySelectorAll("svg")].map((svg) => new Picture(svg));
      this.rows = [...figure.querySelectorAll("details tbody tr")];
      this.names = [...figure.querySelectorAll(".legend li")];
      this.row = this.rows.length - 1;
      this.box = this.holder.appendChild(document.createElement("div"));
      this.box.className = "readout";
      this.box.hidden = true;
      this.box.setAttribute("role", "status");
      this.listen();
    }
    listen() {
      this.holder.tabIndex = 0;
      this.holder.setAttribute("role", "group");
      this.holder.setAttribute("aria-label", "Chart; arrow keys read values out");
      const point = (event) => this.show(this.picture.rowAt(event.clientX));
      this.holder.addEventListener("pointermove", point);
      this.holder.addEventListener("pointerdown", point);
      this.holder.addEventListener("pointerleave", () => this.hide());
      this.holder.addEventListener("focus", () => {
        if (this.holder.matches(":focus-visible")) this.show(this.row);
      });
      this.holder.addEventListener("blur", () => this.hide());
      this.holder.addEventListener("keydown", (event) => this.press(event));
    }
    press(event) {
      const last = this.rows.length - 1;
      const rows = { ArrowLeft: this.row - 1, ArrowRight: this.row + 1, Home: 0, End: last };
      if (event.key === "Escape") this.hide();
      if (!(event.key in rows) || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      this.show(Math.min(last, Math.max(0, rows[event.key])));
    }
    get picture() {
      return this.pictures.find((picture) => picture.isShown);
    }
    show(row) {
      this.hide();
      this.row = row;
      this.picture.mark(row);
      this.box.replaceChildren(this.headOf(row), this.valuesOf(row));
      this.box.hidden = false;
      const share = this.picture.shareOf(row);
      const room = this.holder.clientWidth - this.box.offsetWidth;
      const place = share * this.holder.clientWidth;
      // Beside the crosshair, on the side with more room, and never over the edge.
      const left = share < 0.5 ? place + 12 : place - this.box.offsetWidth - 12;
      this.box.style.left = `${Math.max(0, Math.min(room, left))}px`;
    }
    headOf(row) {
      const head = document.createElement("strong");
      head.textContent = textOf(this.rows[row].querySelector("th"));
      return head;
    }
    valuesOf(row) {
      const table = document.createElement("table");
      [...this.rows[row].querySelectorAll("td")].forEach((cell, index) => {
        const text = textOf(cell);
        if (text === "") return;
        const line = table.insertRow();
        const name = line.appendChild(document.createElement("th"));
        name.append(...[...this.names[index].childNodes].map((node) => node.cloneNode(true)));
        line.insertCell().textContent = text;
      });
      return table;
    }
    hide() {
      this.box.hidden = true;
      for (const picture of this.pictures) picture.clear();
    }
  }

  for (const figure of document.querySelectorAll(".chart")) {
    if (figure.querySelector(".pictures")) new Readout(figure);
  }
})();
