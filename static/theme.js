// Runs before the first paint. Sets data-theme to light or dark, by choice or as the system's.
(() => {
  const KEY = "ondol.theme";
  const PAPER = { light: "#faf8f4", dark: "#191714" };
  const dark = matchMedia("(prefers-color-scheme: dark)");

  function stored() {
    try {
      return localStorage.getItem(KEY);
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

  apply(stored());
  dark.addEventListener("change", () => apply(document.documentElement.dataset.themeChoice));
  addEventListener("storage", (event) => {
    if (event.key === KEY) apply(event.newValue);
  });
  document.addEventListener("ondol-theme", (event) => apply(event.detail));
})();
