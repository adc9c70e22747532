/** Server-sent events over fetch: goes on where it was after a loss, and says while it is lost. */

import { type Connection, CONNECTING, type Heard } from "../model/contact";
import { type Client, heardOf, Refusal, TurnedAway, unnamed } from "./client";
import type { Problem } from "./types";

export interface Frame { id: string; event: string; data: string }

/** Cuts a stream into frames; what is left of the last one waits for the next piece. */
export class Frames {
  private rest = "";

  take(piece: string): Frame[] {
    const blocks = (this.rest + piece).replaceAll("\r\n", "\n").split("\n\n");
    this.rest = blocks.pop() ?? "";
    return blocks.map(parse).filter((frame) => frame.data !== "");
  }
}

function parse(block: string): Frame {
  const frame: Frame = { id: "", event: "", data: "" };
  const data: string[] = [];
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "data") data.push(value);
    else if (name === "id") frame.id = value;
    else if (name === "event") frame.event = value;
  }
  frame.data = data.join("\n");
  return frame;
}

/** The code of an answer that is no stream: an older server, which must be asked again and again. */
export const NOT_A_STREAM = "not_a_stream";
const FIRST_WAIT = 250;
const LONGEST_WAIT = 8_000;
/** The server says something at least every 15 s; after that and a little the line is dead although nobody told us. */
const SILENT = 20_000;
/** An answer begins within this, or nobody is there. */
const PATIENCE = 8_000;

export interface Listening {
  path: () => string;
  /** The id of the last event seen, to go on from. */
  last: () => string;
  hear: (frames: Frame[]) => void;
  connection: (now: Connection) => void;
}

export interface Listener {
  stop: () => void;
  /** Something else had no answer: see at once whether anybody is still there. */
  doubt: () => void;
}

/** Listen until stopped. */
export function listen(client: Client, to: Listening): Listener {
  let stopped = false;
  let wait = FIRST_WAIT;
  let current = new AbortController();
  let wake: () => void = () => {};
  let state: Connection = { ...CONNECTING, since: Date.now() };
  const tell = (heard: Heard): void => {
    const next = client.after(state, heard);
    if (next.state === state.state && next.why === state.why && next.problem?.code === state.problem?.code) return;
    state = next;
    to.connection(state);
  };
  const isLive = (): boolean => state.state === "live";
  const hurry = (): void => { wait = FIRST_WAIT; wake(); };
  // Without a network a stream that is open says nothing, and does not end: what is known is what a new one finds.
  const doubt = (): void => { current.abort(); hurry(); };
  addEventListener("online", hurry);
  addEventListener("offline", doubt);
  document.addEventListener("visibilitychange", hurry);

  const once = async (): Promise<void> => {
    current = new AbortController();
    const headers = client.headers({ Accept: "text/event-stream" });
    const last = to.last();
    if (last) headers["Last-Event-ID"] = last;
    const impatience = setTimeout(() => current.abort(), PATIENCE);
    const answer = await fetch(client.url(to.path()), { headers, credentials: "same-origin", cache: "no-store", signal: current.signal }).finally(() => clearTimeout(impatience));
    if (!answer.ok || !answer.body) {
      const problem = (await answer.json().catch(() => null)) as Problem | null;
      if (problem?.code && ((answer.status < 500 && answer.status !== 429) || problem.code === "damaged")) throw client.refusal(problem);
      throw new TurnedAway(problem?.code ? problem : unnamed(answer.status), false);
    }
    if (!answer.headers.get("content-type")?.startsWith("text/event-stream")) {
      void answer.body.cancel();
      throw new Refusal({ status: 200, code: NOT_A_STREAM, title: "", detail: "This server does not stream that." });
    }
    tell({ what: "opened" });
    wait = FIRST_WAIT;
    const frames = new Frames();
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let silence = setTimeout(() => current.abort(), SILENT);
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        clearTimeout(silence);
        silence = setTimeout(() => current.abort(), SILENT);
        // Why it ends is no news: the next try says it again.
        const heard = frames.take(value).filter((frame) => frame.event !== "end");
        if (heard.length) to.hear(heard);
      }
    } finally {
      clearTimeout(silence);
    }
  };

  const forever = async (): Promise<void> => {
    while (!stopped) {
      let wasLive = false;
      try {
        await once();
        wasLive = isLive();
        tell({ what: "ended" });
      } catch (error) {
        wasLive = isLive();
        if (stopped) return;
        // A stream that breaks says nothing of why: the next try does.
        tell(wasLive ? { what: "ended" } : heardOf(error as Error));
        if (error instanceof Refusal) return;
      }
      if (stopped) return;
      // What was live a moment ago is looked for at once, before anybody is told more.
      const waited = wasLive ? 0 : wait;
      wait = Math.min(LONGEST_WAIT, wait * 2);
      await new Promise<void>((resolve) => { wake = resolve; setTimeout(resolve, waited * (0.8 + 0.4 * Math.random())); });
    }
  };
  void forever();
  return {
    doubt,
    stop: () => {
      stopped = true;
      current.abort();
      wake();
      removeEventListener("online", hurry);
      removeEventListener("offline", doubt);
      document.removeEventListener("visibilitychange", hurry);
    },
  };
}
