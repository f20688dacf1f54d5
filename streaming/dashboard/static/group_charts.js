// The charts of a group over one period: the server's JSON, drawn and repeated as a table. The
// statuses have an address of their own. Dragging over a chart puts the period into the address of
// the page, and all of the page follows.
"use strict";

const REDRAW_MS = 30000;
const CHART_KINDS = [
  { title: "Lag", unit: "records", lines: [{ name: "lag", label: "behind", token: "--series-1" }] },
  {
    title: "Records",
    unit: "records since the start of the period; the area is the lag",
    isFilled: true,
    lines: [
      { name: "produced", label: "produced", token: "--series-2" },
      { name: "committed", label: "committed", token: "--series-1" },
    ],
  },
  {
    title: "Rates",
    unit: "records/s",
    // A rewind is a rate far below zero, which the chart of records shows.
    isFromZero: true,
    lines: [
      { name: "produce_rate", label: "produced", token: "--series-2" },
      { name: "commit_rate", label: "committed", token: "--series-1" },
    ],
  },
];

const chartsOf = new Map();

// The address of this page for a period, with seconds since the epoch.
function periodAddress(since, until) {
  const address = new URL(location.href);
  address.searchParams.delete("span");
  address.searchParams.set("since", new Date(1000 * since).toISOString());
  address.searchParams.set("until", new Date(1000 * until).toISOString());
  address.hash = "over-time";
  return address.href;
}

class GroupCharts {
  constructor(place) {
    this.place = place;
    this.data = null;
    this.charts = [];
    this.periods = [];
    this.changes = [];
    this.resizing = new ResizeObserver(() => this.resize());
    this.resizing.observe(place);
  }

  async load() {
    try {
      const data = await answered(this.place, this.place.dataset.chart);
      // Nothing changes under the reader's hand.
      if (this.data !== null && this.place.matches(":hover")) return;
      this.data = data;
      this.show();
    } catch (error) {
      this.destroy();
      this.place.replaceChildren(noteOf(`The charts cannot be drawn: ${error.message}`));
      return;
    }
    try {
      const address = new URL(this.place.dataset.statuses, location.href);
      // The statuses begin with the data, too.
      if (this.data.begin > this.data.since) address.searchParams.set("since", new Date(1000 * this.data.begin).toISOString());
      const { periods, changes } = await answered(this.place, address);
      this.periods = periods;
      this.changes = changes;
      this.showStrip(statusStrip(this.periods));
      this.showChanges();
      for (const chart of this.charts) chart.redraw();
    } catch (error) {
      this.showStrip(stripNote("note", `The statuses cannot be shown: ${error.message}`));
    }
  }

  // Draw the data that is known; also in other colours, after the theme has changed.
  show() {
    const { place, data } = this;
    const open = opened(place);
    const strip = place.querySelector(".strip") || stripNote("loading", "Loading statuses …");
    this.destroy();
    place.replaceChildren(strip);
    this.showLane();
    const colours = Object.fromEntries(Object.entries(TINTS).map(([level, token]) => [level, tokenColour(place, token, TINT_PERCENT)]));
    const marks = { heavy: tokenColour(place, "--ink", 70), light: tokenColour(place, "--line-strong", 60) };
    const behind = (plot) => {
      tintStatuses(plot, this.periods, colours);
      drawMarks(plot, data.events, marks);
    };
    const onZoom = (since, until) => showPeriod(periodAddress(Math.max(since, data.begin), Math.min(until, data.until)));
    this.charts = CHART_KINDS.map((kind, number) => new Chart(place, kind, data, { hasTimes: number === CHART_KINDS.length - 1, behind, onZoom }));
    for (const note of notesOf(data)) place.append(noteOf(note));
    place.append(asTable(data));
    this.showChanges();
    reopen(place, open);
  }

  showLane() {
    this.place.querySelector(".lane.events")?.remove();
    if (this.data.events.length === 0) return;
    const width = this.place.clientWidth - cssPixels(this.place, "--axis") - cssPixels(this.place, "--after-plot");
    this.place.querySelector(".strip").after(eventLane(this.data, width));
  }

