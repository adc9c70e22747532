/** A press that is sent again by pressing again: it keeps its key until it is answered, so that it is not done twice. */

import { useRef } from "preact/hooks";
import { type Client, freshKey, Unreachable } from "../api/client";

export type Send = <T>(path: string, body: unknown) => Promise<T>;

export function useOnce(client: Client): Send {
  const kept = useRef({ press: "", key: "" });
  return async <T>(path: string, body: unknown): Promise<T> => {
    const press = JSON.stringify([path, body]);
    if (kept.current.press !== press) kept.current = { press, key: freshKey() };
    const { key } = kept.current;
    let isAnswered = true;
    try {
      return await client.post<T>(path, body, { key });
    } catch (error) {
      isAnswered = !(error instanceof Unreachable);
      throw error;
    } finally {
      if (isAnswered && kept.current.key === key) kept.current = { press: "", key: "" };
    }
  };
}
