import { longDate } from "./language.js";

/** The quiet parts around the chat: the sheet on phones, the small menus, the theme, the date of a printed letter. */

export function startChrome() {
  const sidebar = startSheet();
  startMenus();
  startThemes();
  startKeyboard();
  addEventListener("beforeprint", () => {
    document.getElementById("letter-date").textContent = longDate(new Date());
  });
  return sidebar;
}

function startSheet() {
  const opener = document.querySelector('[data-action="open-sidebar"]');
  const sidebar = document.getElementById("sidebar");
  const chat = document.getElementById("chat");
  const show = (open) => {
    document.body.classList.toggle("sidebar-open", open);
    opener.setAttribute("aria-expanded", String(open));
    chat.inert = open;
    if (open) sidebar.querySelector("a").focus();
    else opener.focus();
  };
  const isOpen = () => document.body.classList.contains("sidebar-open");
  const narrow = matchMedia("(max-width: 720px)");
  const hide = (hidden) => {
    document.body.classList.toggle("sidebar-hidden", hidden);
    opener.setAttribute("aria-expanded", String(!hidden));
  };
  opener.addEventListener("click", () => (narrow.matches ? show(true) : hide(false)));
  for (const closer of document.querySelectorAll('[data-action="close-sidebar"]')) {
    closer.addEventListener("click", () => show(false));
  }
  addEventListener("keydown", (event) => event.key === "Escape" && isOpen() && !sidebar.querySelector(".menu[open]") && show(false));
  narrow.addEventListener("change", () => isOpen() && show(false));
  return {
    toggleSidebar: () => (narrow.matches ? show(!isOpen()) : hide(!document.body.classList.contains("sidebar-hidden"))),
    focusList() {
      if (narrow.matches) show(true);
      else hide(false);
      (sidebar.querySelector("[type=search]") ?? sidebar.querySelector("[aria-current], .row-link") ?? sidebar.querySelector("a")).focus();
    },
  };
}

/** Where the on-screen keyboard covers the page instead of shortening it (Safari), the page is shortened here. */
function startKeyboard() {
  visualViewport?.addEventListener("resize", () => {
    const covered = visualViewport.scale === 1 && innerHeight - visualViewport.height > 120;
    document.documentElement.style.setProperty("--visible-height", covered ? `${visualViewport.height}px` : "100dvh");
    if (covered) scrollTo(0, 0);
  });
}

function startMenus() {
  const others = (inside) => [...document.querySelectorAll(".menu[open]")].filter((menu) => !menu.contains(inside));
  addEventListener("click", ({ target }) => others(target).forEach((menu) => (menu.open = false)));
  addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const menu of others(null)) {
      menu.open = false;
      if (menu.contains(document.activeElement)) menu.querySelector("summary").focus();
    }
  });
}

function startThemes() {
  const buttons = document.querySelectorAll(".themes button");
  const mark = () => {
    for (const button of buttons) {
      button.setAttribute("aria-pressed", String(button.dataset.themeChoice === document.documentElement.dataset.themeChoice));
    }
  };
  for (const button of buttons) {
    button.addEventListener("click", () => {
      const choice = button.dataset.themeChoice;
      try {
        localStorage.setItem("ondol.theme", choice);
      } catch {
        // Storage is off: the choice lasts as long as the page.
      }
      document.dispatchEvent(new CustomEvent("ondol-theme", { detail: choice }));
      mark();
    });
  }
  mark();
}
