/** A story for each part: every shape, lamp and word, and the handle in each of its states, from a journal told here. */

import { type JSX, render } from "preact";
import { Client } from "./api/client";
import { Live } from "./api/live";
import type { Gauge, Receipt } from "./api/types";
import { Handle } from "./features/handle/Handle";
import type { Decision, EventData, EventType, Recorded } from "./model/events";
import { STATUSES } from "./model/status";
import { Tape } from "./features/run/Signals";
import { EffectChip, Lamp, OUTCOME_ORDER, outcomeKey, outcomeShape, Word } from "./ui/Parts";
import { Plot } from "./ui/Plot";
import { Shape } from "./ui/Shape";
import "./ui/tokens.css";
import "./ui/base.css";
import "./ui/handle.css";
import "./ui/page.css";
import "./ui/gauges.css";
import "./ui/settings";

type Told = { [T in EventType]: [T, Partial<EventData[T]>] }[EventType];

const NOTHING = { raw: null, blob: "", size: 0 };
const GOAL = "Write a one-page churn memo";
const CREATED: Told = ["session.created", { agent: "churn-memo", agent_version: "1", goal: GOAL, parent: null, forked_from: "", by: "you", terms: { task_class: "long", policy: "", budget: 10, ttl_seconds: null, on_expiry: "fail" } }];
const BEGUN: Told[] = [CREATED, ["session.started", {}], ["plan.changed", { items: [{ title: "Fetch customer list", status: "done" }, { title: "Score churn risk", status: "running" }] }]];
const call = (name: string, effect: EventData["step.begun"]["effect"]): Told => ["step.begun", { step: `1/${name}#0`, name, kind: "tool", attempt: 1, arguments: '{"to":"finance-team@example.com"}', effect, key: name, settle: 0, can_undo: effect === "reversible", approval: null }];
const finished = (name: string): Told => ["step.finished", { step: `1/${name}#0`, attempt: 1, value: { ...NOTHING, raw: "97 rows" }, streamed: false, cost: 3.18, tokens: 900, told_by: "", nothing_done: false }];
const PAUSE: Told = ["session.pause_requested", { pause: "pause_1", by: "you", reason: "", grace: null, lapses: null }];
const PAUSED: Told = ["session.paused", { unknown: [], unreached: [] }];
const STEPPED_IN: Decision = {
  level: "pause", wanted: "pause", policy: "standard@7", unseen: [], held: [], question: "", words: "", worth: { sentence: "worth: 6.2 $ and 31 min expected waste against 0.4 $ and 2 min" },
  reasons: [{ signal: "loops", stage: "intervene", value: 8, threshold: 5, below: false, sentence: "It goes round: 8 repeats with no progress reported; the limit is 5." }],
};
const CANCEL: Told = ["session.cancel_requested", { by: "you", grace: 2, reason: "", undo: "in-flight" }];

const signal = (name: string, title: string, unit: Gauge["unit"], values: number[], more: Partial<Gauge>): Gauge => ({
  name, title, unit, value: values.at(-1) ?? null, warn: null, intervene: null, stop: null, below: false, past: null, since: null, unseen: null,
  history: values.map((value, index) => [index * 40, value]), ...more,
});
const GAUGES = [
  signal("cost", "Cost", "dollars", [0, 0.4, 0.9, 1.6, 2.2, 2.8, 3.18], { warn: 10, stop: 50 }),
  signal("scope_drift", "Distance from goal", "of 1", [0.1, 0.14, 0.2, 0.4, 0.6, 0.72, 0.81], { warn: 0.5, intervene: 0.7, past: "intervene", since: 200 }),
  signal("errors.streak", "Failures in a row", "count", [0, 0, 1, 2, 3, 4, 5], { stop: 5, past: "stop", since: 240 }),
  signal("token_rate", "Tokens against its average", "share", [], { intervene: 0.3, below: true, unseen: "fewer than 6 model calls had tokens and a duration" }),
];

