/** What is known of the server, of a session's worker and of each press, and the words for it: no other place decides them. Pure. */

/** What the server said instead of what it was asked for. */
export interface Problem { status: number; code: string; detail: string; title: string; allowed?: string[]; status_now?: string }

/** Why there is no stream: it ended and is opened again; this device has no network; no answer; an answer that is a problem. */
export type Why = "" | "ended" | "offline" | "gone" | "unavailable";
export interface Connection {
  state: "connecting" | "live" | "lost" | "refused";
  why: Why;
  /** Milliseconds, by this device's clock. */
  since: number;
  /** The server's own reason; also of a live connection, while the server turns presses away. */
  problem: Problem | null;
}

export type Heard =
  | { what: "opened" } | { what: "ended" } | { what: "failed"; isOnline: boolean }
  | { what: "unavailable"; problem: Problem } | { what: "refused"; problem: Problem };

export const CONNECTING: Connection = { state: "connecting", why: "", since: 0, problem: null };

/** What is known after something was heard. What was lost stays lost since then, whatever is found out about why. */
export function after(now: Connection, heard: Heard, at: number): Connection {
  const since = now.state === "lost" ? now.since : at;
  switch (heard.what) {
    case "opened": return now.state === "live" ? now : { state: "live", why: "", since: at, problem: null };
    case "ended": return now.state === "lost" ? now : { state: "lost", why: "ended", since, problem: null };
    case "failed": return { state: "lost", why: heard.isOnline ? "gone" : "offline", since, problem: null };
    case "unavailable": return { state: "lost", why: "unavailable", since, problem: heard.problem };
    case "refused": return { state: "refused", why: "", since: at, problem: heard.problem };
  }
}

/** A press: sent once, kept while nothing was decided about it, and sent again with its key until it is answered. */
export interface Press {
  key: string; verb: string; since: number;
  /** What came of the last try: it is on its way; nobody answered; the server answered that it cannot take it now. */
  state: "sending" | "unanswered" | "turned away";
  problem: Problem | null;
  /** A try may have reached the server without an answer. */
  mayHaveArrived: boolean;
}

export type Failure = { what: "unanswered"; isOnline: boolean } | { what: "turned away"; problem: Problem };

export function tried(press: Press, failure: Failure): Press {
  if (failure.what === "turned away") return { ...press, state: "turned away", problem: failure.problem, mayHaveArrived: true };
  return { ...press, state: "unanswered", problem: null, mayHaveArrived: press.mayHaveArrived || failure.isOnline };
}

/** A live connection to a server that turns presses away says so, with the reason. */
export function withTrouble(connection: Connection, presses: readonly Press[]): Connection {
  const turned = presses.find((press) => press.state === "turned away");
  return turned && connection.state === "live" ? { ...connection, since: turned.since, problem: turned.problem } : connection;
}

const PROBLEMS: Record<string, string> = {
  store_unavailable: "Store not available", store_busy: "Store busy", store_full: "Store full", draining: "Server restarts", too_many_requests: "Too many requests", too_many_streams: "Too many streams",
};

/** The word of the top bar. */
export function connectionWord({ state, why, problem }: Connection): string {
  if (problem && state !== "refused") return PROBLEMS[problem.code] ?? "Server not available";
  if (state === "live") return "Live";
  if (state === "connecting") return "Connecting";
  if (state === "refused") return "Not connected";
  return { "": "Not connected", ended: "Reconnecting", offline: "Offline", gone: "Server does not answer", unavailable: "Server not available" }[why];
}

/** The same as a sentence, for what is lost. */
export function connectionWords({ why, problem }: Connection, since: string): string {
  switch (why) {
    case "offline": return `This device has been offline since ${since}.`;
    case "gone": return `The server has not answered since ${since}.`;
    case "unavailable": return `The server answers, but has not been available since ${since}: ${reason(problem)}`;
    default: return `The connection was lost at ${since}. Reconnecting.`;
  }
}

const VERBS: Record<string, string> = { event: "event", budget: "raised cap", intervene: "policy's decision", fork: "fork", edit: "change of a message", withdraw: "withdrawal of a message" };
/** A command as a thing: "pause", "raised cap". */
export function commandName(verb: string): string { return VERBS[verb] ?? verb; }

