/** Numbers and times as they are read: tabular, in the reader's zone, never rounded into a promise. */

const two = (number: number): string => String(Math.floor(number)).padStart(2, "0");

/** 06:41, or 1:12:09. */
export function clock(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  const rest = `${two((whole / 60) % 60)}:${two(whole % 60)}`;
  return whole >= 3600 ? `${Math.floor(whole / 3600)}:${rest}` : rest;
}

/** 0.2 s, 12.6 s, 04:12. */
export function duration(seconds: number): string {
  if (seconds < 0.05) return "< 0.1 s";
  return seconds < 60 ? `${seconds.toFixed(1)} s` : clock(seconds);
}

/** 14:07:03 in the reader's zone; with the day if it was another one. */
export function timeOfDay(at: number, now: number = Date.now() / 1000): string {
  const date = new Date(at * 1000);
  const time = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  const isToday = date.toDateString() === new Date(now * 1000).toDateString();
  return isToday ? time : `${date.toLocaleDateString(undefined, { day: "numeric", month: "short" })} ${time}`;
}

/** The whole of it, for a title. */
export function fullTime(at: number): string {
  return new Date(at * 1000).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "long" });
}

/** $1,203.18; $0.002 where cents would show nothing: as the server writes it (`core/budget.py`). */
export function money(dollars: number): string {
  if (dollars === 0 || dollars >= 0.01) return `$${dollars.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
  return dollars >= 1e-4 ? `$${Number(dollars.toPrecision(2))}` : `$${dollars.toExponential(1).replace(/e-(\d)$/, "e-0$1")}`;
}

/** What was spent, as far as anybody knows: "$3.18", "≥ $3.18", "price unknown"; "≈ $3.18" with an answer that is still being written. */
export function spent({ cost, unpriced, estimated = false }: Spent): string {
  if (unpriced === 0) return `${estimated ? "≈ " : ""}${money(cost)}`;
  return cost > 0 ? `≥ ${money(cost)}` : "price unknown";
}

export interface Spent { cost: number; unpriced: number; estimated?: boolean }

/** Why that is not the whole of it; empty if it is. */
export function unpricedWords({ unpriced, estimated = false }: Omit<Spent, "cost">): string {
  return [estimated && "an estimate: an answer is still being written", unpriced > 0 && `${count(unpriced, "model call has", "model calls have")} no known price`].filter(Boolean).join("; ");
}

/** What "worked" means, wherever it is read. */
export const WORKED = "time it worked: waiting, paused and halted time is not counted";

/** A cap: without cents if it has none. */
export function cap(dollars: number): string { return Number.isInteger(dollars) ? `$${dollars}` : money(dollars); }

export function count(number: number, one: string, many = `${one}s`): string {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}

/** "12 seconds", for those who listen. */
export function spoken(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return count(whole, "second");
  return count(Math.round(whole / 60), "minute");
}

export function who(by: string, me: string): string {
  if (by === "" || by === me) return "you";
  if (by === "deadline" || by === "budget") return `its ${by}`;
  if (by.startsWith("session:")) return `session ${by.slice(8)}`;
  if (by.startsWith("policy:")) return `policy ${version(by.slice(7))}`;
  if (by.startsWith("agent:")) return "the agent";
  return by;
}

/** standard v7, of "standard@7". */
export function version(name: string): string { return name.replace(/@(?=\d+$)/, " v"); }

export function capitalised(text: string): string { return text.charAt(0).toUpperCase() + text.slice(1); }

/** A call's arguments on one line: to="finance", rows=[… 36]. They come redacted from the server. */
export function argumentsOf(json: string, longest = 160): string {
  let given: unknown;
  try { given = JSON.parse(json); } catch { return shorten(json, longest); }
  if (given === null || typeof given !== "object") return shorten(json, longest);
  const parts = Array.isArray(given) ? given.map(brief) : Object.entries(given).map(([name, value]) => `${name}=${brief(value)}`);
  return shorten(parts.join(", "), longest);
}

/** The same whole, line by line, if one line leaves something out; else nothing. */
export function wholeOf(json: string, longest = 160): string {
  let given: unknown;
  try { given = JSON.parse(json); } catch { return json.length > longest ? visible(json) : ""; }
  const isShort = given === null || typeof given !== "object" || Object.values(given).every((value) => brief(value) === JSON.stringify(value));
  return isShort && json.length <= longest ? "" : visible(JSON.stringify(given, null, 1));
}

function brief(value: unknown): string {
  if (Array.isArray(value) && value.length > 4) return `[${value.length} items]`;
  if (value && typeof value === "object" && !Array.isArray(value) && Object.keys(value).length > 4) return `{${Object.keys(value).length} fields}`;
  return JSON.stringify(value) ?? "";
}

export function shorten(text: string, longest: number): string {
  return visible(text.length <= longest ? text : `${text.slice(0, longest - 1)}…`);
}

/** Signs that turn the direction of writing are shown, not obeyed: “gnp.exe” must not read “exe.png”. */
export function visible(text: string): string {
  return text.replaceAll(/[\u202a-\u202e\u2066-\u2069]/g, (sign) => `‹U+${sign.charCodeAt(0).toString(16).toUpperCase()}›`);
}

/** A value as a person reads it: text as it is, the rest as JSON. */
export function readable(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2) ?? "";
}