const STORIES: [string, Told[]][] = [
  ["Queued", [CREATED]],
  ["Running", [...BEGUN, call("score_accounts", "idempotent")]],
  ["Pausing: something still runs", [...BEGUN, call("send_report", "irreversible"), PAUSE]],
  ["Pausing: it can be torn", [...BEGUN, call("score_accounts", "idempotent"), PAUSE]],
  ["Paused, with the one-line difference", [...BEGUN, call("create_table", "reversible"), finished("create_table"), PAUSE, PAUSED, ["session.redirected", { text: "EU first, the others as one table", level: "goal", by: "you", grace: null }]]],
  ["Paused by a policy, for review", [...BEGUN, ["intervention.made", { intervention: "int_1", by: "policy:standard@7", pause: "pause_1", ask: "ask_1", decision: STEPPED_IN }], ["ask.opened", { ask: "ask_1", step: "1/review#1", reason: "review", prompt: STEPPED_IN.reasons[0]!.sentence, options: ["go on", "cancel"], expires_at: null, default: null, on_expiry: "fail" }], ["session.pause_requested", { pause: "pause_1", by: "policy:standard@7", reason: STEPPED_IN.reasons[0]!.sentence, grace: null, lapses: null }], PAUSED]],
  ["Waiting for approval", [...BEGUN, call("delete_records", "irreversible"), ["step.aborted", { step: "1/delete_records#0", attempt: 1, asked: true }], ["ask.opened", { ask: "ask_1", step: "1/delete_records#0?1", reason: "need_approval", prompt: "Confirm delete?", options: [], expires_at: Date.now() / 1000 + 252, default: null, on_expiry: "fail" }], ["session.waiting", {}]]],
  ["Cancelling, provisional receipt", [...BEGUN, call("create_table", "reversible"), finished("create_table"), call("send_report", "irreversible"), CANCEL]],
  ["Cancelled, receipt", [...BEGUN, call("create_table", "reversible"), finished("create_table"), CANCEL, ["session.cancelled", { receipt: [], unreached: [] }]]],
  ["Halted by an operator", [...BEGUN, ["session.halted", { by: "ops", reason: "release-freeze" }]]],
  ["Completed", [...BEGUN, call("create_table", "reversible"), finished("create_table"), ["session.completed", { result: { ...NOTHING, raw: "memo.md, 1,204 words." } }]]],
  ["Failed", [...BEGUN, ["session.failed", { code: "step_failed", message: "join_mrr: table mrr has no column acct_id.", step: null }]]],
];

function told(story: Told[]): Live {
  const live = new Live(new Client("./nowhere"), "sess_story");
  const start = Date.now() / 1000 - 401;
  story.forEach(([type, data], index) => {
    const record = { position: index + 1, at: start + index * (400 / story.length), type, version: 1, data } as unknown as Recorded;
    live.records.push(record);
    live.run.apply(record);
  });
  const status = live.run.session!.status;
  const still = status === "cancelling";
  const lines: Receipt["lines"] = [
    { step: "1/send_report#0", name: "send_report", outcome: still ? "still running" : "cannot be undone", effect: "irreversible", attempt: 1, detail: "", arguments: '{"to":"finance-team@example.com"}' },
    { step: "1/create_table#0", name: "create_table", outcome: "kept", effect: "reversible", attempt: 1, detail: "", arguments: '{"name":"scratch.churn_scores"}' },
  ];
  live.receipt.value = { lines, final: !still, is_preview: false, begins_anew: false, children: 0, table: "" };
  live.durability.value = "power";
  live.stream.value = { state: "live", why: "", since: Date.now(), problem: null };
  live.rev.value += 1;
  return live;
}

const noKeys = new EventTarget();
const LIVES = STORIES.map(([name, story]) => [name, told(story)] as const);

function Stories(): JSX.Element {
  return (
    <main class="page">
      <div class="pagehead"><h1>Parts</h1></div>
      <p class="row">{STATUSES.map((status) => <Lamp key={status} status={status}>{status}</Lamp>)}</p>
      <p class="row">{STATUSES.map((status) => <Word key={status} status={status} />)}</p>
      <p class="row">{OUTCOME_ORDER.map((outcome) => <span key={outcome} class="oc" data-outcome={outcomeKey(outcome)}><Shape name={outcomeShape(outcome)} /><span>{outcome}</span></span>)}</p>
      <p class="row">{(["read", "idempotent", "reversible", "irreversible", "hold"] as const).map((effect) => <EffectChip key={effect} effect={effect} />)}</p>
      <ol class="gauges story">{GAUGES.map((one) => <li key={one.title}><Tape gauge={one} /><Plot gauge={one} happened={one.past ? [{ at: 300, value: one.intervene ?? 0, words: "policy paused it" }] : []} from={0} until={400} /></li>)}</ol>
      {LIVES.map(([name, live]) => (
        <figure class="story" key={name}><figcaption class="dim">{name}</figcaption><Handle live={live} me="you" role="operate" keys={noKeys} /></figure>
      ))}
    </main>
  );
}

render(<Stories />, document.getElementById("console")!);
