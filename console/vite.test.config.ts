/** The tests, bundled for Node: `npm test` builds them and runs them with node:test. */
import { defineConfig } from "vite";

const tests = Object.fromEntries(["fold", "text", "slots", "fleet", "gauges", "desk", "retry", "children", "receipt", "contact", "client"].map((name) => [name, `tests/${name}.test.ts`]));

export default defineConfig({
  build: { ssr: true, outDir: "build/tests", emptyOutDir: true, rollupOptions: { input: tests } },
  logLevel: "warn",
});
