// The times below a timeline in the reader's zone; without this script they are in UTC.
"use strict";

(() => {
  function showTicks() {
    for (const axis of document.querySelectorAll(".timeline .axis")) {
      const ticks = [...axis.querySelectorAll("time")];
      const labels = timeLabels(ticks.map((tick) => new Date(tick.dateTime) / 1000));
      ticks.forEach((tick, number) => { tick.textContent = labels[number]; });
    }
  }

  document.addEventListener("DOMContentLoaded", showTicks);
  document.addEventListener("page:updated", showTicks);
})();
