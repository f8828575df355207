// @ts-check
// Before anything is drawn: scripts run, and the reader's choice of theme, if it was made here before.
(() => {
  const root = document.documentElement;
  root.classList.add("scripted");
  try {
    const chosen = localStorage.getItem("headend-theme");
    if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;
  } catch {
    // A browser may refuse storage to a page opened from a file: the theme is then the system's.
  }
})();
