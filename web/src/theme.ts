// Runs before the page is drawn, so that a chosen theme does not flash.
try {
  const chosen = localStorage.getItem("tacit-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // No storage: the theme follows the system.
}
