/** Keeps a text as the next version, with a reason; says what that means before it is pressed. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Client } from "../../api/client";
import type { Me } from "../../api/types";
import type { Checked } from "./checking";
import type { Summary, Whole } from "./types";

export function Saving({ client, me, text, checked, newest, mayDecide, reason, saved, leave }: { client: Client; me: Me; text: string; checked: Checked; newest: Summary | null; mayDecide: boolean; reason: string; saved: (one: Whole) => void; leave: () => void }): JSX.Element {
  const [why, write] = useState<string | null>(null);
  const [words, say] = useState("");
  const given = why ?? reason;
  const { check, mistakes, isChecking, trouble } = checked;
  const isOther = check !== null && check.name !== newest?.name;
  // What a tenant saves is its own: the host's of that name stays as it is.
  const isFirst = isOther || (Boolean(me.tenant) && newest !== null && !newest.name.includes("~"));
  const label = isOther ? `Save policy ${check.name}` : isFirst ? `Save ${newest!.name} as your own` : newest ? `Use v${newest.version + 1} for new sessions` : "Save the policy";
  const refusal = !mayDecide ? "Only an operator can save policies. You can test this text and copy it."
    : trouble ? `The text cannot be checked now. ${trouble}`
    : mistakes.length ? "The text has mistakes: it cannot be saved."
    : isChecking || !check ? "The text is being checked."
    : !isOther && newest && !check.changes.length ? `It is the same as v${newest.version}: there is nothing to save.` : "";
  const send = (event: Event): void => {
    event.preventDefault();
    if (refusal) { say(refusal); return; }
    if (!given.trim()) { say("Give a reason for the change."); return; }
    say("Saving…");
    const name = check!.name;
    // Of another name there must be none yet: nobody is overwritten by a slip.
    const etag = `"${isFirst ? 0 : newest?.version ?? 0}"`;
    client.send<Whole>("PUT", `/policies/${encodeURIComponent(name)}`, { document: text, why: given }, { etag }).then(saved, (error: Error) => say(error.message));
  };
  return (
    <form class="saving" onSubmit={send}>
      <label class="grow">Why it is changed<input class="field" maxLength={2000} value={given} onInput={(event) => write(event.currentTarget.value)} placeholder="14 of 44 were wrong" /></label>
      <div class="row">
        <button class="btn solid big" type="submit" aria-disabled={refusal !== ""}>{label}</button>
        <button class="btn big" type="button" onClick={leave}>Discard the text</button>
        <span class="sub" role="status">{words || (refusal && (trouble || !isChecking) ? refusal : isFirst ? "A policy of its own: sessions whose agent names it use it." : "Sessions that run keep the version they began with.")}</span>
      </div>
    </form>
  );
}
