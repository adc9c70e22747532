/** Something that takes the server a while: how far it has come, then its result; whoever stops waiting ends it. */

import { type Client, freshKey, Refusal, Unreachable } from "./client";
import { Frames } from "./stream";
import type { Problem } from "./types";

export interface Progress { phase: string; done: number; of: number | null }

export async function working<T>(client: Client, path: string, body: object, tell: (progress: Progress) => void, signal: AbortSignal): Promise<T> {
  const answer = await client.ask("POST", path, body, { key: freshKey(), accept: "text/event-stream", signal });
  const frames = new Frames();
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) throw new Unreachable("The connection was lost before this finished.");
    for (const frame of frames.take(value)) {
      if (frame.event === "progress") tell(JSON.parse(frame.data) as Progress);
      else if (frame.event === "problem") throw new Refusal(JSON.parse(frame.data) as Problem);
      else if (frame.event === "result") return JSON.parse(frame.data) as T;
    }
  }
}

const PHASES: Record<string, string> = { waiting: "Waiting for other requests", reading: "Reading runs", trying: "Trying them", drawing: "Moving the thresholds", measuring: "Measuring" };

/** "Reading runs: 120", "Trying them: 40 of 200". */
export function progressWords({ phase, done, of }: Progress): string {
  const words = PHASES[phase] ?? phase;
  return of === null ? (done ? `${words}: ${done.toLocaleString("en")}` : `${words}…`) : `${words}: ${done.toLocaleString("en")} of ${of.toLocaleString("en")}`;
}
