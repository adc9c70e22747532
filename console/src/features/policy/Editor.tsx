/** A policy's text: a plain textarea with numbered lines; what is wrong is marked on its line and told below it. */

import type { JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { count } from "../../ui/format";
import type { Mistake } from "./types";

export function Editor({ text, write, mistakes, isChecking, label }: { text: string; write: (text: string) => void; mistakes: readonly Mistake[]; isChecking: boolean; label: string }): JSX.Element {
  const area = useRef<HTMLTextAreaElement>(null);
  const gutter = useRef<HTMLDivElement>(null);
  const lines = text.split("\n").length;
  const bad = new Set(mistakes.map((one) => one.line));
  const follow = (): void => { if (gutter.current && area.current) gutter.current.scrollTop = area.current.scrollTop; };
  useLayoutEffect(follow, [text]);
  useLayoutEffect(() => { area.current?.focus({ preventScroll: true }); area.current?.setSelectionRange(0, 0); area.current?.scrollTo(0, 0); }, []);
  const jump = (line: number): void => {
    const field = area.current;
    if (!field) return;
    const before = text.split("\n").slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    field.focus();
    field.setSelectionRange(before, before + (text.split("\n")[line - 1]?.length ?? 0));
    field.scrollTop = Math.max(0, (line - 4) * (field.scrollHeight / Math.max(1, lines)));
  };
  const press = (event: KeyboardEvent): void => {
    // The next line begins where this one does. Tab goes on to the next field, as everywhere.
    const field = area.current;
    if (event.key !== "Enter" || !field || event.shiftKey || event.ctrlKey || event.metaKey || event.isComposing) return;
    const line = field.value.slice(0, field.selectionStart).split("\n").pop() ?? "";
    const indent = /^ */.exec(line)![0] + (/:\s*$/.test(line) ? "  " : "");
    if (!indent) return;
    event.preventDefault();
    field.setRangeText(`\n${indent}`, field.selectionStart, field.selectionEnd, "end");
    write(field.value);
  };
  return (
    <div class="editing">
      <div class="editor" data-bad={bad.size > 0 || undefined}>
        <div class="gutter" ref={gutter} aria-hidden="true">{Array.from({ length: lines }, (_, index) => <i key={index} class={bad.has(index + 1) ? "bad" : undefined}>{index + 1}</i>)}</div>
        <textarea ref={area} aria-label={label} aria-describedby="mistakes" aria-invalid={mistakes.length > 0} spellcheck={false} wrap="off" autocapitalize="off" autocomplete="off"
          rows={Math.min(26, Math.max(10, lines + 1))} value={text} onInput={(event) => write(event.currentTarget.value)} onScroll={follow} onKeyDown={press} />
      </div>
      <div id="mistakes" class="mistakes" role="status">
        {mistakes.length > 0 ? (
          <><b>{count(mistakes.length, "mistake")}. Nothing was saved.</b>
            <ul>{mistakes.map((one) => <li key={`${one.line} ${one.sentence}`}>{one.line > 0 && <button class="plain tiny" type="button" onClick={() => jump(one.line)}>line {one.line}</button>} {one.sentence}</li>)}</ul></>
        ) : <span class="dim">{isChecking ? "Checking…" : "The policy is valid."}</span>}
      </div>
    </div>
  );
}
