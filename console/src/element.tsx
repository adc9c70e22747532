/** `<midcourse-handle session="sess_…" src="https://…/">`: the handle in anybody's page, in a shadow root of its own.
 *
 * Attributes: `session`, `src` (the server; left out, this page's own), `data-theme` (light, dark; left out, the system's),
 * `keys` (`page`: single keys work on the whole page; left out, while the focus is in the handle).
 * Property: `token`, for a server that does not know this page's cookie; never an attribute, so that it stands in no markup. May be set
 * before or after the element is in the page, and before this file is loaded.
 * Events: `pause redirect cancel answer resumed settled refused`, with what was answered in `detail`.
 * Where it cannot show its session (a token that is not valid, no such session, no answer), it says why in its place.
 * Styles of the page that are inherited, such as fonts and spacing, stop at its root.
 * Parts: `bar tray lamp slot`. Every `--mc-*` may be set on the element.
 */

import { type JSX, render } from "preact";
import { Client } from "./api/client";
import { Live } from "./api/live";
import { Embedded, Wrong } from "./features/handle/Embedded";
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

/** A page's own rules for `*` reach the host and beat `:host`, so what is inherited ends one element further in. `all` leaves the direction of
 * writing as it was; a page that hides the element still hides it. */
const ROOT = `
:host { display: block; }
:host([hidden]) { display: none; }
.root { all: initial; display: block; width: 100%; line-height: 0; direction: ltr; unicode-bidi: isolate; color-scheme: inherit; visibility: inherit; }
/* lines under text do not reach into an inline block */
.root > div { display: inline-block; width: 100%; vertical-align: top; user-select: text;
  font: var(--mc-t-body)/var(--mc-lh) var(--mc-sans); color: var(--mc-ink); overflow-wrap: anywhere; -webkit-font-smoothing: antialiased; }
`;

let sheet: CSSStyleSheet | null = null;
function styles(): CSSStyleSheet {
  if (!sheet) {
    sheet = new CSSStyleSheet();
    sheet.replaceSync(`${forHost(tokens)}\n${base}\n${handle}\n${ROOT}`);
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
    const told = (event: string, detail: unknown): void => { this.dispatchEvent(new CustomEvent(event, { detail, bubbles: true, composed: true })); };
    const session = this.getAttribute("session");
    const server = serverOf(this.getAttribute("src"));
    if (!session) return;
    if (!server) { this.draw(<Wrong words={`Its src attribute is not an address: ${this.getAttribute("src")}`} />); return; }
    const client = new Client(new URL("api/v1", server).href, this.token);
    const live = new Live(client, session);
    this.live = live;
    live.start();
    const keys = this.getAttribute("keys") === "page" ? document : this;
    this.draw(<Embedded live={live} server={server.origin} keys={keys} told={told} />);
  }

  private draw(content: JSX.Element): void { render(<div class="root"><div>{content}</div></div>, this.root); }
}

/** Where the server is, with a slash at its end; null: the attribute is no address. */
function serverOf(src: string | null): URL | null {
  try {
    const given = new URL(src ?? ".", document.baseURI);
    return given.href.endsWith("/") ? given : new URL(`${given.href}/`);
  } catch {
    return null;
  }
}

if (!customElements.get("midcourse-handle")) customElements.define("midcourse-handle", MidcourseHandle);
