// Brings another tab, order or page of a group's tables, or another period, without a reload: the
// story and the scroll position stay. Without this script the links load the page, and lead to the
// tables or the charts.
"use strict";

(() => {
  const show = () => loadPage(location.href).catch(() => location.reload());

  document.addEventListener("click", (event) => {
    const link = event.target.closest('main a[href$="#tables"], main a[href$="#over-time"]');
    const isPlain = !event.button && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    if (!link || !isPlain || link.pathname !== location.pathname) return;
    event.preventDefault();
    history.pushState(null, "", link.href);
    show();
  });

  addEventListener("popstate", show);
})();
