import { loadDraft, saveDraft } from "./drafts.js";
import { onEnter } from "./ime.js";
import { msgid, t } from "./language.js";
import { post } from "./opening.js";
import { fetchPart, stylesheet } from "./parts.js";

/** What can be done with a conversation in the list: rename, pin, share, archive, delete with a way back. */

let close = () => {};

/** @param {HTMLElement} button of the row @param {import("./conversation-list.js").ConversationList} list */
export async function openRowMenu(button, list) {
  const wasOpen = button.getAttribute("aria-expanded") === "true";
  close();
  if (wasOpen) return;
  await stylesheet("row-menu");
  const row = list.row(button.closest(".row").dataset.conversationId);
  if (!row) return;
  button = row.querySelector(".row-more"); // the list may have come anew meanwhile
  row.dataset.held = "";
  const menu = document.createElement("div");
  menu.className = "row-menu";
  menu.setAttribute("role", "menu");
  menu.setAttribute("aria-label", row.querySelector(".row-title").textContent);
  const items = actionsOf(row, list).map(([icon, words, act]) => {
    const item = document.createElement("button");
    item.type = "button";
    item.setAttribute("role", "menuitem");
    item.tabIndex = -1;
    item.append(iconLike(button, icon), t(words));
    item.addEventListener("click", () => {
      close(false);
      act(); // before a list that came meanwhile takes the row's place
      list.settle();
    });
    return item;
  });
  menu.append(...items);
  document.getElementById("sidebar").append(menu);
  place(menu, button);
  button.setAttribute("aria-expanded", "true");
  const outside = ({ target }) => !menu.contains(target) && !button.contains(target) && close();
  const resized = () => place(menu, button);
  close = (settle = true) => {
    close = () => {};
    removeEventListener("pointerdown", outside);
    removeEventListener("resize", resized);
    const hadFocus = menu.contains(document.activeElement);
    menu.remove();
    button.setAttribute("aria-expanded", "false");
    if (hadFocus) button.focus();
    delete row.dataset.held;
    if (settle) list.settle();
  };
  addEventListener("pointerdown", outside);
  addEventListener("resize", resized);
  row.parentElement.closest(".conversations").addEventListener("scroll", () => close(), { once: true });
  menu.addEventListener("keydown", (event) => onKey(event, items));
  items[0].focus();
}

function onKey(event, items) {
  const at = items.indexOf(document.activeElement);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 }[event.key];
  if (event.key === "Escape" || event.key === "Tab") {
    event.stopPropagation();
    if (event.key === "Escape") event.preventDefault();
    return close();
  }
  if (to === undefined) return;
  event.preventDefault();
  items.at(to % items.length).focus();
}

/** @returns {[string, string, () => void][]} icon, words, what it does */
function actionsOf(row, list) {
  const pinned = "pinned" in row.dataset;
  const rename = ["pencil", msgid("Rename"), () => openRename(row, list)];
  const gone = ["trash", msgid("Delete"), () => remove(row, list)];
  // On a server that only this machine reaches there is nobody to share with.
  const share = document.querySelector(".sharing") ? [["people", msgid("Share with the house"), () => openSharing(row, list)]] : [];
  if (list.isArchive) return [rename, ["archive", msgid("Back into the list"), () => switchTo(row, list, "archive", false)], gone];
  return [
    rename,
    ["pin", pinned ? msgid("Unpin") : msgid("Pin to the top"), () => switchTo(row, list, "pin", !pinned)],
    ...share,
    ["archive", msgid("Archive"), () => switchTo(row, list, "archive", true)],
    gone,
  ];
}

async function openSharing(row, list) {
  const { openShare } = await fetchPart("./share.js", "sheet", "share");
  openShare({ id: row.dataset.conversationId, title: titleOf(row), shared: row.dataset.shared ?? "" });
}

async function switchTo(row, list, what, on) {
  const title = titleOf(row);
  const done = await change(row, what, { on });
  if (!done || what === "pin") return;
  const words = on ? t("Archived: {title}", { title }) : t("Back in the list: {title}", { title });
  showToast(list.toast, words, () => change(row, what, { on: !on }));
}

