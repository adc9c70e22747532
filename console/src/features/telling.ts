/** Says something to the server beside the controls, once: what comes of it is in the journal, a refusal in words. */

import { useState } from "preact/hooks";

export function useTelling(): { words: string; tell: (sent: Promise<unknown>) => void } {
  const [words, say] = useState("");
  const tell = (sent: Promise<unknown>): void => {
    sent.then(() => say(""), (error: Error) => say(error.message));
  };
  return { words, tell };
}
