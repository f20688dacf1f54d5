// One chart: lines over the time axis that all charts of the page share, drawn by uPlot in the
// colours of tokens.css. Behind the lines are the times of a bad status and the events.
"use strict";

const CHART_HEIGHT_PX = 132;
const TIMES_HEIGHT_PX = 40;
const SHORTEST_ZOOM_PX = 8;

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });

// Such as 950, 12.4k and 1.2M.
const shortNumber = (value) => compact.format(value).replace("K", "k");

function fullNumber(value) {
  if (value === null || value === undefined) return "–";
  return Math.abs(value) >= 100 || Number.isInteger(value) ? Math.round(value).toLocaleString("en") : value.toPrecision(3);
}

// A canvas needs a plain colour: that of an element which uses the token.
function tokenColour(place, token, percent = 100) {
  const probe = document.createElement("span");
  probe.style.color = `color-mix(in srgb, var(${token}) ${percent}%, transparent)`;
  place.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}

const cssPixels = (place, name) => parseFloat(getComputedStyle(place).getPropertyValue(name));

// A figure with a legend, which has the values under the cursor, and a plot.
//   kind: { title, unit, lines: [{ name, label, token }], isFilled, isFromZero }; `name` is a key of the
//     data
//   data: the server's JSON
//   behind: draws behind the lines
//   onZoom: called with the seconds at both ends of a drag
class Chart {
  constructor(place, kind, data, { hasTimes, behind, onZoom }) {
    this.kind = kind;
    this.data = data;
    this.figure = document.createElement("figure");
    this.legend = document.createElement("figcaption");
    this.figure.append(this.legend);
    place.append(this.figure);
    this.values = kind.lines.map((line) => data[line.name]);
    const known = this.values.flat().filter((value) => value !== null);
    this.showLegend(null);
    if (known.length === 0) {
      this.figure.append(noteOf("No data for this time range."));
      return;
    }
    const plot = document.createElement("div");
    plot.setAttribute("role", "img");
    const last = kind.lines.map((line, number) => `${line.label} ${fullNumber(this.lastOf(number))}`);
    plot.setAttribute("aria-label", `${kind.title} over time, in ${kind.unit}: ${last.join(", ")} at last; ${fullNumber(Math.max(...known))} at most`);
    this.figure.append(plot);
    this.height = CHART_HEIGHT_PX + (hasTimes ? TIMES_HEIGHT_PX : 0);
    this.plot = new uPlot(this.options(place, { hasTimes, behind, onZoom }), [data.at, ...this.values], plot);
  }

  options(place, { hasTimes, behind, onZoom }) {
    const { lines, isFilled, isFromZero, unit } = this.kind;
    const grid = { stroke: tokenColour(place, "--line"), width: 1 };
    const axis = { stroke: tokenColour(place, "--faint"), grid, ticks: { show: false }, font: `12px ${getComputedStyle(place).fontFamily}` };
    const suffix = unit.startsWith("records/s") ? "/s" : "";
    return {
      width: this.width(place),
      height: this.height,
      padding: [8, cssPixels(place, "--after-plot"), hasTimes ? 0 : 8, 0],
      legend: { show: false },
      cursor: { y: false, sync: { key: "charts" }, drag: { x: true, y: false, setScale: false }, points: { size: 6 } },
      series: [{}, ...lines.map(({ token }) => ({ stroke: tokenColour(place, token), width: 1.5, points: { show: false } }))],
      bands: isFilled ? [{ series: [1, 2], fill: tokenColour(place, lines[0].token, 18) }] : [],
      axes: [
        { ...axis, space: 90, size: hasTimes ? TIMES_HEIGHT_PX : 0, values: (_, at) => (hasTimes ? timeLabels(at) : at.map(() => "")) },
        { ...axis, space: 32, size: cssPixels(place, "--axis"), values: (_, values) => values.map((value) => shortNumber(value) + suffix) },
      ],
      scales: {
        x: { range: () => [this.data.begin, this.data.until] },
        y: { range: (_, least, most) => [isFromZero ? 0 : Math.min(least, 0) * 1.05, Math.max(most * 1.05, least < 0 && !isFromZero ? 0 : 1)] },
      },
      hooks: {
        drawClear: [(plot) => behind(plot)],
        setCursor: [(plot) => this.showLegend(plot.cursor.idx ?? null)],
        setSelect: [
          (plot) => {
            const { left, width } = plot.select;
            if (width < SHORTEST_ZOOM_PX) return;
            plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
            onZoom(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
          },
        ],
      },
    };
  }

  width(place) {
    return Math.max(place.clientWidth, 240);
  }

  resize(place) {
    this.plot?.setSize({ width: this.width(place), height: this.height });
  }

  redraw() {
    this.plot?.redraw(false);
  }

  destroy() {
    this.plot?.destroy();
    this.figure.remove();
  }

  lastOf(number) {
    return this.values[number].findLast((value) => value !== null);
  }

  // The title, each line with its value at a point, or at last, and the time of the point.
  showLegend(point) {
    const title = document.createElement("b");
    title.textContent = this.kind.title;
    const unit = document.createElement("span");
    unit.className = "unit";
    unit.textContent = this.kind.unit;
    const keys = this.kind.lines.map((line, number) => {
      const key = document.createElement("span");
      key.className = "key";
      key.dataset.colour = line.token.replace("--series-", "");
      const value = document.createElement("span");
      value.className = "value";
      value.textContent = fullNumber(point === null ? this.lastOf(number) : this.values[number][point]);
      key.append(`${line.label} `, value);
      return key;
    });
    this.legend.replaceChildren(title, unit, ...keys);
    if (point === null) return;
    const time = document.createElement("span");
    time.className = "at";
    time.textContent = localTime(new Date(1000 * this.data.at[point]));
    this.legend.append(time);
  }
}

function noteOf(text) {
  const note = document.createElement("p");
  note.className = "note";
  note.textContent = text;
  return note;
}
