// Runs in the head, before anything is painted: a remembered theme never flashes.
const KEY = "slipstream-theme";
const root = document.documentElement;
const darkSystem = matchMedia("(prefers-color-scheme: dark)");

// Storage throws where a browser refuses it to files; the theme then lasts as long as the page.
function remembered() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

function remember(theme) {
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // Nothing to do: see above.
  }
}

function theme() {
  return root.dataset.theme || (darkSystem.matches ? "dark" : "light");
}

function label() {
  const other = theme() === "dark" ? "light" : "dark";
  const button = document.getElementById("theme");
  button.setAttribute("aria-label", `Switch to ${other} theme`);
  button.title = `Switch to ${other} theme`;
}

function toggle() {
  root.dataset.theme = theme() === "dark" ? "light" : "dark";
  remember(root.dataset.theme);
  label();
}

const chosen = remembered();
if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;
document.addEventListener("DOMContentLoaded", () => {
  document.getElementById("theme").addEventListener("click", toggle);
  darkSystem.addEventListener("change", label);
  label();
});
