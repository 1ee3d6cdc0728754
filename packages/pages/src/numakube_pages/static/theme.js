// Sets the colours before the page is painted; runs first and alone, so it is no module.
try {
  const kept = localStorage.getItem("numakube-theme");
  if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
} catch {
  // A browser that keeps nothing follows the system.
}
