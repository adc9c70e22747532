/** A halted run: who, why, since when, and how far the kill switch reaches that holds it. */

import type { JSX } from "preact";
import type { Session } from "../../model/session";
import { timeOfDay, visible, who } from "../../ui/format";
import { href } from "../../ui/router";
import { scopeWords, stands, switches } from "../killswitch/switches";

export function Halted({ session, me, stillRuns, mayLift }: { session: Session; me: string; stillRuns: boolean; mayLift: boolean }): JSX.Element {
  const one = switches.value.find((known) => known.id === session.halted_switch);
  return (
    <>
      <p class="lead">Halted by {session.halted_by === me ? "you" : who(session.halted_by, me)} at {timeOfDay(session.halted_at)}{session.halted_why && <>: <bdi>“{visible(session.halted_why)}”</bdi></>}</p>
      <p class="sub">
        {one ? stands(one)
          ? <>Kill switch over {scopeWords(one.scope)}, on since {timeOfDay(one.at)}. {mayLift ? <><a href={href({})}>Lift it in its report</a>, then release this session, or cancel it here. </> : "Only an operator can lift it. "}</>
          : <>The kill switch over {scopeWords(one.scope)} was lifted at {timeOfDay(one.lifted_at!)}. This session stays halted until {mayLift ? "you release" : "an operator releases"} it. </>
          : session.halted_switch ? `A kill switch holds it. ${mayLift ? "" : "Only an operator can lift that. "}` : mayLift ? "" : "Only an operator can release it. "}
        It was {session.halted_from ?? "running"}, and returns to that. {stillRuns ? "Part of it is still running." : "Nothing is running."}
      </p>
    </>
  );
}
