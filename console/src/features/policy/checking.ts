/** Whether a text is a policy, asked as it is typed: the last answer is about the last text. */

import { useEffect, useState } from "preact/hooks";
import { type Client, Refusal } from "../../api/client";
import type { Check, Mistake } from "./types";

const QUIET = 300;

export interface Checked { check: Check | null; mistakes: Mistake[]; isChecking: boolean }

export function useCheck(client: Client, text: string | null, against: string | null): Checked {
  const [told, tell] = useState<{ text: string; check: Check | null; mistakes: Mistake[] } | null>(null);
  useEffect(() => {
    if (text === null) return;
    const asking = new AbortController();
    const timer = setTimeout(() => {
      const body = against === null ? { document: text || " " } : { document: text || " ", against };
      client.post<Check>("/policies/check", body, { signal: asking.signal }).then(
        (check) => tell({ text, check, mistakes: [] }),
        (error: Error) => {
          if (asking.signal.aborted) return;
          tell({ text, check: null, mistakes: mistakesOf(error) });
        },
      );
    }, QUIET);
    return () => { clearTimeout(timer); asking.abort(); };
  }, [client, text, against]);
  const isFresh = told !== null && told.text === text;
  return { check: isFresh ? told.check : null, mistakes: text === null ? [] : told?.mistakes ?? [], isChecking: text !== null && !isFresh };
}

function mistakesOf(error: Error): Mistake[] {
  const given = error instanceof Refusal ? (error.problem as { mistakes?: Mistake[] }).mistakes : undefined;
  return given?.length ? given : [{ line: 0, field: "", sentence: error.message }];
}
