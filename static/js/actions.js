/**
 * The buttons under messages, copying aside.
 *
 * @param {HTMLElement} root the transcript
 * @param {{edit: (message: HTMLElement) => void, act: (type: string, message: HTMLElement, id: string) => void}} handlers
 *   `id` is the message that the command is about
 */
export function listenForActions(root, { edit, act }) {
  const commands = { regenerate: "regenerate", continue: "continue", "delete-branch": "delete_branch", switch: "switch" };
  root.addEventListener("click", ({ target }) => {
    const button = target.closest("[data-action]");
    const message = button?.closest(".message") ?? button?.closest(".unanswered")?.previousElementSibling;
    if (!message) return;
    const { action, to } = button.dataset;
    if (action === "edit") edit(message);
    else if (action in commands) act(commands[action], message, to || message.dataset.messageId);
  });
}

/** Says below a message what became of what was asked of it. @param {HTMLElement} message @param {string} words */
export function sayBelow(message, words) {
  message.querySelector(".said")?.remove();
  if (!words) return;
  const said = document.createElement("p");
  said.className = "said";
  said.setAttribute("role", "alert");
  said.textContent = words;
  message.append(said);
}
