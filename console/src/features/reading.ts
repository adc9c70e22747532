/** What a page shows, read again and again until the server has answered; meanwhile, what is known of the connection. */

import { useEffect, useState } from "preact/hooks";
import { type Client, heardOf, Refusal } from "../api/client";
import { type Connection, CONNECTING } from "../model/contact";

const AGAIN = 1_000;

export interface Reading<T> { found: T | null; connection: Connection; again: () => void }

/** Read when the page is opened, when what it `wants` changes, and when somebody asks for it. */
export function useReading<T>(client: Client, read: (signal: AbortSignal) => Promise<T>, wants: readonly unknown[]): Reading<T> {
  const [found, keep] = useState<T | null>(null);
  const [connection, tell] = useState<Connection>(CONNECTING);
  const [asked, ask] = useState(0);
  useEffect(() => {
    const leaving = new AbortController();
    let timer = 0;
    const look = (): void => {
      read(leaving.signal).then(
        (answer) => { if (!leaving.signal.aborted) { keep(answer); tell(CONNECTING); } },
        (error: Error) => {
          if (leaving.signal.aborted) return;
          tell((before) => client.after(before, heardOf(error)));
          if (!(error instanceof Refusal)) timer = window.setTimeout(look, AGAIN);
        },
      );
    };
    look();
    return () => { leaving.abort(); clearTimeout(timer); };
  }, [...wants, asked]);
  return { found, connection, again: () => ask(asked + 1) };
}
