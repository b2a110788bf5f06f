import { fetchTexts } from "./language.js";

/** What is rarely wanted comes when it is: its module, its looks, and its texts. */

const fetched = new Map();

/** @param {string} module its address beside this one @param {...string} sheets of `css/` */
export async function fetchPart(module, ...sheets) {
  const [part] = await Promise.all([import(module), fetchTexts(), ...sheets.map(stylesheet)]);
  return part;
}

/**
 * Has the page wear a sheet of `css/` that it came without. Fulfilled once it does, and also when the sheet cannot be
 * had: what it is for is then shown all the same. @param {string} name @returns {Promise<void>}
 */
export function stylesheet(name) {
  if (!fetched.has(name)) fetched.set(name, fetchSheet(name));
  return fetched.get(name);
}

function fetchSheet(name) {
  const link = document.createElement("link");
  link.rel = "stylesheet";
  link.href = new URL(`../css/${name}.css`, import.meta.url).href;
  return new Promise((resolve) => {
    link.addEventListener("load", () => resolve());
    link.addEventListener("error", () => {
      fetched.delete(name); // asked for again next time
      link.remove();
      resolve();
    });
    document.head.append(link);
  });
}
