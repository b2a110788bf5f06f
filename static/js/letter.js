/** The page of a conversation as a letter. */

document.getElementById("print").addEventListener("click", () => print());
