/** Lamp and sentence: it begins with what still runs, and never says more than was observed. */

import type { JSX } from "preact";
import type { Live } from "../../api/live";
import { connectionWord, connectionWords, pressLamp, pressWords, silentWords, storedName } from "../../model/contact";
import { CANCEL_PREVIEW } from "../../model/run";
import { COUNTS, type Status } from "../../model/status";
import { Lamp, Left, Ticking } from "../../ui/Parts";
import { RunClock } from "../RunClock";
import { count, shorten, timeOfDay, who } from "../../ui/format";
import { href } from "../../ui/router";
import { wantedBy } from "./asking";
import { isEnded, type View } from "./view";

const DEFERRED = { pause: "pausing", cancel: "cancelling" } as const;

interface Props { live: Live; view: View; me: string; heldSince: number | null }

export function Sentence(props: Props): JSX.Element {
  const { live, view, me } = props;
  const connection = live.connection.value;
  if (connection.state === "refused") {
    return <><Lamp status={view.status} stale>Last seen {view.status}</Lamp><p class="doing">{connection.problem?.code === "unauthorized" ? "This page is no longer logged in. Open the link that midcourse browser link prints." : connection.problem?.detail}</p></>;
  }
  const kept = live.outbox.kept.value.length;
  if (connection.state === "lost") {
    return (
      <>
        <Lamp status={view.status} stale>Last seen {view.status}</Lamp>
        <p class="doing uncut"><strong>{connectionWords(connection, timeOfDay(connection.since / 1000))}</strong> {kept ? `${count(kept, "press", "presses")} kept, and sent when the connection is back.` : "Presses are kept and sent."}</p>
      </>
    );
  }
  const stored = view.stored ?? [];
  if (view.isUnwritten && !isEnded(view.status)) {
    return (
      <>
        <Lamp status="pausing">Stopping, not stored</Lamp>
        <p class="doing uncut">Nothing new starts. <strong>That could not be stored</strong>: it is retried, and is lost if the server stops first.</p>
      </>
    );
  }
  if (view.press && view.press.state !== "sending") {
    return (
      <>
        <Lamp status={shapeOf(view.press.verb, view)} stale>{pressLamp(view.press)}</Lamp>
        <p class="doing uncut">{view.press.state === "turned away" ? <><strong>{connectionWord(connection)}.</strong> It is retried until it is stored, and counts once.</> : pressWords(view.press, connection)}</p>
      </>
    );
  }
  if (view.asking === "pause" && !["pausing", "paused"].includes(view.status)) {
    return <><Lamp status="pausing">Asking to pause…</Lamp><p class="doing">Not stopped yet: the server has not answered.</p></>;
  }
  if (view.isUnattended) {
    return (
      <>
        <Lamp status={view.status} stale>{stored.length ? storedName(stored) : `Last seen ${view.status}`}</Lamp>
        <p class="doing uncut"><strong>Its worker is gone</strong>, last seen at {timeOfDay(live.run.session!.at)}. What was in flight is unknown. It continues when a process with agent <code>{live.run.session!.agent}</code> takes it over.</p>
      </>
    );
  }
  if (stored.length === 0 && view.heartbeat != null && COUNTS.has(view.status)) {
    return (
      <>
        <Lamp status={view.status} stale>Last seen {view.status}</Lamp>
        <p class="doing uncut"><strong>Its worker does not respond</strong>: last heartbeat at {timeOfDay(view.heartbeat)}, <Ticking since={view.heartbeat} ahead={live.client.ahead} /> ago. What is in flight is unknown.</p>
      </>
    );
  }
  if (stored.length > 0) {
    const others = [...new Set(stored.filter((one) => one.by !== me && one.by !== "").map((one) => who(one.by, me)))];
    const by = others.length ? ` by ${others.join(", ")}` : "";
    return (
      <>
        <Lamp status={shapeOf(stored.at(-1)!.command, view)} stale>{storedName(stored)}{by}</Lamp>
        <p class="doing uncut">{view.silentSince == null ? <>Not carried out yet: its worker has not decided it.</> : <><strong>{silentWords(timeOfDay(view.silentSince))}.</strong> Not carried out; what is in flight is unknown.</>}</p>
      </>
    );
  }
  const words: Partial<Record<View["asking"], string>> = { resume: "Asking to resume…", cancel: "Asking to cancel…", redirect: "Asking to redirect…", undo: "Asking to undo…" };
  const isUnfinished = view.status === "halted" && view.still.length > 0;
  const finishing = view.deferred ? DEFERRED[view.deferred] : null;
  return (
    <>
      <Lamp status={finishing ?? view.status} unfinished={isUnfinished}>{(!isEnded(view.status) && words[view.asking]) || (finishing ? `${finishing}, finishes first` : view.status)}</Lamp>
      <p class={view.isDiscarded ? "doing uncut" : "doing"}><Doing {...props} /></p>
    </>
  );
}

/** The hollow shape of what was asked for. */
function shapeOf(verb: string, view: View): Status {
  if (isEnded(view.status)) return view.status;
  return ({ pause: "pausing", cancel: "cancelling", resume: "queued" } as Partial<Record<string, Status>>)[verb] ?? view.status;
}

