/** Keys, and what a reader can switch on and off. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Client } from "../api/client";
import type { Me } from "../api/types";
import { title } from "../features/attention";
import { ThisBrowser } from "../features/login/ThisBrowser";
import { Top } from "../features/Top";
import { isDark, notifies, readAloud, singleKeys, theme } from "../ui/settings";

const KEYS: [string, string][] = [
  ["p", "pause; when paused, resume"], ["r", "redirect, or a new turn"], ["c", "cancel: shut the gate, preview"], ["u", "undo more, after the end"],
  ["Esc", "close the tray; in the preview: keep going"], ["Enter", "confirm, only with the focus in the tray"], ["a x e", "approve, refuse, ask back, if one thing is asked"],
  ["j k", "next, previous in lists; Enter opens"], ["f", "follow the tail"], ["+ -", "the last intervention was right, wrong"], ["/", "filter"], ["n", "new run"], ["g f", "go to the fleet"], ["g i", "go to the inbox"], ["g p", "go to the policies"], ["g r", "go to the reports"], ["t", "in the inbox: take it"], ["?", "this page"],
];

export function SettingsPage({ client, me }: { client: Client; me: Me }): JSX.Element {
  useEffect(() => { title.value = "Settings"; }, []);
  const [words, say] = useState("");
  const ask = async (): Promise<void> => {
    if (!("Notification" in window)) { say("This browser has no notifications."); return; }
    const given = await Notification.requestPermission();
    notifies.value = given === "granted" ? "on" : "off";
    say(given === "granted" ? "You will be notified when a session waits for you and this page is hidden." : "The browser refused: allow notifications for this address first.");
  };
  const isOn = notifies.value === "on";
  return (
    <>
      <Top page="settings" connection={null} />
      <main class="page">
        <div class="pagehead"><h1>Settings</h1></div>
        <ThisBrowser client={client} me={me} />
        <div class="two">
          <section><h2>Keys</h2><table class="grid"><tbody>{KEYS.map(([key, does]) => <tr key={key}><th scope="row">{key.split(" ").map((one) => <><kbd>{one}</kbd> </>)}</th><td>{does}</td></tr>)}</tbody></table></section>
          <section class="switches"><h2>Preferences</h2>
            <label><input type="checkbox" checked={singleKeys.value === "on"} onChange={(event) => { singleKeys.value = event.currentTarget.checked ? "on" : "off"; }} />Single keys</label>
            <label><input type="checkbox" checked={readAloud.value === "on"} onChange={(event) => { readAloud.value = event.currentTarget.checked ? "on" : "off"; }} />Read output aloud, for screen readers</label>
            <label><input type="checkbox" checked={theme.value === "system"} onChange={(event) => { theme.value = event.currentTarget.checked ? "system" : document.documentElement.dataset.theme === "dark" ? "dark" : "light"; }} />Light and dark follow the system</label>
            <div class="row"><button class="btn" type="button" onClick={() => { theme.value = isDark() ? "light" : "dark"; }}>Use the {isDark() ? "light" : "dark"} theme</button></div>
            <div class="row"><button class="btn" type="button" aria-pressed={isOn} onClick={() => { if (isOn) { notifies.value = "off"; say("No more notifications."); } else void ask(); }}>{isOn ? "Stop notifications" : "Notify me when something waits for me"}</button><span class="sub" role="status">{words}</span></div>
          </section>
        </div>
      </main>
    </>
  );
}
