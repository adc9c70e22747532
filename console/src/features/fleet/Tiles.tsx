/** Ten tiles are count and filter, lit only for what needs somebody: questions, halts, failures that nobody has seen. */

import type { JSX } from "preact";
import type { Status } from "../../model/status";
import { address, go } from "../../ui/router";
import { Shape } from "../../ui/Shape";
import type { Fleet } from "./fleet";
import { isUnseen, seeAll } from "./seen";

const ORDER: Status[] = ["waiting", "halted", "failed", "running", "pausing", "paused", "cancelling", "queued", "completed", "cancelled"];

export function Tiles({ fleet, now }: { fleet: Fleet; now: number }): JSX.Element {
  const { status: chosen } = fleet.filter.value;
  const heads = fleet.heads.value;
  const press = (status: Status): void => {
    if (status === "failed") seeAll(now);
    const next = new URLSearchParams(address.value);
    const wanted = chosen.includes(status) ? chosen.filter((one) => one !== status) : [...chosen, status];
    next.delete("status");
    wanted.forEach((one) => next.append("status", one));
    const to = next.toString();
    go(to ? `?${to}` : location.pathname);
  };
  const unseen = heads !== null && [...heads.values()].some(isUnseen);
  return (
    <div class="panel" role="group" aria-label="Sessions by status, press to filter">
      {ORDER.map((status) => {
        const number = fleet.counts.value[status] ?? 0;
        const isLit = number > 0 && (status === "waiting" || status === "halted" || (status === "failed" && unseen));
        return (
          <button key={status} class={isLit ? "tile lit" : "tile"} type="button" data-status={status} data-zero={(heads !== null && number === 0) || undefined} aria-pressed={chosen.includes(status)} onClick={() => press(status)}>
            <Shape name={status} /><b>{heads === null ? "–" : number.toLocaleString("en")}</b><span>{status}</span>
          </button>
        );
      })}
    </div>
  );
}
