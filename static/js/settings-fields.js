/** Reading and filling the fields of the settings sheet; values out of range are refused beside them. */

/** @param {HTMLFormElement} form @param {import("./protocol.js").Opening} opening */
export function fill(form, { system_prompt: systemPrompt, params, thinking }) {
  form.querySelector("#system-prompt").value = systemPrompt;
  for (const input of form.querySelectorAll(".param")) input.value = params[input.name] ?? "";
  form.querySelector("#param-stop").value = (params.stop ?? []).join("\n");
  const choice = form.querySelector("#thinking");
  if (choice) choice.value = thinking === null || thinking === undefined ? "" : String(thinking);
}

/**
 * What the fields say; null where a value is refused: the first such field is then focused.
 * @param {HTMLFormElement} form @returns {?import("./protocol.js").Opening}
 */
export function read(form) {
  const params = readParams(form);
  if (!params) return null;
  const choice = form.querySelector("#thinking")?.value ?? "";
  return { system_prompt: form.querySelector("#system-prompt").value, params, thinking: choice === "" ? null : choice === "true" };
}

/** The params alone, as `read` gives them. @param {HTMLFormElement} form @returns {?Record<string, number | string[]>} */
export function readParams(form) {
  const params = {};
  let refused = null;
  for (const input of form.querySelectorAll(".param")) {
    const value = numberIn(input);
    if (Number.isNaN(value)) refused ??= input;
    else if (value !== null) params[input.name] = value;
    show(input, Number.isNaN(value));
  }
  const stop = form.querySelector("#param-stop");
  const texts = stop.value.split("\n").filter(Boolean);
  const tooMuch = texts.length > Number(stop.dataset.most) || texts.some((text) => [...text].length > Number(stop.dataset.longest));
  if (tooMuch) refused ??= stop;
  show(stop, tooMuch);
  if (texts.length) params.stop = texts;
  refused?.focus();
  return refused ? null : params;
}

/** Judges a field as soon as it is left. @param {HTMLElement} input */
export function judge(input) {
  if (input.matches(".param")) show(input, Number.isNaN(numberIn(input)));
}

/** @param {HTMLFormElement} form @param {string} name @param {string} sentence from the server */
export function refuse(form, name, sentence) {
  const field = form.querySelector(`[data-field="${CSS.escape(name)}"]`);
  if (!field) return false;
  const input = field.querySelector("input, textarea");
  show(input, true, sentence);
  input.focus();
  return true;
}

/** The number in a field, null when it is empty, NaN when it is none that is allowed. @param {HTMLInputElement} input */
function numberIn(input) {
  const text = input.value.trim().replace(",", ".");
  if (!text) return null;
  const value = Number(text);
  const { lowest, highest } = input.dataset;
  const inside = value >= Number(lowest) && value <= Number(highest) && !("open" in input.dataset && value === Number(lowest));
  return inside && (!("whole" in input.dataset) || Number.isInteger(value)) ? value : NaN;
}

/** @param {HTMLElement} input @param {boolean} refused */
function show(input, refused, sentence = "") {
  const field = input.closest(".field");
  const place = field.querySelector(".field-error");
  input.setAttribute("aria-invalid", String(refused));
  place.hidden = !refused;
  place.textContent = refused ? sentence || field.querySelector(".allowed").textContent : "";
}
