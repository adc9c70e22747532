// Starts a session, and gives its id to the handle. That is all an embedding page has to do.

const form = document.querySelector("#begin");
const log = document.querySelector("#log");
const handle = document.querySelector("midcourse-handle");

for (const name of ["pause", "resumed", "redirect", "cancel", "answer", "budget", "undo", "settled", "refused"]) {
  handle.addEventListener(name, (event) => say(`${name}: ${event.detail.sentence ?? event.detail.status ?? event.detail.detail}`));
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const { server, token, goal } = Object.fromEntries(new FormData(form));
  const base = server.endsWith("/") ? server : `${server}/`;
  try {
    await import(new URL("midcourse-handle.js", base)); // defines the element; once is enough
    const answer = await fetch(new URL("api/v1/sessions", base), {
      method: "POST",
      headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
      body: JSON.stringify({ agent: "churn-memo", goal }),
    });
    const session = await answer.json();
    if (!answer.ok) return say(`refused: ${session.detail}`);
    handle.token = token; // a property, so that it stands in no markup
    handle.setAttribute("src", base);
    handle.setAttribute("session", session.id);
    say(`started: ${session.id}`);
  } catch {
    say(`No answer. Is the server there, and started with --allow-origin ${location.origin}?`);
  }
});

function say(text) {
  const line = document.createElement("li");
  line.textContent = text;
  log.append(line);
}