/** What is known of a press, in a sentence. */
export function pressWords(press: Press, connection: Connection): string {
  const name = capital(commandName(press.verb));
  if (press.state === "turned away") return `${name} not stored yet: ${reason(press.problem)} It is retried, and counts once.`;
  if (press.state === "unanswered" && !press.mayHaveArrived) {
    return connection.why === "offline" ? `${name} not sent yet: this device is offline. It is kept, and sent when the device is online again.` : `${name} not sent yet: there is no connection. It is kept, and sent when the connection is back.`;
  }
  if (press.state === "unanswered") return `${name} sent, and no reply came: whether it arrived is not known. It is retried, and counts once.`;
  return `${name} sent. The server has not answered yet.`;
}

/** The same in a lamp. */
export function pressLamp(press: Press): string {
  const name = capital(commandName(press.verb));
  if (press.state === "turned away") return `${name} not stored`;
  return press.mayHaveArrived ? `${name} not answered` : `${name} not sent`;
}

/** The same in a slot's second line. */
export function pressSlot(press: Press): [long: string, short: string] {
  if (press.state === "turned away") return ["not stored yet; retried", "not stored"];
  if (press.state === "unanswered") return ["kept; sent when connected", "kept"];
  return ["asking the server", "asking"];
}

/** What is said of a press that is not sent again. */
export function droppedWords(press: Press): string {
  const name = capital(commandName(press.verb));
  return press.mayHaveArrived ? `${name} is not sent again. It may have arrived before: the log shows whether it did.` : `${name} was not sent.`;
}

/** Why nothing came of a request: in the server's words, if it gave any. A change that was not answered may have arrived. */
export function failureWords(problem: Problem | null, isChange: boolean, isOnline: boolean): string {
  if (problem) return isChange ? `Not done: ${reason(problem)}` : capital(reason(problem));
  if (!isOnline) return isChange ? "Not sent: this device is offline." : "This device is offline.";
  return isChange ? "No reply came: whether it arrived is not known." : "The server does not answer.";
}

/** A command that is stored and not decided. */
export interface PendingCommand { command: string; by: string; at: number }
/** What the server knows of a session's worker, and the journal cannot tell. */
export interface Contact { pending: PendingCommand[]; unreachable_since: number | null; silent_since: number | null; unattended: boolean; unwritten: boolean }
export const ANSWERS: Contact = { pending: [], unreachable_since: null, silent_since: null, unattended: false, unwritten: false };

/** "Pause and cancel stored", in the order in which they are carried out. */
export function storedName(pending: readonly { command: string }[]): string {
  const names = pending.map((one) => commandName(one.command)).filter((name, place, all) => name !== all[place - 1]);
  return `${capital([names.slice(0, -1).join(", "), names.at(-1) ?? ""].filter(Boolean).join(" and "))} stored`;
}

/** Whether a stored command is what its worker will come to: of a pause and a resume the later one. */
export function isStored(pending: readonly { command: string }[], verb: string): boolean {
  const opposed = ["pause", "resume"];
  const last = pending.filter((one) => (opposed.includes(verb) ? opposed : [verb]).includes(one.command)).at(-1);
  return last?.command === verb;
}

/** The same on one line of a list. */
export function storedLine(pending: readonly { command: string }[], since: string | null): string {
  return since === null ? storedName(pending) : `${storedName(pending)}, no answer since ${since}`;
}

/** Since when the worker has not answered, as a clause. */
export function silentWords(since: string): string { return `Its worker has not answered since ${since}`; }

/** What a preview may say of the gate: what the journal or an answer says, and never more. */
export function holdWords(gate: "shut" | "asked" | "free", press: Press | undefined, connection: Connection, contact: Contact, time: (at: number) => string): string {
  if (gate === "free") return "It keeps running: it was not held.";
  if (gate === "shut") return "The gate is shut. Nothing new starts.";
  if (contact.unwritten) return "The gate is shut and nothing new starts, but that could not be stored yet.";
  if (press) return `Not held yet. ${pressWords(press, connection)}`;
  if (contact.unreachable_since !== null) return `Not known to be held: the command is stored. ${silentWords(time(contact.unreachable_since))}.`;
  return "Not held yet: the command is stored, and its worker has not decided it.";
}

/** The server's reason for people: without what repeats the press, and what a program would do next. */
function reason(problem: Problem | null): string {
  const detail = problem?.detail.replace(/^Cannot [^']+'[^']*': /, "").replace(/ Send it again with the same id .*$/s, "") ?? "";
  return sentence(detail || "it gives no reason");
}
function capital(text: string): string { return text.charAt(0).toUpperCase() + text.slice(1); }
function sentence(text: string): string { return !text || /[.!?…]$/.test(text) ? text : `${text}.`; }
