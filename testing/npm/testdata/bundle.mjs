// Bundles a test for Node and Bun, so that it uses the package instead of the sources that the package
// was made of. Its argument, as JSON:
// - esbuild: the bundler's module
// - bundles: for each, its `entry`, its `out`, and as `isMain` the value of `import.meta.main`, which Node
//   22 lacks
// - external: packages that are not bundled
// - packaged: names of the package's entries, by the sources' paths
// - replaced: modules that take the place of others
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { argv } from "node:process";

const { esbuild, bundles, external, packaged, replaced } = JSON.parse(argv[2]);
const { build } = await import(esbuild);

const plugin = {
  name: "package under test",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^\./ }, ({ path, resolveDir }) => {
      const file = resolve(resolveDir, path);
      if (packaged[file]) return { path: packaged[file], external: true };
      return replaced[file] ? { path: replaced[file] } : undefined;
    });
    onResolve({ filter: /^@std\// }, ({ path }) => ({ path: replaced[path] }));
    // The script of a process is a bundle, too.
    onLoad({ filter: /\/conformance\/process\.ts$/ }, ({ path }) => ({
      contents: readFileSync(path, "utf8").replace("./contender.ts", "./contender.mjs"),
      loader: "ts",
    }));
  },
};

for (const { entry, out, isMain } of bundles) {
  await build({
    entryPoints: [entry],
    outfile: out,
    bundle: true,
    format: "esm",
    platform: "node",
    target: "node22",
    external: [...external, "@db/redis"],
    define: { "import.meta.main": String(isMain) },
    plugins: [plugin],
    logLevel: "error",
  });
}
