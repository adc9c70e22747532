/** Whether a text is a policy, asked as it is typed: the last answer is about the last text. */

import { type Client, Refusal } from "../../api/client";
import { connectionWords } from "../../model/contact";
import { timeOfDay } from "../../ui/format";
import { useReading } from "../reading";
import type { Check, Mistake } from "./types";

const QUIET = 300;

export interface Checked { check: Check | null; mistakes: Mistake[]; isChecking: boolean; /** Why it cannot be checked now. */ trouble: string }
interface Told { text: string; check: Check | null; mistakes: Mistake[] }

export function useCheck(client: Client, text: string | null, against: string | null): Checked {
  const { found, connection } = useReading(client, async (signal): Promise<Told | null> => {
    if (text === null) return null;
    await new Promise((resolve) => setTimeout(resolve, QUIET));
    const body = against === null ? { document: text || " " } : { document: text || " ", against };
    try {
      return { text, check: await client.post<Check>("/policies/check", body, { signal }), mistakes: [] };
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      return { text, check: null, mistakes: mistakesOf(error) };
    }
  }, [client, text, against]);
  const isFresh = found !== null && found.text === text;
  const trouble = connection.state === "lost" ? connectionWords(connection, timeOfDay(connection.since / 1000)) : "";
  return { check: isFresh ? found.check : null, mistakes: text === null ? [] : found?.mistakes ?? [], isChecking: text !== null && !isFresh, trouble };
}

function mistakesOf(refusal: Refusal): Mistake[] {
  const { mistakes } = refusal.problem as { mistakes?: Mistake[] };
  return mistakes?.length ? mistakes : [{ line: 0, field: "", sentence: refusal.message }];
}
