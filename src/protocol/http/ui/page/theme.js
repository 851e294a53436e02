// Theme: that of the system until the reader chooses one; the choice stays in this browser. It runs
// before the page is painted.
"use strict";
(() => {
  const root = document.documentElement;
  try {
    const saved = localStorage.getItem("jobcentre-theme");
    if (saved) root.dataset.theme = saved;
  } catch { /* Nothing is kept in this mode. */ }
})();