function Still({ live, view }: Props): JSX.Element | null {
  const call = view.still[0];
  if (!call) return null;
  const more = view.still.length - 1;
  return (
    <span class="still">Still running: {call.undo === "running" && "the undo of "}<code>{call.name}</code> <RunClock live={live} since={call.since} />{more > 0 && ` and ${more} more`}</span>
  );
}

function Doing(props: Props): JSX.Element {
  const { live, view, me, heldSince } = props;
  const session = live.run.session!;
  const ahead = live.client.ahead;
  const held = heldSince !== null && <> · held for your choice <Ticking since={heldSince} /></>;
  const next = view.isBetween ? view.step + 1 : view.step;
  switch (view.status) {
    case "queued": return <>Queued. Nothing has run.</>;
    case "running": {
      const item = session.plan.find((one) => one.status === "running")?.title;
      const call = view.still.find((one) => one.kind !== "model") ?? view.still[0];
      const again = call ? undefined : [...session.calls.values()].find((one) => one.end === "failed");
      const doing = again ? <><code>{again.kind === "model" ? "the model" : again.name}</code> is retried in <Left until={again.again_at} ahead={ahead} /></> : call && (call.kind === "model" ? "writing" : <code>{call.name.replace(/^spawn /, "")}</code>);
      const asked = session.asks.length + session.child_asks.length;
      const asks = session.deferred;
      const said = view.isProtected && (asks
        ? <>{session.agent} is protected, so it finishes this turn first. Asked by {who(asks.by, me)} <Ticking since={asks.since} ahead={ahead} /> ago.</>
        : <>{session.agent} is protected: a stop waits for the end of this turn.</>);
      return <>{item && <strong>{item}</strong>}{item && doing && " · "}{doing}{!item && !doing && !said && "Between steps."}{said && <>{(item || doing) && " · "}{said}</>}{asked > 0 && <span class="left"> · has a question</span>}</>;
    }
    case "pausing": {
      if (!view.still.length) return <>Nothing new starts.{held}</>;
      const call = view.still[0]!;
      const why = call.undo === "running" ? "" : call.effect === "irreversible" ? " · irreversible, so it finishes first. Nothing else starts." : call.kind === "model" ? " · it is being interrupted. Nothing else starts." : " · it may finish. Nothing else starts.";
      return <><Still {...props} />{held || why}</>;
    }
    case "paused": {
      const pause = session.pause;
      if (held) return <>Nothing runs{held}</>;
      const unknown = [...session.calls.values()].filter((call) => call.end === "lost" && call.effect !== "read").length;
      return <>{view.isBetween ? "Before " : "In "}<strong>step {Math.max(1, next)}</strong>. Nothing runs. Paused {pause && <Ticking since={pause.since} ahead={ahead} />} by {pause ? [pause.by, ...(pause.joined ?? [])].map((name) => who(name, me)).join(" and ") : "a user"}{pause?.reason && pause.reason !== CANCEL_PREVIEW && <>: <bdi>“{shorten(pause.reason, 60)}”</bdi></>}.{unknown > 0 && <span class="left"> {unknown} in flight unknown.</span>}</>;
    }
    case "waiting": {
      const ask = session.asks[0];
      if (!ask) return <>for a child's question. Nothing runs.</>;
      return <>for an answer: <strong>{wantedBy(ask.prompt)?.title ?? shorten(ask.prompt, 90)}</strong> Nothing runs.{ask.expires_at !== null && <span class="left"> <Left until={ask.expires_at} ahead={ahead} /> left</span>}</>;
    }
    case "cancelling": return view.still.length ? <>Everything else has stopped. <Still {...props} /></> : <>Nothing new starts. Settling what was in flight.</>;
    case "cancelled":
      if (session.discarded) return <>{session.restarted_as && <>Restarted as <a href={href({ run: session.restarted_as })}><code>{session.restarted_as}</code></a>. </>}Stopped by force before it was finished. Its progress is discarded.</>;
      return view.isUndoing ? <>Undoing what was done, newest first.</> : <>Stopped at step {view.step}. Nothing runs.</>;
    case "halted":
      return <>{view.still.length > 0 && <><Still {...props} /> · </>}by {who(session.halted_by, me)}{session.halted_why && <>: <strong>{shorten(session.halted_why.replace(/\.$/, ""), 60)}</strong></>}. {view.still.length === 0 && "Nothing runs. "}Was {session.halted_from ?? "running"}.</>;
    case "completed": return view.isUndoing ? <>Undoing what was done, newest first.</> : <>{sentence(shorten(resultLine(session.result?.raw), 120)) || "It returned nothing."} Nothing runs.</>;
    case "failed": return <>{sentence(shorten(session.failure?.message ?? "", 160))} Kept at step {view.step}.</>;
  }
}

function resultLine(value: unknown): string {
  if (value === null || value === undefined) return "";
  return (typeof value === "string" ? value : JSON.stringify(value)).split("\n").find((line) => line.trim())?.trim() ?? "";
}

/** With its full stop. */
function sentence(text: string): string { return !text || /[.!?…。！？]$/.test(text) ? text : `${text}.`; }
