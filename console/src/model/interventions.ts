/** What a policy decided, in words and in figures: the same as core/policy/decisions.py. Pure. */

import type { Decision, Reason } from "./events";

/** Why, in words: the gravest reason first. What two of them have to add is said once. */
export function sentenceOf(decision: Decision): string {
  if (decision.words) return decision.words;
  return decision.reasons.reduce((said, { sentence }) => {
    const end = sentence.indexOf(". ");
    const told = end >= 0 && said.includes(sentence.slice(end + 2)) ? sentence.slice(0, end + 1) : sentence;
    return said ? `${said} ${told}` : told;
  }, "");
}

/** How that came about, part by part; what was not seen is told beside it. */
export function figuresOf(decision: Decision): string[] {
  const worth = decision.worth ? [decision.worth.sentence] : [];
  return [...decision.reasons.map(figure), ...worth, ...decision.held.map((rule) => `held: ${rule}`)];
}

/** Such as `scope_drift (no encoder is installed)`. */
export function unseenOf(decision: Decision): string[] {
  return decision.unseen.map(({ signal, why }) => `${signal} (${why})`);
}

/** Whether the agent was disturbed, or people were only told. */
export function interrupts(decision: Decision): boolean {
  return decision.level !== "none" && decision.level !== "notify";
}

/** Whether an ask at this step came with a policy's pause: who answers it decides whether the agent goes on. */
export function isReview(step: string): boolean {
  return step.slice(step.indexOf("/") + 1).startsWith("review#");
}

function figure({ signal, value, threshold, below }: Reason): string {
  return `${signal} ${general(value)} ${below ? "≤" : "≥"} ${general(threshold)}`;
}

/** A number with four digits, as Python's `:.4g` writes it. */
export function general(number: number): string {
  const trimmed = (digits: string): string => (digits.includes(".") ? digits.replace(/\.?0+$/, "") : digits);
  const [digits = "", exponent = "0"] = number.toExponential(3).split("e");
  const power = Number(exponent);
  if (power >= -4 && power < 4) return trimmed(number.toFixed(3 - power));
  return `${trimmed(digits)}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
}
