// Times in the reader's zone. Each has its offset: the hour before clocks go back comes twice.
"use strict";

const two = (number) => String(number).padStart(2, "0");

function offsetOf(at) {
  const minutes = -at.getTimezoneOffset();
  const size = Math.abs(minutes);
  return `${minutes < 0 ? "-" : "+"}${two(Math.floor(size / 60))}:${two(size % 60)}`;
}

const dayOf = (at) => `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;

// As in "2026-10-25 02:30:00 +02:00", which inUtc takes back.
function localTime(at) {
  return `${dayOf(at)} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())} ${offsetOf(at)}`;
}

// A time that says no zone is one of the reader's: the server takes it for UTC.
function inUtc(text) {
  const given = text.trim().replace(/\s+(?=(Z|[+-]\d\d:?\d\d)$)/i, "").replace(" ", "T");
  if (!given || /(Z|[+-]\d\d:?\d\d)$/i.test(given)) return given;
  // A day alone would be taken for one of UTC.
  const at = new Date(/^\d{4}-\d\d-\d\d$/.test(given) ? `${given}T00:00` : given);
  return Number.isNaN(at.getTime()) ? text.trim() : at.toISOString();
}

// Labels of moments in a row: day and offset where they change.
function timeLabels(seconds) {
  let day = "";
  let offset = "";
  return seconds.map((second) => {
    const at = new Date(1000 * second);
    const time = `${two(at.getHours())}:${two(at.getMinutes())}${at.getSeconds() ? `:${two(at.getSeconds())}` : ""}`;
    const news = [dayOf(at) === day ? "" : dayOf(at).slice(5), offsetOf(at) === offset ? "" : offsetOf(at)];
    day = dayOf(at);
    offset = offsetOf(at);
    return `${time}\n${news.filter(Boolean).join(" ")}`;
  });
}
