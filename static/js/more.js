import { startLanguages } from "./language.js";

/** What every page beside the chats needs. */
startLanguages();
