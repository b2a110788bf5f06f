const needed = new Map();

/**
 * Fetches a style sheet that the page came without; settled once it is in force, or cannot be had.
 * @param {string} name @returns {Promise<void>}
 */
export function needStyle(name) {
  if (!needed.has(name)) {
    const link = document.createElement("link");
    link.rel = "stylesheet";
    link.href = new URL(`../css/${name}.css`, import.meta.url).href;
    needed.set(name, new Promise((resolve) => {
      link.addEventListener("load", () => resolve());
      link.addEventListener("error", () => resolve());
    }));
    document.head.append(link);
  }
  return needed.get(name);
}
