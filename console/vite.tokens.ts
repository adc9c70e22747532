/** Adds to tokens.css what it asks for: the dark block once more, for readers whose system is dark. Generated, not copied. */
import type { Plugin } from "vite";

export function systemDark(): Plugin {
  return {
    name: "system-dark",
    enforce: "pre",
    transform(code, id) {
      if (!id.includes("/ui/tokens.css")) return null;
      const dark = /:root\[data-theme="dark"\], \[data-theme="dark"\] \{([^}]*)\}/.exec(code);
      if (!dark) throw new Error("tokens.css has no dark block");
      return `${code}\n@media (prefers-color-scheme: dark) { :root:not([data-theme="light"]) {${dark[1]}} }\n`;
    },
  };
}
