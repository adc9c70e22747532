/** The task classes of a policy: whether it interrupts them by itself, how, and what is aimed at. */

import type { JSX } from "preact";
import { Sheet } from "../../ui/Sheet";
import type { Range } from "../report/types";
import { target } from "../report/words";
import type { Settings } from "./types";

const STRATEGIES: Record<string, (rule: Settings) => string> = {
  finish: () => "finish",
  interrupt: () => "may be interrupted",
  checkpoint: (rule) => `checkpoint every ${Number(rule["checkpoint_calls"] ?? rule["checkpoint_tokens"]).toLocaleString("en")} ${rule["checkpoint_calls"] ? "calls" : "tokens"}`,
  incremental: (rule) => `segments of ${Number(rule["segment_tokens"]).toLocaleString("en")} tokens`,
  protect: () => "a stop waits for the end",
};

export function Classes({ document }: { document: Settings }): JSX.Element {
  const classes = Object.entries((document["classes"] ?? {}) as Record<string, Settings>);
  return (
    <section aria-labelledby="classes"><h2 id="classes">Classes</h2>
      <Sheet name="Classes">
        <thead><tr><th scope="col">Class</th><th scope="col">Interrupts by itself</th><th scope="col">Strategy</th><th scope="col" class="r">Interrupted, target</th><th scope="col" class="r">Completed, target</th></tr></thead>
        <tbody>{classes.map(([name, rule]) => (
          <tr key={name}><th scope="row">{name.replace("_", " ")}</th><td>{String(rule["automatic"])}</td><td>{STRATEGIES[String(rule["strategy"])]?.(rule) ?? String(rule["strategy"])}</td><td class="r">{range(rule["interruption_rate"])}</td><td class="r">{range(rule["completion_rate"])}</td></tr>
        ))}</tbody>
      </Sheet>
    </section>
  );
}

function range(given: unknown): string { return Array.isArray(given) ? target(given as unknown as Range) : "–"; }
