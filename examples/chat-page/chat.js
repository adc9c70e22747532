// One conversation with an agent, over Midcourse's chat contract: fetch, and nothing else.
// docs/how-to/talk-to-an-agent-over-http.md tells the contract with curl.

const TRIES = 8; // in a row, before it gives up
const FIRST_TRIES = 3; // of a server that was never reached
const SILENCE = 45_000; // milliseconds; a living stream sends a comment at least every 15 s

/** The server's refusal: a problem document (RFC 9457). */
export class Problem extends Error {
  constructor(status, { code = "unknown", detail = `The server answered ${status}.` } = {}, retryAfter = 0) {
    super(detail);
    this.code = code;
    this.status = status;
    this.retryAfter = retryAfter;
  }

  get passes() {
    return this.status === 429 || this.status >= 500;
  }
}

/**
 * `onFrame` is given every frame of the contract: delta, tool, interrupt, resumed, done, error.
 * `onLink` is told how the connection is: "open", "lost" or "closed".
 */
export class Chat {
  session = null;
  #server;
  #token;
  #onFrame;
  #onLink;
  #last = "";
  #current = 0;
  #answering = null;

  constructor(server, token, { onFrame, onLink }) {
    this.#server = `${server.replace(/\/+$/, "")}/api/v1`;
    this.#token = token;
    this.#onFrame = onFrame;
    this.#onLink = onLink;
  }

  /** A message: it starts a session, or goes on with this one. */
  send(agent, message) {
    const body = { agent, message, ...(this.session && { session_id: this.session }) };
    // With a key of its own, a message that has to be sent again is still one message.
    return this.#follow({ path: "/chat", body, key: crypto.randomUUID() });
  }

  /** The answer to what the agent asked. The same answer sent again counts once. */
  async answer(ask, answer) {
    this.#answering = ask;
    try {
      await this.#follow({ path: "/chat/resume", body: { session_id: this.session, answer, ask_id: ask } });
    } catch (problem) {
      this.#answering = null;
      if (problem.code !== "already_resumed") throw problem;
      this.#onFrame({ type: "resumed", ask_id: ask }); // somebody else was first: watch what becomes of it
      await this.#follow(this.#again());
    }
  }

  /** Watch no longer. The session goes on without it. */
  leave() {
    this.#current += 1;
    this.#onFrame = this.#onLink = () => {};
  }

  /** What was missed, from the last event that had an id. */
  #again() {
    return { path: `/chat/${encodeURIComponent(this.session)}`, last: this.#last };
  }

  /** Follow a stream to its end, over as many connections as it takes. */
  async #follow(request) {
    let mine = null;
    for (let failures = 0; ; failures += 1) {
      let wait = Math.min(8, 0.25 * 2 ** failures);
      try {
        const silence = new AbortController();
        const response = await this.#fetch(request, silence.signal);
        // From here on this is the stream that counts. One that waits for an answer ends by itself.
        mine ??= ++this.#current;
        this.session = response.headers.get("X-Session-Id");
        this.#onLink("open");
        for await (const { id, frame } of framesOf(response, silence)) {
          if (mine !== this.#current) return;
          failures = 0;
          if (!frame) continue; // a comment: the stream lives
          this.#last = id || this.#last;
          request = this.#again();
          if (frame.type === "resumed" && frame.ask_id === this.#answering) return;
          this.#onFrame(frame);
          if (frame.type === "done" || frame.type === "error") {
            this.#onLink("closed");
            return;
          }
        }
      } catch (error) {
        if (error instanceof Problem && !error.passes) throw error;
        wait = Math.max(wait, error.retryAfter ?? 0);
      }
      if (mine !== null && mine !== this.#current) return;
      if (failures >= (this.session ? TRIES : FIRST_TRIES)) break;
      if (failures > 0) this.#onLink("lost");
      await new Promise((resolve) => setTimeout(resolve, wait * 1000));
    }
    this.#onLink("closed");
    throw new Problem(0, {
      code: "unreachable",
      detail: `The server cannot be reached. Does it run, with --allow-origin ${location.origin}?`,
    });
  }

  async #fetch({ path, body, key, last }, signal) {
    const headers = { Authorization: `Bearer ${this.#token}` };
    if (body) headers["Content-Type"] = "application/json";
    if (key) headers["Idempotency-Key"] = key;
    if (last) headers["Last-Event-ID"] = last;
    const response = await fetch(this.#server + path, {
      method: body ? "POST" : "GET",
      body: body && JSON.stringify(body),
      headers,
      signal,
    });
    if (response.ok) return response;
    const said = await response.json().catch(() => undefined);
    throw new Problem(response.status, said, Number(response.headers.get("Retry-After")));
  }
}

/** The frames of a stream of server-sent events. One that is silent for long is given up. */
async function* framesOf(response, silence) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let alarm;
  try {
    for (let rest = ""; ; ) {
      clearTimeout(alarm);
      alarm = setTimeout(() => silence.abort(), SILENCE);
      const { value, done } = await reader.read();
      if (done) return;
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) {
        const field = (name) =>
          block
            .split("\n")
            .filter((line) => line.startsWith(`${name}: `))
            .map((line) => line.slice(name.length + 2))
            .join("\n");
        const data = field("data");
        yield { id: field("id"), frame: data ? JSON.parse(data) : null };
      }
    }
  } finally {
    clearTimeout(alarm);
  }
}
