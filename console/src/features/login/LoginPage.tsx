/** Where a browser logs in: with the code of a link, which it takes from the address, or with what is typed. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { type Client, Refusal, Unreachable } from "../../api/client";
import { keepPageKey, nameOf, pageKey } from "../../api/pageKey";
import type { Problem } from "../../api/types";
import { droppedWords } from "../../model/contact";
import { title, waiting } from "../attention";
import { Brand } from "../Top";

export const isLoginAddress = (): boolean => location.pathname.endsWith("/login");

/** The credential behind the address's #, which then leaves the address, and with it the history. */
function taken(): string {
  const found = location.hash.slice(1);
  if (found || location.search) history.replaceState(null, "", location.pathname);
  return found;
}

/** What did not reach the server, or met a busy store, may still be good. */
const AGAIN = { link: " Open the link again: it may still be good.", typed: " Try again: what you entered may still be good." };

interface Asked { now: string; then: string; credential: string; isLink: boolean }

export function LoginPage({ client, why }: { client: Client; why: Problem | null }): JSX.Element {
  const [words, say] = useState("");
  const [typed, type] = useState("");
  const [asked, ask] = useState<Asked | null>(null);
  const [isBusy, begin] = useState(false);
  const heading = useRef<HTMLHeadingElement>(null);

  const enter = async (credential: string, isLink: boolean, replace = false): Promise<void> => {
    begin(true);
    say("Logging in…");
    try {
      const made = await client.send<{ page_key: string }>("POST", "/login", { credential, replace }, {});
      keepPageKey(client.base, made.page_key);
      leave();
    } catch (error) {
      begin(false);
      const problem = error instanceof Refusal ? (error.problem as Problem & { now: string; then: string }) : null;
      ask(problem?.code === "identity_would_change" ? { now: problem.now, then: problem.then, credential, isLink } : null);
      say(problem?.code === "identity_would_change" ? "" : `${(error as Error).message}${error instanceof Unreachable ? AGAIN[isLink ? "link" : "typed"] : ""}`);
    }
  };
  useEffect(() => {
    title.value = "Log in";
    waiting.value = [];
    const read = (): void => { const code = isLoginAddress() ? taken() : ""; if (code) void enter(code, true); };
    // Another tab has logged in.
    const follow = (event: StorageEvent): void => { if (event.key === nameOf(client.base) && event.newValue) leave(); };
    read();
    addEventListener("hashchange", read);
    addEventListener("storage", follow);
    return () => { removeEventListener("hashchange", read); removeEventListener("storage", follow); };
  }, []);
  useEffect(() => { heading.current?.focus(); }, [asked, why]);

  if (asked) {
    return (
      <Page>
        <h1 ref={heading} tabIndex={-1}>Switch to another identity?</h1>
        <p>This browser is logged in as <b>{asked.now}</b>. {asked.isLink ? "The link you opened" : "What you entered"} belongs to <b>{asked.then}</b>. After the switch, everything you do is done in that name.</p>
        {asked.isLink && <p>If you did not expect this link, do not switch.</p>}
        <div class="row">
          <button class="btn solid" type="button" disabled={isBusy} onClick={leave}>Stay {asked.now}</button>
          <button class="btn" type="button" disabled={isBusy} onClick={() => void enter(asked.credential, asked.isLink, true)}>Switch to {asked.then}</button>
        </div>
        <p class="sub" role="status">{words}</p>
      </Page>
    );
  }
  const unsent = client.unsent.value;
  const submit = (event: Event): void => {
    event.preventDefault();
    // Of a whole link, the code counts.
    const credential = typed.trim().split("#").at(-1) ?? "";
    if (credential) void enter(credential, false);
    else say("Paste a code, a link or a token first.");
  };
  return (
    <Page>
      <h1 ref={heading} tabIndex={-1}>{why?.code === "logged_out" ? "You are logged out" : why ? "You are no longer logged in" : "Log in"}</h1>
      {why && why.code !== "logged_out" && <p role="alert">Your login was ended or has expired. This page receives no more updates, and can send nothing.</p>}
      {unsent.length > 0 && <p role="alert"><b>{unsent.map(droppedWords).join(" ")}</b> Log in, check the run, and press again if you still want it.</p>}
      {!why && pageKey(client.base) && <p>This browser may be logged in already: <a href={new URL(".", document.baseURI).href}>open the console</a>.</p>}
      <p>Run <code>midcourse browser link</code> on the server and open the link that it prints. It works once, within a minute.</p>
      <form onSubmit={submit}>
        <label>Code or token<input class="field" type="password" autocomplete="off" spellcheck={false} value={typed} onInput={(event) => type(event.currentTarget.value)} /></label>
        <div class="row"><button class="btn solid" type="submit" disabled={isBusy}>Log in</button></div>
        <p class="sub" role="status">{words}</p>
      </form>
    </Page>
  );
}

function Page({ children }: { children: ComponentChildren }): JSX.Element {
  return (
    <>
      <header class="top"><span class="brand"><Brand /></span><span class="end sub">{location.host}</span></header>
      <main class="page login">{children}</main>
    </>
  );
}

/** Load the console anew: at the page on which the session ended, or, after a link, at its first one. */
function leave(): void {
  if (isLoginAddress()) location.replace(new URL(".", document.baseURI));
  else location.reload();
}
