/** One request to the server: JSON in and out, problems as errors that can be shown, every change with its key. */

import { signal, type Signal } from "@preact/signals";
import { after, type Connection, failureWords, type Heard, type Press } from "../model/contact";
import { pageKey } from "./pageKey";
import type { Problem } from "./types";

// What comes of a request that failed is one of these three, and its `message` says so to people: pages show that, and make no words of their own.

/** The server answered, and said no. */
export class Refusal extends Error {
  constructor(readonly problem: Problem) { super(problem.detail); }
  get code(): string { return this.problem.code; }
}
/** Nobody answered: the request may or may not have arrived, and is safe to send again with the same key. */
export class Unreachable extends Error {}
/** The server answered that it cannot take this now, and why: safe to send again with the same key. */
export class TurnedAway extends Unreachable {
  constructor(readonly problem: Problem, isChange: boolean) { super(failureWords(problem, isChange, true)); }
}

/** What a request that failed says of the connection. */
export function heardOf(error: Error): Heard {
  if (error instanceof Refusal) return { what: "refused", problem: error.problem };
  if (error instanceof TurnedAway) return { what: "unavailable", problem: error.problem };
  return { what: "failed", isOnline: navigator.onLine };
}

export interface Options { key?: string; etag?: string; signal?: AbortSignal; accept?: string }

export function freshKey(): string {
  // randomUUID is only there on https and localhost.
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** An answer without a problem document: of a proxy whose server is away. */
export function unnamed(status: number): Problem { return { status, code: "", title: "", detail: `It answered ${status} without a reason.` }; }

/** Seconds that a server's clock is ahead, by the date of an answer: the server may set it at any time from the request to the answer. */
export function aheadBy(said: number, begun: number, ended: number): number {
  const ahead = Math.min(said - begun, Math.max(0, said - ended)) / 1000;
  // The header has whole seconds: less than that is no difference.
  return Math.abs(ahead) > 2 ? ahead : 0;
}

export class Client {
  /** Seconds that the server's clock is ahead of ours. */
  ahead = 0;
  /** Why the server takes nothing from this page any more, once it has said so: its browser session is over. */
  readonly ended: Signal<Problem | null> = signal(null);
  /** What was pressed, and was not sent because of that. */
  readonly unsent: Signal<readonly Press[]> = signal([]);
  /** Who the server says we are; empty: it has not said yet. */
  identity = "";
  /** Since when the server has not been reached, in milliseconds; null: it answered last. */
  private lostSince: number | null = null;

  constructor(readonly base: string, private readonly token = "") {}

  url(path: string): string { return `${this.base}${path}`; }

  headers(more: Record<string, string> = {}): Record<string, string> {
    if (this.token) return { ...more, Authorization: `Bearer ${this.token}` };
    // Another origin is sent neither the cookie nor this.
    const key = new URL(this.base).origin === location.origin ? pageKey(this.base) : "";
    return key ? { ...more, "Midcourse-Page": key } : more;
  }

  /** What the server said no with; a browser session that is over is over for the whole page. */
  refusal(problem: Problem): Refusal {
    if (problem.code === "unauthorized" && !this.token) this.ended.value = problem;
    return new Refusal(problem);
  }

  now(): number { return Date.now() / 1000 + this.ahead; }

  /** What is known of the connection after something was heard. A page that is opened while it is lost says since when it has been. */
  after(now: Connection, heard: Heard): Connection {
    const at = Date.now();
    const next = after(now, heard, heard.what === "opened" || heard.what === "refused" ? at : this.lostSince ?? at);
    this.lostSince = next.state === "lost" ? next.since : null;
    return next;
  }

  get<T>(path: string, options: Options = {}): Promise<T> { return this.send("GET", path, undefined, options); }

  /** A whole list, page by page. `name` is what the server calls its items. */
  async all<T>(path: string, name: string, options: Options = {}): Promise<T[]> {
    const found: T[] = [];
    let cursor: string | null = "";
    while (cursor !== null) {
      const page: Record<string, unknown> = await this.get(`${path}${path.includes("?") ? "&" : "?"}limit=1000${cursor && `&cursor=${cursor}`}`, options);
      found.push(...page[name] as T[]);
      cursor = (page["next"] as string | null | undefined) ?? null;
    }
    return found;
  }

  post<T>(path: string, body: unknown, options: Options = {}): Promise<T> {
    return this.send("POST", path, body, { key: freshKey(), ...options });
  }

  /** A file of the server's, as text. */
  async text(path: string): Promise<string> { return (await this.ask("GET", path, undefined, {})).text(); }

  async send<T>(method: string, path: string, body: unknown, options: Options): Promise<T> {
    const answer = await this.ask(method, path, body, options);
    if (answer.status === 204) return undefined as T;
    return await answer.json().catch((error: Error) => { throw new Unreachable("The response was cut off.", { cause: error }); }) as T;
  }

  async ask(method: string, path: string, body: unknown, options: Options): Promise<Response> {
    // Logging in is all that is left to do here.
    if (this.ended.value && path !== "/login") throw new Refusal(this.ended.value);
    const isChange = method !== "GET";
    const headers = this.headers({ Accept: options.accept ?? "application/json" });
    if (body !== undefined) headers["Content-Type"] = "application/json";
    if (options.key) headers["Idempotency-Key"] = options.key;
    if (options.etag) headers["If-Match"] = options.etag;
    const init: RequestInit = { method, headers, credentials: "same-origin", cache: "no-store" };
    if (body !== undefined) init.body = JSON.stringify(body);
    if (options.signal) init.signal = options.signal;
    const begun = Date.now();
    const isOnline = navigator.onLine;
    let answer: Response;
    try {
      answer = await fetch(this.url(path), init);
    } catch (error) {
      throw new Unreachable(failureWords(null, isChange, isOnline), { cause: error });
    }
    this.compareClocks(answer, begun);
    if (answer.ok) { this.lostSince = null; return answer; }
    // A proxy whose server is away answers without a problem document.
    const problem = (await answer.json().catch(() => null)) as Problem | null;
    if (!problem?.code) throw new TurnedAway(unnamed(answer.status), isChange);
    if (answer.status === 503 || answer.status === 429) throw new TurnedAway(problem, isChange);
    throw this.refusal(problem);
  }

  private compareClocks(answer: Response, begun: number): void {
    const said = Date.parse(answer.headers.get("date") ?? "");
    if (!Number.isNaN(said)) this.ahead = aheadBy(said, begun, Date.now());
  }
}

/** The API beside this page, wherever the server is mounted. */
export function ownClient(): Client { return new Client(new URL("api/v1", document.baseURI).href); }
