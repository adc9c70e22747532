/** At the end of a run: how content somebody is with it, in one tap. Another tap says it otherwise. */

import type { JSX } from "preact";
import type { Live } from "../../api/live";
import { useTelling } from "../telling";

const SCORES = [1, 2, 3, 4, 5];

export function Rating({ live, score }: { live: Live; score: number | null }): JSX.Element {
  const { words, tell } = useTelling();
  return (
    <div class="judge rating" role="group" aria-label="How satisfied are you with this run?">
      <span role="status">{words || (score === null ? "How satisfied are you with this run?" : `Rated ${score} of 5.`)}</span>
      <span class="chips">{SCORES.map((one) => <button key={one} class="btn small num" type="button" aria-pressed={one === score} aria-label={`${one} of 5`} onClick={() => tell(live.rate(one))}>{one}</button>)}</span>
      <span class="dim">1 not at all · 5 fully</span>
    </div>
  );
}
