/** A trial or a calibration, as it goes: one at a time, ended when the page is left. */

import { useEffect, useRef, useState } from "preact/hooks";
import { type Client, Refusal } from "../../api/client";
import { type Progress, progressWords, working } from "../../api/working";

export interface Trying<T> { found: T | null; words: string; isGoing: boolean; problem: { code: string; detail: string } | null; start: (body: object) => void; stop: () => void; forget: () => void }

export function useTrying<T>(client: Client, path: string): Trying<T> {
  const [found, keep] = useState<T | null>(null);
  const [progress, tell] = useState<Progress | null>(null);
  const [problem, complain] = useState<Trying<T>["problem"]>(null);
  const current = useRef<AbortController | null>(null);
  const stop = (): void => { current.current?.abort(); current.current = null; tell(null); };
  const start = (body: object): void => {
    stop();
    const mine = new AbortController();
    current.current = mine;
    complain(null);
    tell({ phase: "reading", done: 0, of: null });
    working<T>(client, path, body, (now) => { if (!mine.signal.aborted) tell(now); }, mine.signal).then(
      (result) => { if (!mine.signal.aborted) { keep(result); tell(null); } },
      (error: Error) => {
        if (mine.signal.aborted) return;
        tell(null);
        complain({ code: error instanceof Refusal ? error.code : "", detail: error.message });
      },
    );
  };
  useEffect(() => stop, []);
  return { found, words: progress ? progressWords(progress) : "", isGoing: progress !== null, problem, start, stop, forget: () => { stop(); keep(null); complain(null); } };
}
