// Events on the charts: a lane of links above them, and a vertical line through each chart.
"use strict";

const MARK_PX = 24;

// Links to the events; marks that would overlap are one link to the time of all of them.
function eventLane(data, width) {
  const list = document.createElement("ol");
  for (const marks of clustersOf(data, width)) {
    const item = document.createElement("li");
    item.style.left = `${percentOf(marks[0].at, data)}%`;
    const link = document.createElement("a");
    link.href = marks.length === 1 ? marks[0].address : periodAddress(marks[0].at - 30, marks.at(-1).until + 30);
    link.dataset.weight = marks.some((mark) => mark.is_heavy) ? "heavy" : "light";
    link.title = marks.map((mark) => `${localTime(new Date(1000 * mark.at))}: ${mark.text}`).join("; ");
    const text = document.createElement("span");
    text.className = "hidden";
    text.textContent = marks.length === 1 ? marks[0].name : `${marks.length} events`;
    link.append(text, marks.length === 1 ? "" : String(marks.length));
    item.append(link);
    list.append(item);
  }
  return laneOf("events", "Events", list);
}

const percentOf = (at, data) => (100 * (at - data.begin)) / (data.until - data.begin);

function clustersOf(data, width) {
  const apart = (MARK_PX / width) * 100;
  const clusters = [];
  for (const event of data.events) {
    const last = clusters.at(-1);
    if (last && percentOf(event.at, data) - percentOf(last[0].at, data) < apart) last.push(event);
    else clusters.push([event]);
  }
  return clusters;
}

function drawMarks(plot, events, colours) {
  const { left, top, width, height } = plot.bbox;
  plot.ctx.lineWidth = devicePixelRatio;
  for (const event of events) {
    const at = Math.round(plot.valToPos(event.at, "x", true)) + 0.5;
    if (at < left || at > left + width) continue;
    plot.ctx.strokeStyle = event.is_heavy ? colours.heavy : colours.light;
    plot.ctx.beginPath();
    plot.ctx.moveTo(at, top);
    plot.ctx.lineTo(at, top + height);
    plot.ctx.stroke();
  }
}
