/** What a press does: each verb sent once, each refusal kept as a sentence, the preview's hold renewed and lifted. */

import { type Signal, signal } from "@preact/signals";
import { Refusal } from "../../api/client";
import { Dropped, type Told, toldOf } from "../../api/outbox";
import type { Live } from "../../api/live";
import type { Preview, Reply, UndoChoice } from "../../api/types";
import type { Level } from "../../model/events";
import { isReview } from "../../model/interventions";
import { CANCEL_PREVIEW } from "../../model/run";
import type { Tray } from "./view";

/** Seconds after which the preview's hold lifts itself when its page is gone, and how often it is renewed until then. */
const LAPSES = 30;
const RENEW = 10_000;

export class Actions {
  readonly tray = signal<Tray>("");
  readonly isInstead = signal(false);
  readonly preview = signal<Preview | null>(null);
  readonly choice = signal<UndoChoice>("in-flight");
  /** When the gate was shut for the preview. */
  readonly heldSince = signal<number | null>(null);
  /** Kept with the presses: whoever comes back to this page finds it. */
  readonly refusal: Signal<Told | null>;
  readonly wantsReason = signal(false);
  readonly isOwnHold = signal(true);
  /** The pause that is the preview's own: only that one is lifted when it is left. */
  private hold: string | null = null;
  /** It is stored, and its worker has not decided it: its name is not known yet. */
  private isHoldStored = false;
  /** Where the journal knows of it: before that, what is folded says nothing about it. */
  private holdPosition = 0;
  private renewing = 0;
  private previewed = "";

  constructor(readonly live: Live, private readonly told: (event: string, detail: unknown) => void) {
    this.refusal = live.outbox.told;
  }

  private async press(verb: string, sent: Promise<Reply>): Promise<Reply | null> {
    this.refusal.value = null;
    try {
      const reply = await sent;
      if (!reply.durable) this.refusal.value = { words: `${reply.level === "stopped" ? "Stopped" : "Stopping"}, not stored: the store refused the write. Do not stop the server until it is.`, isCalm: false };
      this.told(verb, reply);
      return reply;
    } catch (error) {
      if (error instanceof Dropped) return null;
      if (!(error instanceof Refusal)) throw error;
      this.refusal.value = toldOf(error);
      this.told("refused", error.problem);
      return null;
    }
  }

  pause(): void {
    this.wantsReason.value = true;
    void this.press("pause", this.live.pause());
  }
  abort(): void { void this.press("pause", this.live.pause({ grace: 0 })); }
  reason(reason: string): void {
    this.wantsReason.value = false;
    if (reason) void this.press("pause", this.live.pause({ reason }));
  }
  resume(): void {
    this.wantsReason.value = false;
    void this.press("resumed", this.live.resume(this.live.run.session?.pause?.id));
  }
  answer(value: unknown, ask: string): void { void this.press("answer", this.live.answer(value, ask)); }
  force(): void { void this.press("cancel", this.live.force()); }
  /** End half-way what finishes first: confirmed in its tray, with the undo that was chosen for the cancel that waits. */
  discard(): void {
    const undo = this.live.run.session?.deferred?.undo ?? "in-flight";
    this.close();
    void this.press("cancel", this.live.discard(undo));
  }
  raise(budget: number): void { void this.press("budget", this.live.raise(budget)); }
  edit(message: string, text: string): void { void this.press("redirect", this.live.edit(message, text)); }
  withdraw(message: string): void { void this.press("redirect", this.live.withdraw(message)); }
  undo(): void { this.close(); void this.press("undo", this.live.undo()); }

  open(tray: Tray): void {
    this.refusal.value = null;
    if (tray === "redirect" && this.tray.value === "preview") this.isInstead.value = true;
    this.tray.value = tray;
  }

  send(text: string, level: Level, isTurn: boolean): void {
    const isInstead = this.isInstead.value;
    this.stopRenewing();
    this.tray.value = "";
    this.isInstead.value = false;
    this.heldSince.value = null;
    const resumes = isInstead && this.hold !== null;
    this.hold = null;
    void this.press("redirect", isTurn ? this.live.message(text) : this.live.redirect(text, level, resumes));
  }

  /** Shut the gate, then show what each choice would come to. A run that was paused before stays paused when this is left. */
  async startCancel(): Promise<void> {
    this.wantsReason.value = false;
    this.preview.value = null;
    this.previewed = "";
    this.choice.value = "in-flight";
    this.tray.value = "preview";
    this.heldSince.value = Date.now() / 1000;
    const standing = this.live.run.session?.pause ?? null;
    const isHalted = this.live.run.session?.status === "halted";
    // What is protected is not held for the choice: it goes on, and finishes first.
    const isProtected = this.live.run.session?.terms.task_class === "protected";
    this.isOwnHold.value = standing === null && !isHalted && !isProtected;
    if (isProtected) this.heldSince.value = null;
    if (this.isOwnHold.value) {
      // What it would come to can be read while the hold is on its way.
      void this.look();
      const reply = await this.press("pause", this.live.pause({ lapses: LAPSES, reason: CANCEL_PREVIEW }));
      if (reply === null) { const why = this.refusal.value; this.close(); this.refusal.value = why; return; }
      this.hold = reply.pause;
      this.isHoldStored = reply.pause === null && reply.level === "accepted";
      this.holdPosition = reply.position;
      if (!this.isChoosing()) { this.lift(); return; }
      if (this.hold !== null) this.renewing = window.setInterval(() => void this.renew(), RENEW);
      addEventListener("pagehide", this.leave);
    }
    await this.look();
  }

