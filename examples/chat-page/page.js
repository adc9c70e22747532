// What the page shows of a conversation, and what a person can do in it.

import { Chat } from "./chat.js";

const place = document.querySelector("#place");
const log = document.querySelector("#log");
const ask = document.querySelector("#ask");
const say = document.querySelector("#say");
const status = document.querySelector("#status");

let chat = null;
let asked = null;
let lines = new Map();

/** A line of the conversation; the same key finds it again. */
function line(key, kind, who = "") {
  let found = lines.get(key);
  if (!found) {
    found = document.createElement("li");
    found.className = kind;
    if (who) {
      const label = document.createElement("b");
      label.textContent = who;
      found.append(label);
    }
    found.append(document.createElement("span"));
    lines.set(key, found);
    log.append(found);
  }
  follow();
  return found.lastElementChild;
}

/** Keep the end in sight, unless somebody has scrolled up to read. */
function follow() {
  const isAtEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 80;
  if (isAtEnd) requestAnimationFrame(() => (log.scrollTop = log.scrollHeight));
}

function remark(kind, who, text) {
  line(Symbol(who), kind, who).textContent = text;
}

function tell(text) {
  if (status.textContent !== text) status.textContent = text;
}

const frames = {
  // A delta says where its text belongs. What had been shown from there on is replaced: it may come again.
  delta({ step, attempt, offset, text }) {
    const shown = line(`${step} ${attempt}`, "agent", "Agent");
    const start = Math.min(offset, Number(shown.dataset.start ?? offset)); // an attempt begins where the last was cut
    shown.dataset.start = start;
    const letters = Array.from(shown.textContent); // offsets count whole characters, not halves of them
    shown.textContent = letters.slice(0, offset - start).join("") + text;
    tell("Working.");
  },
  tool({ step, attempt, name, effect, state, detail }) {
    const shown = line(`${step} ${attempt}`, "tool", "Tool");
    shown.textContent = `${name} (${effect}): ${state}${detail ? `, ${detail}` : ""}`;
    tell("Working.");
  },
  interrupt({ ask_id, reason, prompt, options }) {
    asked = ask_id;
    ask.querySelector("#prompt").textContent = prompt;
    const offered = options.length ? options : reason === "need_approval" ? ["yes", "no"] : [];
    ask.querySelector("#options").replaceChildren(...offered.map(button));
    ask.reset();
    follow();
    ask.hidden = false;
    tell(`It waits for you: ${prompt}`);
  },
  resumed() {
    close();
    tell("Working.");
  },
  done({ status, result }) {
    close();
    if (status === "cancelled") remark("agent", "Agent", "It was cancelled.");
    else if (!said(result)) remark("agent", "Agent", typeof result === "string" ? result : JSON.stringify(result));
    tell(status === "completed" ? "Done." : `Done: ${status}.`);
  },
  error({ code, message }) {
    close();
    remark("error", "Error", `${message} (${code})`);
    tell("It failed.");
  },
};

/** Whether the result is what the agent said last. */
function said(result) {
  const last = [...log.querySelectorAll(".agent span")].pop();
  return result === null || last?.textContent.trim() === String(result).trim();
}

function button(option) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = option;
  made.addEventListener("click", () => give(option));
  return made;
}

function close() {
  if (ask.contains(document.activeElement)) say.message.focus();
  ask.hidden = true;
  ask.inert = false;
  asked = null;
}

function show(frame) {
  // Words that stream are read out when they are complete.
  log.ariaBusy = String(frame.type === "delta");
  frames[frame.type]?.(frame);
}

const links = {
  open() {
    if (ask.inert) close(); // the answer was taken
  },
  lost() {
    tell("The connection is lost. Trying again.");
  },
};

async function guarded(act) {
  try {
    await act();
  } catch (problem) {
    remark("error", "Error", `${problem.message} (${problem.code ?? problem.name})`);
    if (problem.code === "checkpoint_not_found") close();
    ask.inert = false;
    tell(asked ? "It still waits for you." : "That did not work.");
  }
}

function give(answer) {
  const to = asked;
  remark("person", "You", answer);
  say.message.focus();
  ask.inert = true; // one answer, however often the button is pressed
  tell("Answered.");
  guarded(() => chat.answer(to, answer));
}

ask.addEventListener("submit", (event) => {
  event.preventDefault();
  const answer = ask.answer.value.trim();
  if (answer) give(answer);
});

say.addEventListener("submit", (event) => {
  event.preventDefault();
  if (!place.reportValidity()) return;
  chat ??= new Chat(place.server.value, place.token.value, {
    onFrame: show,
    onLink: (link) => links[link]?.(),
  });
  const text = say.message.value;
  remark("person", "You", text);
  say.reset();
  tell("Sent.");
  guarded(() => chat.send(place.agent.value, text));
});

// Another server, token or agent: another conversation.
place.addEventListener("change", () => {
  chat?.leave();
  chat = null;
  lines = new Map();
  log.replaceChildren();
  close();
  tell("Nothing is running.");
});
