/** examples/handle/react, built with the React of this folder, for its test. A page of yours needs none of this. */
import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

export default defineConfig({
  root: here("../examples/handle/react"),
  base: "./",
  resolve: { alias: { react: here("node_modules/react"), "react-dom": here("node_modules/react-dom") } },
  build: { emptyOutDir: true, target: "es2022" },
});
