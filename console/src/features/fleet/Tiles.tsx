/** Ten tiles are count and filter, lit only for what needs somebody. A count is shown only where it is the whole truth. */

import type { JSX } from "preact";
import type { Head } from "../../api/types";
import type { Status } from "../../model/status";
import { address, go } from "../../ui/router";
import { Shape } from "../../ui/Shape";
import { type Filter, isFiltered } from "./fleet";

const ORDER: Status[] = ["waiting", "halted", "failed", "running", "pausing", "paused", "cancelling", "queued", "completed", "cancelled"];

export function Tiles({ heads, filter, isWhole }: { heads: Head[] | null; filter: Filter; isWhole: boolean }): JSX.Element {
  const press = (status: Status): void => {
    const next = new URLSearchParams(address.value);
    const chosen = filter.status.includes(status) ? filter.status.filter((one) => one !== status) : [...filter.status, status];
    next.delete("status");
    next.delete("needs");
    chosen.forEach((one) => next.append("status", one));
    const to = next.toString();
    go(to ? `?${to}` : location.pathname);
  };
  return (
    <div class="panel" role="group" aria-label="Sessions by status, press to filter">
      {ORDER.map((status) => {
        const isCounted = heads !== null && (!isFiltered(filter) || filter.status.includes(status));
        const number = heads?.filter((head) => head.status === status).length ?? 0;
        const isLit = isCounted && number > 0 && (status === "waiting" || status === "halted");
        return (
          <button key={status} class={isLit ? "tile lit" : "tile"} type="button" data-status={status} data-zero={(isCounted && number === 0) || undefined} aria-pressed={filter.status.includes(status)} onClick={() => press(status)}>
            <Shape name={status} /><b>{isCounted ? `${number}${isWhole ? "" : "+"}` : "–"}</b><span>{status}</span>
          </button>
        );
      })}
    </div>
  );
}
