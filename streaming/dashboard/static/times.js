// Times in the reader's zone, with UTC offset: one hour repeats when clocks go back.
"use strict";

const two = (number) => String(number).padStart(2, "0");

function offsetOf(at) {
  const minutes = -at.getTimezoneOffset();
  const size = Math.abs(minutes);
  return `${minutes < 0 ? "-" : "+"}${two(Math.floor(size / 60))}:${two(size % 60)}`;
}

const dayOf = (at) => `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;

// Such as "2026-10-25 02:30:00 +02:00"; inUtc parses this form.
function localTime(at) {
  return `${dayOf(at)} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())} ${offsetOf(at)}`;
}

// Gives a time without a zone that of the reader; the server assumes UTC. Others, such as "5m", stay.
function inUtc(text) {
  const typed = text.trim();
  if (/^((today|yesterday) )?\d\d:\d\d(:\d\d)?$/i.test(typed)) return `${typed}${offsetOf(new Date())}`;
  if (!/^\d{4}-/.test(typed)) return typed;
  const given = text.trim().replace(/\s+(?=(Z|[+-]\d\d:?\d\d)$)/i, "").replace(" ", "T");
  if (!given || /(Z|[+-]\d\d:?\d\d)$/i.test(given)) return given;
  // Date() reads a date without a time as UTC.
  const at = new Date(/^\d{4}-\d\d-\d\d$/.test(given) ? `${given}T00:00` : given);
  return Number.isNaN(at.getTime()) ? text.trim() : at.toISOString();
}

// Axis labels; the day and the UTC offset appear only where they change.
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

// Such as "3 s ago"; whole units.
function agoText(seconds) {
  const [size, unit] = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]].find(([size]) => seconds >= 2 * size) || [1, "s"];
  return `${Math.max(Math.floor(seconds / size), 0)} ${unit} ago`;
}
