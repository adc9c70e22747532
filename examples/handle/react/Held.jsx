// The handle as a component. React 19 gives custom elements their properties, and their events as `on…`, in small letters.

import { useEffect, useState } from "react";

export function Held({ server, token, session, onSettled }) {
  const isDefined = useHandle(server);
  if (!isDefined) return null;
  return <midcourse-handle src={server} token={token} session={session} onsettled={(event) => onSettled?.(event.detail)} />;
}

/** Loads the element from the server, whose API it then fits. */
function useHandle(server) {
  const [isDefined, setDefined] = useState(() => customElements.get("midcourse-handle") !== undefined);
  useEffect(() => {
    import(/* @vite-ignore */ new URL("midcourse-handle.js", server)).then(() => setDefined(true));
  }, [server]);
  return isDefined;
}