  showStrip(strip) {
    this.place.querySelector(".strip")?.replaceWith(strip);
    fitNames(strip);
  }

  showChanges() {
    const shown = this.place.querySelector(".changes");
    const table = this.changes.length > 0 ? changesTable(this.changes) : null;
    if (table && shown) table.open = shown.open;
    shown?.remove();
    if (table) this.place.append(table);
    tellOfUpdate(this.place);
  }

  resize() {
    if (this.data === null) return;
    for (const chart of this.charts) chart.resize(this.place);
    this.showLane();
    fitNames(this.place.querySelector(".strip"));
  }

  // uPlot keeps a reference to each plot until it is destroyed.
  destroy() {
    for (const chart of this.charts) chart.destroy();
    this.charts = [];
  }

  leave() {
    chartsOf.delete(this.place);
    this.destroy();
    this.resizing.disconnect();
  }
}

function drawCharts(root) {
  for (const [place, charts] of chartsOf) {
    if (!place.isConnected) charts.leave();
  }
  for (const place of root.querySelectorAll("[data-chart]:not([data-drawn])")) {
    place.dataset.drawn = "yes";
    chartsOf.get(place)?.leave();
    const charts = new GroupCharts(place);
    chartsOf.set(place, charts);
    keepDrawn(charts);
  }
}

// Draw the charts, and again as long as they show the current state.
async function keepDrawn(charts) {
  const { place } = charts;
  await charts.load();
  if (!("redraw" in place.dataset)) return;
  setTimeout(() => {
    if (chartsOf.get(place) !== charts) return;
    if (place.isConnected && !document.hidden && sessionStorage.getItem("refreshing") !== "no") keepDrawn(charts);
    else delete place.dataset.drawn;
  }, REDRAW_MS);
}

// The JSON at an address. A busy server is asked again until the next refresh of the charts.
async function answered(place, address) {
  const until = Date.now() + REDRAW_MS;
  for (;;) {
    const answer = await fetch(address);
    if (answer.ok) return answer.json();
    const waitMs = 1000 * (Number(answer.headers.get("Retry-After")) || 5);
    if (answer.status !== 503 || !place.isConnected || Date.now() + waitMs > until) {
      const isJson = answer.headers.get("Content-Type") === "application/json";
      throw new Error(isJson ? (await answer.json()).error : `the server answered ${answer.status}`);
    }
    await new Promise((resume) => setTimeout(resume, waitMs));
  }
}

function notesOf(data) {
  const notes = [];
  if (data.begin - data.since > 1) notes.push(`The tables have data of this group from ${localTime(new Date(1000 * data.begin))}.`);
  if (data.more_events > 0) notes.push(`${data.more_events.toLocaleString("en")} more events of this period are not marked: see the events of the group.`);
  return notes;
}

function asTable(data) {
  const lines = CHART_KINDS.flatMap(({ title, lines }) => lines.map((line) => ({ ...line, label: `${title}: ${line.label}` })));
  const shownRows = data.at.map((_, number) => number).filter((number) => number % 10 === 0 || number === data.at.length - 1);
  const rows = shownRows.map((number) => [localTime(new Date(1000 * data.at[number])), ...lines.map(({ name }) => fullNumber(data[name][number]))]);
  return detailed("Charts as a table", ["Time", ...lines.map(({ label }) => label)], rows);
}

function opened(place) {
  return new Set([...place.querySelectorAll("details[open] summary")].map((summary) => summary.textContent));
}

function reopen(place, open) {
  for (const summary of place.querySelectorAll("details summary")) summary.parentElement.open = open.has(summary.textContent);
}

// Bring all of the page to another period, at the same place of the screen.
function showPeriod(address) {
  // A drag is one of each chart, because their cursors are the same.
  if (address === location.href) return;
  history.pushState(null, "", address);
  loadPage(address).catch(() => location.reload());
}

document.addEventListener("DOMContentLoaded", () => drawCharts(document));
document.addEventListener("page:updated", ({ target }) => drawCharts(target));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const place of document.querySelectorAll("[data-chart]")) {
    const charts = chartsOf.get(place);
    if (charts?.data) charts.show();
  }
});
