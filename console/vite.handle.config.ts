/** The custom element alone: dist/midcourse-handle.js, one file with everything in it, for anybody's page. */
import { defineConfig } from "vite";
import { systemDark } from "./vite.tokens.ts";

export default defineConfig({
  plugins: [systemDark()],
  publicDir: false,
  build: {
    outDir: "dist",
    emptyOutDir: false,
    assetsInlineLimit: 0,
    target: "es2022",
    lib: { entry: "src/element.tsx", formats: ["es"], fileName: () => "midcourse-handle.js" },
  },
});
