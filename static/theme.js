// Runs before the first paint. Sets data-theme to light or dark, by choice or as the system's, and the text size.
(() => {
  const KEY = "ondol.theme";
  const PAPER = { light: "#faf8f4", dark: "#191714" };
  const dark = matchMedia("(prefers-color-scheme: dark)");

  const SIZE_KEY = "ondol.text-size";
  const SIZES = ["small", "normal", "large", "larger"];

  function stored(key) {
    try {
      return localStorage.getItem(key);
    } catch {
      return null;
    }
  }

  function apply(choice) {
    const chosen = choice === "light" || choice === "dark" ? choice : "system";
    const theme = chosen === "system" ? (dark.matches ? "dark" : "light") : chosen;
    document.documentElement.dataset.theme = theme;
    document.documentElement.dataset.themeChoice = chosen;
    document.querySelector('meta[name="theme-color"]')?.setAttribute("content", PAPER[theme]);
  }

  function resize(size) {
    document.documentElement.dataset.textSize = SIZES.includes(size) ? size : "normal";
  }

  apply(stored(KEY));
  resize(stored(SIZE_KEY));
  dark.addEventListener("change", () => apply(document.documentElement.dataset.themeChoice));
  addEventListener("storage", (event) => {
    if (event.key === KEY) apply(event.newValue);
    if (event.key === SIZE_KEY) resize(event.newValue);
  });
  document.addEventListener("ondol-text-size", (event) => resize(event.detail));
  document.addEventListener("ondol-theme", (event) => apply(event.detail));
})();
