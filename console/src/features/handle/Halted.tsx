/** A halted run: who, why, since when, and how far the kill switch reaches that holds it. */

import type { JSX } from "preact";
import type { Session } from "../../model/session";
import { timeOfDay, visible, who } from "../../ui/format";
import { scopeWords, stands, switches } from "../killswitch/switches";

export function Halted({ session, me, stillRuns }: { session: Session; me: string; stillRuns: boolean }): JSX.Element {
  const one = switches.value.find((known) => known.id === session.halted_switch);
  return (
    <>
      <p class="lead">Halted by {session.halted_by === me ? "you" : who(session.halted_by, me)} at {timeOfDay(session.halted_at)}{session.halted_why && <>: <bdi>“{visible(session.halted_why)}”</bdi></>}</p>
      <p class="sub">
        {one ? stands(one) ? <>Kill switch over {scopeWords(one.scope)}, on since {timeOfDay(one.at)}. Only an operator lifts it. </> : <>The kill switch over {scopeWords(one.scope)} was lifted at {timeOfDay(one.lifted_at!)}. This session stays halted until an operator lets it go back. </>
          : session.halted_switch ? "A kill switch holds it. Only an operator lifts that. " : ""}
        It was {session.halted_from ?? "running"}, and goes back to that. {stillRuns ? "Something of it still runs." : "Nothing of it runs now."}
      </p>
    </>
  );
}
