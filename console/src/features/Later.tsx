/** A page whose code is loaded when somebody goes there. */

import type { ComponentType, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Rules, useLate } from "./States";

export function later<P extends object>(load: () => Promise<ComponentType<P>>): (props: P) => JSX.Element {
  let known: ComponentType<P> | null = null;
  return (props) => {
    const [Page, keep] = useState<{ of: ComponentType<P> | null }>({ of: known });
    const [isLost, lose] = useState(false);
    const isLate = useLate();
    useEffect(() => { if (!Page.of) load().then((page) => { known = page; keep({ of: page }); }, () => lose(true)); }, []);
    if (Page.of) return <Page.of {...props} />;
    if (isLost) return <main class="page"><div class="empty" role="alert"><b>This page could not be loaded.</b>The server does not answer, or was updated: <a href={location.href}>load it again</a>.</div></main>;
    return <main class="page" aria-busy="true">{isLate && <Rules words="Loading the page…" rows={3} />}</main>;
  };
}
