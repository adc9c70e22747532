/** `<midcourse-handle session="sess_…" src="https://…/">`: the handle in anybody's page, in a shadow root of its own.
 *
 * Attributes: `session`, `src` (the server; left out, this page's own), `data-theme` (light, dark; left out, the system's),
 * `keys` (`page`: single keys work on the whole page; left out, while the focus is in the handle).
 * Property: `token`, for a server that does not know this page's cookie; never an attribute, so that it stands in no markup. May be set
 * before or after the element is in the page, and before this file is loaded.
 * Events: `pause redirect cancel answer resumed settled refused`, with what was answered in `detail`.
 * Parts: `bar tray lamp slot`. Every `--mc-*` may be set on the element.
 */

import { render } from "preact";
import { Client } from "./api/client";
import { Live } from "./api/live";
import type { Me } from "./api/types";
import { Handle } from "./features/handle/Handle";
import base from "./ui/base.css?inline";
import handle from "./ui/handle.css?inline";
import tokens from "./ui/tokens.css?inline";

/** In a shadow root the host is what :root is in a page. */
function forHost(css: string): string {
  return css
    .replaceAll(/:root:not\((\[[^\]]*\])\)/g, ":host(:not($1))")
    .replaceAll(/:root(\[[^\]]*\])/g, ":host($1)")
    .replaceAll(":root", ":host");
}

let sheet: CSSStyleSheet | null = null;
function styles(): CSSStyleSheet {
  if (!sheet) {
    sheet = new CSSStyleSheet();
    sheet.replaceSync(`${forHost(tokens)}\n${base}\n${handle}\n:host { display: block; font: var(--mc-t-body)/var(--mc-lh) var(--mc-sans); color: var(--mc-ink); }`);
  }
  return sheet;
}

export class MidcourseHandle extends HTMLElement {
  static readonly observedAttributes = ["session", "src"];
  private secret = "";
  private live: Live | null = null;
  private readonly root = this.attachShadow({ mode: "open" });

  constructor() {
    super();
    // Set before this file was loaded, it is a plain property of the element, and would hide ours.
    if (Object.hasOwn(this, "token")) {
      const given = this.token;
      delete (this as { token?: string }).token;
      this.token = given;
    }
  }

  /** A bearer token, for a server that does not know this page's cookie. Another one connects anew. */
  get token(): string { return this.secret; }
  set token(given: string) {
    if (given === this.secret) return;
    this.secret = given;
    if (this.isConnected) this.begin();
  }

  connectedCallback(): void {
    this.root.adoptedStyleSheets = [styles()];
    this.begin();
  }

  disconnectedCallback(): void { this.end(); }

  attributeChangedCallback(): void { if (this.isConnected) this.begin(); }

  private end(): void {
    render(null, this.root);
    this.live?.stop();
    this.live = null;
  }

  private begin(): void {
    this.end();
    const session = this.getAttribute("session");
    if (!session) return;
    const server = new URL(this.getAttribute("src") ?? ".", document.baseURI);
    const client = new Client(new URL("api/v1", server.href.endsWith("/") ? server : `${server.href}/`).href, this.token);
    const live = new Live(client, session);
    this.live = live;
    live.start();
    const told = (event: string, detail: unknown): void => { this.dispatchEvent(new CustomEvent(event, { detail, bubbles: true, composed: true })); };
    const draw = (me: Me): void => {
      if (this.live !== live) return;
      client.identity = me.name;
      live.outbox.revive();
      const keys = this.getAttribute("keys") === "page" ? document : this;
      render(<Handle live={live} me={me.name} role={me.role} keys={keys} told={told} />, this.root);
    };
    const ask = (): void => {
      client.get<Me>("/me").then(draw, (error: Error) => {
        if (this.live !== live) return;
        if ("problem" in error) told("refused", (error as { problem: unknown }).problem);
        else setTimeout(ask, 1_000);
      });
    };
    ask();
  }
}

if (!customElements.get("midcourse-handle")) customElements.define("midcourse-handle", MidcourseHandle);
