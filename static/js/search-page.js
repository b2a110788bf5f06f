import { onEnter } from "./ime.js";

/** The page of all results: Enter searches once, also while a syllable is being composed. */

const form = document.getElementById("search-form");
onEnter(form.querySelector("#q"), () => form.requestSubmit());
