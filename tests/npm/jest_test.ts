/** Jest, which has a `require()` of its own: what docs/runtimes.md says of it. In the soak only. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { OUTSIDE } from "../../testing/npm/bundlers.ts";
import { installPackages, installSkip, installTogether } from "../../testing/npm/install.ts";
import { linkedProject } from "../../testing/npm/project.ts";
import { NODE_22, NODE_24, programOf, runtimeSkip } from "../../testing/npm/runtimes.ts";

const JEST = ["jest@30.5.2"];
const CONFIGURATION = { transform: {}, testMatch: ["**/*.test.mjs", "**/*.test.cjs"] };

if (Deno.env.get("HOLDFAST_SOAK")) {
  const skip = await installSkip(JEST) ?? await installSkip(Object.values(OUTSIDE)) ??
    await runtimeSkip(NODE_22) ?? await runtimeSkip(NODE_24);
  for (const [runtime, hasCommonJs] of [[NODE_22, false], [NODE_24, true]] as const) {
    Deno.test({
      name: `locks work in Jest on ${runtime.name} in ES modules` +
        (hasCommonJs ? " and in CommonJS" : ", not in CommonJS") +
        (skip === undefined ? "" : ` [skipped: ${skip}]`),
      ignore: skip !== undefined,
      async fn() {
        await using project = await linkedProject(
          Object.fromEntries(await installTogether(OUTSIDE)),
        );
        await project.write("package.json", JSON.stringify({ private: true }));
        await project.write("jest.config.json", JSON.stringify(CONFIGURATION));
        for (const test of ["jest_esm.test.mjs", "jest_cjs.test.cjs"]) await project.copy(test);
        const jest = `${await installPackages(JEST)}/jest/bin/jest.js`;
        const { success, output } = await project.run([await programOf(runtime), jest], {
          LOCK_DIR: `${project.folder}/locks`,
          NODE_OPTIONS: "--experimental-vm-modules",
        });
        assertMatch(output, /PASS .*jest_esm/);
        assertEquals(success, hasCommonJs, output);
        if (!hasCommonJs) assert(output.includes("Must use import to load ES Module"), output);
      },
    });
  }
}
