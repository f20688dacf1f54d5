// Charts of a group: the server's JSON, drawn by uPlot and repeated as a table. The statuses follow
// the charts, because the server needs longer for them.
"use strict";

const REDRAW_MS = 30000;

function drawCharts(root) {
  for (const place of root.querySelectorAll("[data-chart]:not([data-drawn])")) {
    place.dataset.drawn = "yes";
    draw(place);
  }
}

async function draw(place) {
  try {
    show(place, await answered(place, place.dataset.chart));
    drawStatuses(place);
  } catch (error) {
    place.textContent = `The charts cannot be drawn: ${error.message}`;
  }
  // Only pages of the current state refresh their charts.
  if (document.body.dataset.refreshS) {
    setTimeout(() => {
      if (place.isConnected && !document.hidden && sessionStorage.getItem("refreshing") !== "no") draw(place);
      else {
        for (const plot of place.isConnected ? [] : plotsOf.get(place) || []) plot.destroy();
        delete place.dataset.drawn;
      }
    }, REDRAW_MS);
  }
}

async function drawStatuses(place) {
  try {
    showStatuses(place, await answered(place, place.dataset.statuses));
  } catch (error) {
    place.querySelector(".strip").replaceWith(stripNote("note", `The statuses cannot be shown: ${error.message}`));
  }
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

const plotsOf = new WeakMap();

function show(place, data) {
  const width = Math.max(Math.min(place.clientWidth, 2 * 640) / (place.clientWidth > 990 ? 2 : 1) - 16, 280);
  const open = opened(place);
  // uPlot keeps a reference to each plot until it is destroyed.
  for (const plot of plotsOf.get(place) || []) plot.destroy();
  const plots = [];
  plotsOf.set(place, plots);
  place.replaceChildren(
    place.querySelector(".strip") || stripNote("loading", "Loading statuses …"),
    chart("Lag", data, [["lag", "records", "#2f7ed8"]], width, plots),
    chart("Rates", data, [["commit_rate", "committed per s", "#2f7ed8"], ["produce_rate", "produced per s", "#d9822b"]], width, plots)
  );
  reopen(place, open);
}

function showStatuses(place, data) {
  const strip = place.querySelector(".strip");
  const open = opened(strip);
  strip.replaceWith(statusStrip(data.statuses, data.changes));
  reopen(place.querySelector(".strip"), open);
}

function opened(place) {
  return new Set([...place.querySelectorAll("details[open] summary")].map((one) => one.textContent));
}

function reopen(place, open) {
  for (const summary of place.querySelectorAll("details summary")) summary.parentElement.open = open.has(summary.textContent);
}

function stripNote(kind, text) {
  const figure = element("figure", "Status");
  figure.className = "strip";
  const note = document.createElement("p");
  note.className = kind;
  note.textContent = text;
  figure.append(note);
  return figure;
}

function statusStrip(statuses, changes) {
  const figure = element("figure", "Status");
  figure.className = "strip";
  const list = document.createElement("ol");
  for (const one of statuses) {
    const item = document.createElement("li");
    item.dataset.level = one.level;
    const at = localTime(new Date(1000 * one.at));
    item.title = `${at}: ${one.status}: ${one.reason}`;
    const text = document.createElement("span");
    text.className = "hidden";
    text.textContent = `${at}: ${one.status}`;
    item.append(text);
    list.append(item);
  }
  figure.append(list);
  if (changes.length > 0) figure.append(changesTable(changes));
  return figure;
}

function changesTable(changes) {
  const rows = [...changes].reverse().map((one) => [
    localTime(new Date(1000 * one.at)),
    `${one.before} → ${one.status}`,
    one.reason,
  ]);
  return detailed("Status changes", ["By", "Change", "Why"], rows);
}

function chart(title, data, series, width, plots) {
  const figure = element("figure", title);
  const known = series.flatMap(([name]) => data[name]).filter((value) => value !== null);
  if (known.length === 0) {
    const none = document.createElement("p");
    none.className = "note";
    none.textContent = "No data for this time range.";
    figure.append(none);
    return figure;
  }
  const ink = getComputedStyle(document.body).color;
  const axis = { stroke: ink, grid: { stroke: "#8884", width: 1 }, ticks: { stroke: "#8884" } };
  const plot = document.createElement("div");
  plot.setAttribute("role", "img");
  const last = series.map(([name, label]) => `${label}: ${shown(data[name].findLast((value) => value !== null))} at last`);
  plot.setAttribute("aria-label", `${title} over time; ${last.join(", ")}, ${shown(Math.max(...known))} at most`);
  figure.append(plot);
  plots.push(new uPlot(
    {
      width,
      height: 200,
      series: [{ value: (_, at) => (at === null ? "-" : localTime(new Date(1000 * at))) }, ...series.map(([, label, stroke]) => ({ label, stroke, width: 2, value: (_, value) => shown(value) }))],
      axes: [{ ...axis, space: 80, values: (_, at) => timeLabels(at) }, { ...axis, size: 70, values: (_, values) => values.map(shown) }],
      scales: { y: { range: (_, least, most) => [Math.min(least, 0), most > 0 ? most * 1.05 : 1] } },
    },
    [data.at, ...series.map(([name]) => data[name])],
    plot
  ));
  figure.append(asTable(title, data, series));
  return figure;
}

function asTable(title, data, series) {
  const shownRows = data.at.map((_, number) => number).filter((number) => number % 10 === 0 || number === data.at.length - 1);
  const rows = shownRows.map((number) => [
    localTime(new Date(1000 * data.at[number])),
    ...series.map(([name]) => shown(data[name][number])),
  ]);
  return detailed(`${title} as a table`, ["Time", ...series.map(([, label]) => label)], rows);
}

function detailed(title, labels, rows) {
  const details = document.createElement("details");
  const summary = document.createElement("summary");
  summary.textContent = title;
  const table = document.createElement("table");
  const head = table.createTHead().insertRow();
  for (const label of labels) {
    const cell = document.createElement("th");
    cell.scope = "col";
    cell.textContent = label;
    head.append(cell);
  }
  const body = table.createTBody();
  for (const cells of rows) {
    const row = body.insertRow();
    for (const cell of cells) row.insertCell().textContent = cell;
  }
  details.append(summary, table);
  return details;
}

function element(name, title) {
  const found = document.createElement(name);
  const caption = document.createElement("figcaption");
  caption.textContent = title;
  found.append(caption);
  return found;
}

function shown(value) {
  if (value === null || value === undefined) return "–";
  return Math.abs(value) >= 100 || Number.isInteger(value) ? Math.round(value).toLocaleString("en") : value.toPrecision(3);
}
