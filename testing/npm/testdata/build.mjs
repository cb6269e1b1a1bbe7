// deno-lint-ignore-file no-console -- this is a script
// Bundles a program, as ES modules (`esm.mjs`) and as CommonJS (`cjs.cjs`). Its arguments: the bundler, the
// program, and the folder of the bundles. Configured as the page about bundlers says, and no further.
import { argv } from "node:process";

const [, , bundler, entry, out] = argv;

/** node-redis is CommonJS: in a bundle of ES modules, its `require()` must be that of Node. */
const REQUIRE =
  'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);';

const BUILDS = {
  async webpack() {
    const { default: webpack } = await import("webpack");
    const settings = webpackSettings();
    const eval_ = { ...settings[1], mode: "development", devtool: "eval" };
    const development = { ...eval_, output: { ...eval_.output, filename: "cjs_eval.cjs" } };
    await runWebpack(webpack, [...settings, development]);
  },
  async rspack() {
    const { rspack } = await import("@rspack/core");
    await runWebpack(rspack, webpackSettings());
  },
  async esbuild() {
    const { build } = await import("esbuild");
    for (const format of ["esm", "cjs"]) {
      await build({
        entryPoints: [entry],
        outfile: `${out}/${format}.${extension(format)}`,
        bundle: true,
        platform: "node",
        format,
        ...format === "esm" && { banner: { js: REQUIRE } },
      });
    }
  },
  async rollup() {
    const { rollup } = await import("rollup");
    const { default: commonjs } = await import("@rollup/plugin-commonjs");
    const { default: json } = await import("@rollup/plugin-json");
    const { nodeResolve } = await import("@rollup/plugin-node-resolve");
    const plugins = [nodeResolve({ preferBuiltins: true }), commonjs(), json()];
    const bundle = await rollup({ input: entry, plugins, onwarn() {} });
    for (const format of ["esm", "cjs"]) {
      const file = `${out}/${format}.${extension(format)}`;
      await bundle.write({ file, format, inlineDynamicImports: true });
    }
  },
  async vite() {
    const { build } = await import("vite");
    for (const format of ["esm", "cjs"]) {
      await build({
        configFile: false,
        logLevel: "error",
        ssr: { noExternal: true },
        build: {
          ssr: entry,
          outDir: out,
          emptyOutDir: false,
          rollupOptions: { output: { format, entryFileNames: `${format}.${extension(format)}` } },
        },
      });
    }
  },
};

function extension(format) {
  return format === "esm" ? "mjs" : "cjs";
}

/** The settings for ES modules, and those for CommonJS. */
function webpackSettings() {
  const settings = { mode: "production", target: "node", entry, optimization: { minimize: false } };
  return [
    {
      ...settings,
      experiments: { outputModule: true },
      output: { path: out, filename: "esm.mjs", module: true, chunkFormat: "module" },
    },
    { ...settings, output: { path: out, filename: "cjs.cjs" } },
  ];
}

async function runWebpack(webpack, settings) {
  const stats = await new Promise((resolve, reject) => {
    webpack(settings, (error, result) => error ? reject(error) : resolve(result));
  });
  if (stats.hasErrors()) throw new Error(stats.toString({ all: false, errors: true }));
}

await BUILDS[bundler]();
console.log("built");
