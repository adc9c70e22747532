/** What the report's sections are made of: a figure, a verdict, a table, a rate against its target. */

import type { ComponentChildren, JSX } from "preact";
import { Shape } from "../../ui/Shape";
import { Sheet } from "../../ui/Sheet";
import { RangeBar } from "./Plots";
import type { Proportion } from "./types";
import { type Kind, kindOf, percent, target } from "./words";

export function Figure({ name, value, more }: { name: string; value: string; more: string }): JSX.Element { return <div><dt>{name}</dt><dd>{value}<small>{more}</small></dd></div>; }

export function Say({ kind, children }: { kind: Kind; children: ComponentChildren }): JSX.Element {
  return <span class={`verdict ${kind}`}><Shape name={kind === "ok" ? "done" : kind === "no" ? "undofailed" : "unknown"} />{children}</span>;
}

export function Table({ id, name, heads, words, children }: { id: string; name: string; heads: string[]; words?: string; children: ComponentChildren }): JSX.Element {
  return (
    <section aria-labelledby={id}><h2 id={id}>{name}</h2>{words && <p class="sub">{words}</p>}
      <Sheet name={name}><thead><tr>{heads.map((head) => <th key={head} scope="col" class={head.startsWith(">") ? "r" : undefined}>{head.replace(">", "").replace(/ \d$/, "")}</th>)}</tr></thead><tbody>{children}</tbody></Sheet>
    </section>
  );
}

export function Against({ rate, least = 0, most = 1, aboveIsFine = false }: { rate: Proportion; least?: number; most?: number; aboveIsFine?: boolean }): JSX.Element {
  const kind = kindOf(rate.verdict, aboveIsFine);
  return (
    <><td class="r">{percent(rate.share)}</td>
      <td><RangeBar rate={rate} least={least} most={most} kind={kind} /><small class="dim">{rate.target ? target(rate.target) : "–"}</small></td>
      <td>{rate.of ? <Say kind={kind}>{rate.verdict}</Say> : <span class="dim">none ended</span>}</td></>
  );
}
