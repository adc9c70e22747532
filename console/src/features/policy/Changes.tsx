/** How two versions differ, in words: what was, what will be, and whether that steps in earlier. */

import type { JSX } from "preact";
import { count } from "../../ui/format";
import { nameOf, setting } from "./signals";
import type { Change } from "./types";

export function Changes({ changes, than }: { changes: readonly Change[]; than: string }): JSX.Element {
  if (!changes.length) return <p class="sub">It is the same as {than}.</p>;
  return (
    <>
      <p class="sub">{summary(changes, than)}</p>
      <ul class="changes">
        {changes.map((one) => (
          <li key={one.path}>
            <span title={one.path}>{nameOf(one.path)}</span>
            <span class="num"><del>{setting(one.before)}</del> <ins>{setting(one.after)}</ins></span>
            <small>{one.words}</small>
          </li>
        ))}
      </ul>
    </>
  );
}

function summary(changes: readonly Change[], than: string): string {
  const earlier = changes.filter((one) => one.tightens === true).length;
  const gone = changes.filter((one) => one.words.startsWith("no longer")).length;
  const later = changes.filter((one) => one.tightens === false).length - gone;
  const parts = [earlier && `${earlier} to step in earlier`, later && `${later} to step in later`, gone && `${gone} taken away`].filter(Boolean).join(", ");
  return `${count(changes.length, "parameter differs", "parameters differ")} from ${than}${parts ? `: ${parts}` : ", none about when it steps in"}.`;
}
