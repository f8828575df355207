// What the theme leaves out for those who use a keyboard or a screen reader.
"use strict";

/** Lets the keyboard reach what is wider than its place and scrolls. */
function reachable() {
  for (const part of document.querySelectorAll("pre, .table-wrapper")) {
    if (part.scrollWidth > part.clientWidth) part.tabIndex = 0;
    else part.removeAttribute("tabindex");
  }
}

document.addEventListener("DOMContentLoaded", () => {
  for (const caption of document.querySelectorAll('.caption[role="heading"]')) caption.ariaLevel = "2";
  document.querySelector(".sidebar-drawer")?.setAttribute("aria-label", "Pages of the book");
  document.querySelector(".toc-drawer")?.setAttribute("aria-label", "On this page");
  // A heading without text says nothing: such a cell is the empty corner of a table.
  for (const cell of document.querySelectorAll("th")) {
    if (!cell.textContent.trim()) {
      const corner = document.createElement("td");
      corner.className = cell.className;
      cell.replaceWith(corner);
    }
  }
  reachable();
  window.addEventListener("resize", reachable);
});
