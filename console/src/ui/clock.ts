/** One clock for the page: what counts seconds reads `second`, and is drawn again when it changes. */

import { signal } from "@preact/signals";

export const second = signal(Math.floor(Date.now() / 1000));
setInterval(() => { second.value = Math.floor(Date.now() / 1000); }, 250);
