/** The signals of a run, read again as its journal grows: seldom enough to cost nothing. */

import { useEffect, useState } from "preact/hooks";
import type { Live } from "../../api/live";
import type { Gauges } from "../../api/types";
import { ENDED } from "../../model/status";

const OFTEN = 1_500;
/** Without events only time has passed: that is counted here, and compared now and then. */
const SELDOM = 15_000;

export function useGauges(live: Live): Gauges | null {
  const [gauges, show] = useState<Gauges | null>(null);
  useEffect(() => {
    let timer = 0;
    let due = Infinity;
    let read = 0;
    let known = -1;
    let isOver = false;
    const at = (when: number): void => {
      if (isOver || when >= due) return;
      clearTimeout(timer);
      due = when;
      timer = window.setTimeout(() => void look(), Math.max(0, when - performance.now()));
    };
    const look = async (): Promise<void> => {
      due = Infinity;
      read = performance.now();
      known = live.run.position;
      try {
        const told = await live.client.get<Gauges>(`${live.path}/signals`);
        if (!isOver) show(told);
      } catch { /* The page says that there is no connection. */ }
      const status = live.run.session?.status;
      if (live.run.position > known) at(read + OFTEN);
      else if (status && !ENDED.has(status)) at(read + SELDOM);
    };
    const stop = live.rev.subscribe(() => { if (live.run.position > known) at(read + OFTEN); });
    const caught = live.isCaughtUp.subscribe((isThere) => { if (isThere) at(performance.now()); });
    return () => { isOver = true; clearTimeout(timer); stop(); caught(); };
  }, [live]);
  return gauges;
}
