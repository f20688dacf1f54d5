// The status of a group over time: a strip above the charts, the same tints behind them, and the
// changes as a table.
"use strict";

// How strong a tint is behind a chart, in percent.
const TINT_PERCENT = 60;
const TINTS = { warning: "--warning-fill", bad: "--bad-fill" };

// A period is { from, until, status, level, reason }; they are in order, without a break.
function statusStrip(periods) {
  const list = document.createElement("ol");
  for (const period of periods) {
    const item = document.createElement("li");
    item.dataset.level = period.level;
    item.style.flexGrow = period.until - period.from;
    const from = localTime(new Date(1000 * period.from));
    item.title = `${period.status} from ${from}${period.reason && ": "}${period.reason}`;
    const shown = document.createElement("span");
    shown.setAttribute("aria-hidden", "true");
    shown.textContent = period.status;
    const text = document.createElement("span");
    text.className = "hidden";
    text.textContent = `${period.status} from ${from}`;
    item.append(shown, text);
    list.append(item);
  }
  return laneOf("strip", "Status", list);
}

// A name that does not fit is in the tooltip only.
function fitNames(strip) {
  for (const item of strip.querySelectorAll("li")) {
    const name = item.firstChild;
    name.classList.toggle("narrow", name.offsetLeft + name.offsetWidth > item.clientWidth);
  }
}

function stripNote(kind, text) {
  const note = noteOf(text);
  note.className = kind;
  return laneOf("strip", "Status", note);
}

// A row above the charts; its title stands over their axis.
function laneOf(kind, title, content) {
  const figure = document.createElement("figure");
  figure.className = `lane ${kind}`;
  const caption = document.createElement("figcaption");
  caption.textContent = title;
  figure.append(caption, content);
  return figure;
}

function changesTable(changes) {
  const rows = [...changes].reverse().map((change) => {
    const link = document.createElement("a");
    link.href = `${change.around}#over-time`;
    link.textContent = localTime(new Date(1000 * change.at));
    return [link, `${change.before} → ${change.status}`, change.reason];
  });
  const table = detailed("Status changes", ["Seen at", "Change", "Why"], rows);
  table.classList.add("changes");
  return table;
}

// Tint the times of a warning or of a bad status behind a plot.
function tintStatuses(plot, periods, colours) {
  const { left, top, width, height } = plot.bbox;
  for (const period of periods) {
    if (!colours[period.level]) continue;
    const from = Math.max(plot.valToPos(period.from, "x", true), left);
    const until = Math.min(plot.valToPos(period.until, "x", true), left + width);
    plot.ctx.fillStyle = colours[period.level];
    plot.ctx.fillRect(from, top, Math.max(until - from, 0), height);
  }
}

// A table behind a summary; a cell is a text or an element.
function detailed(title, labels, rows) {
  const details = document.createElement("details");
  const summary = document.createElement("summary");
  summary.textContent = title;
  const region = document.createElement("div");
  region.className = "wide";
  region.tabIndex = 0;
  region.setAttribute("role", "region");
  region.setAttribute("aria-label", title);
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
    for (const cell of cells) row.insertCell().append(cell);
  }
  region.append(table);
  details.append(summary, region);
  return details;
}
