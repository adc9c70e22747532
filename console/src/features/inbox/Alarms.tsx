/** What could wait, of one cause: each with its sentence, its run, and one tap to say whether it was right. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Client } from "../../api/client";
import type { Alarm, Me } from "../../api/types";
import type { Verdict } from "../../model/events";
import { capitalised, count, timeOfDay, visible } from "../../ui/format";
import { causeOf } from "../../ui/gauge";
import { href } from "../../ui/router";
import { useTelling } from "../telling";
import { agentsOf, type Group } from "./grouping";

const VERDICTS: Verdict[] = ["right", "wrong", "unsure"];
/** Labels that are looked up; what is older is in the run's own log. */
const LOOKED_AT = 1000;

const nameOf = (one: { session: string; intervention: string }): string => `${one.session} ${one.intervention}`;

export function Alarms({ client, me, group }: { client: Client; me: Me; group: Group }): JSX.Element {
  const [labels, know] = useState<ReadonlyMap<string, Verdict>>(new Map());
  useEffect(() => {
    client.get<{ interventions: Alarm[] }>(`/interventions?limit=${LOOKED_AT}`).then(({ interventions }) => {
      know(new Map(interventions.flatMap((one) => (one.label ? [[nameOf(one), one.label] as const] : []))));
    }, () => undefined);
  }, [client, group.cause, group.alarms.length]);
  const said = (alarm: Alarm, verdict: Verdict): void => know((known) => new Map([...known, [nameOf(alarm), verdict]]));
  return (
    <article class="detail" aria-label="Alarms">
      <p class="lead">{causeOf(group.cause)} in {count(group.sessions, "session")}</p>
      <p class="sub">{agentsOf(group.alarms)} · nothing to answer{group.alarms.some((one) => one.intervention !== "") ? "; was it useful?" : ""}</p>
      <ol class="alarms">
        {group.alarms.slice(0, 100).map((alarm, index) => <Row key={`${nameOf(alarm)} ${alarm.sentence ?? ""}`} isFirst={index === 0} client={client} alarm={alarm} label={alarm.label ?? labels.get(nameOf(alarm)) ?? null} mayJudge={me.role !== "watch" && alarm.intervention !== ""} said={(verdict) => said(alarm, verdict)} />)}
      </ol>
      {group.alarms.length > 100 && <p class="sub">The newest 100 of {group.alarms.length}.</p>}
    </article>
  );
}

/** The keys + and − mean the newest one, or the one that has the focus. */
const KEYS: Partial<Record<Verdict, [key: string, shown: string]>> = { right: ["+", "+"], wrong: ["-", "−"] };

function Row({ client, alarm, isFirst, label, mayJudge, said }: { client: Client; alarm: Alarm; isFirst: boolean; label: Verdict | null; mayJudge: boolean; said: (verdict: Verdict) => void }): JSX.Element {
  const { words, tell } = useTelling();
  const send = (verdict: Verdict): void => tell(client.post(`/sessions/${encodeURIComponent(alarm.session)}/label`, { about: alarm.intervention, verdict }).then(() => said(verdict)));
  return (
    <li>
      <p><time class="dim">{timeOfDay(alarm.at)}</time> <a href={href({ run: alarm.session })}>{alarm.agent || alarm.session}</a> <code class="dim">{alarm.session}</code></p>
      <p class="why">{visible(alarm.sentence ?? "")}</p>
      {mayJudge ? (
        <span class="judge" role="group" aria-label="Was that right?">
          <span role="status">{words || (label ? `Labelled ${label}.` : "Was that right?")}</span>
          {VERDICTS.map((one) => <button key={one} class="btn small" type="button" aria-pressed={label === one} data-key={KEYS[one]?.[0]} aria-keyshortcuts={isFirst ? KEYS[one]?.[0] : undefined} onClick={() => send(one)}>{capitalised(one)}{isFirst && KEYS[one] && <> <kbd aria-hidden="true">{KEYS[one][1]}</kbd></>}</button>)}
        </span>
      ) : label && <span class="judge">Labelled {label}.</span>}
    </li>
  );
}
