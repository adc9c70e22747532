/** A page with every part in every state, for looking: `npm run stories` writes build/stories. Not shipped. */
import { defineConfig } from "vite";
import { systemDark } from "./vite.tokens.ts";

export default defineConfig({
  base: "./",
  plugins: [systemDark()],
  publicDir: false,
  build: { outDir: "build/stories", emptyOutDir: true, rollupOptions: { input: "stories.html" } },
});
