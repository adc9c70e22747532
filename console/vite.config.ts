/** The console: `npm run build` writes dist/, which the server serves as it is. */
import { defineConfig } from "vite";
import { systemDark } from "./vite.tokens.ts";

export default defineConfig({
  base: "./",
  plugins: [systemDark()],
  // Nothing as a data: address: the server's policy allows only files of its own.
  build: { outDir: "dist", emptyOutDir: true, assetsInlineLimit: 0, target: "es2022", modulePreload: false, cssMinify: true },
  server: { proxy: { "/api": process.env.MIDCOURSE_URL ?? "http://127.0.0.1:8420" } },
});