async function remove(row, list) {
  const id = row.dataset.conversationId;
  const gone = { id, title: titleOf(row), draft: loadDraft(id), open: id === list.currentId() };
  if (!(await change(row, "delete", {}))) return;
  saveDraft(id, "");
  if (gone.open) {
    history.pushState({ deleted: gone }, "", "/"); // the page that comes offers the way back
    return location.reload();
  }
  offer(gone, list.toast);
}

/** On a phone the list lies over the place of toasts. */
function showToast(toast, words, undo) {
  document.querySelector('.sidebar-open .scrim[data-action="close-sidebar"]')?.click();
  toast.show(words, undo);
}

/** After the page of a deleted conversation was left. @param {import("./toast.js").Toast} toast */
export function offerUndo(toast) {
  offer(history.state.deleted, toast);
  history.replaceState(null, "");
}

/** The conversation of this page was deleted, or brought back, here or on another device. */
export function wasDeleted({ conversation_id: id, deleted }, { toast, composer }) {
  if (!deleted) return location.reload();
  const words = t("This conversation was deleted.");
  composer.say(words);
  const isOwn = !document.getElementById("app").dataset.right;
  toast.show(words, isOwn ? () => post(address(id, "restore"), {}).then(({ ok, error }) => ok || toast.show(error)) : null);
}

function offer(gone, toast) {
  showToast(toast, t("Deleted: {title}", { title: gone.title }), async () => {
    const back = await post(address(gone.id, "restore"), {});
    if (!back.ok) return toast.show(back.error);
    saveDraft(gone.id, gone.draft);
    if (gone.open) location.assign(`/c/${encodeURIComponent(gone.id)}`);
  });
}

function openRename(row, list) {
  const link = row.querySelector("a");
  const title = row.querySelector(".row-title");
  const button = row.querySelector("button");
  const form = document.createElement("form");
  const field = document.createElement("input");
  form.className = "rename";
  Object.assign(field, { className: "rename-field", name: "title", maxLength: 200, autocomplete: "off" });
  field.setAttribute("aria-label", t("New name"));
  form.append(field);
  let open = true;
  const finish = async (save) => {
    if (!open) return;
    open = false;
    const name = field.value.trim();
    form.remove();
    link.hidden = button.hidden = false;
    if (save && name && name !== title.textContent) {
      const old = title.textContent;
      title.textContent = name;
      if (!(await change(row, "rename", { title: name }))) title.textContent = old;
      list.markCurrent();
    }
    delete row.dataset.held;
    list.settle();
  };
  row.dataset.held = "";
  link.hidden = button.hidden = true;
  row.prepend(form);
  field.value = title.textContent;
  field.select();
  form.addEventListener("submit", (event) => event.preventDefault());
  onEnter(field, () => finish(true).then(() => list.row(row.dataset.conversationId)?.querySelector("a").focus()));
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.isComposing) return;
    event.stopPropagation();
    finish(false);
    link.focus();
  });
  field.addEventListener("blur", () => finish(true));
}

/** Posts a change of a row's conversation, and says under the row where it failed. */
async function change(row, action, body) {
  row.querySelector(".row-failed")?.remove();
  const answer = await post(address(row.dataset.conversationId, action), body);
  if (answer.ok) return true;
  const id = CSS.escape(row.dataset.conversationId);
  const shown = row.isConnected ? row : document.querySelector(`#conversations .row[data-conversation-id="${id}"]`);
  const failed = document.createElement("p");
  failed.className = "row-failed";
  failed.setAttribute("role", "alert");
  failed.textContent = answer.error;
  shown?.append(failed);
  return false;
}

function place(menu, button) {
  const { top, bottom, right } = button.getBoundingClientRect();
  const below = bottom + menu.offsetHeight + 8 < innerHeight;
  menu.style.top = `${below ? bottom + 2 : Math.max(8, top - menu.offsetHeight - 2)}px`;
  menu.style.left = `${Math.max(8, right - menu.offsetWidth)}px`;
}

function iconLike(button, name) {
  const icon = button.querySelector("svg").cloneNode(true);
  const use = icon.querySelector("use");
  use.setAttribute("href", `${use.getAttribute("href").split("#")[0]}#${name}`);
  return icon;
}

const titleOf = (row) => row.querySelector(".row-title").textContent;
const address = (id, action) => `/api/conversations/${encodeURIComponent(id)}/${action}`;