  private isChoosing(): boolean { return this.tray.value === "preview" || this.isInstead.value; }

  /** What the preview is about: what had begun and ended when it was read. */
  private get done(): string {
    const session = this.live.run.session;
    return session ? `${session.finished_steps} ${[...session.calls.values()].map((call) => `${call.step} ${call.attempt}${call.end}${call.undo}`).join()} ${[...session.holds].join()}` : "";
  }

  /** Read the preview, again and again until nothing has begun or ended meanwhile. */
  async look(): Promise<void> {
    try {
      while (this.isChoosing() && this.previewed !== this.done) {
        const read = this.done;
        this.preview.value = await this.live.preview();
        this.previewed = read;
      }
    } catch (error) {
      this.refusal.value = { words: `${(error as Error).message} Nothing was cancelled.`, isCalm: false };
    }
  }

  confirm(): void {
    if (this.preview.value === null) return;
    // What is confirmed is what was shown: of a run that is held, an older preview is read again first.
    if (this.hold !== null && this.previewed !== this.done) return;
    this.stopRenewing();
    this.hold = null;
    this.isHoldStored = false;
    this.tray.value = "";
    this.heldSince.value = null;
    // What a policy opened for review is answered that way; another choice of what to undo can only be a cancel.
    const review = this.live.run.session?.asks.find((ask) => isReview(ask.step));
    if (review && this.choice.value === "in-flight") void this.press("cancel", this.live.answer("cancel", review.id));
    else void this.press("cancel", this.live.cancel(this.choice.value));
  }

  /** Leave what is open. The preview's own hold is lifted; a pause that stood before stays. */
  close(): void {
    if (this.isInstead.value && this.tray.value === "redirect") {
      this.isInstead.value = false;
      this.tray.value = "preview";
      return;
    }
    const wasPreview = this.tray.value === "preview";
    this.tray.value = "";
    this.isInstead.value = false;
    this.refusal.value = null;
    if (wasPreview) this.lift();
  }

  keepGoing(): void {
    this.isInstead.value = false;
    this.tray.value = "preview";
    this.close();
  }

  dispose(): void {
    if (this.hold !== null) this.lift();
    this.stopRenewing();
  }

  private lift(): void {
    this.stopRenewing();
    this.heldSince.value = null;
    const hold = this.hold;
    this.hold = null;
    // It was never stored: there is nothing to lift.
    for (const press of this.live.outbox.kept.value) if (press.verb === "pause") this.live.outbox.drop(press.key);
    if (this.isHoldStored) this.refusal.value = { words: `The hold for the preview is stored. If its worker takes it, it expires after ${LAPSES} s.`, isCalm: true };
    if (hold !== null) void this.press("resumed", this.live.resume(hold));
  }

  private async renew(): Promise<void> {
    try {
      await this.live.client.post(`${this.live.path}/pause`, { lapses: LAPSES });
    } catch {
      // Without a connection it lapses, and the time line says so.
    }
  }

  private stopRenewing(): void {
    clearInterval(this.renewing);
    removeEventListener("pagehide", this.leave);
  }

  /** The page goes away: lift the hold now, as well as that can be done; it lapses in any case. */
  private readonly leave = (): void => {
    if (this.hold === null) return;
    const headers = this.live.client.headers({ "Content-Type": "application/json" });
    void fetch(this.live.client.url(`${this.live.path}/resume`), { method: "POST", keepalive: true, headers, credentials: "same-origin", body: JSON.stringify({ pause: this.hold }) });
  };

  /** The turn has ended, or the cancel was taken back: there is nothing to force any more. */
  private settleForce(): void {
    const session = this.live.run.session;
    if (this.tray.value !== "force" || !session) return;
    const isAtIt = ["running", "waiting"].includes(session.status);
    if (isAtIt && session.deferred?.stop === "cancel") return;
    this.tray.value = "";
    this.refusal.value = { words: `Nothing was forced: ${isAtIt ? "no cancel is waiting" : `it is ${session.status} now`}.`, isCalm: true };
  }

  /** The worker has decided the hold that was stored: now it has a name, and can be lifted. */
  private adopt(): void {
    const pause = this.live.run.session?.pause;
    if (!this.isHoldStored || !pause || pause.lapses_at === null || pause.reason !== CANCEL_PREVIEW) return;
    this.isHoldStored = false;
    this.hold = pause.id;
    if (!this.isChoosing()) { this.lift(); return; }
    this.heldSince.value = Date.now() / 1000;
    this.renewing = window.setInterval(() => void this.renew(), RENEW);
    addEventListener("pagehide", this.leave);
    void this.look();
  }

  /** The hold was lifted by somebody else, or lapsed: there is nothing to choose any more. */
  settle(): void {
    this.settleForce();
    if (this.preview.value !== null && this.isChoosing() && this.previewed !== this.done) void this.look();
    this.adopt();
    if (this.live.run.position < this.holdPosition) return;
    const status = this.live.run.session?.status;
    if (this.hold !== null && this.live.run.session?.pause?.id !== this.hold && status !== undefined && !["pausing", "paused"].includes(status)) {
      this.stopRenewing();
      this.hold = null;
      this.heldSince.value = null;
      if (this.tray.value === "preview" || this.isInstead.value) {
        this.tray.value = "";
        this.isInstead.value = false;
        this.refusal.value = { words: `The hold was lifted: it is ${status} now. Nothing was cancelled.`, isCalm: true };
      }
    }
  }
}
