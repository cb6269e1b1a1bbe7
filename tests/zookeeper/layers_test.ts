import { assert, assertEquals } from "@std/assert";
import { dirname, join } from "node:path/posix";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../zookeeper/", import.meta.url));
/** The folders, lowest first. The modules of the package folder itself are above all of them. */
const LAYERS = ["transport", "session", "recipe", "."];

/** The modules that each module imports, as paths below `zookeeper/`. */
async function importsOf(folder = "."): Promise<Map<string, string[]>> {
  const imports = new Map<string, string[]>();
  for await (const { name, isDirectory } of Deno.readDir(join(ROOT, folder))) {
    const path = join(folder, name);
    if (isDirectory) { for (const entry of await importsOf(path)) imports.set(...entry); }
    else {
      const source = await Deno.readTextFile(join(ROOT, path));
      const specifiers = source.matchAll(/^(?:import|export|\}).*? from "(\..+?)";$/gm);
      imports.set(path, [...specifiers].map(([, specifier]) => join(folder, specifier!)));
    }
  }
  return imports;
}

Deno.test("each module of zookeeper/ imports its own layer, lower layers and core/ only", async () => {
  const imports = await importsOf();
  assert(imports.size > 20, `${imports.size} modules are found`);
  for (const [path, imported] of imports) {
    const layer = LAYERS.indexOf(dirname(path));
    for (const other of imported) {
      const isBelow = other.startsWith("../core/") || LAYERS.indexOf(dirname(other)) <= layer &&
          imports.has(other);
      assert(isBelow, `${path} imports ${other}`);
    }
  }
});

Deno.test("no module of zookeeper/ imports itself through others", async () => {
  const imports = await importsOf();
  const rest = new Map(imports);
  // Modules that import none of the rest are removed, again and again: a circle would stay.
  for (let size = -1; size !== rest.size;) {
    size = rest.size;
    for (const [path, imported] of rest) {
      if (!imported.some((other) => rest.has(other))) rest.delete(path);
    }
  }
  assertEquals([...rest.keys()], []);
});
