/** What an ask is about: the call that waits, or what the question itself says of one that has not begun. Pure. */

import type { Effect } from "../../model/events";
import type { StepEntry } from "../../model/story";
import { argumentsOf, shorten } from "../../ui/format";

export interface Wanted { title: string; name: string; effect: Effect | null; arguments: string; why: string }

export const NEED_APPROVAL = "need_approval";

/** An approval's question has a fixed form: runtime/approving.py writes it. */
const APPROVAL = /^Allow '(.+?)' \((.+?)\) with (.+)\? It (.+)\.$/s;

export function wantedBy(prompt: string): Wanted | null {
  const found = APPROVAL.exec(prompt);
  if (!found) return null;
  const [, , tool = "", given = "", why = ""] = found;
  return { title: `Allow ${tool}?`, name: tool, effect: null, arguments: given, why: `It ${why}.` };
}

/** Its title, also of a question that a list has cut. */
export function titleOf(prompt: string): string {
  const tool = /^Allow '.+?' \((.+?)\) with /s.exec(prompt)?.[1];
  return tool ? `Allow ${tool}?` : prompt;
}

/** "prod", where the question says that it changes something there. */
export function placeOf(prompt: string): string { return /changes something in (.+?)(?: and |\.$)/.exec(prompt)?.[1] ?? ""; }

export function wanted(prompt: string, call: StepEntry | undefined): Wanted | null {
  if (call) return { title: prompt, name: call.name, effect: call.effect, arguments: call.arguments, why: "" };
  return wantedBy(prompt);
}

/** Who may answer: an approval takes more than a word to an agent. */
export function mayAnswer(role: string, reason: string, isReview: boolean): boolean {
  if (isReview) return role !== "watch";
  return role === "approve" || role === "operate" || (role === "steer" && reason !== NEED_APPROVAL);
}

/** "Delete records: 59 ids", from the call that waits; else from the question itself. Never "Approve". */
export function approving(prompt: string, call: Wanted | null): string {
  if (call) {
    const name = call.name.replaceAll(/[_-]+/g, " ");
    const given = argumentsOf(call.arguments, 48);
    return `${name.charAt(0).toUpperCase()}${name.slice(1)}${given && given !== "{}" ? `: ${given}` : ""}`;
  }
  const wish = /^(?:please )?(?:confirm|approve|allow|may i|shall i|can i|ok to)[:\s]+(.+?)\??$/i.exec(prompt.trim())?.[1];
  const said = wish ?? `Go ahead with “${shorten(prompt, 40)}”`;
  return shorten(`${said.charAt(0).toUpperCase()}${said.slice(1)}`, 60);
}
